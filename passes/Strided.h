// SPDX-License-Identifier: Apache-2.0
//
// Views as strides: which memory layout a `dit` view of a strided tensor has, and whether it has one; and which dimensions
// a reshape leaves as they are.
#pragma once

#include "dialects/dit/Dit.h"
#include "dialects/plan/Plan.h"

#include <optional>

namespace ditc {

/// Strides of `newShape` over the same elements in the same order; nothing when the elements do not lie so.
std::optional<plan::Layout> reshapeLayout(mlir::ArrayRef<int64_t> shape, const plan::Layout &layout, mlir::ArrayRef<int64_t> newShape);

/// Layout of the result of a view operation (view, permute, slice, expand) on an input laid out as
/// `layout`; nothing when the elements must be copied first (only a `dit.view` can ask for that).
std::optional<plan::Layout> viewLayout(mlir::Operation *viewOp, const plan::Layout &layout);

/// Copies that the views in front of `value` ask for, if what is in front of them is dense.
int copiesFor(mlir::Value value);

/// An image [N, C, spatial...] as it is in memory with its channels last, [N, spatial..., C]; and the image's strides there.
mlir::SmallVector<int64_t> channelsLastShape(mlir::ArrayRef<int64_t> shape);
mlir::SmallVector<int64_t> channelsLastStrides(mlir::ArrayRef<int64_t> shape);

/// Dimensions of two shapes, without sizes of 0, that hold the same elements in a reshape between them. Either may be none where
/// the others are of size 1.
struct ReshapeGroup {
  size_t firstFrom, endFrom, firstTo, endTo;
};
/// The smallest such groups, in order; all dimensions are in one.
mlir::SmallVector<ReshapeGroup> reshapeGroups(mlir::ArrayRef<int64_t> from, mlir::ArrayRef<int64_t> to);

/// The dimension of `to` that is dimension `axis` of `from` in a reshape between the two: one of the same size behind
/// equally many elements.
std::optional<int64_t> keptAxis(mlir::ArrayRef<int64_t> from, mlir::ArrayRef<int64_t> to, int64_t axis);

} // namespace ditc
