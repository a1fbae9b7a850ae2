// SPDX-License-Identifier: Apache-2.0
//
// Products whose results become an image for a convolution.
#pragma once

#include "dialects/fusion/TargetKernels.h"

namespace ditc {

/// A gemm fusion that only convolutions read, and that turns its product into an image by views, as the same fusion with the
/// views behind it, where they cost nothing; maps of one input (an activation) move in front of them. The convolution then
/// reads channels last. Null, and nothing is changed, where it is another fusion or the target does not take it so.
dit::FusionOp putViewsBehind(mlir::OpBuilder &b, dit::FusionOp fusion, const TargetKernels &kernels);

} // namespace ditc
