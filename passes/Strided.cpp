// SPDX-License-Identifier: Apache-2.0
#include "passes/Strided.h"

using namespace mlir;

namespace ditc {

std::optional<plan::Layout> reshapeLayout(ArrayRef<int64_t> shape, const plan::Layout &layout, ArrayRef<int64_t> newShape) {
  plan::Layout result{SmallVector<int64_t>(newShape.size(), 0), layout.offset};
  if (llvm::is_contained(newShape, 0)) {
    result.strides = plan::contiguousStrides(newShape);
    return result;
  }
  // Walk both shapes from the back. A run of old dimensions that lie behind each other without gaps can be
  // cut anew; new dimensions must fill a run exactly.
  int64_t newDim = static_cast<int64_t>(newShape.size()) - 1;
  for (int64_t dim = static_cast<int64_t>(shape.size()) - 1; dim >= 0;) {
    int64_t stride = layout.strides[dim], run = shape[dim];
    --dim;
    while (dim >= 0 && (shape[dim] == 1 || run == 1 || layout.strides[dim] == run * stride)) {
      if (run == 1 && shape[dim] != 1)
        stride = layout.strides[dim];
      run *= shape[dim];
      --dim;
    }
    int64_t filled = 1;
    while (newDim >= 0 && (filled < run || newShape[newDim] == 1)) {
      result.strides[newDim] = filled * stride;
      filled *= newShape[newDim];
      --newDim;
    }
    if (filled != run)
      return std::nullopt;
  }
  for (; newDim >= 0; --newDim) // a rank-0 source: only dimensions of size 1 are left
    result.strides[newDim] = 1;
  return result;
}

SmallVector<int64_t> channelsLastShape(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> dense(shape);
  std::rotate(dense.begin() + 1, dense.begin() + 2, dense.end());
  return dense;
}

SmallVector<int64_t> channelsLastStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides = plan::contiguousStrides(channelsLastShape(shape));
  std::rotate(strides.begin() + 1, strides.end() - 1, strides.end());
  return strides;
}

std::optional<plan::Layout> viewLayout(Operation *viewOp, const plan::Layout &layout) {
  auto inputType = cast<RankedTensorType>(viewOp->getOperand(0).getType());
  auto type = cast<RankedTensorType>(viewOp->getResult(0).getType());
  if (isa<dit::ViewOp>(viewOp))
    return reshapeLayout(inputType.getShape(), layout, type.getShape());
  plan::Layout result = layout;
  if (auto permute = dyn_cast<dit::PermuteOp>(viewOp)) {
    for (auto [i, dim] : llvm::enumerate(permute.getPermutation()))
      result.strides[i] = layout.strides[dim];
  } else if (auto slice = dyn_cast<dit::SliceOp>(viewOp)) {
    for (auto [i, stride] : llvm::enumerate(layout.strides)) {
      if (type.getNumElements() > 0)
        result.offset += slice.getOffsets()[i] * stride;
      result.strides[i] = stride * slice.getSteps()[i];
    }
  } else {
    for (auto [i, size] : llvm::enumerate(type.getShape()))
      if (inputType.getDimSize(i) != size)
        result.strides[i] = 0;
  }
  return result;
}

/// How a value lies if what is in front of its views is dense, and the copies on the way.
static std::pair<plan::Layout, int> placeOf(Value value) {
  auto dense = [](Value tensor) { return plan::Layout{plan::contiguousStrides(cast<RankedTensorType>(tensor.getType()).getShape()), 0}; };
  Operation *view = value.getDefiningOp();
  if (!view || !dit::isViewOp(view))
    return {dense(value), 0};
  auto [layout, copies] = placeOf(view->getOperand(0));
  if (std::optional<plan::Layout> seen = viewLayout(view, layout))
    return {*seen, copies};
  return {*viewLayout(view, dense(view->getOperand(0))), copies + 1};
}

int copiesFor(Value value) { return placeOf(value).second; }

SmallVector<ReshapeGroup> reshapeGroups(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  SmallVector<ReshapeGroup> groups;
  for (size_t i = 0, j = 0; i < from.size();) {
    ReshapeGroup group{i, 0, j, 0};
    int64_t count = from[i++], countTo = 1;
    while (count != countTo || (j < to.size() && to[j] == 1)) {
      if (count < countTo)
        count *= from[i++];
      else
        countTo *= to[j++];
    }
    group.endFrom = i, group.endTo = j;
    groups.push_back(group);
  }
  return groups;
}

std::optional<int64_t> keptAxis(ArrayRef<int64_t> from, ArrayRef<int64_t> to, int64_t axis) {
  int64_t before = 1, count = 1;
  for (int64_t size : from.take_front(axis))
    before *= size;
  std::optional<int64_t> kept;
  for (auto [i, size] : llvm::enumerate(to)) {
    bool isSame = count == before && size == from[axis];
    if (isSame && (!kept || static_cast<int64_t>(i) == axis)) // of several of size 1 the one in the same place
      kept = i;
    count *= size;
  }
  return kept;
}

} // namespace ditc
