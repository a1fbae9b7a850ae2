// SPDX-License-Identifier: Apache-2.0
//
// The views of Emit: reshapes, permutations, slices, concatenation, padding, broadcasting.
#include "compiler/import/Emit.h"

#include "runtime/Error.h"

#include <numeric>

using namespace mlir;

namespace ditc {

static RankedTensorType withShape(Value value, ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, Emit::elementOf(value));
}

Value Emit::view(Value value, ArrayRef<int64_t> shape) {
  RankedTensorType type = withShape(value, shape);
  if (type == value.getType())
    return value;
  if (type.getNumElements() != typeOf(value).getNumElements())
    fail("cannot view [{}] as [{}]", fmt::join(shapeOf(value), ", "), fmt::join(shape, ", "));
  return dit::ViewOp::create(b, type, value);
}

Value Emit::permute(Value value, ArrayRef<int64_t> permutation) {
  int64_t rank = rankOf(value);
  if (static_cast<int64_t>(permutation.size()) != rank)
    fail("permutes {} of {} dimensions", permutation.size(), rank);
  SmallVector<int64_t> dims, shape;
  for (int64_t dim : permutation) {
    dims.push_back(normaliseDim(dim, rank));
    shape.push_back(shapeOf(value)[dims.back()]);
  }
  if (llvm::equal(dims, llvm::seq<int64_t>(0, rank)))
    return value;
  return dit::PermuteOp::create(b, withShape(value, shape), value, dims);
}

Value Emit::transpose(Value value, int64_t dim0, int64_t dim1) {
  int64_t rank = rankOf(value);
  if (rank == 0)
    return value;
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::swap(dims[normaliseDim(dim0, rank)], dims[normaliseDim(dim1, rank)]);
  return permute(value, dims);
}

Value Emit::unsqueeze(Value value, int64_t dim) {
  SmallVector<int64_t> shape(shapeOf(value));
  shape.insert(shape.begin() + normaliseDim(dim, rankOf(value) + 1), 1);
  return view(value, shape);
}

Value Emit::squeeze(Value value, int64_t dim) {
  dim = normaliseDim(dim, rankOf(value));
  SmallVector<int64_t> shape(shapeOf(value));
  if (shape.empty() || shape[dim] != 1)
    return value;
  shape.erase(shape.begin() + dim);
  return view(value, shape);
}

Value Emit::slice(Value value, int64_t dim, int64_t start, int64_t end, int64_t step) {
  dim = normaliseDim(dim, rankOf(value));
  if (step < 1)
    fail("slice step {} must be at least 1", step);
  int64_t size = shapeOf(value)[dim];
  auto clamp = [size](int64_t position) {
    return std::clamp<int64_t>(position < 0 ? position + size : position, 0, size);
  };
  start = clamp(start);
  end = std::max(clamp(end), start);
  SmallVector<int64_t> offsets(rankOf(value), 0), steps(rankOf(value), 1), shape(shapeOf(value));
  shape[dim] = (end - start + step - 1) / step;
  if (shape[dim] == size)
    return value;
  offsets[dim] = start;
  steps[dim] = shape[dim] > 1 ? step : 1;
  return dit::SliceOp::create(b, withShape(value, shape), value, offsets, steps);
}

Value Emit::select(Value value, int64_t dim, int64_t index) {
  dim = normaliseDim(dim, rankOf(value));
  int64_t size = rankOf(value) ? shapeOf(value)[dim] : 0;
  if (index < -size || index >= size)
    fail("index {} is outside dimension {} of size {}", index, dim, size);
  index = index < 0 ? index + size : index;
  return squeeze(slice(value, dim, index, index + 1), dim);
}

Value Emit::concat(ValueRange values, int64_t dim) {
  if (values.empty())
    fail("nothing to concatenate");
  dim = normaliseDim(dim, rankOf(values[0]));
  SmallVector<Value> pieces;
  SmallVector<int64_t> shape(shapeOf(values[0]));
  shape[dim] = 0;
  for (Value value : values) {
    if (rankOf(value) != static_cast<int64_t>(shape.size()))
      fail("cannot concatenate tensors of rank {} and {}", shape.size(), rankOf(value));
    shape[dim] += shapeOf(value)[dim];
    if (shapeOf(value)[dim] != 0)
      pieces.push_back(value);
  }
  if (pieces.empty())
    return values[0];
  if (pieces.size() == 1)
    return pieces[0];
  return dit::ConcatOp::create(b, withShape(values[0], shape), pieces, dim);
}

Value Emit::pad(Value value, ArrayRef<int64_t> low, ArrayRef<int64_t> high, Scalar fill) {
  SmallVector<int64_t> before(low), after(high), shape;
  for (int64_t i = 0; i < rankOf(value); ++i) {
    // Negative amounts crop.
    int64_t size = shapeOf(value)[i];
    if (before[i] + after[i] + size < 0)
      fail("padding {} and {} leaves nothing of size {}", before[i], after[i], size);
    int64_t first = std::max<int64_t>(-before[i], 0), end = size - std::max<int64_t>(-after[i], 0);
    value = slice(value, i, std::min(first, size), std::max<int64_t>(end, 0));
    before[i] = std::max<int64_t>(before[i], 0);
    after[i] = std::max<int64_t>(after[i], 0);
    shape.push_back(before[i] + after[i] + shapeOf(value)[i]);
  }
  RankedTensorType type = withShape(value, shape);
  if (type == value.getType())
    return value;
  Value splat = full({}, elementOf(value), fill);
  auto fillAttr = mlir::cast<TypedAttr>(
      mlir::cast<DenseElementsAttr>(splat.getDefiningOp<dit::ConstantOp>().getValue()).getSplatValue<Attribute>());
  splat.getDefiningOp()->erase();
  return dit::PadOp::create(b, type, value, before, after, fillAttr);
}

Value Emit::expand(Value value, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> aligned(shape.size() - std::min<size_t>(shape.size(), rankOf(value)), 1);
  llvm::append_range(aligned, shapeOf(value));
  if (aligned.size() != shape.size())
    fail("cannot expand [{}] to [{}]", fmt::join(shapeOf(value), ", "), fmt::join(shape, ", "));
  Value result = view(value, aligned);
  RankedTensorType type = withShape(value, shape);
  if (type == result.getType())
    return result;
  for (auto [size, wanted] : llvm::zip(aligned, shape))
    if (size != wanted && size != 1)
      fail("cannot expand [{}] to [{}]", fmt::join(shapeOf(value), ", "), fmt::join(shape, ", "));
  return dit::ExpandOp::create(b, type, result);
}

} // namespace ditc
