// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/GemmBodies.h"

namespace ditc::test {
namespace {

std::string list(const std::vector<int64_t> &values) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i)
    text += (i ? ", " : "") + std::to_string(values[i]);
  return "[" + text + "]";
}

void replaceAll(std::string &text, const std::string &from, const std::string &to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

} // namespace

std::string GemmValue::type() const {
  std::string text;
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return "tensor<" + text + element + ">";
}

GemmValue GemmBody::input(std::vector<int64_t> shape, std::vector<int64_t> strides, const std::string &type) {
  inputs.push_back({type.empty() ? element : type, shape, std::move(strides)});
  return {"%" + std::to_string(inputs.size() - 1), shape, inputs.back().element};
}

GemmValue GemmBody::add(std::vector<int64_t> shape, const std::string &operation, const std::vector<GemmValue> &operands, bool arrowOnly,
                        const std::string &region) {
  GemmValue result{"%v" + std::to_string(values++) + "_", std::move(shape), element};
  std::string types;
  for (const GemmValue &operand : operands)
    types += (types.empty() ? "" : ", ") + operand.type();
  lines += "  " + result.name + " = " + operation + " : " + (arrowOnly ? types : "(" + types + ")") + " -> " + result.type() + region + "\n";
  return result;
}

GemmValue GemmBody::linear(const GemmValue &x, int64_t columns, bool bias) {
  std::vector<GemmValue> operands{x, input({columns, x.shape.back()})};
  if (bias)
    operands.push_back(input({columns}));
  std::vector<int64_t> shape = x.shape;
  shape.back() = columns;
  return add(shape, "dit.matmul " + x.name + ", " + operands[1].name + (bias ? " bias " + operands[2].name : "") + " transpose_rhs", operands);
}

GemmValue GemmBody::scaledLinear(const GemmValue &x, int64_t columns) {
  GemmValue weight = input({columns, x.shape.back()}, {}, x.element), sums{"%v" + std::to_string(values++) + "_", x.shape, "f32"};
  sums.shape.back() = columns;
  std::vector<int64_t> ofRows = x.shape, ofColumns(x.shape.size(), 1);
  ofRows.back() = 1, ofColumns.back() = columns;
  lines += "  " + sums.name + " = dit.matmul " + x.name + ", " + weight.name + " transpose_rhs : (" + x.type() + ", " + weight.type() + ") -> " + sums.type() + "\n";
  return map({sums, input(ofRows, {}, "f32"), input(ofColumns, {}, "f32"), input(ofColumns)},
             "%p = arith.mulf %a, %b : f32\n    %q = arith.mulf %p, %c : f32\n    %z = arith.addf %q, %d : f32");
}

GemmValue GemmBody::cast(const GemmValue &x, const std::string &type) {
  GemmValue result{"%v" + std::to_string(values++) + "_", x.shape, type};
  lines += "  " + result.name + " = dit.map(" + x.name + ") : (" + x.type() + ") -> " + result.type() + " {\n  ^bb0(%a: f32):\n    dit.yield %a : f32\n  }\n";
  return result;
}

GemmValue GemmBody::map(const std::vector<GemmValue> &operands, const std::string &code) {
  std::string names, parameters;
  std::vector<int64_t> shape = operands[0].shape;
  for (size_t i = 0; i < operands.size(); ++i) {
    names += (i ? ", " : "") + operands[i].name;
    parameters += (i ? ", %" : "%") + std::string(1, static_cast<char>('a' + i)) + (operands[i].element == "i1" ? ": i1" : ": f32");
    for (size_t dim = 0; dim < shape.size(); ++dim)
      shape[dim] = std::max(shape[dim], operands[i].shape[dim]);
  }
  return add(shape, "dit.map(" + names + ")", operands, false, " {\n  ^bb0(" + parameters + "):\n    " + code + "\n    dit.yield %z : f32\n  }");
}

GemmValue GemmBody::norm(const GemmValue &x, const std::string &kind, bool weight) {
  std::vector<GemmValue> operands{x};
  if (weight)
    operands.push_back(input({x.shape.back()}));
  return add(x.shape, "dit.norm " + kind + " " + x.name + (weight ? " weight " + operands[1].name : "") + " axes 1 eps 1.0e-6", operands);
}

GemmValue GemmBody::view(const GemmValue &x, std::vector<int64_t> shape) { return add(std::move(shape), "dit.view " + x.name, {x}, true); }

GemmValue GemmBody::permute(const GemmValue &x, std::vector<int64_t> order) {
  std::vector<int64_t> shape;
  for (int64_t dim : order)
    shape.push_back(x.shape[dim]);
  return add(shape, "dit.permute " + x.name + " " + list(order), {x}, true);
}

GemmValue GemmBody::slice(const GemmValue &x, size_t dim, int64_t begin, int64_t end) {
  std::vector<int64_t> shape = x.shape, offsets(shape.size(), 0), steps(shape.size(), 1);
  shape[dim] = end - begin, offsets[dim] = begin;
  return add(shape, "dit.slice " + x.name + " offsets " + list(offsets) + " steps " + list(steps), {x}, true);
}

GemmValue GemmBody::concat(const std::vector<GemmValue> &parts, size_t axis) {
  std::vector<int64_t> shape = parts[0].shape;
  std::string names = parts[0].name;
  for (size_t i = 1; i < parts.size(); ++i)
    shape[axis] += parts[i].shape[axis], names += ", " + parts[i].name;
  return add(shape, "dit.concat(" + names + ") axis " + std::to_string(axis), parts);
}

GemmValue GemmBody::gelu(const GemmValue &x) {
  return map({x}, R"(%c0 = arith.constant 0.0356774081 : f32
    %c1 = arith.constant 0.7978845608 : f32
    %half = arith.constant 5.0e-01 : f32
    %one = arith.constant 1.0 : f32
    %s = arith.mulf %a, %a : f32
    %t = arith.mulf %s, %c0 : f32
    %u = arith.addf %t, %c1 : f32
    %v = arith.mulf %u, %a : f32
    %w = math.tanh %v : f32
    %p = arith.addf %w, %one : f32
    %h = arith.mulf %a, %half : f32
    %z = arith.mulf %h, %p : f32)");
}

GemmValue GemmBody::silu(const GemmValue &x) {
  return map({x}, R"(%one = arith.constant 1.0 : f32
    %n = arith.negf %a : f32
    %e = math.exp %n : f32
    %d = arith.addf %e, %one : f32
    %z = arith.divf %a, %d : f32)");
}

GemmValue GemmBody::gated(const GemmValue &x, const GemmValue &gate, const GemmValue &residual) {
  return map({residual, gate, x}, "%p = arith.mulf %b, %c : f32\n    %z = arith.addf %a, %p : f32");
}

GemmValue GemmBody::rotary(const GemmValue &x, const GemmValue &cosine, const GemmValue &sine, bool interleaved) {
  int64_t size = x.shape.back();
  GemmValue turned;
  if (interleaved) {
    GemmValue pairs = view(x, {x.shape[0], x.shape[1], x.shape[2], size / 2, 2});
    GemmValue second = map({slice(pairs, 4, 1, 2)}, "%z = arith.negf %a : f32");
    turned = view(concat({second, slice(pairs, 4, 0, 1)}, 4), x.shape);
  } else {
    GemmValue second = map({slice(x, 3, size / 2, size)}, "%z = arith.negf %a : f32");
    turned = concat({second, slice(x, 3, 0, size / 2)}, 3);
  }
  return map({x, cosine, turned, sine}, "%p = arith.mulf %a, %b : f32\n    %q = arith.mulf %c, %d : f32\n    %z = arith.addf %p, %q : f32");
}

void GemmBody::output(const GemmValue &value, std::vector<int64_t> strides) {
  outputs.push_back({value.element, value.shape, std::move(strides)});
  results.push_back(value);
}

CudaCase GemmBody::build() const {
  std::string text = lines, parameters, names, types;
  for (size_t i = 0; i < results.size(); ++i) {
    replaceAll(text, results[i].name, "%r" + std::to_string(i));
    names += (i ? ", %r" : "%r") + std::to_string(i), types += (i ? ", " : "") + results[i].type();
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    parameters += (i ? ", %" : "%") + std::to_string(i) + ": " + GemmValue{"", inputs[i].shape, inputs[i].element}.type();
  CudaCase c{.family = "gemm", .config = "", .args = inputs, .reference = text, .outputs = static_cast<int>(outputs.size())};
  c.args.insert(c.args.end(), outputs.begin(), outputs.end());
  c.body = "{\n^bb0(" + parameters + "):\n" + text + "  dit.yield " + names + " : " + types + "\n}";
  c.tolerance = element == "bf16" ? 1.2e-2 : 2e-3;
  return c;
}

//===-- bodies ----------------------------------------------------------------------------------------===//

CudaCase plainGemm(const std::string &element, int64_t batches, int64_t rows, int64_t columns, int64_t k, bool bias) {
  GemmBody body(element);
  body.output(body.linear(body.input({batches, rows, k}), columns, bias));
  return body.build();
}

CudaCase fp8Gelu(const std::string &element, int64_t rows, int64_t columns, int64_t k) {
  GemmBody body(element);
  body.output(body.gelu(body.scaledLinear(body.input({2, rows, k}, {}, "f8E4M3FN"), columns)));
  return body.build();
}

CudaCase fp8Heads(const std::string &element, int64_t rows, int64_t heads, int64_t head) {
  GemmBody body(element);
  GemmValue cosine = body.input({1, rows, 1, head}, {}, "f32"), sine = body.input({1, rows, 1, head}, {}, "f32");
  GemmValue whole = body.scaledLinear(body.input({1, rows, 256}, {}, "f8E4M3FN"), 3 * heads * head);
  for (int part = 0; part < 3; ++part) {
    GemmValue split = body.view(body.slice(whole, 2, part * heads * head, (part + 1) * heads * head), {1, rows, heads, head});
    body.output(part < 2 ? body.rotary(body.norm(split, "rms", true), cosine, sine, true) : split);
  }
  return body.build();
}

CudaCase biasGelu(const std::string &element, int64_t rows, int64_t columns, int64_t k) {
  GemmBody body(element);
  body.output(body.gelu(body.linear(body.input({2, rows, k}), columns)));
  return body.build();
}

CudaCase gateResidual(const std::string &element, int64_t rows, int64_t columns, int64_t k, bool perToken) {
  GemmBody body(element);
  GemmValue x = body.linear(body.input({2, rows, k}), columns);
  GemmValue gate = perToken ? body.input({2, rows, columns}) : body.input({2, 1, columns}, {6 * columns, columns, 1});
  body.output(body.gated(x, gate, body.input({2, rows, columns})));
  return body.build();
}

CudaCase qkvHeads(const std::string &element, int64_t rows, int64_t heads, int64_t head, bool interleaved, bool oneWeight, const std::string &norm) {
  constexpr int64_t kBatches = 2, kDepth = 40;
  GemmBody body(element);
  GemmValue x = body.input({kBatches, rows, kDepth}), whole;
  int64_t width = heads * head;
  if (oneWeight)
    whole = body.linear(x, 3 * width);
  GemmValue cosine = body.input({1, rows, 1, head}, {}, "f32"), sine = body.input({1, rows, 1, head}, {}, "f32");
  int64_t wider = rows + 3; // queries and keys lie among those of another stream
  for (int part = 0; part < 3; ++part) {
    GemmValue each = oneWeight ? body.slice(whole, 2, part * width, (part + 1) * width) : body.linear(x, width);
    GemmValue split = body.view(each, {kBatches, rows, heads, head});
    if (part < 2)
      split = body.rotary(body.norm(split, norm, true), cosine, sine, interleaved);
    body.output(body.permute(split, {0, 2, 1, 3}), part < 2 ? std::vector<int64_t>{heads * wider * head, wider * head, head, 1} : std::vector<int64_t>{});
  }
  return body.build();
}

/// x · cos + turned(x) · sin by tables of half the columns.
static GemmValue turnedByHalves(GemmBody &body, const GemmValue &x, int64_t rows) {
  int64_t half = x.shape.back() / 2;
  GemmValue cosine = body.input({1, rows, 1, half}, {}, "f32"), sine = body.input({1, rows, 1, half}, {}, "f32");
  GemmValue first = body.slice(x, 3, 0, half), second = body.slice(x, 3, half, 2 * half);
  auto turn = [&](const GemmValue &a, const GemmValue &b, const std::string &operation) {
    return body.map({a, cosine, b, sine}, "%p = arith.mulf %a, %b : f32\n    %q = arith.mulf %c, %d : f32\n    %z = arith." + operation + " %p, %q : f32");
  };
  return body.concat({turn(first, second, "subf"), turn(second, first, "addf")}, 3);
}

CudaCase turnedHeads(const std::string &element, int64_t rows, int64_t heads, int64_t head, const HeadOptions &options) {
  constexpr int64_t kDepth = 40;
  GemmBody body(element);
  GemmValue x = body.view(body.linear(body.input({1, rows, kDepth}), heads * head, options.bias), {1, rows, heads, head});
  if (options.norm && !options.normLast)
    x = body.norm(x, "rms", options.weight);
  std::vector<GemmValue> parts;
  for (int64_t size = head / options.sections, i = 0; i < options.sections; ++i) {
    GemmValue part = options.sections == 1 ? x : body.slice(x, 3, i * size, (i + 1) * size);
    auto table = [&] { return body.input({1, rows, 1, size}, {}, "f32"); };
    parts.push_back(options.halfTables ? turnedByHalves(body, part, rows) : body.rotary(part, table(), table(), options.interleaved));
  }
  x = options.sections == 1 ? parts.front() : body.concat(parts, 3);
  body.output(options.norm && options.normLast ? body.norm(x, "rms", options.weight) : x);
  return body.build();
}

CudaCase twoStreams(const std::string &element, int64_t rows, int64_t otherRows, int64_t columns, int64_t k) {
  GemmBody body(element);
  std::vector<int64_t> joint{(rows + otherRows) * columns, columns, 1}; // both write into one tensor
  for (int64_t each : {rows, otherRows}) {
    GemmValue x = body.linear(body.input({2, each, k}), columns);
    GemmValue gate = body.input({2, 1, columns});
    body.output(body.gated(x, gate, body.input({2, each, columns})), joint);
  }
  return body.build();
}

CudaCase twoRanges(const std::string &element, int64_t rows, int64_t columns, int64_t k, int64_t otherK) {
  GemmBody body(element);
  GemmValue x = body.concat({body.input({rows, k}), body.input({rows, otherK})}, 1);
  body.output(body.add(body.linear(x, columns), body.input({rows, columns})));
  return body.build();
}

/// The two factors before the activation.
static std::pair<GemmValue, GemmValue> gateAndUp(GemmBody &body, const GemmValue &x, int64_t columns, GateSpelling spelling, bool bias) {
  if (spelling == GateSpelling::TwoLayers) {
    GemmValue gate = body.linear(x, columns, bias);
    return {gate, body.linear(x, columns, bias)};
  }
  GemmValue both = body.linear(x, 2 * columns, bias), first = body.slice(both, 1, 0, columns), second = body.slice(both, 1, columns, 2 * columns);
  return spelling == GateSpelling::GateFirst ? std::pair(first, second) : std::pair(second, first);
}

CudaCase gatedMlp(const std::string &element, int64_t rows, int64_t columns, int64_t k, GateSpelling spelling, bool bias, bool gelu) {
  GemmBody body(element);
  auto [gate, up] = gateAndUp(body, body.input({rows, k}), columns, spelling, bias);
  body.output(body.times(gelu ? body.gelu(gate) : body.silu(gate), up));
  return body.build();
}

CudaCase gatedStreams(const std::string &element, int64_t rows, int64_t otherRows, int64_t columns, int64_t k) {
  GemmBody body(element);
  for (int64_t each : {rows, otherRows}) {
    auto [gate, up] = gateAndUp(body, body.input({each, k}), columns, GateSpelling::GateFirst, true);
    body.output(body.times(body.silu(gate), up));
  }
  return body.build();
}

} // namespace ditc::test
