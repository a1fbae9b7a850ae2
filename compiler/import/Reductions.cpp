// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/Reductions.h"

#include "compiler/import/Elementwise.h"

#include <cmath>

using namespace mlir;

namespace ditc {

std::vector<int64_t> axesOf(const OpContext &op, std::string_view name, int64_t rank) {
  std::vector<int64_t> axes = op.integers(name, {});
  for (int64_t &axis : axes)
    axis = normaliseDim(axis, rank);
  if (axes.empty())
    for (int64_t axis = 0; axis < rank; ++axis)
      axes.push_back(axis);
  if (rank == 0)
    axes.clear(); // torch allows dim 0 and -1 of a scalar
  return axes;
}

Type wideElement(Emit &emit, Type element) { return element.isF64() ? element : Type(emit.builder().getF32Type()); }

static int64_t countOf(Value value, ArrayRef<int64_t> axes) {
  int64_t count = 1;
  for (int64_t axis : axes)
    count *= Emit::shapeOf(value)[axis];
  return count;
}

/// A reduction that keeps its axes. Emit reads no axes as all axes; here they mean none.
static Value reduceKept(Emit &emit, dit::ReduceKind kind, Value value, ArrayRef<int64_t> axes, Type element) {
  return axes.empty() ? emit.cast(value, element) : emit.reduce(kind, value, axes, /*keepDims=*/true, element);
}

static Value mapOne(Emit &emit, Value value, Type element, function_ref<Num(Num)> f) {
  return elementwise(emit, Operand(value), dit::computeType(element), element, [&](ArrayRef<Num> x) { return f(x[0]); });
}

Moments moments(Emit &emit, Value input, ArrayRef<int64_t> axes, double correction) {
  Type wide = wideElement(emit, Emit::elementOf(input));
  Moments result;
  result.mean = reduceKept(emit, dit::ReduceKind::Mean, input, axes, wide);
  result.centered = emit.sub(input, result.mean, wide);
  Value squares = mapOne(emit, result.centered, wide, [](Num x) { return x * x; });
  Value sum = reduceKept(emit, dit::ReduceKind::Sum, squares, axes, wide);
  double divisor = std::max(0.0, static_cast<double>(countOf(input, axes)) - correction);
  result.variance = mapOne(emit, sum, wide, [&](Num x) { return x / divisor; });
  return result;
}

Value vectorNorm(Emit &emit, Value input, double p, ArrayRef<int64_t> axes) {
  Type wide = wideElement(emit, Emit::elementOf(input));
  auto reduced = [&](dit::ReduceKind kind, function_ref<Num(Num)> f) {
    return reduceKept(emit, kind, mapOne(emit, input, wide, f), axes, wide);
  };
  if (p == 2)
    return mapOne(emit, reduced(dit::ReduceKind::Sum, [](Num x) { return x * x; }), wide, [](Num x) { return sqrt(x); });
  if (p == 1)
    return reduced(dit::ReduceKind::Sum, [](Num x) { return abs(x); });
  if (p == 0)
    return reduced(dit::ReduceKind::Sum, [](Num x) { return select(x != 0.0, x.constant(1.0), x.constant(0.0)); });
  if (std::isinf(p))
    return reduced(p > 0 ? dit::ReduceKind::Max : dit::ReduceKind::Min, [](Num x) { return abs(x); });
  Value sum = reduced(dit::ReduceKind::Sum, [&](Num x) { return pow(abs(x), x.constant(p)); });
  return mapOne(emit, sum, wide, [&](Num x) { return pow(x, x.constant(1 / p)); });
}

Value dropAxes(Emit &emit, Value value, ArrayRef<int64_t> axes, bool keep) {
  if (keep)
    return value;
  SmallVector<int64_t> shape;
  for (auto [i, size] : llvm::enumerate(Emit::shapeOf(value)))
    if (!llvm::is_contained(axes, static_cast<int64_t>(i)))
      shape.push_back(size);
  return emit.view(value, shape);
}

} // namespace ditc
