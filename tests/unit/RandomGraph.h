// SPDX-License-Identifier: Apache-2.0
//
// Random functions of `dit` operations: the shapes and idioms of transformer blocks in random order.
#pragma once

#include "dialects/reference/Evaluate.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <cstdint>
#include <vector>

namespace ditc::test {

/// A module with one function "random" of two tensors; equal seeds give equal functions.
mlir::OwningOpRef<mlir::ModuleOp> randomGraph(mlir::MLIRContext &context, uint32_t seed);

/// Values for the function's arguments, between -1 and 1.
std::vector<dit::TensorValue> randomArguments(mlir::func::FuncOp function, uint32_t seed);

} // namespace ditc::test
