// SPDX-License-Identifier: Apache-2.0
//
// Products, convolutions and operations along an axis on the CUDA target, against the reference evaluator.
#include "codegen/cuda/families/Families.h"
#include "tests/unit/CudaFamilies.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

using namespace ditc;
using namespace ditc::test;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(CudaAxis, ArgReduceFindsTheFirstExtreme) {
  CudaFamilies families(emitArgReduce);
  const char *elements[] = {"f32", "bf16", "i32", "i1", "f64", "ui8", "f8E4M3FN"};
  for (int i = 0; i < 7; ++i) {
    std::string kind = i % 2 ? "max" : "min", axis = std::to_string(i % 3);
    families.check({.family = "arg_reduce",
                    .config = "kind = \"" + kind + "\", axis = " + axis + " : i64",
                    .args = {{elements[i], {5, 70, 3}}, {"i64", {i % 3 == 0 ? 1 : 5, i % 3 == 1 ? 1 : 70, i % 3 == 2 ? 1 : 3}}},
                    .reference = "dit.arg_reduce " + kind + " %0 axis " + axis});
  }
}

TEST(CudaAxis, ArgReduceTakesNanAsTheExtreme) {
  CudaFamilies families(emitArgReduce);
  auto value = [](size_t i) { return i == 40 || i == 41 ? kNan : static_cast<double>(i); };
  families.check({.family = "arg_reduce",
                  .config = "kind = \"min\", axis = 0 : i64",
                  .args = {{"f32", {64}, {}, value}, {"i64", {1}}},
                  .reference = "dit.arg_reduce min %0 axis 0"});
  EXPECT_EQ(families.result()[0], 40);
}

TEST(CudaAxis, ScansRunOverLinesOfAnyLength) {
  CudaFamilies families(emitScan);
  const char *elements[] = {"f32", "f16", "i64", "i8", "f64", "bf16"};
  for (int i = 0; i < 6; ++i) {
    int64_t length = std::array{1, 32, 33, 100, 64, 95}[i];
    std::string kind = i % 2 ? "sum" : "prod";
    families.check({.family = "scan",
                    .config = "kind = \"" + kind + "\", axis = 1 : i64",
                    .args = {{elements[i], {3, length, 2}}, {elements[i], {3, length, 2}}},
                    .reference = "dit.scan " + kind + " %0 axis 1",
                    .tolerance = 1e-6});
  }
}

TEST(CudaAxis, ScanCountsBooleans) {
  CudaFamilies families(emitScan);
  families.check({.family = "scan", .config = "kind = \"sum\", axis = 0 : i64", .args = {{"i1", {50}}, {"i64", {50}}}, .reference = "dit.scan sum %0 axis 0"});
}

TEST(CudaAxis, SortIsStable) {
  CudaFamilies families(emitSort);
  for (int64_t length : {1, 2, 37, 600, 4097})
    for (bool descending : {false, true}) {
      auto value = [](size_t i) { return i % 11 == 3 ? kNan : static_cast<double>(i * 7919 % 13); };
      std::vector<int64_t> shape = {2, length};
      families.check({.family = "sort", .config = std::string("axis = 1 : i64, descending = ") + (descending ? "true" : "false"),
                      .args = {{"f32", shape, {}, value}, {"f32", shape}, {"i64", shape}},
                      .reference = std::string("dit.sort %0 axis 1") + (descending ? " descending" : ""), .outputs = 2});
    }
  families.check({.family = "sort", .config = "axis = 0 : i64, descending = true", .args = {{"f8E4M3FN", {40, 3}}, {"f8E4M3FN", {40, 3}}, {"i64", {40, 3}}},
                  .reference = "dit.sort %0 axis 0 descending", .outputs = 2});
  families.check({.family = "sort", .config = "axis = 0 : i64, descending = false", .args = {{"i16", {40, 3}}, {"i16", {40, 3}}, {"i64", {40, 3}}},
                  .reference = "dit.sort %0 axis 0", .outputs = 2});
}

TEST(CudaScatter, UpdatesInOrder) {
  CudaFamilies families(emitScatter);
  auto index = [](size_t i) { return static_cast<double>(i * 5 % 9) - 1; }; // -1 is outside
  for (bool add : {false, true})
    for (std::string element : {"f32", "bf16", "i32", "i1"}) {
      int64_t width = element == "f32" ? 200 : element == "i1" ? 1 : 7;
      families.check({.family = "scatter", .config = std::string("add = ") + (add ? "true" : "false"),
                      .args = {{element, {7, width}}, {"i64", {40}, {}, index}, {element, {40, width}}, {element, {7, width}}},
                      .reference = std::string("dit.scatter %0[%1], %2") + (add ? " add" : ""), .tolerance = add ? 1e-6 : 0});
    }
  families.check({.family = "scatter", .config = "add = false",
                  .args = {{"f8E4M3FN", {7, 9}}, {"i64", {40}, {}, index}, {"f8E4M3FN", {40, 9}}, {"f8E4M3FN", {7, 9}}}, .reference = "dit.scatter %0[%1], %2"});
  families.check({.family = "scatter",
                  .config = "add = false",
                  .args = {{"f32", {7, 2, 3}, {6, 1, 2}}, {"i32", {4}, {}, index}, {"f32", {4, 2, 3}}, {"f32", {7, 2, 3}, {1, 7, 14}}},
                  .reference = "dit.scatter %0[%1], %2"});
}

TEST(CudaMatmul, TakesIntegersAndAnyStrides) {
  CudaFamilies families(emitMatmul);
  families.check({.family = "matmul", .config = "", .args = {{"i64", {70, 19}}, {"i64", {19, 67}}, {"i64", {70, 67}}}, .reference = "dit.matmul %0, %1"});
  families.check({.family = "matmul",
                  .config = "",
                  .args = {{"i32", {3, 5, 40}, {0, 40, 1}}, {"i32", {3, 40, 66}, {2640, 1, 40}}, {"i32", {3, 5, 66}}},
                  .reference = "dit.matmul %0, %1"});
  families.check({.family = "matmul", .config = "", .args = {{"f32", {2, 65, 33}, {65 * 66, 2, 130}}, {"f32", {1, 33, 64}}, {"f32", {2, 65, 64}, {64, 128, 1}}},
                  .reference = "dit.matmul %0, %1", .tolerance = 1e-6});
  families.check({.family = "matmul",
                  .config = "transpose_rhs = true",
                  .args = {{"bf16", {2, 3, 20}}, {"bf16", {10, 20}}, {"bf16", {10}}, {"bf16", {2, 3, 10}}},
                  .reference = "dit.matmul %0, %1 bias %2 transpose_rhs",
                  .tolerance = 8e-3});
  families.check({.family = "matmul", .config = "transpose_rhs = true", .args = {{"f8E4M3FN", {33, 40}}, {"f8E4M3FN", {70, 40}}, {"f32", {33, 70}}},
                  .reference = "dit.matmul %0, %1 transpose_rhs", .tolerance = 1e-6});
  families.check({.family = "matmul", .config = "", .args = {{"f64", {4, 0}}, {"f64", {0, 3}}, {"f64", {4, 3}}}, .reference = "dit.matmul %0, %1"});
}

struct ConvShape {
  std::vector<int64_t> input, filter, output;
  std::string strides, low, high, dilations;
  int64_t groups;
};

TEST(CudaConv, MatchesTheReference) {
  CudaFamilies families(emitConv);
  const ConvShape shapes[] = {
      {{2, 6, 9, 11}, {70, 6, 3, 3}, {2, 70, 9, 11}, "1, 1", "1, 1", "1, 1", "1, 1", 1},
      {{1, 16, 20}, {24, 4, 5}, {1, 24, 8}, "2", "0", "0", "1", 4},          // 1-D, groups of 6
      {{1, 12, 8, 8}, {12, 1, 3, 3}, {1, 12, 8, 8}, "1, 1", "1, 1", "1, 1", "1, 1", 12}, // depthwise
      {{1, 3, 7, 8, 9}, {9, 3, 1, 2, 3}, {1, 9, 7, 4, 5}, "1, 2, 1", "0, 1, 0", "0, 0, 0", "1, 1, 2", 1},
      {{1, 4, 16, 16}, {8, 4, 2, 2}, {1, 8, 8, 8}, "2, 2", "0, 0", "0, 0", "1, 1", 1}, // patches
  };
  int number = 0;
  for (std::string element : {"f32", "bf16"})
    for (const ConvShape &s : shapes) {
      bool bias = number++ % 2;
      std::string options = "strides = array<i64: " + s.strides + ">, padding_low = array<i64: " + s.low + ">, padding_high = array<i64: " + s.high +
                            ">, dilations = array<i64: " + s.dilations + ">, groups = " + std::to_string(s.groups) + " : i64";
      CudaCase c{.family = "conv", .config = options + ", has_bias = " + (bias ? "true" : "false"), .args = {{element, s.input}, {element, s.filter}},
                 .reference = std::string("dit.conv %0, %1") + (bias ? " bias %2" : "") + " {" + options + "}",
                 .tolerance = element == "bf16" ? 8e-3 : 2e-6};
      if (bias)
        c.args.push_back({element, {s.filter[0]}});
      c.args.push_back({element, s.output});
      families.check(c);
    }
}

/// Products of shapes (rows, k, n, transposed) in one launch, inputs shared where shapes agree.
CudaCase gemvCase(const std::string &element, const std::vector<std::array<int64_t, 4>> &products, bool bias, double tolerance) {
  CudaCase c{.family = "gemv", .config = "", .args = {}, .reference = "", .outputs = static_cast<int>(products.size()), .body = "", .tolerance = tolerance};
  std::vector<CudaArg> outputs;
  std::string lines, names, types, blockArgs;
  auto add = [&](std::vector<int64_t> shape) {
    std::string text = "tensor<";
    for (int64_t size : shape)
      text += std::to_string(size) + "x";
    text += element + ">";
    blockArgs += (c.args.empty() ? "%" : ", %") + std::to_string(c.args.size()) + ": " + text;
    c.args.push_back({element, shape});
    return std::pair{"%" + std::to_string(c.args.size() - 1), text};
  };
  for (size_t i = 0; i < products.size(); ++i) {
    auto [rows, k, n, transposed] = products[i];
    auto x = add({rows, k}), w = add(transposed ? std::vector{n, k} : std::vector{k, n});
    std::pair<std::string, std::string> b = bias ? add({n}) : std::pair<std::string, std::string>();
    outputs.push_back({element, {rows, n}});
    std::string result = "tensor<" + std::to_string(rows) + "x" + std::to_string(n) + "x" + element + ">", name = "%r" + std::to_string(i);
    lines += "  " + name + " = dit.matmul " + x.first + ", " + w.first + (bias ? " bias " + b.first : "") + (transposed ? " transpose_rhs" : "") + " : (" +
             x.second + ", " + w.second + (bias ? ", " + b.second : "") + ") -> " + result + "\n";
    names += (i ? ", " : "") + name;
    types += (i ? ", " : "") + result;
  }
  c.args.insert(c.args.end(), outputs.begin(), outputs.end());
  c.reference = lines;
  c.body = "{\n^bb0(" + blockArgs + "):\n" + lines + "  dit.yield " + names + " : " + types + "\n}";
  return c;
}

TEST(CudaGemv, ManyProductsInOneLaunch) {
  CudaFamilies families(emitGemv);
  families.check(gemvCase("bf16", {{1, 512, 40, 1}, {1, 512, 40, 1}, {1, 512, 100, 1}, {2, 264, 8, 1}}, true, 8e-3));
  families.check(gemvCase("f32", {{3, 260, 33, 1}, {16, 70, 5, 1}, {1, 17, 9, 1}}, false, 2e-6));
  families.check(gemvCase("f64", {{2, 100, 10, 1}, {5, 33, 70, 0}}, true, 1e-14));
  families.check(gemvCase("f16", {{1, 300, 520, 0}, {4, 77, 33, 0}, {16, 64, 64, 0}}, true, 1e-3));
  families.check(gemvCase("bf16", {{16, 6400, 4, 1}}, false, 8e-3)); // x comes in parts
  families.check(gemvCase("f32", {{5, 5000, 3, 1}}, false, 2e-6));   // …that are no whole rounds of loads
  families.check(gemvCase("bf16", {{2, 33, 6500, 1}, {2, 33, 6500, 1}, {2, 40, 133, 1}, {1, 24, 17, 1}}, true, 8e-3)); // blocks make x for four groups of columns
  CudaCase odd = gemvCase("bf16", {{1, 520, 9, 1}}, true, 8e-3);
  odd.aligned = false;
  families.check(odd);
}

/// x = silu(a + b) of `rows` rows, and of its product with one weight three ranges of columns, of which the last is joined
/// with 1 by `operation`.
CudaCase modulationCase(const std::string &element, int64_t rows, int64_t k, int64_t range, bool transposed, double tolerance, const std::string &operation = "addf") {
  auto tensor = [&](const std::string &sizes) { return "tensor<" + sizes + "x" + element + ">"; };
  std::string n = std::to_string(3 * range), depth = std::to_string(k), count = std::to_string(rows), width = std::to_string(range);
  std::string x = tensor(count + "x" + depth), w = tensor(transposed ? n + "x" + depth : depth + "x" + n), y = tensor(count + "x" + n), part = tensor(count + "x" + width),
              compute = element == "f64" ? "f64" : "f32";
  std::string body = "  %x = dit.map(%0, %1) : (" + x + ", " + x + ") -> " + x + " {\n  ^bb0(%a: " + compute + ", %b: " + compute + "):\n    %s = arith.addf %a, %b : " + compute +
                     "\n    %m = arith.negf %s : " + compute + "\n    %e = math.exp %m : " + compute + "\n    %one = arith.constant 1.0 : " + compute +
                     "\n    %d = arith.addf %e, %one : " + compute + "\n    %q = arith.divf %s, %d : " + compute + "\n    dit.yield %q : " + compute + "\n  }\n" +
                     "  %y = dit.matmul %x, %2 bias %3" + (transposed ? " transpose_rhs" : "") + " : (" + x + ", " + w + ", " + tensor(n) + ") -> " + y + "\n";
  for (int i = 0; i < 3; ++i)
    body += "  %p" + std::to_string(i) + " = dit.slice %y offsets [0, " + std::to_string(i * range) + "] steps [1, 1] : " + y + " -> " + part + "\n";
  std::string wide = tensor(count + "x1x" + width);
  for (int i = 0; i < 3; ++i)
    body += "  %" + std::string(i == 2 ? "v" : "r") + std::to_string(i) + " = dit.view %p" + std::to_string(i) + " : " + part + " -> " + wide + "\n";
  body += "  %r2 = dit.map(%v2) : (" + wide + ") -> " + wide + " {\n  ^bb0(%a: " + compute + "):\n    %one = arith.constant 1.0 : " + compute + "\n    %s = arith." + operation + " %a, %one : " + compute +
          "\n    dit.yield %s : " + compute + "\n  }\n";
  std::vector<int64_t> weight = transposed ? std::vector<int64_t>{3 * range, k} : std::vector<int64_t>{k, 3 * range};
  CudaArg out{element, {rows, 1, range}};
  return {.family = "gemv", .config = "", .args = {{element, {rows, k}}, {element, {rows, k}}, {element, weight}, {element, {3 * range}}, out, out, out}, .reference = body, .outputs = 3,
          .body = "{\n^bb0(%0: " + x + ", %1: " + x + ", %2: " + w + ", %3: " + tensor(n) + "):\n" + body + "  dit.yield %r0, %r1, %r2 : " + wide + ", " + wide + ", " + wide + "\n}",
          .tolerance = tolerance};
}

TEST(CudaGemv, MapsOnInputsAndOnRangesOfColumns) {
  CudaFamilies families(emitGemv);
  families.check(modulationCase("bf16", 2, 264, 40, true, 1.6e-2)); // the reference rounds x
  families.check(modulationCase("f16", 1, 77, 33, true, 2e-3));     // ranges begin at odd places
  families.check(modulationCase("f32", 3, 100, 24, false, 3e-6));   // and lie beside each other in a row of the weight
  families.check(modulationCase("f64", 2, 40, 7, true, 1e-14));
  families.check(modulationCase("f32", 2, 40, 8, true, 3e-6, "maximumf")); // no operator or function of C
  CudaCase odd = modulationCase("bf16", 2, 264, 9, true, 1.6e-2);
  odd.aligned = false;
  families.check(odd);
}

/// The case, with `from` in its body replaced.
CudaCase changed(CudaCase c, const std::string &from, const std::string &to) {
  c.body.replace(c.body.find(from), from.size(), to);
  return c;
}

TEST(CudaGemv, RefusesWhatOneLaunchDoesNotCompute) {
  CudaFamilies families(emitGemv);
  CudaCase fits = modulationCase("f32", 2, 16, 8, true, 0);
  ASSERT_TRUE(families.emit(fits)) << families.messages;
  for (const CudaCase &c : {changed(fits, "offsets [0, 8]", "offsets [0, 7]"),                                                       // a row of the weight for two results
                            changed(fits, "dit.matmul %x, %2", "dit.matmul %0, %2"),                                                 // a map that nobody reads
                            changed(fits, "%y offsets [0, 0] steps [1, 1]", "%y offsets [0, 0] steps [1, 2]")}) {
    EXPECT_FALSE(families.emit(c));
    EXPECT_NE(families.messages.find("is no gemv kernel"), std::string::npos) << families.messages;
  }
}

TEST(CudaGemv, LeavesFloat8ToTheLibrary) {
  CudaFamilies families(emitGemv);
  EXPECT_FALSE(families.emit(gemvCase("f8E4M3FN", {{2, 64, 8, 1}}, false, 0)));
  EXPECT_NE(families.messages.find("is no gemv kernel"), std::string::npos) << families.messages;
}

TEST(CudaGemv, RefusesManyRows) {
  CudaFamilies families(emitGemv);
  EXPECT_FALSE(families.emit(gemvCase("f32", {{17, 8, 8, 1}}, false, 0)));
  EXPECT_NE(families.messages.find("17 rows; a gemv takes 1 to 16"), std::string::npos) << families.messages;
}

} // namespace
