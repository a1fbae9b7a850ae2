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

} // namespace ditc
