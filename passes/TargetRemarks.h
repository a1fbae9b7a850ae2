// SPDX-License-Identifier: Apache-2.0
//
// What a target launches otherwise than the shared phases planned it, as remarks: fusion is decided once, by the catalogue, and
// a target may take a kernel apart, or have a slower one for it. The report says of each target which and why.
#pragma once

#include "dialects/fusion/Reason.h"

#include "mlir/IR/Operation.h"

namespace ditc {

enum class Deviation {
  TakenApart,   ///< more launches than one
  SlowerKernel, ///< not the target's fastest
};

/// Of the kernel of `family` that is about `anchor`.
void remarkDeviation(mlir::Operation *anchor, llvm::StringRef family, Deviation deviation, const Verdict &verdict);

} // namespace ditc
