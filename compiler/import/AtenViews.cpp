// SPDX-License-Identifier: Apache-2.0
//
// ATen ops that only rename elements: reshapes, permutations, slices, pieces, broadcasts. Their results
// share the storage of the operand.
#include "compiler/import/AtenHelpers.h"

#include "runtime/Error.h"

#include <algorithm>
#include <limits>

using namespace mlir;

namespace ditc {

using Results = std::vector<Value>;

//===-- Reshapes ----------------------------------------------------------------------------------===//

/// Everything whose result has the same elements in the same order: the recorded shape says it all.
static Results reshape(OpContext &ctx) { return {ctx.emit.view(ctx.tensor("self"), ctx.resultType().getShape())}; }

static Results broadcast(OpContext &ctx) { return {ctx.emit.expand(ctx.tensor("self"), ctx.resultType().getShape())}; }

//===-- Permutations ------------------------------------------------------------------------------===//

/// Permutes the dimensions that torch sees; the parts of complex numbers stay behind.
static Value permuted(OpContext &ctx, Value self, ArrayRef<int64_t> dims) {
  int64_t rank = torchRank(ctx, "self", self);
  SmallVector<int64_t> permutation;
  for (int64_t dim : dims)
    permutation.push_back(normaliseDim(dim, rank));
  if (rank != Emit::rankOf(self))
    permutation.push_back(rank);
  return ctx.emit.permute(self, permutation);
}

static Results permute(OpContext &ctx) { return {permuted(ctx, ctx.tensor("self"), ctx.integers("dims"))}; }

static Value swapped(OpContext &ctx, int64_t dim0, int64_t dim1) {
  Value self = ctx.tensor("self");
  int64_t rank = torchRank(ctx, "self", self);
  return ctx.emit.transpose(self, normaliseDim(dim0, rank), normaliseDim(dim1, rank));
}

static Results transpose(OpContext &ctx) { return {swapped(ctx, ctx.integer("dim0"), ctx.integer("dim1"))}; }
static Results swapAxes(OpContext &ctx) { return {swapped(ctx, ctx.integer("axis0"), ctx.integer("axis1"))}; }
static Results transposeMatrix(OpContext &ctx) { return {swapped(ctx, -2, -1)}; }

static Results transposeIfMatrix(OpContext &ctx) {
  Value self = ctx.tensor("self");
  return {torchRank(ctx, "self", self) < 2 ? self : swapped(ctx, 0, 1)};
}

static Results reverseDims(OpContext &ctx) {
  Value self = ctx.tensor("self");
  SmallVector<int64_t> dims = llvm::to_vector(llvm::reverse(llvm::seq<int64_t>(0, torchRank(ctx, "self", self))));
  return {permuted(ctx, self, dims)};
}

static Results moveDims(OpContext &ctx) {
  Value self = ctx.tensor("self");
  int64_t rank = torchRank(ctx, "self", self);
  std::vector<int64_t> source = ctx.integers("source"), destination = ctx.integers("destination");
  if (source.size() != destination.size())
    fail("moves {} dimensions to {} places", source.size(), destination.size());
  SmallVector<int64_t> dims(rank, -1);
  SmallVector<bool> placed(rank, false);
  for (auto [from, to] : llvm::zip(source, destination)) {
    dims[normaliseDim(to, rank)] = normaliseDim(from, rank);
    placed[normaliseDim(from, rank)] = true;
  }
  int64_t next = 0;
  for (int64_t &dim : dims) {
    while (dim < 0 && placed[next])
      ++next;
    if (dim < 0)
      dim = next++;
  }
  return {permuted(ctx, self, dims)};
}

//===-- Slices and pieces -------------------------------------------------------------------------===//

static Results slice(OpContext &ctx) {
  Value self = ctx.tensor("self");
  int64_t dim = dimArgument(ctx, "dim", 0, torchRank(ctx, "self", self));
  int64_t end = ctx.integer("end", std::numeric_limits<int64_t>::max());
  return {ctx.emit.slice(self, dim, ctx.integer("start", 0), end, ctx.integer("step", 1))};
}

static Results narrow(OpContext &ctx) {
  Value self = ctx.tensor("self");
  int64_t dim = dimArgument(ctx, "dim", 0, torchRank(ctx, "self", self));
  int64_t start = ctx.integer("start"), size = Emit::shapeOf(self)[dim];
  start = start < 0 ? start + size : start;
  return {ctx.emit.slice(self, dim, start, start + ctx.integer("length"))};
}

static Results select(OpContext &ctx) {
  Value self = ctx.tensor("self");
  int64_t dim = dimArgument(ctx, "dim", 0, torchRank(ctx, "self", self));
  if (Value index = ctx.indexFromData("index")) // a row of a table, by a tensor of one number
    return {ctx.emit.gather(self, ctx.emit.wrapIndices(ctx.emit.view(index, {}), Emit::shapeOf(self)[dim]), dim)};
  return {ctx.emit.select(self, dim, ctx.integer("index"))};
}

/// Pieces one behind the other: the recorded shapes say how long each is.
static Results splitDim(OpContext &ctx, int64_t dim) {
  Value self = ctx.tensor("self");
  Results pieces;
  for (int64_t i = 0, start = 0; i < static_cast<int64_t>(ctx.resultCount()); ++i) {
    int64_t size = ctx.resultType(i).getDimSize(dim);
    pieces.push_back(ctx.emit.slice(self, dim, start, start + size));
    start += size;
  }
  return pieces;
}

static Results split(OpContext &ctx) {
  return splitDim(ctx, dimArgument(ctx, "dim", 0, torchRank(ctx, "self", ctx.tensor("self"))));
}

static Results splitAt(OpContext &ctx) {
  Value self = ctx.tensor("self");
  int64_t dim = dimArgument(ctx, "dim", 0, torchRank(ctx, "self", self)), start = 0;
  std::vector<int64_t> ends = ctx.integers("indices");
  ends.push_back(Emit::shapeOf(self)[dim]);
  Results pieces;
  for (int64_t end : ends) {
    pieces.push_back(ctx.emit.slice(self, dim, start, end));
    start = end;
  }
  return pieces;
}

static Results unbind(OpContext &ctx) {
  Value self = ctx.tensor("self");
  int64_t dim = dimArgument(ctx, "dim", 0, torchRank(ctx, "self", self));
  Results pieces;
  for (size_t i = 0; i < ctx.resultCount(); ++i)
    pieces.push_back(ctx.emit.select(self, dim, i));
  return pieces;
}

//===-- Diagonals and windows ---------------------------------------------------------------------===//

Value takeDiagonal(Emit &emit, Value matrix, int64_t offset) {
  // With rows and columns merged, the diagonal is every (columns + 1)-th element.
  SmallVector<int64_t> merged(Emit::shapeOf(matrix));
  int64_t dim = merged.size() - 2, rows = merged[dim], columns = merged.pop_back_val();
  merged.back() = rows * columns;
  int64_t first = offset >= 0 ? offset : -offset * columns;
  int64_t count =
      std::max<int64_t>(0, std::min(rows + std::min<int64_t>(offset, 0), columns - std::max<int64_t>(offset, 0)));
  int64_t end = count == 0 ? first : first + (count - 1) * (columns + 1) + 1;
  return emit.slice(emit.view(matrix, merged), dim, first, end, columns + 1);
}

static Results diagonal(OpContext &ctx) {
  Value self = ctx.tensor("self");
  int64_t rank = torchRank(ctx, "self", self);
  int64_t rowDim = dimArgument(ctx, "dim1", 0, rank), columnDim = dimArgument(ctx, "dim2", 1, rank);
  SmallVector<int64_t> dims;
  for (int64_t i = 0; i < rank; ++i)
    if (i != rowDim && i != columnDim)
      dims.push_back(i);
  dims.append({rowDim, columnDim});
  return {takeDiagonal(ctx.emit, permuted(ctx, self, dims), ctx.integer("offset", 0))};
}

/// Windows along one dimension; the window's positions become the last dimension.
static Results unfold(OpContext &ctx) {
  Value self = ctx.tensor("self");
  int64_t rank = torchRank(ctx, "self", self), dim = dimArgument(ctx, "dimension", 0, rank);
  if (rank == 0)
    return {ctx.emit.view(self, ctx.resultType().getShape())};
  int64_t size = ctx.integer("size"), step = ctx.integer("step");
  int64_t windows = ctx.resultType().getDimSize(dim);
  std::vector<int64_t> positions;
  tableSize(ctx.resultType().getNumElements());
  for (int64_t window = 0; window < windows; ++window)
    for (int64_t i = 0; i < size; ++i)
      positions.push_back(window * step + i);
  Value taken = ctx.emit.gather(self, positions, dim);
  SmallVector<int64_t> shape(Emit::shapeOf(taken)), order;
  shape[dim] = windows;
  shape.insert(shape.begin() + dim + 1, size);
  for (int64_t i = 0; i <= rank; ++i)
    if (i != dim + 1)
      order.push_back(i);
  order.push_back(dim + 1);
  if (ctx.isComplex("self"))
    order.push_back(rank + 1);
  return {ctx.emit.permute(ctx.emit.view(taken, shape), order)};
}

/// Strides over a dense operand: a view when they are those of one, else elements gathered by position.
static Results asStrided(OpContext &ctx) {
  Value self = ctx.tensor("self");
  std::vector<int64_t> size = ctx.integers("size"), stride = ctx.integers("stride");
  int64_t count = 1, offset = ctx.integer("storage_offset", 0), elements = Emit::typeOf(self).getNumElements();
  for (int64_t extent : size)
    count = tableSize(count * tableSize(extent));
  if (!ctx.isDense("self"))
    fail("as_strided of a tensor that is itself a view is not supported; use slices and views");
  std::vector<int64_t> positions(tableSize(count), offset);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    for (size_t d = size.size(); d-- > 0; rest /= size[d])
      positions[i] += rest % size[d] * stride[d];
    if (positions[i] < 0 || positions[i] >= elements)
      fail("reads element {} of a tensor that has {}", positions[i], elements);
  }
  Value flat = ctx.emit.view(self, {elements});
  return {ctx.emit.view(ctx.emit.gather(flat, positions, 0), size)};
}

//===-- Table -------------------------------------------------------------------------------------===//

std::vector<OpRow> atenViews() {
  using enum Aliasing;
  auto hsplit = [](OpContext &ctx) { return splitDim(ctx, Emit::rankOf(ctx.tensor("self")) == 1 ? 0 : 1); };
  auto vsplit = [](OpContext &ctx) { return splitDim(ctx, 0); };
  auto dsplit = [](OpContext &ctx) { return splitDim(ctx, 2); };
  return {
      {"aten.view.default", reshape, View, true},
      {"aten.view_as.default", reshape, View, true},
      {"aten._unsafe_view.default", reshape, Fresh, true},
      {"aten.reshape.default", reshape, IfStrides, true},
      {"aten.reshape_as.default", reshape, IfStrides, true},
      {"aten.flatten.using_ints", reshape, IfStrides, true},
      {"aten.ravel.default", reshape, IfStrides, true},
      {"aten.unflatten.int", reshape, IfStrides, true},
      {"aten.squeeze.default", reshape, View, true},
      {"aten.squeeze.dim", reshape, View, true},
      {"aten.squeeze.dims", reshape, View, true},
      {"aten.unsqueeze.default", reshape, View, true},
      {"aten.atleast_1d.default", reshape, View, true},
      {"aten.atleast_2d.default", reshape, View, true},
      {"aten.atleast_3d.default", reshape, View, true},
      {"aten.expand.default", broadcast, View, true},
      {"aten.expand_as.default", broadcast, View, true},
      {"aten.broadcast_to.default", broadcast, View, true},
      {"aten.permute.default", permute, View, true},
      {"aten.transpose.int", transpose, View, true},
      {"aten.swapdims.default", transpose, View, true},
      {"aten.swapaxes.default", swapAxes, View, true},
      {"aten.t.default", transposeIfMatrix, View, true},
      {"aten.mT.default", transposeMatrix, View, true},
      {"aten.mH.default", transposeMatrix, View},
      {"aten.adjoint.default", transposeMatrix, View},
      {"aten.matrix_H.default", transposeMatrix, View},
      {"aten.numpy_T.default", reverseDims, View, true},
      {"aten.movedim.int", moveDims, View, true},
      {"aten.movedim.intlist", moveDims, View, true},
      {"aten.moveaxis.int", moveDims, View, true},
      {"aten.moveaxis.intlist", moveDims, View, true},
      {"aten.slice.Tensor", slice, View, true},
      {"aten.narrow.default", narrow, View, true},
      {"aten.select.int", select, View, true},
      {"aten.chunk.default", split, View, true},
      {"aten.split.Tensor", split, View, true},
      {"aten.split.sizes", split, View, true},
      {"aten.split_with_sizes.default", split, View, true},
      {"aten.unsafe_split.Tensor", split, Fresh, true},
      {"aten.unsafe_split_with_sizes.default", split, Fresh, true},
      {"aten.unsafe_chunk.default", split, Fresh, true},
      {"aten.tensor_split.sections", split, View, true},
      {"aten.tensor_split.indices", splitAt, View, true},
      {"aten.hsplit.int", hsplit, View},
      {"aten.hsplit.array", hsplit, View},
      {"aten.vsplit.int", vsplit, View},
      {"aten.vsplit.array", vsplit, View},
      {"aten.dsplit.int", dsplit, View},
      {"aten.dsplit.array", dsplit, View},
      {"aten.unbind.int", unbind, View, true},
      {"aten.diagonal.default", diagonal, View},
      {"aten.unfold.default", unfold, View, true},
      {"aten.as_strided.default", asStrided, View},
  };
}

} // namespace ditc
