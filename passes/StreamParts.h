// SPDX-License-Identifier: Apache-2.0
//
// Products of several inputs that no one kernel makes, as kernels for each input: image and text tokens of one block were
// joined into one launch because their code is equal.
#pragma once

#include "dialects/dit/Dit.h"

namespace ditc {

/// Replaces a gemm fusion by one fusion for each left side of its products. Leaves it, and returns nothing, when there is
/// one left side, or when an operation needs products of two of them.
mlir::SmallVector<dit::FusionOp> separateStreams(mlir::OpBuilder &b, dit::FusionOp fusion);

} // namespace ditc
