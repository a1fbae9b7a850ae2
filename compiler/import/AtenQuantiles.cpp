// SPDX-License-Identifier: Apache-2.0
//
// Quantiles and medians (dynamic thresholds of samplers), of all elements or of those that are numbers, and modes: elements of
// sorted lines, or what lies between two.
#include "compiler/import/AtenHelpers.h"
#include "compiler/import/Elementwise.h"
#include "compiler/import/Reductions.h"

#include "runtime/Error.h"

#include <cmath>

using namespace mlir;

namespace ditc {

using Results = std::vector<Value>;

namespace {

/// Lines of a tensor in order, from small to large, NaN last.
struct Lines {
  Value values, indices;
  int64_t dim, size;
};

} // namespace

/// Along a dimension, or of all elements where none is given.
static Lines sortedLines(OpContext &ctx, std::optional<int64_t> given) {
  Value self = ctx.tensor("self");
  if (!given || Emit::rankOf(self) == 0)
    self = ctx.emit.view(self, {Emit::typeOf(self).getNumElements()});
  int64_t dim = given ? normaliseDim(*given, Emit::rankOf(self)) : 0, size = Emit::shapeOf(self)[dim];
  if (size == 0)
    fail("has no elements along dimension {}", dim);
  auto sort = dit::SortOp::create(ctx.emit.builder(), self.getType(), Emit::typeOf(self).clone(ctx.emit.builder().getI64Type()), self, dim, /*descending=*/false);
  return {sort.getValues(), sort.getIndices(), dim, size};
}

static Value at(Emit &emit, Value lines, const Lines &of, int64_t place) { return emit.slice(lines, of.dim, place, place + 1); }

/// The element of `line`, which is the values or the indices, at a place that each line has of its own.
static Value pick(Emit &emit, Value line, const Lines &of, Value place) {
  Type element = Emit::elementOf(line), index = emit.builder().getI64Type();
  Value places = iota(emit, of.size, of.dim, Emit::rankOf(line));
  Value alone = elementwise(emit, {line, Operand(places, index), Operand(place, index)}, dit::computeType(element), element,
                            [](ArrayRef<Num> x) { return select(x[1] == x[2], x[0], x[0].constant(0.0)); });
  return emit.reduce(dit::ReduceKind::Sum, alone, {of.dim}, true, element);
}

/// How many elements of each line are numbers, as `element`.
static Value countNumbers(Emit &emit, const Lines &lines, Type element) {
  Value numbers = elementwise(emit, Operand(lines.values), dit::computeType(Emit::elementOf(lines.values)), emit.builder().getI1Type(),
                              [](ArrayRef<Num> x) { return x[0] == x[0]; });
  return emit.reduce(dit::ReduceKind::Sum, numbers, {lines.dim}, true, element);
}

//===-- Quantiles ---------------------------------------------------------------------------------===//

namespace {

/// What a quantile is between two elements of a line.
enum class Interpolation { Linear, Midpoint, Lower, Higher, Nearest };

Interpolation interpolationOf(OpContext &ctx) {
  std::string name = ctx.text("interpolation", "linear");
  for (auto [known, kind] : {std::pair("linear", Interpolation::Linear), std::pair("midpoint", Interpolation::Midpoint), std::pair("lower", Interpolation::Lower),
                             std::pair("higher", Interpolation::Higher), std::pair("nearest", Interpolation::Nearest)})
    if (name == known)
      return kind;
  fail("interpolation '{}' is not supported, only linear, midpoint, lower, higher and nearest", name);
}

} // namespace

/// A line with NaN gives NaN.
static Value quantile(OpContext &ctx, const Lines &lines, double q) {
  Interpolation interpolation = interpolationOf(ctx);
  bool isDouble = Emit::elementOf(lines.values).isF64();
  double rank = isDouble ? q * static_cast<double>(lines.size - 1) : static_cast<double>(static_cast<float>(q) * static_cast<float>(lines.size - 1));
  double low = std::floor(rank), rest = rank - low;
  if (interpolation == Interpolation::Lower)
    rest = 0;
  else if (interpolation == Interpolation::Higher)
    rest = std::ceil(rest);
  else if (interpolation == Interpolation::Nearest)
    rest = std::nearbyint(rank) - low;
  else if (interpolation == Interpolation::Midpoint && rest > 0)
    rest = 0.5;
  auto place = static_cast<int64_t>(low);
  Value below = at(ctx.emit, lines.values, lines, place), above = at(ctx.emit, lines.values, lines, std::min(place + 1, lines.size - 1));
  Value last = at(ctx.emit, lines.values, lines, lines.size - 1);
  return ctx.emit.map({below, above, last}, ctx.resultElement(), [&](ImplicitLocOpBuilder &body, ValueRange v) -> Value {
    Num a(body, v[0]), b(body, v[1]), end(body, v[2]);
    Num between = rest == 0 ? a : rest == 1 ? b : rest < 0.5 ? a + (b - a) * rest : b - (b - a) * (1 - rest);
    return select(isNan(end), end, between).value();
  });
}

/// Of the numbers of a line, which come first; NaN where there are none.
static Value quantileOfNumbers(OpContext &ctx, const Lines &lines, double q) {
  Emit &emit = ctx.emit;
  Interpolation interpolation = interpolationOf(ctx);
  Type element = Emit::elementOf(lines.values), index = emit.builder().getI64Type();
  Value rank = elementwise(emit, Operand(countNumbers(emit, lines, element)), element, element, [&](ArrayRef<Num> x) {
    Num exact = max(x[0] - 1.0, 0.0) * q;
    switch (interpolation) {
    case Interpolation::Lower: return floor(exact);
    case Interpolation::Higher: return apply<math::CeilOp>(exact);
    case Interpolation::Nearest: return roundEven(exact);
    default: return exact;
    }
  });
  auto beside = [&](Num (*rounded)(Num)) {
    Value place = elementwise(emit, Operand(rank), element, index, [&](ArrayRef<Num> x) { return rounded(x[0]); });
    return pick(emit, lines.values, lines, place);
  };
  return elementwise(emit, {beside(floor), beside(apply<math::CeilOp>), rank}, element, ctx.resultElement(), [&](ArrayRef<Num> x) {
    Num rest = x[2] - floor(x[2]), weight = interpolation == Interpolation::Midpoint ? x[2].constant(0.5) : rest, step = x[1] - x[0];
    return select(rest == 0.0, x[0], select(weight < x[2].constant(0.5), x[0] + step * weight, x[1] - step * (1.0 - weight)));
  });
}

using Quantile = Value (*)(OpContext &ctx, const Lines &lines, double q);

/// One result, or one for each of a list of known fractions, which come first.
static OpImport quantiles(Quantile quantileOf) {
  return [=](OpContext &ctx) -> Results {
    std::vector<double> fractions;
    bool isList = false;
    if (!ctx.isTensor("q")) {
      fractions = {ctx.scalar("q").number};
    } else if (std::optional<dit::TensorValue> known = ctx.constantTensor("q")) {
      isList = known->type.getRank() > 0;
      for (int64_t i = 0; i < known->type.getNumElements(); ++i)
        fractions.push_back(known->at(i));
    } else {
      fail("takes fractions that are data; make them constants");
    }
    Lines lines = sortedLines(ctx, ctx.optionalInteger("dim"));
    SmallVector<int64_t> shape(ctx.resultType().getShape());
    if (isList)
      shape[0] = 1;
    Results results;
    for (double q : fractions) {
      if (!(q >= 0 && q <= 1))
        fail("quantile {} is outside of 0 to 1", q);
      results.push_back(ctx.emit.view(quantileOf(ctx, lines, q), shape));
    }
    return {isList ? ctx.emit.concat(results, 0) : results.front()};
  };
}

//===-- Medians and modes -------------------------------------------------------------------------===//

/// Where each line has its first NaN, which follows its numbers; anything where it has none.
static Value firstNan(Emit &emit, const Lines &lines) {
  Type index = emit.builder().getI64Type();
  Value behind = elementwise(emit, Operand(countNumbers(emit, lines, index)), index, index,
                             [&](ArrayRef<Num> x) { return min(x[0], x[0].constant(static_cast<double>(lines.size - 1))); });
  return pick(emit, lines.indices, lines, behind);
}

/// The lower of the two in the middle. A line with NaN gives NaN, and where the first is.
static Results median(OpContext &ctx) {
  Lines lines = sortedLines(ctx, ctx.optionalInteger("dim"));
  int64_t middle = (lines.size - 1) / 2;
  Value value = at(ctx.emit, lines.values, lines, middle), last = at(ctx.emit, lines.values, lines, lines.size - 1);
  auto choose = [&](Value own, Value end) {
    return ctx.emit.map({last, own, end}, Emit::elementOf(own), [](ImplicitLocOpBuilder &body, ValueRange v) -> Value {
      Num largest(body, v[0]), x(body, v[1]), y(body, v[2]);
      return largest.isFloat() ? select(isNan(largest), y, x).value() : x.value();
    });
  };
  Results results{ctx.emit.view(choose(value, last), ctx.resultType().getShape())};
  if (ctx.resultCount() > 1) {
    Value index = at(ctx.emit, lines.indices, lines, middle);
    Value end = isa<FloatType>(Emit::elementOf(lines.values)) ? firstNan(ctx.emit, lines) : index;
    results.push_back(ctx.emit.view(choose(index, end), ctx.resultType(1).getShape()));
  }
  return results;
}

/// The lower of the two in the middle of a line's numbers; NaN where there are none.
static Results medianOfNumbers(OpContext &ctx) {
  Emit &emit = ctx.emit;
  Lines lines = sortedLines(ctx, ctx.optionalInteger("dim"));
  Type index = emit.builder().getI64Type();
  Value middle = elementwise(emit, Operand(countNumbers(emit, lines, index)), index, index,
                             [](ArrayRef<Num> x) { return (x[0] - 1.0) / 2.0; }); // 0 where there are none
  Results results{emit.view(pick(emit, lines.values, lines, middle), ctx.resultType().getShape())};
  if (ctx.resultCount() > 1)
    results.push_back(emit.view(pick(emit, lines.indices, lines, middle), ctx.resultType(1).getShape()));
  return results;
}

/// The smallest of the most frequent elements, and where it is last.
static Results mode(OpContext &ctx) {
  Emit &emit = ctx.emit;
  Lines lines = sortedLines(ctx, ctx.integer("dim", -1));
  Type index = emit.builder().getI64Type(), element = Emit::elementOf(lines.values);
  Value own = emit.unsqueeze(lines.values, lines.dim + 1), other = emit.unsqueeze(lines.values, lines.dim);
  Value equal = elementwise(emit, {own, other}, dit::computeType(element), emit.builder().getI1Type(), [](ArrayRef<Num> x) { return x[0] == x[1]; });
  Value counts = emit.reduce(dit::ReduceKind::Sum, equal, {lines.dim + 1}, false, index);
  Value most = emit.reduce(dit::ReduceKind::Max, counts, {lines.dim}, true, index);
  Value first = dit::ArgReduceOp::create(emit.builder(), most.getType(), counts, dit::ReduceKind::Max, lines.dim);
  Value last = elementwise(emit, {first, most}, index, index, [](ArrayRef<Num> x) { return x[0] + max(x[1], 1.0) - 1.0; }); // NaN counts 0
  return {emit.view(pick(emit, lines.values, lines, last), ctx.resultType(0).getShape()),
          emit.view(pick(emit, lines.indices, lines, last), ctx.resultType(1).getShape())};
}

std::vector<OpRow> quantileRows() {
  return {
      {"aten.quantile.scalar", quantiles(quantile)},
      {"aten.quantile.default", quantiles(quantile)},
      {"aten.nanquantile.scalar", quantiles(quantileOfNumbers)},
      {"aten.nanquantile.default", quantiles(quantileOfNumbers)},
      {"aten.median.default", median},
      {"aten.median.dim", median},
      {"aten.nanmedian.default", medianOfNumbers},
      {"aten.nanmedian.dim", medianOfNumbers},
      {"aten.mode.default", mode},
  };
}

} // namespace ditc
