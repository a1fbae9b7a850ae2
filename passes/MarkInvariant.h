// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ditc {

/// What is the same in every denoising step: inputs that are said to be, weights, constants, and what depends on those
/// alone.
llvm::DenseSet<mlir::Value> stepInvariantValues(mlir::func::FuncOp function);

} // namespace ditc
