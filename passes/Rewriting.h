// SPDX-License-Identifier: Apache-2.0
//
// Operations that several passes build, and what they leave behind.
#pragma once

#include "dialects/dit/Dit.h"

namespace ditc {

/// What the body of a map makes of a scalar of each operand.
using MapBody = llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Location, mlir::ValueRange)>;

mlir::Value mapOf(mlir::OpBuilder &b, mlir::Location loc, mlir::RankedTensorType type, mlir::ValueRange inputs, MapBody body);

/// The value with elements of another type, of the same compute type.
mlir::Value castTo(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value, mlir::Type element);

/// A view as it is, of a value of another type.
mlir::Value viewOf(mlir::OpBuilder &b, mlir::Operation *view, mlir::Value input);

/// Is all that becomes of `value`, behind views, rounded to `element`?
bool isRounded(mlir::Value value, mlir::Type element);

/// Puts `narrow`, of the type that all of `value` is rounded to, in its place, up to the casts, which go.
void replaceRounded(mlir::OpBuilder &b, mlir::Value value, mlir::Value narrow);

/// Over the last dimension, which stays with size 1; the result is f32.
mlir::Value reducedRows(mlir::OpBuilder &b, mlir::Location loc, mlir::Value input, dit::ReduceKind kind);

/// An f32 in the body of a map.
mlir::Value numberOf(mlir::OpBuilder &b, mlir::Location loc, double value);

/// Operations that nothing needs any more.
void eraseDead(mlir::Block &block);

} // namespace ditc
