// SPDX-License-Identifier: Apache-2.0
//
// The value of a map's result where some of its operands are known: constants run through the body by the reference
// evaluator's own scalar operations, and a selection or a logical operation may be known by one operand alone.
#pragma once

#include "dialects/dit/Dit.h"

#include <optional>

namespace ditc {

/// What the map yields, as an attribute of the result's element type; null when it depends on operands that are null.
mlir::Attribute evaluateKnown(dit::MapOp map, llvm::ArrayRef<mlir::Attribute> operands);

/// A number as an attribute of an element type.
mlir::Attribute elementAttr(mlir::Type elementType, double number);
/// The number of such an attribute.
double numberOf(mlir::Attribute element);

} // namespace ditc
