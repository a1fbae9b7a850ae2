// SPDX-License-Identifier: Apache-2.0
//
// From the `plan` dialect to the runtime's plan structs. No decisions: it prints.
#pragma once

#include "dialects/plan/Plan.h"
#include "runtime/Package.h"

#include <functional>

namespace ditc {

/// Stored type of an MLIR element type. Throws Error (Internal) for a type that no tensor has.
DType dtypeOf(mlir::Type elementType);

/// Stores a constant's bytes and returns the member's name.
using StoreConstant = std::function<std::string(std::span<const uint8_t>)>;

/// The plan of one bucket.
Plan writePlanProgram(plan::ProgramOp program, const StoreConstant &storeConstant);

/// "blocks.0.attn.to_q (linear_3)": the module path and node of a location, for profiles and messages.
std::string describeLocation(mlir::Location loc);

} // namespace ditc
