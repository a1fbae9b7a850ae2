// SPDX-License-Identifier: Apache-2.0
//
// Layer, RMS, group, batch and instance norm, and compositions that normalise.
#include "compiler/import/Elementwise.h"
#include "compiler/import/Reductions.h"

#include "runtime/Error.h"

#include "mlir/IR/Diagnostics.h"

#include <limits>

using namespace mlir;

namespace ditc {

using Results = std::vector<Value>;

Value emitNorm(Emit &emit, Value input, Value weight, Value bias, dit::NormKind kind, int64_t axes, double eps, Type element) {
  ImplicitLocOpBuilder &b = emit.builder();
  return dit::NormOp::create(b, Emit::typeOf(input).clone(element), input, weight, bias, kind, axes, llvm::APFloat(eps));
}

//===-- Layer and RMS norm ------------------------------------------------------------------------===//

/// Results behind the first (mean, 1/deviation) serve the backward pass and stay absent.
static Results layerNorm(OpContext &op) {
  int64_t axes = op.integers("normalized_shape").size();
  return {emitNorm(op.emit, op.tensor("input"), op.optionalTensor("weight"), op.optionalTensor("bias"), dit::NormKind::Layer, axes,
                   op.number("eps", 1e-5), op.resultElement())};
}

/// Major * 1000 + minor of "2.14.1+cu130"; 0 for text like "<=2.4".
static int versionNumber(const std::string &version) {
  int major = 0, minor = 0;
  return std::sscanf(version.c_str(), "%d.%d", &major, &minor) == 2 ? major * 1000 + minor : 0;
}

/// torch up to 2.6 takes the epsilon of the input's type; current versions take f32's for 16-bit types.
/// When it changed in between is not settled, so those versions get a warning.
static double defaultRmsEpsilon(OpContext &op, Type element) {
  if (element.isF64())
    return std::numeric_limits<double>::epsilon();
  double wide = std::numeric_limits<float>::epsilon();
  if (element.isF32())
    return wide;
  int version = versionNumber(op.torchVersion());
  if (version <= 2006)
    return element.isBF16() ? 0x1p-7 : 0x1p-10;
  if (version < 2014)
    emitWarning(op.emit.builder().getLoc(), "rms_norm without eps: taking the epsilon of f32; give eps in the model if torch ")
        << op.torchVersion() << " takes another";
  return wide;
}

static Results rmsNorm(OpContext &op) {
  Value input = op.tensor("input");
  std::optional<double> eps = op.optionalNumber("eps");
  return {emitNorm(op.emit, input, op.optionalTensor("weight"), {}, dit::NormKind::Rms, op.integers("normalized_shape").size(),
                   eps ? *eps : defaultRmsEpsilon(op, Emit::elementOf(input)), op.resultElement())};
}

//===-- Group, batch, instance norm ---------------------------------------------------------------===//

/// A tensor per channel as a tensor of rank `rank` that broadcasts along dimension 1.
static Value alongChannels(Emit &emit, Value value, int64_t rank) {
  if (!value)
    return value;
  SmallVector<int64_t> shape(rank, 1);
  shape[1] = Emit::typeOf(value).getNumElements();
  return emit.view(value, shape);
}

/// value * weight + bias per channel, rounded to `element`; absent factors are left out.
static Value scaleChannels(Emit &emit, Value value, Value weight, Value bias, Type element) {
  SmallVector<Operand> operands{value};
  for (Value factor : {weight, bias})
    if (factor)
      operands.push_back(alongChannels(emit, factor, Emit::rankOf(value)));
  Type wide = wideElement(emit, Emit::elementOf(value));
  return elementwise(emit, operands, wide, element, [&](ArrayRef<Num> x) {
    Num result = weight ? x[0] * x[1] : x[0];
    return bias ? result + x.back() : result;
  });
}

/// A group is a row of [N, groups, rest]: the norm has no weights there, and stays wide until they are in.
static Value groupNormOf(Emit &emit, Value input, int64_t groups, Value weight, Value bias, double eps, Type element) {
  ArrayRef<int64_t> shape = Emit::shapeOf(input);
  if (shape.size() < 2 || groups < 1 || shape[1] % groups != 0)
    fail("{} groups do not divide the channels", groups);
  int64_t rest = shape[1] / groups;
  for (int64_t size : shape.drop_front(2))
    rest *= size;
  Type between = weight || bias ? wideElement(emit, Emit::elementOf(input)) : element;
  Value rows = emit.view(input, {shape[0], groups, rest});
  Value normal = emit.view(emitNorm(emit, rows, {}, {}, dit::NormKind::Layer, 1, eps, between), shape);
  return weight || bias ? scaleChannels(emit, normal, weight, bias, element) : normal;
}

static Results groupNorm(OpContext &op) {
  int64_t groups = op.node.find("num_groups") ? op.integer("num_groups") : op.integer("group");
  return {groupNormOf(op.emit, op.tensor("input"), groups, op.optionalTensor("weight"), op.optionalTensor("bias"), op.number("eps", 1e-5),
                      op.resultElement())};
}

/// (x - mean) / sqrt(variance + eps) with tensors per channel.
static Value normaliseChannels(OpContext &op, Value input, Value mean, Value variance, double eps) {
  int64_t rank = Emit::rankOf(input);
  Type wide = wideElement(op.emit, Emit::elementOf(input));
  SmallVector<Operand> operands{input, alongChannels(op.emit, mean, rank), alongChannels(op.emit, variance, rank)};
  Value weight = op.optionalTensor("weight"), bias = op.optionalTensor("bias");
  for (Value factor : {weight, bias})
    if (factor)
      operands.push_back(alongChannels(op.emit, factor, rank));
  return elementwise(op.emit, operands, wide, op.resultElement(), [&](ArrayRef<Num> x) {
    Num normal = (x[0] - x[1]) * rsqrt(x[2] + eps);
    if (weight)
      normal = normal * x[3];
    return bias ? normal + x.back() : normal;
  });
}

/// Statistics of the batch: over all dimensions but the channels.
static Results batchStatistics(OpContext &op, double eps) {
  Value input = op.tensor("input");
  std::vector<int64_t> axes{0};
  for (int64_t axis = 2; axis < Emit::rankOf(input); ++axis)
    axes.push_back(axis);
  Moments m = moments(op.emit, input, axes, /*correction=*/0);
  return {normaliseChannels(op, input, m.mean, m.variance, eps)};
}

static Results batchNorm(OpContext &op) {
  double eps = op.number("eps", 1e-5);
  bool training = op.flag("training", false);
  Value mean = op.optionalTensor("running_mean"), variance = op.optionalTensor("running_var");
  if (!training && mean && variance)
    return {normaliseChannels(op, op.tensor("input"), mean, variance, eps)};
  if (mean || variance)
    fail("batch norm updates its running statistics; call model.eval() before exporting");
  return batchStatistics(op, eps);
}

/// Statistics per sample and channel: a group norm with one channel a group.
static Results instanceNorm(OpContext &op) {
  Value input = op.tensor("input");
  double eps = op.number("eps", 1e-5);
  if (op.flag("use_input_stats", true))
    return {groupNormOf(op.emit, input, Emit::shapeOf(input)[1], op.optionalTensor("weight"), op.optionalTensor("bias"), eps,
                        op.resultElement())};
  return {normaliseChannels(op, input, op.tensor("running_mean"), op.tensor("running_var"), eps)};
}

//===-- Compositions ------------------------------------------------------------------------------===//

/// x1 . x2 with each divided by its length, or by eps where it is shorter.
static Results cosineSimilarity(OpContext &op) {
  Value x1 = op.tensor("x1"), x2 = op.tensor("x2");
  int64_t rank = std::max(Emit::rankOf(x1), Emit::rankOf(x2));
  int64_t dim = normaliseDim(op.integer("dim", 1), rank) - rank; // from the end: ranks may differ
  double eps = op.number("eps", 1e-8);
  Type wide = wideElement(op.emit, op.resultElement());
  auto lengthOf = [&](Value x) { return vectorNorm(op.emit, x, 2, {dim + Emit::rankOf(x)}); };
  Value products = elementwise(op.emit, {x1, lengthOf(x1), x2, lengthOf(x2)}, wide, wide,
                               [&](ArrayRef<Num> x) { return x[0] / max(x[1], eps) * (x[2] / max(x[3], eps)); });
  return {op.emit.reduce(dit::ReduceKind::Sum, products, {dim}, false, op.resultElement())};
}

/// v * (g / |v|), lengths over all dimensions but one; the second result is |v|.
static Results weightNorm(OpContext &op) {
  Value v = op.tensor("v"), g = op.tensor("g");
  int64_t dim = op.integer("dim", 0);
  std::vector<int64_t> axes;
  for (int64_t axis = 0; axis < Emit::rankOf(v); ++axis)
    if (dim == -1 || axis != normaliseDim(dim, Emit::rankOf(v)))
      axes.push_back(axis);
  Value length = vectorNorm(op.emit, v, 2, axes);
  Type wide = Emit::elementOf(length);
  Value result = elementwise(op.emit, {v, g, length}, wide, op.resultElement(), [](ArrayRef<Num> x) { return x[0] * (x[1] / x[2]); });
  if (op.resultCount() == 1)
    return {result};
  return {result, op.emit.cast(length, op.resultElement(1))};
}

std::vector<OpRow> atenNorms() {
  ElementwiseRows rows;
  rows.row({"aten.layer_norm.default", "aten.native_layer_norm.default"}, layerNorm);
  rows.row({"aten.rms_norm.default", "aten._fused_rms_norm.default"}, rmsNorm);
  rows.row({"aten.group_norm.default", "aten.native_group_norm.default"}, groupNorm);
  rows.row({"aten.batch_norm.default", "aten.native_batch_norm.default", "aten._native_batch_norm_legit_no_training.default",
            "aten._native_batch_norm_legit.default", "aten._native_batch_norm_legit_functional.default"},
           batchNorm);
  rows.row({"aten._native_batch_norm_legit.no_stats"}, batchNorm);
  rows.row({"aten.instance_norm.default"}, instanceNorm);
  rows.row({"aten.cosine_similarity.default"}, cosineSimilarity);
  rows.row({"aten._weight_norm_interface.default", "aten._weight_norm.default"}, weightNorm);
  return rows.take();
}

} // namespace ditc
