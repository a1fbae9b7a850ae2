// SPDX-License-Identifier: Apache-2.0
//
// Whether what is asked of --quantize and --quantize-attention can be had: with the other options, and of the model.
#pragma once

#include "compiler/Options.h"

#include "mlir/IR/BuiltinOps.h"

namespace ditc {

/// Throws Error (Usage) where options contradict each other, or a pattern is none.
void checkQuantizeOptions(const CompileOptions &options);

/// Throws Error (Input) when a pattern names no product and no attention of the imported module that is to be quantised.
void checkQuantizePatterns(mlir::ModuleOp imported, const CompileOptions &options);

} // namespace ditc
