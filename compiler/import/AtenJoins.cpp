// SPDX-License-Identifier: Apache-2.0
//
// ATen ops that make one tensor of several, and grids of coordinates.
#include "compiler/import/AtenHelpers.h"

using namespace mlir;

namespace ditc {

using Results = std::vector<Value>;

/// The tensors in the result's type. torch lets empty vectors through whatever the other ranks are.
static std::vector<Value> joined(OpContext &ctx, bool dropEmpty) {
  std::vector<Value> values;
  for (Value value : ctx.tensors("tensors"))
    if (!dropEmpty || Emit::rankOf(value) != 1 || Emit::shapeOf(value)[0] != 0 || ctx.resultType().getRank() == 1)
      values.push_back(ctx.emit.cast(value, ctx.resultElement()));
  return values;
}

static int64_t joinRank(OpContext &ctx) { return ctx.resultType().getRank() - ctx.resultIsComplex(); }

static Results cat(OpContext &ctx) {
  return {ctx.emit.concat(joined(ctx, /*dropEmpty=*/true), dimArgument(ctx, "dim", 0, joinRank(ctx)))};
}

static Results stack(OpContext &ctx) {
  int64_t dim = dimArgument(ctx, "dim", 0, joinRank(ctx));
  std::vector<Value> values = joined(ctx, /*dropEmpty=*/false);
  for (Value &value : values)
    value = ctx.emit.unsqueeze(value, dim);
  return {ctx.emit.concat(values, dim)};
}

/// hstack, vstack, dstack: concatenation after every operand got at least `minRank` dimensions.
static Results stackAlong(OpContext &ctx, int64_t minRank, int64_t dim) {
  std::vector<Value> values = joined(ctx, /*dropEmpty=*/false);
  for (Value &value : values) {
    SmallVector<int64_t> shape(Emit::shapeOf(value));
    int64_t rank = shape.size() - ctx.resultIsComplex();
    // A vector is a row; a matrix is a single layer.
    if (rank < 1)
      shape.insert(shape.begin(), 1), ++rank;
    if (rank < minRank && rank == 1)
      shape.insert(shape.begin(), 1), ++rank;
    if (rank < minRank)
      shape.insert(shape.begin() + rank, 1);
    value = ctx.emit.view(value, shape);
  }
  return {ctx.emit.concat(values, dim)};
}

static Results hstack(OpContext &ctx) { return stackAlong(ctx, 1, joinRank(ctx) == 1 ? 0 : 1); }
static Results vstack(OpContext &ctx) { return stackAlong(ctx, 2, 0); }
static Results dstack(OpContext &ctx) { return stackAlong(ctx, 3, 2); }

/// Vectors as columns, matrices side by side.
static Results columnStack(OpContext &ctx) {
  std::vector<Value> values = joined(ctx, /*dropEmpty=*/false);
  for (Value &value : values)
    if (Emit::rankOf(value) < 2)
      value = ctx.emit.view(value, {Emit::typeOf(value).getNumElements(), 1});
  return {ctx.emit.concat(values, 1)};
}

/// Matrices along the diagonal, zeros elsewhere.
static Results blockDiag(OpContext &ctx) {
  std::vector<Value> rows;
  int64_t width = ctx.resultType().getDimSize(1), start = 0;
  for (Value value : joined(ctx, /*dropEmpty=*/false)) {
    SmallVector<int64_t> shape{1, 1};
    llvm::append_range(shape, Emit::shapeOf(value));
    Value matrix = ctx.emit.view(value, ArrayRef(shape).take_back(2));
    int64_t columns = Emit::shapeOf(matrix)[1];
    rows.push_back(ctx.emit.pad(matrix, {0, start}, {0, width - start - columns}, Scalar::of(int64_t{0})));
    start += columns;
  }
  return {ctx.emit.concat(rows, 0)};
}

/// All combinations of elements of vectors, the last varying fastest.
static Results cartesianProduct(OpContext &ctx) {
  std::vector<Value> values = ctx.tensors("tensors"), columns;
  if (values.size() == 1)
    return {values[0]};
  SmallVector<int64_t> grid;
  for (Value value : values)
    grid.push_back(Emit::shapeOf(value)[0]);
  for (size_t i = 0; i < values.size(); ++i) {
    SmallVector<int64_t> shape(values.size(), 1);
    shape[i] = grid[i];
    Value column = ctx.emit.expand(ctx.emit.view(values[i], shape), grid);
    columns.push_back(ctx.emit.view(column, {ctx.resultType().getDimSize(0), 1}));
  }
  return {ctx.emit.concat(columns, 1)};
}

/// Sequences of different lengths as rows of one tensor.
static Results padSequence(OpContext &ctx) {
  std::vector<Value> values = ctx.tensors("sequences");
  bool batchFirst = ctx.flag("batch_first", false);
  int64_t length = ctx.resultType().getDimSize(batchFirst ? 1 : 0);
  Scalar padding = Scalar::of(ctx.number("padding_value", 0));
  for (Value &value : values) {
    SmallVector<int64_t> low(Emit::rankOf(value), 0), high = low;
    high[0] = length - Emit::shapeOf(value)[0];
    if (ctx.text("padding_side", "right") == "left")
      std::swap(low, high);
    value = ctx.emit.unsqueeze(padWith(ctx.emit, value, low, high, padding, ctx.resultIsComplex()), batchFirst ? 0 : 1);
  }
  return {ctx.emit.concat(values, batchFirst ? 0 : 1)};
}

/// Coordinates of a grid: one result per operand, varying along one dimension.
static Results meshgrid(OpContext &ctx) {
  std::vector<Value> values = ctx.tensors("tensors");
  bool swapFirst = ctx.text("indexing", "ij") == "xy" && values.size() > 1;
  for (size_t i = 0; i < values.size(); ++i) {
    size_t dim = swapFirst && i < 2 ? 1 - i : i;
    SmallVector<int64_t> shape(values.size(), 1);
    shape[dim] = Emit::typeOf(values[i]).getNumElements();
    values[i] = ctx.emit.expand(ctx.emit.view(values[i], shape), ctx.resultType(i).getShape());
  }
  return values;
}

static Results broadcastTensors(OpContext &ctx) {
  std::vector<Value> values = ctx.tensors("tensors");
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = ctx.emit.expand(values[i], ctx.resultType(i).getShape());
  return values;
}

std::vector<OpRow> atenJoins() {
  using enum Aliasing;
  return {
      {"aten.cat.default", cat, Fresh, true},         {"aten.concat.default", cat, Fresh, true},
      {"aten.concatenate.default", cat, Fresh, true}, {"aten.stack.default", stack, Fresh, true},
      {"aten.hstack.default", hstack, Fresh, true},   {"aten.vstack.default", vstack, Fresh, true},
      {"aten.dstack.default", dstack, Fresh, true},   {"aten.column_stack.default", columnStack},
      {"aten.block_diag.default", blockDiag},         {"aten.cartesian_prod.default", cartesianProduct},
      {"aten.pad_sequence.default", padSequence, Fresh, true},
      {"aten.meshgrid.default", meshgrid},            {"aten.meshgrid.indexing", meshgrid},
      {"aten.broadcast_tensors.default", broadcastTensors, Fresh, true},
  };
}

} // namespace ditc
