// SPDX-License-Identifier: Apache-2.0
//
// Ops that give bools: comparisons and logic.
#include "compiler/import/Elementwise.h"

using namespace mlir;

namespace ditc {

/// |x - y| <= atol + rtol |y|; equal infinities are close, NaN is close to NaN only on demand.
static std::vector<Value> isClose(OpContext &op) {
  Operand self = operandOf(op, "self"), other = operandOf(op, "other");
  double relative = op.number("rtol", 1e-5), absolute = op.number("atol", 1e-8);
  bool equalNan = op.flag("equal_nan", false);
  Type compute = dit::computeType(promotedType(op.emit, {self, other}));
  Type wide = isa<FloatType>(compute) ? compute : Type(op.emit.builder().getF64Type());
  return {elementwise(op.emit, {self, other}, wide, op.resultElement(), [&](ArrayRef<Num> n) {
    Num x = n[0], y = n[1], distance = abs(x - y);
    Num close = (x == y) | ((distance < HUGE_VAL) & (distance <= abs(y * relative) + absolute));
    return equalNan ? close | (isNan(x) & isNan(y)) : close;
  })};
}

void addComparisonRows(ElementwiseRows &rows) {
  rows.compare({"aten.eq.Tensor", "aten.eq.Scalar"}, [](Num x, Num y) { return x == y; });
  rows.compare({"aten.ne.Tensor", "aten.ne.Scalar", "aten.not_equal.Tensor", "aten.not_equal.Scalar"}, [](Num x, Num y) { return x != y; });
  rows.compare({"aten.lt.Tensor", "aten.lt.Scalar", "aten.less.Tensor", "aten.less.Scalar"}, [](Num x, Num y) { return x < y; });
  rows.compare({"aten.le.Tensor", "aten.le.Scalar", "aten.less_equal.Tensor", "aten.less_equal.Scalar"},
               [](Num x, Num y) { return x <= y; });
  rows.compare({"aten.gt.Tensor", "aten.gt.Scalar", "aten.greater.Tensor", "aten.greater.Scalar"}, [](Num x, Num y) { return x > y; });
  rows.compare({"aten.ge.Tensor", "aten.ge.Scalar", "aten.greater_equal.Tensor", "aten.greater_equal.Scalar"},
               [](Num x, Num y) { return x >= y; });
  rows.compare({"aten.logical_and.default"}, [](Num x, Num y) { return x.toBool() & y.toBool(); });
  rows.compare({"aten.logical_or.default"}, [](Num x, Num y) { return x.toBool() | y.toBool(); });
  rows.compare({"aten.logical_xor.default"}, [](Num x, Num y) { return x.toBool() ^ y.toBool(); });
  rows.row({"aten.isclose.default"}, isClose);
}

} // namespace ditc
