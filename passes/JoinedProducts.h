// SPDX-License-Identifier: Apache-2.0
//
// Products of one input as one product, for targets that leave them to a library: one call with all columns is faster than
// several with few. The weights are joined when they are bound, which costs a copy of them.
#pragma once

#include "dialects/fusion/TargetKernels.h"

namespace ditc {

/// Joins the products of a gemm fusion, in place, that have equal left sides and spelling, if the target finds that it
/// pays. Their results become slices.
void joinProducts(mlir::OpBuilder &b, dit::FusionOp fusion, const TargetKernels &kernels);

} // namespace ditc
