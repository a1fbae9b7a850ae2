// SPDX-License-Identifier: Apache-2.0
//
// Element-wise ops of three operands: choices, bounds, interpolation, fused products.
#include "compiler/import/Elementwise.h"

using namespace mlir;

namespace ditc {

/// A map of the op's result type over the named operands, all of which are in that type.
static std::vector<Value> inResultType(OpContext &op, ArrayRef<Operand> operands, const NumBody &body) {
  Type element = op.resultElement();
  return {elementwise(op.emit, operands, dit::computeType(element), element, body)};
}

static std::vector<Value> where(OpContext &op) {
  return inResultType(op, {conditionOf(op, "condition"), operandOf(op, "self"), operandOf(op, "other")},
                      [](ArrayRef<Num> x) { return select(x[0].toBool(), x[1], x[2]); });
}

static std::vector<Value> maskedFill(OpContext &op) {
  return inResultType(op, {conditionOf(op, "mask"), operandOf(op, "value"), operandOf(op, "self")},
                      [](ArrayRef<Num> x) { return select(x[0].toBool(), x[1], x[2]); });
}

/// Bounds are rounded to the type of the tensor; NaN stays, and an upper bound below the lower one wins.
static std::vector<Value> clamp(OpContext &op) {
  Type element = op.resultElement();
  SmallVector<Operand> operands{roundedTo(op.emit, operandOf(op, "self"), element)};
  std::optional<Operand> low = optionalOperand(op, "min"), high = optionalOperand(op, "max");
  for (const std::optional<Operand> &bound : {low, high})
    if (bound)
      operands.push_back(roundedTo(op.emit, *bound, element));
  return inResultType(op, operands, [&](ArrayRef<Num> x) {
    Num result = low ? max(x[0], x[1]) : x[0];
    return high ? min(result, x.back()) : result;
  });
}

/// torch takes the formula that is exact at the nearer end.
static std::vector<Value> lerp(OpContext &op) {
  return inResultType(op, {operandOf(op, "self"), operandOf(op, "end"), operandOf(op, "weight")}, [](ArrayRef<Num> x) {
    Num start = x[0], end = x[1], weight = x[2], difference = end - start;
    return select(abs(weight) < 0.5, start + weight * difference, end - difference * (1.0 - weight));
  });
}

static std::vector<Value> addProduct(OpContext &op) {
  Scalar factor = op.scalar("value", Scalar::of(int64_t{1}));
  return inResultType(op, {operandOf(op, "self"), operandOf(op, "tensor1"), operandOf(op, "tensor2")},
                      [&](ArrayRef<Num> x) { return x[0] + (factor.number == 1 ? x[1] : x[1].constant(factor) * x[1]) * x[2]; });
}

static std::vector<Value> addQuotient(OpContext &op) {
  Scalar factor = op.scalar("value", Scalar::of(int64_t{1}));
  return inResultType(op, {operandOf(op, "self"), operandOf(op, "tensor1"), operandOf(op, "tensor2")},
                      [&](ArrayRef<Num> x) { return x[0] + (factor.number == 1 ? x[1] : x[1].constant(factor) * x[1]) / x[2]; });
}

void addTernaryRows(ElementwiseRows &rows) {
  rows.row({"aten.where.self", "aten.where.Scalar", "aten.where.ScalarSelf", "aten.where.ScalarOther"}, where);
  rows.row({"aten.masked_fill.Scalar", "aten.masked_fill.Tensor"}, maskedFill);
  rows.row({"aten.clamp.default", "aten.clamp.Tensor", "aten.clamp_min.default", "aten.clamp_min.Tensor", "aten.clamp_max.default",
            "aten.clamp_max.Tensor", "aten.clip.default", "aten.clip.Tensor"},
           clamp);
  rows.row({"aten.lerp.Scalar", "aten.lerp.Tensor"}, lerp);
  rows.row({"aten.addcmul.default"}, addProduct);
  rows.row({"aten.addcdiv.default"}, addQuotient);
}

} // namespace ditc
