// SPDX-License-Identifier: Apache-2.0
//
// Where a tensor holds padding when its bucket is run for fewer rows than it was compiled for. A dimension is a
// product of factors (a view merges and splits them), a factor that holds padding is a row of pieces (a concat puts
// them one behind the other). Each size is kept twice: in the bucket, and in another import of the same program with
// one symbol changed, so that what differs between the two imports shows which dimensions the symbol sizes.
//
//   text [2, 300, 64]  ->  [{2}, {300: padded}, {64}]        view [600, 64]  ->  [{2}·{300: padded}, {64}]
//   concat(image [2, 256, 64], text)  ->  [{2}, {256, 300: padded}, {64}]
#pragma once

#include "mlir/IR/Attributes.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>

namespace ditc {

/// A range of a factor; of a padded one the elements from the run's own size on are padding.
struct Piece {
  int64_t size = 1, other = 1;
  bool padded = false;
  bool operator==(const Piece &) const = default;
};

struct Factor {
  int64_t size = 1, other = 1;
  llvm::SmallVector<Piece, 2> pieces = {}; ///< empty: no padding
  mlir::Attribute tail = {};               ///< the value of all padding along this factor, when it is one and known

  bool padded() const { return !pieces.empty(); }
};

/// Factors from the outermost to the innermost; their product is the dimension.
using PaddedDim = llvm::SmallVector<Factor, 2>;
using PaddedDims = llvm::SmallVector<PaddedDim, 6>;

/// What is known of one tensor.
struct PaddedShape {
  PaddedDims dims;
  mlir::Attribute uniform = {}; ///< the value of all its elements, when they are equal and known
};

PaddedDim plainDim(int64_t size);
/// A dimension that is nothing but the symbol's size.
PaddedDim paddedDim(int64_t size, int64_t other, mlir::Attribute tail);
/// The dimension where the value of its padding is not known any more.
PaddedDim withoutTail(PaddedDim dim);
/// A tensor without padding.
PaddedShape plainShape(llvm::ArrayRef<int64_t> shape);

int64_t sizeOf(const PaddedDim &dim);
int64_t otherSizeOf(const PaddedDim &dim);
bool isPadded(const PaddedDim &dim);
/// The dimension is one padded factor of one piece: its padding is its end.
bool isPaddedAtEnd(const PaddedDim &dim);
/// Equal padding, whatever its values.
bool sameLayout(const PaddedDim &a, const PaddedDim &b);
/// The value of all padding along the dimension; null when it has several factors with padding or is not known.
mlir::Attribute tailOf(const PaddedDim &dim);

/// The dimensions under another shape of the same elements; nothing when that cuts through padding.
std::optional<PaddedDims> reshapeDims(const PaddedDims &dims, llvm::ArrayRef<int64_t> shape);
/// Elements [offset, offset + size) of a dimension that has padding, when they are all of it or whole pieces.
/// `otherOffset` is the offset in the other import.
std::optional<PaddedDim> sliceDim(const PaddedDim &dim, int64_t offset, int64_t otherOffset, int64_t size);
/// Dimensions one behind the other; nothing when one of several factors has padding.
std::optional<PaddedDim> concatDims(llvm::ArrayRef<PaddedDim> dims);

} // namespace ditc
