// SPDX-License-Identifier: Apache-2.0
//
// Quantiles and medians (dynamic thresholds of samplers): elements of a sorted line, or what lies between two.
#include "compiler/import/AtenHelpers.h"
#include "compiler/import/Num.h"
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

/// Along `dim`, or of all elements where the node names no dimension.
static Lines sortedLines(OpContext &ctx, Value self) {
  std::optional<int64_t> given = ctx.optionalInteger("dim");
  if (!given || Emit::rankOf(self) == 0)
    self = ctx.emit.view(self, {Emit::typeOf(self).getNumElements()});
  int64_t dim = given ? normaliseDim(*given, Emit::rankOf(self)) : 0, size = Emit::shapeOf(self)[dim];
  if (size == 0)
    fail("has no elements along dimension {}", dim);
  auto sort = dit::SortOp::create(ctx.emit.builder(), self.getType(), Emit::typeOf(self).clone(ctx.emit.builder().getI64Type()), self, dim, /*descending=*/false);
  return {sort.getValues(), sort.getIndices(), dim, size};
}

static Value at(Emit &emit, Value lines, const Lines &of, int64_t place) { return emit.slice(lines, of.dim, place, place + 1); }

/// A line with NaN gives NaN.
static Value quantile(OpContext &ctx, const Lines &lines, double q) {
  if (!(q >= 0 && q <= 1))
    fail("quantile {} is outside of 0 to 1", q);
  std::string interpolation = ctx.text("interpolation", "linear");
  bool isDouble = Emit::elementOf(lines.values).isF64();
  double rank = isDouble ? q * static_cast<double>(lines.size - 1) : static_cast<double>(static_cast<float>(q) * static_cast<float>(lines.size - 1));
  double low = std::floor(rank), rest = rank - low;
  if (interpolation != "linear" && interpolation != "midpoint")
    rest = interpolation == "lower" ? 0 : interpolation == "higher" ? std::ceil(rest) : interpolation == "nearest" ? std::nearbyint(rank) - low : -1;
  else if (interpolation == "midpoint" && rest > 0)
    rest = 0.5;
  if (rest < 0)
    fail("interpolation '{}' is not supported", interpolation);
  auto place = static_cast<int64_t>(low);
  Value below = at(ctx.emit, lines.values, lines, place), above = at(ctx.emit, lines.values, lines, std::min(place + 1, lines.size - 1));
  Value last = at(ctx.emit, lines.values, lines, lines.size - 1);
  return ctx.emit.map({below, above, last}, ctx.resultElement(), [&](ImplicitLocOpBuilder &body, ValueRange v) -> Value {
    Num a(body, v[0]), b(body, v[1]), end(body, v[2]);
    Num between = rest == 0 ? a : rest == 1 ? b : rest < 0.5 ? a + (b - a) * rest : b - (b - a) * (1 - rest);
    return select(isNan(end), end, between).value();
  });
}

static Results quantileOfNumber(OpContext &ctx) {
  Lines lines = sortedLines(ctx, ctx.tensor("self"));
  return {ctx.emit.view(quantile(ctx, lines, ctx.scalar("q").number), ctx.resultType().getShape())};
}

/// One result for each of a list of known fractions, which come first.
static Results quantileOfTensor(OpContext &ctx) {
  std::optional<dit::TensorValue> fractions = ctx.constantTensor("q");
  if (!fractions)
    fail("takes fractions that are data; make them constants");
  Lines lines = sortedLines(ctx, ctx.tensor("self"));
  SmallVector<int64_t> shape(ctx.resultType().getShape());
  if (fractions->type.getRank() > 0)
    shape[0] = 1;
  SmallVector<Value> results;
  for (int64_t i = 0; i < fractions->type.getNumElements(); ++i)
    results.push_back(ctx.emit.view(quantile(ctx, lines, fractions->at(i)), shape));
  return {fractions->type.getRank() == 0 ? results.front() : ctx.emit.concat(results, 0)};
}

/// The lower of the two in the middle. A line with NaN gives NaN, and where it is.
static Results median(OpContext &ctx) {
  Lines lines = sortedLines(ctx, ctx.tensor("self"));
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
    Value index = at(ctx.emit, lines.indices, lines, middle), end = at(ctx.emit, lines.indices, lines, lines.size - 1);
    results.push_back(ctx.emit.view(choose(index, end), ctx.resultType(1).getShape()));
  }
  return results;
}

std::vector<OpRow> quantileRows() {
  return {
      {"aten.quantile.scalar", quantileOfNumber},
      {"aten.quantile.default", quantileOfTensor},
      {"aten.median.default", median},
      {"aten.median.dim", median},
  };
}

} // namespace ditc
