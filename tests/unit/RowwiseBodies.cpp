// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/RowwiseBodies.h"

#include <fmt/format.h>
#include <sstream>
#include <vector>

namespace ditc::test {

static std::string replaced(std::string text, const std::string &from, const std::string &to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

/// T stands for the tensor type, R for the type of one row.
static std::string withTypes(const std::string &text, const std::string &type, const std::string &other) {
  return replaced(replaced(text, "$T", "tensor<" + type + ">"), "$R", "tensor<" + other + ">");
}

std::string gelu(const std::string &type) {
  return withTypes(R"(func.func @f(%a: $T) -> $T {
  %0 = dit.map(%a) : ($T) -> $T {
  ^bb0(%x: f32):
    %half = arith.constant 5.0e-1 : f32
    %one = arith.constant 1.0 : f32
    %cubic = arith.constant 0.044715 : f32
    %root = arith.constant 0.797884583 : f32
    %x2 = arith.mulf %x, %x : f32
    %x3 = arith.mulf %x2, %x : f32
    %c = arith.mulf %x3, %cubic : f32
    %u = arith.addf %x, %c : f32
    %s = arith.mulf %u, %root : f32
    %t = math.tanh %s : f32
    %t1 = arith.addf %t, %one : f32
    %h = arith.mulf %x, %half : f32
    %r = arith.mulf %h, %t1 : f32
    dit.yield %r : f32
  }
  return %0 : $T
})",
                   type, type);
}

std::string spelledVariance(const std::string &type, const std::string &rowType) {
  return withTypes(R"(func.func @f(%x: $T) -> $R {
  %m = dit.reduce mean %x axes [1] : ($T) -> $R
  %s = dit.map(%x, %m) : ($T, $R) -> $T {
  ^bb0(%p: f32, %q: f32):
    %d = arith.subf %p, %q : f32
    %r = arith.mulf %d, %d : f32
    dit.yield %r : f32
  }
  %v = dit.reduce sum %s axes [1] : ($T) -> $R
  return %v : $R
})",
                   type, rowType);
}

std::string residualNormModulate(const std::string &type, const std::string &rowType) {
  return withTypes(R"(func.func @f(%x: $T, %gate: $R, %a: $T, %scale: $R, %shift: $R) -> ($T, $T) {
  %y = dit.map(%x, %gate, %a) : ($T, $R, $T) -> $T {
  ^bb0(%p: f32, %q: f32, %r: f32):
    %m = arith.mulf %q, %r : f32
    %s = arith.addf %p, %m : f32
    dit.yield %s : f32
  }
  %n = dit.norm layer %y axes 1 eps 1.0e-6 : ($T) -> $T
  %z = dit.map(%n, %scale, %shift) : ($T, $R, $R) -> $T {
  ^bb0(%p: f32, %q: f32, %r: f32):
    %one = arith.constant 1.0 : f32
    %s = arith.addf %q, %one : f32
    %m = arith.mulf %p, %s : f32
    %t = arith.addf %m, %r : f32
    dit.yield %t : f32
  }
  return %y, %z : $T, $T
})",
                   type, rowType);
}

/// The two halves of a head, as sources and results of a rotation by an angle for each pair.
static std::string rotation(bool interleaved) {
  std::string text = interleaved ? R"(
  %v = dit.view %n : tensor<$Xx128xbf16> -> tensor<$Xx64x2xbf16>
  %a0 = dit.slice %v offsets [0, 0, 0, 0, 0] steps [1, 1, 1, 1, 1] : tensor<$Xx64x2xbf16> -> tensor<$Xx64x1xbf16>
  %b0 = dit.slice %v offsets [0, 0, 0, 0, 1] steps [1, 1, 1, 1, 1] : tensor<$Xx64x2xbf16> -> tensor<$Xx64x1xbf16>
  %a = dit.view %a0 : tensor<$Xx64x1xbf16> -> tensor<$Xx64xbf16>
  %b = dit.view %b0 : tensor<$Xx64x1xbf16> -> tensor<$Xx64xbf16>)"
                                 : R"(
  %a = dit.slice %n offsets [0, 0, 0, 0] steps [1, 1, 1, 1] : tensor<$Xx128xbf16> -> tensor<$Xx64xbf16>
  %b = dit.slice %n offsets [0, 0, 0, 64] steps [1, 1, 1, 1] : tensor<$Xx128xbf16> -> tensor<$Xx64xbf16>)";
  for (auto [name, first, second, op] : {std::tuple("y", "%c", "%s", "subf"), std::tuple("z", "%s", "%c", "addf")})
    text += std::string("\n  %") + name + " = dit.map(%a, " + first + ", %b, " + second +
            R"() : (tensor<$Xx64xbf16>, $C, tensor<$Xx64xbf16>, $C) -> tensor<$Xx64xbf16> {
  ^bb0(%p: f32, %q: f32, %r: f32, %t: f32):
    %u = arith.mulf %p, %q : f32
    %v1 = arith.mulf %r, %t : f32
    %w1 = arith.)" +
            op + " %u, %v1 : f32\n    dit.yield %w1 : f32\n  }";
  return text + (interleaved ? R"(
  %y1 = dit.view %y : tensor<$Xx64xbf16> -> tensor<$Xx64x1xbf16>
  %z1 = dit.view %z : tensor<$Xx64xbf16> -> tensor<$Xx64x1xbf16>
  %h = dit.concat(%y1, %z1) axis 4 : (tensor<$Xx64x1xbf16>, tensor<$Xx64x1xbf16>) -> tensor<$Xx64x2xbf16>
  %o = dit.view %h : tensor<$Xx64x2xbf16> -> tensor<$Xx128xbf16>)"
                             : R"(
  %o = dit.concat(%y, %z) axis 3 : (tensor<$Xx64xbf16>, tensor<$Xx64xbf16>) -> tensor<$Xx128xbf16>)");
}

std::string normAndRotary(const std::string &batch, const std::string &tokens, const std::string &heads, bool interleaved) {
  std::string text = R"(func.func @f(%x: tensor<$Xx128xbf16>, %w: tensor<128xbf16>, %c: $C, %s: $C) -> tensor<$Yx128xbf16> {
  %n = dit.norm rms %x weight %w axes 1 eps 1.0e-6 : (tensor<$Xx128xbf16>, tensor<128xbf16>) -> tensor<$Xx128xbf16>)" +
                     rotation(interleaved) + R"(
  %p = dit.permute %o [0, 2, 1, 3] : tensor<$Xx128xbf16> -> tensor<$Yx128xbf16>
  return %p : tensor<$Yx128xbf16>
})";
  text = replaced(text, "$X", batch + "x" + tokens + "x" + heads);
  text = replaced(text, "$Y", batch + "x" + heads + "x" + tokens);
  return replaced(text, "$C", "tensor<1x" + tokens + "x1x64xf32>");
}

std::string twoStreams(const std::string &first, const std::string &second) {
  return withTypes(R"(func.func @f(%a: $T, %b: $R) -> ($T, $R) {
  %0 = dit.norm layer %a axes 1 eps 1.0e-6 : ($T) -> $T
  %1 = dit.norm layer %b axes 1 eps 1.0e-6 : ($R) -> $R
  return %0, %1 : $T, $R
})",
                   first, second);
}

std::string tablesPlusOne(const std::string &type, const std::string &tableType, int count) {
  std::string parameters, maps, results, types;
  for (int i = 0; i < count; ++i) {
    parameters += fmt::format(", %t{}: $R", i);
    maps += fmt::format("  %{0} = dit.map(%a, %t{0}) : ($T, $R) -> $T {{\n  ^bb0(%x: f32, %y: f32):\n    %r = arith.addf %x, %y : f32\n    dit.yield %r : f32\n  }}\n", i);
    results += fmt::format("{}%{}", i ? ", " : "", i);
    types += i ? ", $T" : "$T";
  }
  return withTypes(fmt::format("func.func @f(%a: $T{}) -> ({}) {{\n{}  return {} : {}\n}}", parameters, types, maps, results, types), type, tableType);
}

std::string softmax(const std::string &type, const std::string &reducedType) {
  return withTypes(R"(func.func @f(%a: $T) -> $T {
  %m = dit.reduce max %a axes [1] : ($T) -> $R
  %e = dit.map(%a, %m) : ($T, $R) -> $T {
  ^bb0(%x: f32, %y: f32):
    %d = arith.subf %x, %y : f32
    %r = math.exp %d : f32
    dit.yield %r : f32
  }
  %s = dit.reduce sum %e axes [1] : ($T) -> $R
  %o = dit.map(%e, %s) : ($T, $R) -> $T {
  ^bb0(%x: f32, %y: f32):
    %r = arith.divf %x, %y : f32
    dit.yield %r : f32
  }
  return %o : $T
})",
                   type, reducedType);
}

std::string quantise(const std::string &type, const std::string &rowType, const std::string &smallType) {
  return replaced(withTypes(R"(func.func @f(%x: $T) -> ($Q, $R, $T) {
  %a = dit.map(%x) : ($T) -> $T {
  ^bb0(%p: f32):
    %q = math.absf %p : f32
    dit.yield %q : f32
  }
  %m = dit.reduce max %a axes [1] : ($T) -> $R
  %s = dit.map(%m) : ($R) -> $R {
  ^bb0(%p: f32):
    %largest = arith.constant 448.0 : f32
    %q = arith.divf %p, %largest : f32
    dit.yield %q : f32
  }
  %q = dit.map(%x, %s) : ($T, $R) -> $Q {
  ^bb0(%p: f32, %r: f32):
    %v = arith.divf %p, %r : f32
    dit.yield %v : f32
  }
  %b = dit.map(%q, %s) : ($Q, $R) -> $T {
  ^bb0(%p: f32, %r: f32):
    %v = arith.mulf %p, %r : f32
    dit.yield %v : f32
  }
  return %q, %s, %b : $Q, $R, $T
})",
                            type, rowType),
                  "$Q", "tensor<" + smallType + ">");
}

std::string norm(const std::string &kind, const std::string &type, const std::string &columnsType) {
  bool affine = !columnsType.empty();
  return withTypes("func.func @f(%a: $T" + std::string(affine ? ", %w: $R, %b: $R" : "") + ") -> $T {\n  %0 = dit.norm " + kind + " %a" +
                       (affine ? " weight %w bias %b" : "") + " axes 1 eps 1.0e-5 : ($T" + (affine ? ", $R, $R" : "") + ") -> $T\n  return %0 : $T\n}",
                   type, columnsType);
}

std::string reduction(const std::string &kind, const std::string &axes, const std::string &type, const std::string &resultType) {
  return withTypes("func.func @f(%a: $T) -> $R {\n  %0 = dit.reduce " + kind + " %a axes " + axes + " : ($T) -> $R\n  return %0 : $R\n}", type, resultType);
}

std::string reductionsOverAllAxes(const std::string &element) {
  const std::string sizes[] = {"3", "5", "4", "24"}, input = "tensor<3x5x4x24x" + element + ">";
  std::string body, results, types;
  for (int set = 1; set < 16; ++set) {
    std::string axes, shape, name = "%r" + std::to_string(set);
    for (int dim = 0; dim < 4; ++dim) {
      bool isReduced = set >> dim & 1;
      axes += isReduced ? (axes.empty() ? "" : ", ") + std::to_string(dim) : "";
      shape += (isReduced ? "1" : sizes[dim]) + "x";
    }
    std::string result = "tensor<" + shape + element + ">";
    body += "  " + name + " = dit.reduce " + (set % 2 ? "sum" : "max") + " %a axes [" + axes + "] : (" + input + ") -> " + result + "\n";
    results += (set > 1 ? ", " : "") + name;
    types += (set > 1 ? ", " : "") + result;
  }
  return "func.func @f(%a: " + input + ") -> (" + types + ") {\n" + body + "  return " + results + " : " + types + "\n}";
}

std::string transposesOfAllTypes() {
  std::string parameters, body, results, types;
  for (std::string element : {"f64", "f32", "f16", "bf16", "f8E4M3FN", "i64", "i32", "i16", "i8", "ui8", "i1"}) {
    std::string before = "tensor<9x32x" + element + ">", after = "tensor<32x9x" + element + ">", comma = parameters.empty() ? "" : ", ";
    parameters += comma + "%a" + element + ": " + before;
    body += "  %r" + element + " = dit.permute %a" + element + " [1, 0] : " + before + " -> " + after + "\n";
    results += comma + "%r" + element;
    types += comma + after;
  }
  return "func.func @f(" + parameters + ") -> (" + types + ") {\n" + body + "  return " + results + " : " + types + "\n}";
}

std::string scalarOperations(const std::string &lines) {
  std::istringstream in(lines);
  std::string line, body, results, types;
  for (int number = 0; std::getline(in, line); ++number) {
    std::istringstream parts(line);
    std::string op, operands, result, scalars, names, inputs, tensors, name = "%r" + std::to_string(number);
    std::getline(std::getline(std::getline(parts, op, '|'), operands, '|'), result);
    std::istringstream list(operands);
    std::string scalar;
    for (int i = 0; std::getline(list, scalar, ','); ++i) {
      std::string letter = "%a" + std::to_string(i);
      names += (i ? ", " : "") + letter;
      scalars += (i ? ", " : "") + letter + ": " + scalar;
      inputs += (i ? ", " : "") + ("%" + scalar + std::to_string(i));
      tensors += (i ? ", " : "") + ("tensor<600x" + scalar + ">");
    }
    bool isWhole = op.find_first_of("$%") != std::string::npos;
    std::string expression = isWhole ? replaced(op, "$", names) : op + " " + names + " : " + scalar;
    body += "  " + name + " = dit.map(" + inputs + ") : (" + tensors + ") -> tensor<600x" + result + "> {\n  ^bb0(" + scalars + "):\n    %v = " + expression +
            "\n    dit.yield %v : " + result + "\n  }\n";
    results += (number ? ", " : "") + name;
    types += (number ? ", " : "") + ("tensor<600x" + result + ">");
  }
  std::string parameters;
  for (std::string type : {"f32", "f64", "i64", "i1"})
    for (std::string i : {"0", "1", "2"})
      parameters += (parameters.empty() ? "%" : ", %") + type + i + ": tensor<600x" + type + ">";
  return "func.func @f(" + parameters + ") -> (" + types + ") {\n" + body + "  return " + results + " : " + types + "\n}";
}

} // namespace ditc::test
