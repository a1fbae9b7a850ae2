// SPDX-License-Identifier: Apache-2.0
//
// What is asked of values of `dit`, which are all tensors of static shape, and of their elements.
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace ditc {

inline mlir::RankedTensorType tensorType(mlir::Value value) { return mlir::cast<mlir::RankedTensorType>(value.getType()); }
inline mlir::ArrayRef<int64_t> shapeOf(mlir::Value value) { return tensorType(value).getShape(); }
inline mlir::Type elementOf(mlir::Value value) { return tensorType(value).getElementType(); }

inline bool is16BitFloat(mlir::Type type) { return type.isBF16() || type.isF16(); }
/// fp8 by its only type here. Nobody casts to it for want of a wider type, so that its rounding is part of what a model
/// means and stays wherever values stay in registers, also where those of 16-bit floats need not.
inline bool is8BitFloat(mlir::Type type) { return mlir::isa<mlir::Float8E4M3FNType>(type); }
/// Narrower than the type it computes in.
inline bool isSmallFloat(mlir::Type type) { return is16BitFloat(type) || is8BitFloat(type); }

} // namespace ditc
