// SPDX-License-Identifier: Apache-2.0
//
// Making and opening dit.fusion.
#pragma once

#include "dialects/dit/Dit.h"

namespace ditc {

/// Moves `ops` (of one block, in order, nothing between them depends on them) into a fusion at the builder's insertion
/// point. What they read becomes its inputs; `results` become its results, and every use of them outside reads those.
dit::FusionOp makeFusion(mlir::OpBuilder &b, mlir::StringRef family, mlir::ArrayRef<mlir::Operation *> ops, mlir::ArrayRef<mlir::Value> results);

/// Results of `ops` that other operations read, in order.
mlir::SmallVector<mlir::Value> resultsReadOutside(mlir::ArrayRef<mlir::Operation *> ops);

/// Puts the body's operations where the fusion was; returns them in order.
mlir::SmallVector<mlir::Operation *> inlineFusion(dit::FusionOp fusion);

/// `value` computed once more at the builder's insertion point by copies of those of `ops` that it needs, which `made` gets.
mlir::Value copyOf(mlir::OpBuilder &b, mlir::Value value, mlir::ArrayRef<mlir::Operation *> ops, mlir::SmallVectorImpl<mlir::Operation *> &made);

} // namespace ditc
