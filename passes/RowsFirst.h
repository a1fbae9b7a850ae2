// SPDX-License-Identifier: Apache-2.0
//
// Products whose results have heads in front of few tokens.
#pragma once

#include "dialects/fusion/TargetKernels.h"

namespace ditc {

/// A gemm fusion that the target refuses because its tiles would be as short as the runs of rows that results have (16 tokens of
/// each head: temporal attention with normalised queries), as the same one with tokens in front of heads in its results. Views behind it put
/// that right for readers, which attention takes as it is. Null, and nothing is changed, where that does not help.
dit::FusionOp putRowsFirst(mlir::OpBuilder &b, dit::FusionOp fusion, const TargetKernels &kernels);

} // namespace ditc
