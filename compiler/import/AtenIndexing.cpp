// SPDX-License-Identifier: Apache-2.0
//
// x[i, :, j], embeddings, rows by index. Access along one dimension is dit.gather or dit.scatter; several
// indexed dimensions are merged into one first. Element-wise gathers and scatters are in AtenScatter.cpp.
#include "compiler/import/AtenHelpers.h"

#include "runtime/Error.h"

using namespace mlir;

namespace ditc {

using Results = std::vector<Value>;

//===-- x[i, :, j] --------------------------------------------------------------------------------===//

namespace {

/// One index tensor and the dimension that it indexes.
struct Index {
  int64_t dim;
  Value positions;
};

/// An indexed tensor rearranged so that one dimension, `axis`, is all that the indices choose from.
struct Indexing {
  SmallVector<Index> indices;
  SmallVector<int64_t> order; ///< permutation of the tensor's dimensions; the indexed ones are consecutive in it
  int64_t axis = 0;           ///< where the indexed dimensions start in `order`
  bool adjacent = true;       ///< result dimensions of the index stay in place; else they come first
};

} // namespace

/// Positions of the ones of a constant boolean index, one list per dimension of the mask.
static void appendMask(OpContext &ctx, const dit::TensorValue &mask, int64_t dim, SmallVectorImpl<Index> &indices) {
  ArrayRef<int64_t> shape = mask.type.getShape();
  std::vector<std::vector<int64_t>> positions(shape.size());
  for (int64_t i = 0; i < mask.type.getNumElements(); ++i) {
    if (mask.at(i) == 0)
      continue;
    int64_t rest = i;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d])
      positions[d].push_back(rest % shape[d]);
  }
  for (size_t d = 0; d < shape.size(); ++d)
    indices.push_back(
        {dim + static_cast<int64_t>(d), ctx.emit.integers({static_cast<int64_t>(positions[d].size())}, positions[d])});
}

static bool isMask(Value index) {
  return Emit::elementOf(index).isInteger(1) || Emit::elementOf(index).isUnsignedInteger(8);
}

static Indexing indexingOf(OpContext &ctx, Value self) {
  Indexing result;
  int64_t dim = 0;
  for (Value index : ctx.optionalTensors("indices")) {
    if (!index) {
      ++dim;
    } else if (isMask(index)) {
      std::optional<dit::TensorValue> mask = ctx.constantValue(index);
      if (!mask)
        fail("a boolean index makes a size depend on data; use where or a multiplication by the mask");
      appendMask(ctx, *mask, dim, result.indices);
      dim += Emit::rankOf(index);
    } else {
      result.indices.push_back({dim++, index});
    }
  }
  if (result.indices.empty() || dim > torchRank(ctx, "self", self))
    fail("has {} indices for a tensor of rank {}", dim, torchRank(ctx, "self", self));
  for (size_t i = 1; i < result.indices.size(); ++i)
    result.adjacent &= result.indices[i].dim == result.indices[i - 1].dim + 1;
  SmallVector<int64_t> indexed, rest;
  for (const Index &index : result.indices)
    indexed.push_back(index.dim);
  for (int64_t i = 0; i < Emit::rankOf(self); ++i)
    if (!llvm::is_contained(indexed, i))
      rest.push_back(i);
  result.axis = result.adjacent ? indexed[0] : 0;
  result.order.append(rest.begin(), rest.begin() + result.axis);
  llvm::append_range(result.order, indexed);
  result.order.append(rest.begin() + result.axis, rest.end());
  return result;
}

Value mergeDims(Emit &emit, Value value, int64_t first, int64_t count) {
  SmallVector<int64_t> shape(Emit::shapeOf(value));
  int64_t size = 1;
  for (int64_t extent : ArrayRef(shape).slice(first, count))
    size *= extent;
  shape.erase(shape.begin() + first, shape.begin() + first + count);
  shape.insert(shape.begin() + first, size);
  return emit.view(value, shape);
}

Value wrapIndex(OpContext &ctx, Value index, int64_t size) {
  std::optional<dit::TensorValue> known = ctx.constantValue(index);
  if (!known)
    return ctx.emit.wrapIndices(index, size);
  std::vector<int64_t> positions(known->type.getNumElements());
  for (size_t i = 0; i < positions.size(); ++i) {
    positions[i] = static_cast<int64_t>(known->at(i));
    if (positions[i] < -size || positions[i] >= size)
      fail("index {} is outside a dimension of size {}", positions[i], size);
    positions[i] += positions[i] < 0 ? size : 0;
  }
  return ctx.emit.integers(known->type.getShape(), positions);
}

/// The position in the merged dimension: sum of index · stride.
static Value linearIndex(OpContext &ctx, const Indexing &indexing, Value self) {
  SmallVector<Value> positions;
  SmallVector<int64_t> strides(indexing.indices.size(), 1);
  for (const Index &index : indexing.indices)
    positions.push_back(wrapIndex(ctx, index.positions, Emit::shapeOf(self)[index.dim]));
  if (positions.size() == 1)
    return positions[0];
  for (size_t i = positions.size() - 1; i-- > 0;)
    strides[i] = strides[i + 1] * Emit::shapeOf(self)[indexing.indices[i + 1].dim];
  return ctx.emit.map(
      positions, ctx.emit.builder().getI64Type(), [&](ImplicitLocOpBuilder &body, ValueRange v) -> Value {
        Value sum;
        for (auto [position, stride] : llvm::zip(v, strides)) {
          Value term = stride == 1 ? Value(position)
                                   : Value(arith::MulIOp::create(
                                         body, position, Emit::scalar(body, position.getType(), Scalar::of(stride))));
          sum = sum ? Value(arith::AddIOp::create(body, sum, term)) : term;
        }
        return sum;
      });
}

/// Rows by an index that is a constant vector may turn out to be a slice.
static Value takeRows(OpContext &ctx, Value table, Value indices, int64_t axis) {
  std::optional<dit::TensorValue> known = Emit::rankOf(indices) == 1 ? ctx.constantValue(indices) : std::nullopt;
  if (!known || known->type.getNumElements() == 0)
    return ctx.emit.gather(table, indices, axis);
  std::vector<int64_t> positions(known->type.getNumElements());
  for (size_t i = 0; i < positions.size(); ++i)
    positions[i] = static_cast<int64_t>(known->at(i));
  return ctx.emit.gather(table, positions, axis);
}

/// The rows that a mask chooses from, in its order: all of them.
static Value everyRow(Emit &emit, Value self, Value mask) {
  SmallVector<int64_t> shape{Emit::typeOf(mask).getNumElements()};
  llvm::append_range(shape, Emit::shapeOf(self).drop_front(Emit::rankOf(mask)));
  return emit.view(self, shape);
}

static Results index(OpContext &ctx) {
  Value self = ctx.tensor("self");
  std::vector<Value> given = ctx.optionalTensors("indices");
  if (given.size() == 1 && given[0] && isMask(given[0]) && !ctx.constantValue(given[0]) && ctx.isWrittenBack())
    return {everyRow(ctx.emit, self, given[0])};
  Indexing indexing = indexingOf(ctx, self);
  Value linear = linearIndex(ctx, indexing, self);
  Value table = mergeDims(ctx.emit, ctx.emit.permute(self, indexing.order), indexing.axis, indexing.indices.size());
  return {takeRows(ctx, table, linear, indexing.axis)};
}

/// x[mask] = value, where `value` is the same for all chosen elements, or has a row for each of the mask's: a select.
static Value putByMask(OpContext &ctx, Value self, Value mask, Value value) {
  if (ctx.flag("accumulate", false))
    fail("accumulates by a boolean index, which is not supported");
  SmallVector<int64_t> shape(Emit::shapeOf(mask));
  int64_t rest = Emit::rankOf(self) - Emit::rankOf(mask);
  if (Emit::rankOf(value) == rest + 1 && Emit::shapeOf(value)[0] == Emit::typeOf(mask).getNumElements()) {
    SmallVector<int64_t> rows(shape);
    llvm::append_range(rows, Emit::shapeOf(value).drop_front());
    value = ctx.emit.view(value, rows);
  } else {
    if (Emit::rankOf(value) > rest && Emit::shapeOf(value)[0] == 1)
      value = ctx.emit.squeeze(value, 0);
    if (Emit::rankOf(value) > rest)
      fail("writes different values by a boolean index, so that an order depends on data; use where");
  }
  shape.append(rest, 1);
  return ctx.emit.map({ctx.emit.view(mask, shape), self, value}, ctx.resultElement(),
                      [](ImplicitLocOpBuilder &body, ValueRange v) -> Value {
                        Value condition = Emit::convert(body, v[0], body.getI1Type());
                        return arith::SelectOp::create(body, condition, v[2], v[1]);
                      });
}

static Results indexPut(OpContext &ctx) {
  Value self = ctx.tensor("self"), values = ctx.emit.cast(ctx.tensor("values"), ctx.resultElement());
  std::vector<Value> given = ctx.optionalTensors("indices");
  if (given.size() == 1 && given[0] && isMask(given[0]) && !ctx.constantValue(given[0]))
    return {putByMask(ctx, self, given[0], values)};
  Indexing indexing = indexingOf(ctx, self);
  Value linear = linearIndex(ctx, indexing, self);
  int64_t count = indexing.indices.size(), axis = indexing.axis, chosen = Emit::rankOf(linear);
  Value table = mergeDims(ctx.emit, ctx.emit.permute(self, indexing.order), axis, count);
  // Updates have the shape of what index would read; the indexed dimension of both goes to the front.
  SmallVector<int64_t> shape(Emit::shapeOf(table).take_front(axis)), front{axis}, back;
  llvm::append_range(shape, Emit::shapeOf(linear));
  llvm::append_range(shape, Emit::shapeOf(table).drop_front(axis + 1));
  Value updates = mergeDims(ctx.emit, ctx.emit.expand(values, shape), axis, chosen);
  for (int64_t i = 0; i < Emit::rankOf(table); ++i)
    if (i != axis)
      front.push_back(i);
  back.resize(front.size());
  for (auto [i, from] : llvm::enumerate(front))
    back[from] = i;
  Value flat = ctx.emit.view(linear, {Emit::typeOf(linear).getNumElements()});
  Value written = ctx.emit.scatter(ctx.emit.permute(table, front), flat, ctx.emit.permute(updates, front),
                                   ctx.flag("accumulate", false));
  // Back to the shape and order of self.
  SmallVector<int64_t> permuted, inverse(indexing.order.size());
  for (auto [i, from] : llvm::enumerate(indexing.order)) {
    permuted.push_back(Emit::shapeOf(self)[from]);
    inverse[from] = i;
  }
  return {ctx.emit.permute(ctx.emit.view(ctx.emit.permute(written, back), permuted), inverse)};
}

//===-- Rows --------------------------------------------------------------------------------------===//

static Results indexSelect(OpContext &ctx) {
  Value self = ctx.tensor("self"), index = ctx.tensor("index");
  int64_t dim = dimArgument(ctx, "dim", 0, torchRank(ctx, "self", self));
  if (torchRank(ctx, "self", self) == 0)
    return {self};
  return {takeRows(ctx, self, ctx.emit.view(index, {Emit::typeOf(index).getNumElements()}), dim)};
}

static Results embedding(OpContext &ctx) { return {ctx.emit.gather(ctx.tensor("weight"), ctx.tensor("indices"), 0)}; }

/// `base` with rows `indices` along `dim` replaced by, or increased by, `rows`.
static Value writeRows(OpContext &ctx, Value base, Value indices, Value rows, int64_t dim, bool add) {
  SmallVector<int64_t> front{dim}, back(Emit::rankOf(base));
  for (int64_t i = 0; i < Emit::rankOf(base); ++i)
    if (i != dim)
      front.push_back(i);
  for (auto [i, from] : llvm::enumerate(front))
    back[from] = i;
  return ctx.emit.permute(ctx.emit.scatter(ctx.emit.permute(base, front), indices, ctx.emit.permute(rows, front), add),
                          back);
}

static Results indexWrite(OpContext &ctx, bool add) {
  Value self = ctx.tensor("self"), index = ctx.tensor("index");
  int64_t dim = dimArgument(ctx, "dim", 0, torchRank(ctx, "self", self));
  if (Emit::rankOf(self) == 0) // torch sees one row of one element
    self = ctx.emit.view(self, {1});
  SmallVector<int64_t> shape(Emit::shapeOf(self));
  index = ctx.emit.view(index, {Emit::typeOf(index).getNumElements()});
  shape[dim] = Emit::shapeOf(index)[0];
  Value rows;
  if (ctx.has("source"))
    rows = ctx.emit.cast(ctx.tensor("source"), ctx.resultElement());
  else if (std::optional<Scalar> fill =
               ctx.has("value") && !ctx.isTensor("value") ? ctx.optionalScalar("value") : std::nullopt)
    rows = ctx.emit.full({}, ctx.resultElement(), *fill);
  else
    rows = ctx.emit.cast(ctx.tensor("value"), ctx.resultElement());
  double alpha = ctx.number("alpha", 1);
  if (alpha != 1)
    rows = ctx.emit.mul(rows, alpha);
  Value written = writeRows(ctx, self, wrapIndex(ctx, index, Emit::shapeOf(self)[dim]), ctx.emit.expand(rows, shape), dim, add);
  return {ctx.emit.view(written, ctx.resultType().getShape())};
}

std::vector<OpRow> atenIndexing() {
  using enum Aliasing;
  auto replace = [](OpContext &ctx) { return indexWrite(ctx, /*add=*/false); };
  return {
      {"aten.index.Tensor", index, Fresh, true},
      {"aten._unsafe_index.Tensor", index, Fresh, true},
      {"aten.index_put.default", indexPut, Fresh, true},
      {"aten._unsafe_index_put.default", indexPut, Fresh, true},
      {"aten.index_select.default", indexSelect, Fresh, true},
      {"aten.index_add.default", [](OpContext &ctx) { return indexWrite(ctx, /*add=*/true); }},
      {"aten.index_copy.default", replace},
      {"aten.index_fill.int_Scalar", replace},
      {"aten.index_fill.int_Tensor", replace},
      {"aten.embedding.default", embedding},
  };
}

} // namespace ditc
