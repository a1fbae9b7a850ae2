// SPDX-License-Identifier: Apache-2.0
//
// Convolutions on tensor cores (templates/cuda/conv_mma.cuh), and which these are.
//
// A convolution goes there when
//   - input, filter and output have one 16-bit type,
//   - a group has at least 8 input channels and 8 output channels (with fewer, most of a tile would be zeros),
//   - with several groups, those of the input are multiples of 8 (a single group is filled up with zeros),
//   - offsets fit into 31 bits.
// Depthwise ones have a kernel of their own (codegen/cuda/families/Depthwise.h); those of 3 or 4 channels and those of f32 and
// f64 keep conv.cuh. The kernel wants channels innermost in the input and the filter; PlanConvolutions adds the launches that lay
// them out so where they are not.
#pragma once

#include "codegen/cuda/CudaKernel.h"
#include "dialects/fusion/TargetKernels.h"

namespace ditc {

/// What PlanConvolutions has to add before the fastest kernel can take one of family "conv".
ConvNeeds convNeeds(plan::KernelOp kernel);

/// On tensor cores where the operands lie as these need them; else by the depthwise kernel or by conv.cuh.
mlir::FailureOr<CudaUnit> emitBestConv(plan::KernelOp kernel, const CudaArch &arch);

/// channels_last.cuh for a kernel of family "channels_last" of (input [N, C, spatial...], output [N, spatial..., channels]).
mlir::FailureOr<CudaUnit> emitChannelsLast(plan::KernelOp kernel, const CudaArch &arch);

} // namespace ditc
