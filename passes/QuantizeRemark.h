// SPDX-License-Identifier: Apache-2.0
//
// What the passes that quantise say of every operation that they may, which reports are made of.
#pragma once

#include "dialects/fusion/QuantizeReason.h"

#include "mlir/IR/Operation.h"

namespace ditc {

/// Of `op`, a `kind` ("Product", "Attention"), by this pass: quantised, or why not; with its matrix arithmetic.
void remarkQuantized(mlir::Operation *op, mlir::StringRef pass, mlir::StringRef kind, QuantizeReason reason);

} // namespace ditc
