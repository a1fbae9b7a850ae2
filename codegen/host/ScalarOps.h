// SPDX-License-Identifier: Apache-2.0
//
// The scalar code of a map as LLVM IR. One table (in ScalarOps.cpp) has a row for each arith or math operation.
//
// A value of type bf16 or f16 inside a body is kept as the f32 that it equals, and every operation whose result
// has such a type rounds to it: arith.truncf really rounds, arith.extf is free.
#pragma once

#include "mlir/IR/Block.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/Support/Error.h"

namespace ditc {

/// Prints the operations of `body` at the builder's position; `args` are its block arguments. Returns the yielded
/// values. An operation without a row in the table is an error that names it.
llvm::Expected<llvm::SmallVector<llvm::Value *>> emitScalarBody(llvm::IRBuilderBase &b, mlir::Block &body, llvm::ArrayRef<llvm::Value *> args);

} // namespace ditc
