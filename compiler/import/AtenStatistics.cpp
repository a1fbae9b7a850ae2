// SPDX-License-Identifier: Apache-2.0
//
// Sums that skip NaN, histograms, running log-sums, lengths that are held below a limit, distances of the rows of one matrix.
#include "compiler/import/AtenHelpers.h"
#include "compiler/import/Elementwise.h"
#include "compiler/import/Reductions.h"

#include <cmath>

using namespace mlir;

namespace ditc {

using Results = std::vector<Value>;

/// The sum over `axes` of what is a number.
static Value sumOfNumbers(OpContext &op, ArrayRef<int64_t> axes, Type element) {
  Value self = op.tensor("self");
  Value numbers = elementwise(op.emit, Operand(self), dit::computeType(element), element,
                              [](ArrayRef<Num> x) { return x[0].isFloat() ? select(isNan(x[0]), x[0].constant(0.0), x[0]) : x[0]; });
  return op.emit.reduce(dit::ReduceKind::Sum, numbers, axes, op.flag("keepdim", false), element);
}

static Results nanSum(OpContext &op) {
  return {sumOfNumbers(op, axesOf(op, "dim", Emit::rankOf(op.tensor("self"))), op.resultElement())};
}

/// NaN where there is no number.
static Results nanMean(OpContext &op) {
  Value self = op.tensor("self");
  std::vector<int64_t> axes = axesOf(op, "dim", Emit::rankOf(self));
  Type element = op.resultElement(), wide = wideElement(op.emit, element);
  Value isNumber = elementwise(op.emit, Operand(self), dit::computeType(Emit::elementOf(self)), op.emit.builder().getI1Type(),
                               [](ArrayRef<Num> x) { return x[0] == x[0]; });
  Value count = op.emit.reduce(dit::ReduceKind::Sum, isNumber, axes, op.flag("keepdim", false), wide);
  return {op.emit.div(sumOfNumbers(op, axes, wide), count, element)};
}

/// log(sum(exp(x))) of each element and those before it, by steps that double.
static Results runningLogSumExp(OpContext &op) {
  Emit &emit = op.emit;
  Type element = op.resultElement(), wide = wideElement(emit, element);
  Value sums = emit.cast(op.tensor("self"), wide);
  if (Emit::rankOf(sums) == 0)
    return {emit.cast(sums, element)};
  int64_t dim = normaliseDim(op.integer("dim"), Emit::rankOf(sums)), size = Emit::shapeOf(sums)[dim];
  SmallVector<int64_t> low(Emit::rankOf(sums), 0), none(low);
  for (int64_t step = 1; step < size; step *= 2) {
    low[dim] = step;
    Value earlier = emit.pad(emit.slice(sums, dim, 0, size - step), low, none, Scalar::of(-HUGE_VAL));
    sums = elementwise(emit, {sums, earlier}, wide, wide, [](ArrayRef<Num> x) { return logAddExp(x[0], x[1]); });
  }
  return {emit.cast(sums, element)};
}

/// How many elements lie in each of `bins` equal parts of a range, whose end is in the last; the range is that of the elements
/// where none is given.
static Results histogram(OpContext &op) {
  Emit &emit = op.emit;
  int64_t bins = op.integer("bins", 100);
  double given[2] = {op.scalar("min", Scalar::of(0.0)).number, op.scalar("max", Scalar::of(0.0)).number};
  Type element = op.resultElement(), wide = wideElement(emit, element);
  Value values = emit.cast(emit.view(op.tensor("self"), {Emit::typeOf(op.tensor("self")).getNumElements()}), wide);
  auto end = [&](dit::ReduceKind kind, double number) {
    return given[0] == given[1] ? emit.reduce(kind, values, {0}, false, wide) : emit.full({}, wide, Scalar::of(number));
  };
  Value low = end(dit::ReduceKind::Min, given[0]), high = end(dit::ReduceKind::Max, given[1]);
  SmallVector<Operand> operands{emit.unsqueeze(values, 0), Operand(iota(emit, bins, 0, 2), wide), low, high};
  Value isIn = elementwise(emit, operands, wide, emit.builder().getI1Type(), [&](ArrayRef<Num> x) {
    Num isPoint = x[2] == x[3], from = select(isPoint, x[2] - 1.0, x[2]), to = select(isPoint, x[3] + 1.0, x[3]);
    Num bin = min(floor((x[0] - from) * static_cast<double>(bins) / (to - from)), static_cast<double>(bins - 1));
    return (x[0] >= from) & (x[0] <= to) & (bin == x[1]);
  });
  return {emit.reduce(dit::ReduceKind::Sum, isIn, {1}, false, element)};
}

/// Slices along a dimension, each scaled down to `maxnorm` where its norm is larger.
static Results renormalise(OpContext &op) {
  Value self = op.tensor("self");
  int64_t dim = normaliseDim(op.integer("dim"), Emit::rankOf(self));
  std::vector<int64_t> axes;
  for (int64_t axis = 0; axis < Emit::rankOf(self); ++axis)
    if (axis != dim)
      axes.push_back(axis);
  double most = op.scalar("maxnorm").number;
  Value length = vectorNorm(op.emit, self, op.scalar("p").number, axes);
  return {elementwise(op.emit, {self, length}, Emit::elementOf(length), op.resultElement(),
                      [&](ArrayRef<Num> x) { return select(x[1] > most, x[0] * (most / (x[1] + 1e-7)), x[0]); })};
}

/// Norms of the differences of each row and those behind it.
static Results rowDistances(OpContext &op) {
  Emit &emit = op.emit;
  Value self = op.tensor("self");
  int64_t rows = Emit::shapeOf(self)[0];
  tableSize(rows * (rows - 1) / 2);
  std::vector<int64_t> first, second;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = i + 1; k < rows; ++k)
      first.push_back(i), second.push_back(k);
  Value difference = emit.sub(emit.gather(self, first, 0), emit.gather(self, second, 0), wideElement(emit, op.resultElement()));
  Value lengths = emit.cast(vectorNorm(emit, difference, op.number("p", 2), {1}), op.resultElement());
  return {dropAxes(emit, lengths, {1}, false)};
}

std::vector<OpRow> statisticsRows() {
  ElementwiseRows rows;
  rows.row({"aten.nansum.default"}, nanSum);
  rows.row({"aten.nanmean.default"}, nanMean);
  rows.row({"aten.logcumsumexp.default"}, runningLogSumExp);
  rows.row({"aten.histc.default"}, histogram);
  rows.row({"aten.renorm.default"}, renormalise);
  rows.row({"aten.pdist.default", "aten._pdist_forward.default"}, rowDistances);
  return rows.take();
}

} // namespace ditc
