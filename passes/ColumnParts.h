// SPDX-License-Identifier: Apache-2.0
//
// Products of several things side by side that no one kernel makes, as kernels for parts of their columns: queries, keys
// and values beside both halves of a gated MLP in one linear layer. A part of the columns is a part of the weight's rows,
// which is a view.
#pragma once

#include "dialects/fusion/TargetKernels.h"

namespace ditc {

/// Replaces a gemm fusion by two that the target takes, each with some of the results and the columns that these are made of:
/// as many launches as the products and a kernel behind them would be. Leaves the fusion, and returns false, when results
/// share columns, or when there are no two such fusions.
bool splitByColumns(mlir::OpBuilder &b, dit::FusionOp fusion, const TargetKernels &kernels);

} // namespace ditc
