// SPDX-License-Identifier: Apache-2.0
//
// Activation functions. Formulas are torch's, and so is their behaviour at infinities and NaN.
#include "compiler/import/Elementwise.h"

#include "runtime/Error.h"

#include <numbers>

using namespace mlir;

namespace ditc {

static Num sigmoid(Num x) { return 1.0 / (1.0 + exp(-x)); }

static Num gelu(OpContext &op, Num x) {
  std::string form = op.text("approximate", "none");
  if (form == "none")
    return 0.5 * x * (1.0 + erf(x * (1 / std::numbers::sqrt2)));
  if (form != "tanh")
    fail("gelu has no approximation '{}'", form);
  double factor = std::numbers::sqrt2 * std::numbers::inv_sqrtpi; // sqrt(2 / pi)
  return 0.5 * x * (1.0 + tanh((x + 0.044715 * (x * x * x)) * factor));
}

/// scale * x above 0, scale * alpha * (exp(inputScale * x) - 1) below.
static Num elu(Num x, double alpha, double scale, double inputScale) {
  return select(x <= 0.0, expm1(x * inputScale) * (alpha * scale), x * scale);
}

static Num eluOf(OpContext &op, Num x) { return elu(x, op.number("alpha", 1), op.number("scale", 1), op.number("input_scale", 1)); }

static Num celu(OpContext &op, Num x) {
  double alpha = op.number("alpha", 1);
  return elu(x, alpha, 1, 1 / alpha);
}

/// The slope is random in training; its mean counts otherwise.
static Num randomLeakyRelu(OpContext &op, Num x) {
  if (op.flag("training", false))
    fail("draws random slopes; call model.eval() before exporting");
  return select(x > 0.0, x, x * ((op.number("lower", 1.0 / 8) + op.number("upper", 1.0 / 3)) / 2));
}

/// As core ATen has it: the noise beside the result is what training would read.
static std::vector<Value> randomLeakyReluWithNoise(OpContext &op) {
  Type element = op.resultElement();
  return {elementwise(op.emit, operandOf(op, "self"), dit::computeType(element), element, [&](ArrayRef<Num> x) { return randomLeakyRelu(op, x[0]); }), {}};
}

/// log(1 + exp(beta x)) / beta, and x itself where that is the same in floats.
static Num softplus(OpContext &op, Num x) {
  double beta = op.number("beta", 1), threshold = op.number("threshold", 20);
  Num scaled = x * beta;
  return select(scaled > threshold, x, log1p(exp(scaled)) / beta);
}

static Num hardtanh(OpContext &op, Num x) {
  Scalar low = op.scalar("min_val", Scalar::of(int64_t{-1})), high = op.scalar("max_val", Scalar::of(int64_t{1}));
  return min(max(x, x.constant(low)), x.constant(high));
}

static Num softshrink(OpContext &op, Num x) {
  double lambda = op.number("lambd", 0.5);
  // The zero is x * 0, so that NaN stays.
  return select(x > lambda, x - lambda, select(x < -lambda, x + lambda, x * 0.0));
}

static Num hardshrink(OpContext &op, Num x) {
  double lambda = op.number("lambd", 0.5);
  return select((x >= -lambda) & (x <= lambda), x.constant(0.0), x);
}

/// min(x, 0) - log(1 + exp(-|x|)): no overflow on either side.
static Num logSigmoid(Num x) { return min(x, 0.0) - log1p(exp(-abs(x))); }

/// The first half of a dimension times the sigmoid of the second.
static std::vector<Value> glu(OpContext &op) {
  Value self = op.tensor("self");
  int64_t dim = normaliseDim(op.integer("dim", -1), Emit::rankOf(self));
  int64_t size = Emit::shapeOf(self)[dim];
  if (size % 2 != 0)
    fail("glu halves dimension {}, whose size {} is odd", dim, size);
  Operand first{op.emit.slice(self, dim, 0, size / 2)}, second{op.emit.slice(self, dim, size / 2, size)};
  Type element = op.resultElement();
  return {elementwise(op.emit, {first, second}, dit::computeType(element), element, [](ArrayRef<Num> x) { return x[0] * sigmoid(x[1]); })};
}

/// Weights lie along dimension 1 (one weight: everywhere).
static std::vector<Value> prelu(OpContext &op) {
  Value self = op.tensor("self"), weight = op.tensor("weight");
  int64_t rank = Emit::rankOf(self), count = Emit::typeOf(weight).getNumElements();
  if (Emit::rankOf(weight) < 2 && rank > 0) {
    SmallVector<int64_t> shape(rank, 1);
    if (rank > 1)
      shape[1] = count;
    weight = op.emit.view(weight, shape);
  }
  Type element = op.resultElement();
  return {elementwise(op.emit, {self, weight}, dit::computeType(element), element,
                      [](ArrayRef<Num> x) { return select(x[0] > 0.0, x[0], x[1] * x[0]); })};
}

/// log_sigmoid_forward also returns a buffer for the backward pass, which inference never reads.
static std::vector<Value> logSigmoidForward(OpContext &op) {
  Type element = op.resultElement();
  return {elementwise(op.emit, operandOf(op, "self"), dit::computeType(element), element, [](ArrayRef<Num> x) { return logSigmoid(x[0]); }),
          {}};
}

void addActivationRows(ElementwiseRows &rows) {
  rows.unary({"aten.relu.default"}, [](Num x) { return max(x, 0.0); });
  rows.unary({"aten.relu6.default"}, [](Num x) { return min(max(x, 0.0), 6.0); });
  rows.unary({"aten.silu.default"}, [](Num x) { return x / (1.0 + exp(-x)); });
  rows.unary({"aten.gelu.default"}, gelu);
  rows.unary({"aten.mish.default"}, [](Num x) { return x * tanh(log1p(exp(x))); });
  rows.unary({"aten.leaky_relu.default"}, [](OpContext &op, Num x) { return select(x > 0.0, x, x * op.number("negative_slope", 0.01)); });
  rows.unary({"aten.rrelu.default"}, randomLeakyRelu);
  rows.unary({"aten.elu.default"}, eluOf);
  rows.unary({"aten.selu.default"}, [](Num x) { return elu(x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1); });
  rows.unary({"aten.celu.default"}, celu);
  rows.unary({"aten.softplus.default"}, softplus);
  rows.unary({"aten.hardtanh.default"}, hardtanh);
  rows.unary({"aten.hardsigmoid.default"}, [](Num x) { return min(max(x + 3.0, 0.0), 6.0) / 6.0; });
  rows.unary({"aten.hardswish.default"}, [](Num x) { return x * min(max(x + 3.0, 0.0), 6.0) / 6.0; });
  rows.unary({"aten.log_sigmoid.default"}, logSigmoid);
  rows.unary({"aten.softshrink.default"}, softshrink);
  rows.unary({"aten.hardshrink.default"}, hardshrink);
  rows.unary({"aten.threshold.default"},
             [](OpContext &op, Num x) { return select(x <= x.constant(op.scalar("threshold")), x.constant(op.scalar("value")), x); });
  rows.row({"aten.log_sigmoid_forward.default"}, logSigmoidForward);
  rows.row({"aten.rrelu_with_noise_functional.default"}, randomLeakyReluWithNoise);
  rows.row({"aten.glu.default"}, glu);
  rows.row({"aten.prelu.default", "aten._prelu_kernel.default"}, prelu);
}

} // namespace ditc
