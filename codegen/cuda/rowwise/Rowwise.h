// SPDX-License-Identifier: Apache-2.0
//
// Rowwise kernels: any mix of maps, norms, reductions, gathers and layout operations as one pass over memory.
#pragma once

#include "codegen/cuda/CudaKernel.h"
#include "dialects/dit/Dit.h"
#include "dialects/fusion/Reason.h"

namespace ditc {

/// May the operations of `body` (ending in dit.yield of its results) be one rowwise launch?
Verdict acceptsRowwise(mlir::Block &body);

/// A plan.kernel whose body is such a block; its arguments are the block's arguments, then the yielded results.
mlir::FailureOr<CudaUnit> emitRowwise(plan::KernelOp kernel, const CudaArch &arch);

} // namespace ditc
