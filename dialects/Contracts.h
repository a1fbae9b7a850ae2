// SPDX-License-Identifier: Apache-2.0
//
// What holds between the phases of the compiler. Each contract is a predicate on the IR with a name; the
// pipeline checks it after the phase, so that a fault of a pass is reported where it happened.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

#include <memory>
#include <string_view>

namespace mlir {
class Pass;
}

namespace ditc {

enum class Contract {
  Imported,    ///< functions of `dit` ops and scalar arith/math in map bodies; shapes static
  Specialised, ///< no op whose operands are all constants is left, except views and what is too large to fold
  Fused,       ///< one op is one kernel, a library call, or a free view
  Planned,     ///< `plan` only; every buffer has a place
};

std::string_view nameOf(Contract contract);

/// Emits an error on the first op that breaks the contract.
mlir::LogicalResult verifyContract(mlir::ModuleOp module, Contract contract);

} // namespace ditc
