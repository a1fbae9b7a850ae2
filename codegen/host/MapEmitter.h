// SPDX-License-Identifier: Apache-2.0
//
// A map kernel as a loop nest in LLVM IR.
#pragma once

#include "dialects/plan/Plan.h"

#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

namespace ditc {

/// Adds `void <name>(char *const *args)` for a kernel of family "map" to `module`.
llvm::Error emitMap(llvm::Module &module, plan::KernelOp kernel);

} // namespace ditc
