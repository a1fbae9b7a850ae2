// SPDX-License-Identifier: Apache-2.0
//
// Element-wise gathers and scatters: an index tensor replaces one coordinate of each element. Tensors are
// flattened, and positions computed, so that dit.gather and dit.scatter can do the work.
#include "compiler/import/AtenHelpers.h"

#include "runtime/Error.h"

using namespace mlir;

namespace ditc {

using Results = std::vector<Value>;

/// For each element of `index`: where, in the flattened tensor of the given sizes, index replaces the
/// coordinate `dim`.
static Value flatPositions(OpContext &ctx, Value index, ArrayRef<int64_t> sizes, int64_t dim) {
  int64_t rank = Emit::rankOf(index), stride = 1;
  SmallVector<Value> operands{index};
  SmallVector<int64_t> strides{1};
  for (int64_t i = rank; i-- > 0; stride *= sizes[i]) {
    if (i == dim)
      strides[0] = stride;
    else if (Emit::shapeOf(index)[i] > 1) {
      operands.push_back(iota(ctx.emit, Emit::shapeOf(index)[i], i, rank));
      strides.push_back(stride);
    }
  }
  return ctx.emit.map(
      operands, ctx.emit.builder().getI64Type(), [&](ImplicitLocOpBuilder &body, ValueRange v) -> Value {
        Value sum;
        for (auto [coordinate, factor] : llvm::zip(v, strides)) {
          Value term = factor == 1
                           ? Value(coordinate)
                           : Value(arith::MulIOp::create(body, coordinate,
                                                         Emit::scalar(body, coordinate.getType(), Scalar::of(factor))));
          sum = sum ? Value(arith::AddIOp::create(body, sum, term)) : term;
        }
        return sum;
      });
}

/// The elements that torch counts as one dimension; parts of complex numbers stay behind.
static Value flattened(OpContext &ctx, std::string_view name, Value value) {
  return mergeDims(ctx.emit, value, 0, torchRank(ctx, name, value));
}

static Value gatherAlong(OpContext &ctx, Value self, Value index, int64_t dim) {
  int64_t rank = torchRank(ctx, "self", self);
  if (rank == 0)
    return ctx.emit.view(self, ctx.resultType().getShape());
  Value positions = flatPositions(ctx, index, Emit::shapeOf(self).take_front(rank), dim);
  return ctx.emit.gather(flattened(ctx, "self", self), positions, 0);
}

static Results gather(OpContext &ctx) {
  Value self = ctx.tensor("self");
  return {gatherAlong(ctx, self, ctx.tensor("index"), dimArgument(ctx, "dim", 0, torchRank(ctx, "self", self)))};
}

static Results take(OpContext &ctx) {
  Value self = flattened(ctx, "self", ctx.tensor("self"));
  return {ctx.emit.gather(self, wrapIndex(ctx, ctx.tensor("index"), Emit::shapeOf(self)[0]), 0)};
}

static Results takeAlongDim(OpContext &ctx) {
  Value self = ctx.tensor("self"), indices = ctx.tensor("indices");
  if (!ctx.has("dim"))
    return {ctx.emit.gather(flattened(ctx, "self", self),
                            ctx.emit.view(indices, {Emit::typeOf(indices).getNumElements()}), 0)};
  int64_t rank = torchRank(ctx, "self", self), dim = dimArgument(ctx, "dim", 0, rank);
  SmallVector<int64_t> selfShape(Emit::shapeOf(self)), indexShape(Emit::shapeOf(indices));
  for (int64_t i = 0; i < rank; ++i)
    if (i != dim)
      selfShape[i] = indexShape[i] = std::max(selfShape[i], indexShape[i]);
  return {gatherAlong(ctx, ctx.emit.expand(self, selfShape), ctx.emit.expand(indices, indexShape), dim)};
}

//===-- Scatters ----------------------------------------------------------------------------------===//

/// What is written: src cut to the shape of index, or a number.
static Value updatesFor(OpContext &ctx, Value self, Value index) {
  int64_t rank = torchRank(ctx, "self", self);
  if (!ctx.isTensor("src")) {
    SmallVector<int64_t> shape(Emit::shapeOf(index));
    shape.append(Emit::rankOf(self) - rank, 2);
    return ctx.emit.full(shape, ctx.resultElement(), ctx.scalar("value"));
  }
  Value updates = ctx.emit.cast(ctx.tensor("src"), ctx.resultElement());
  for (int64_t i = 0; i < rank; ++i)
    updates = ctx.emit.slice(updates, i, 0, Emit::shapeOf(index)[i]);
  return updates;
}

static Value scatterAlong(OpContext &ctx, bool add) {
  Value self = ctx.tensor("self"), index = ctx.tensor("index");
  int64_t rank = torchRank(ctx, "self", self), dim = dimArgument(ctx, "dim", 0, rank);
  Value updates = updatesFor(ctx, self, index);
  if (Emit::typeOf(index).getNumElements() == 0)
    return self;
  Value positions = flatPositions(ctx, index, Emit::shapeOf(self).take_front(rank), dim);
  positions = ctx.emit.view(positions, {Emit::typeOf(positions).getNumElements()});
  Value written = ctx.emit.scatter(flattened(ctx, "self", self), positions, mergeDims(ctx.emit, updates, 0, rank), add);
  return ctx.emit.view(written, Emit::shapeOf(self));
}

static dit::ReduceKind reductionOf(std::string_view name) {
  if (name == "add" || name == "sum" || name == "mean")
    return dit::ReduceKind::Sum;
  if (name == "multiply" || name == "prod")
    return dit::ReduceKind::Prod;
  if (name == "amax" || name == "amin")
    return name == "amax" ? dit::ReduceKind::Max : dit::ReduceKind::Min;
  fail("scatter with reduction '{}' is not supported", name);
}

/// The number that changes nothing in a reduction to `element`.
static Scalar identityOf(dit::ReduceKind kind, Type element) {
  TypedAttr identity = dit::reductionIdentity(kind, dit::computeType(element));
  if (auto number = dyn_cast<FloatAttr>(identity))
    return Scalar::of(number.getValueAsDouble());
  return Scalar::of(cast<IntegerAttr>(identity).getInt());
}

/// `values` where `hits` is set, reduced over the dimension behind `dim`, which goes.
static Value reduceHits(Emit &emit, Value hits, Value values, dit::ReduceKind kind, int64_t dim) {
  Type element = Emit::elementOf(values);
  Scalar identity = identityOf(kind, element);
  Value chosen = emit.map({hits, values}, element, [&](ImplicitLocOpBuilder &body, ValueRange v) -> Value {
    return arith::SelectOp::create(body, v[0], v[1], Emit::scalar(body, v[1].getType(), identity));
  });
  return emit.reduce(kind, chosen, {dim + 1}, /*keepDims=*/false, element);
}

/// Every reduction but a plain sum: all pairs of place and update are compared. Costly, and rare.
static Value scatterReduced(OpContext &ctx, const std::string &name) {
  Emit &emit = ctx.emit;
  Value self = ctx.tensor("self"), index = ctx.tensor("index"), updates = updatesFor(ctx, self, index);
  int64_t rank = Emit::rankOf(self), dim = dimArgument(ctx, "dim", 0, rank);
  SmallVector<int64_t> low(rank, 0), high(rank, 0);
  for (int64_t i = 0; i < rank; ++i)
    high[i] = i == dim ? 0 : Emit::shapeOf(self)[i] - Emit::shapeOf(index)[i];
  index = emit.unsqueeze(emit.pad(index, low, high, Scalar::of(int64_t{-1})), dim);
  updates = emit.unsqueeze(emit.pad(updates, low, high, Scalar::of(int64_t{0})), dim);
  Value places = iota(emit, Emit::shapeOf(self)[dim], dim, rank + 1);
  Value hits =
      emit.map({index, places}, emit.builder().getI1Type(), [](ImplicitLocOpBuilder &body, ValueRange v) -> Value {
        return arith::CmpIOp::create(body, arith::CmpIPredicate::eq, v[0], v[1]);
      });
  dit::ReduceKind kind = reductionOf(name);
  Type element = ctx.resultElement();
  Value reduced = reduceHits(emit, hits, updates, kind, dim),
        count = emit.reduce(dit::ReduceKind::Sum, hits, {dim + 1}, /*keepDims=*/false, element);
  if (ctx.flag("include_self", true)) {
    SmallVector<Value> pair{emit.unsqueeze(self, dim), emit.unsqueeze(reduced, dim)};
    reduced = emit.reduce(kind, emit.concat(pair, dim), {dim}, /*keepDims=*/false, element);
    count = emit.add(count, emit.full({}, element, Scalar::of(int64_t{1})), element);
  }
  if (name == "mean")
    reduced = emit.div(reduced, count, element);
  return emit.map({count, reduced, self}, element, [](ImplicitLocOpBuilder &body, ValueRange v) -> Value {
    return arith::SelectOp::create(body, Emit::convert(body, v[0], body.getI1Type()), v[1], v[2]);
  });
}

static Results scatter(OpContext &ctx) { return {scatterAlong(ctx, /*add=*/false)}; }
static Results scatterAdd(OpContext &ctx) { return {scatterAlong(ctx, /*add=*/true)}; }

static Results scatterReduce(OpContext &ctx) {
  std::string name = ctx.text("reduce", "");
  bool plainSum = (name == "sum" || name == "add") && ctx.flag("include_self", true);
  return {plainSum ? scatterAlong(ctx, /*add=*/true) : scatterReduced(ctx, name)};
}

static Results put(OpContext &ctx) {
  Value self = ctx.tensor("self"), flat = flattened(ctx, "self", self);
  Value index = mergeDims(ctx.emit, ctx.tensor("index"), 0, Emit::rankOf(ctx.tensor("index")));
  Value source = ctx.emit.cast(ctx.tensor("source"), ctx.resultElement());
  source = ctx.emit.view(source, {Emit::typeOf(source).getNumElements()});
  Value written =
      ctx.emit.scatter(flat, wrapIndex(ctx, index, Emit::shapeOf(flat)[0]), source, ctx.flag("accumulate", false));
  return {ctx.emit.view(written, Emit::shapeOf(self))};
}

std::vector<OpRow> atenScatter() {
  using enum Aliasing;
  return {
      {"aten.gather.default", gather, Fresh, true},
      {"aten.take.default", take, Fresh, true},
      {"aten.take_along_dim.default", takeAlongDim, Fresh, true},
      {"aten.scatter.src", scatter, Fresh, true},
      {"aten.scatter.value", scatter},
      {"aten.scatter.reduce", scatterReduce},
      {"aten.scatter.value_reduce", scatterReduce},
      {"aten.scatter_reduce.two", scatterReduce},
      {"aten.scatter_add.default", scatterAdd, Fresh, true},
      {"aten.put.default", put},
  };
}

} // namespace ditc
