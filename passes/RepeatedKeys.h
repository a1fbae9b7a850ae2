// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ditc {

/// Attention of which neighbouring batches have the same keys and values (a text that is repeated for each frame of a video) is attention
/// of fewer batches with more queries: keys and values are neither stored nor loaded for each.
void shareRepeatedKeys(mlir::func::FuncOp function);

} // namespace ditc
