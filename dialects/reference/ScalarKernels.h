// SPDX-License-Identifier: Apache-2.0
//
// The scalar operations of map bodies, each as a loop over a block of numbers. Internal to the evaluator.
#pragma once

#include "mlir/IR/Operation.h"

#include <cstdint>

namespace ditc::dit {

/// Applies a scalar operation to `count` numbers. Scalars of type f64 are held as double, other floats as
/// float, i1 as uint8_t, other integers as int64_t.
using ScalarKernel = void (*)(int64_t count, void *result, const void *const *operands);

/// Bytes of one held scalar.
int64_t heldBytes(mlir::Type scalarType);

/// The loop for `op` (not a constant, not dit.yield); null when the operation or its types are not known.
ScalarKernel scalarKernel(mlir::Operation *op);

} // namespace ditc::dit
