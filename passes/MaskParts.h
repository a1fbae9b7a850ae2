// SPDX-License-Identifier: Apache-2.0
//
// What a mask is made of. Models make masks of queries and keys from masks of tokens (`m[:, None] & m[None, :]`), by repeats,
// transposes, casts and products of numbers that are 0 or 1. Seen as parts, each with a size of 1 where it is repeated, such
// a mask says which keys nobody sees, and which queries see nothing, in as many booleans as there are tokens.
#pragma once

#include "dialects/dit/Dit.h"

#include <functional>

namespace ditc {

/// A tensor with size 1 along the dimensions that it is repeated along; and how it is made, once it is known to be wanted.
struct MaskPart {
  llvm::SmallVector<int64_t> shape;
  std::function<mlir::Value(mlir::OpBuilder &)> make;
};

/// The booleans of which `mask` is the conjunction.
llvm::SmallVector<MaskPart> partsOfMask(mlir::Value mask);

/// What is repeated to a shape, behind a view, permute, slice or expand of that shape; nothing where a view joins a dimension
/// that it is repeated along with another. Slices are taken as near to where it is made as can be.
std::optional<MaskPart> rearranged(mlir::Operation *view, const MaskPart &part);

/// The booleans that are true where all parts are; there is at least one, and they broadcast to each other.
MaskPart allOf(mlir::Location loc, mlir::ArrayRef<MaskPart> parts);

} // namespace ditc
