// SPDX-License-Identifier: Apache-2.0
//
// Depthwise convolutions (templates/cuda/conv_depthwise.cuh), and which these are.
//
// A convolution goes there when
//   - each channel is a group of its own, with one filter,
//   - strides and dilations are 1,
//   - input, filter and output have one type, f32 or of 16 bits,
//   - positions along x are neighbours in the input, or channels are,
//   - the taps of one z, which lie in registers, are at most 64, and all at most 128.
#pragma once

#include "codegen/cuda/families/ConvProblem.h"

#include <array>
#include <optional>

namespace ditc {

/// The constants of the template; dimensions of the operands are in the order in which it takes them.
struct DepthwiseConv {
  mlir::MemRefType input, filter, output;
  std::array<int64_t, 3> padding = {};
  bool byChannels = false;
  int64_t strip = 1, rows = 1, channels = 1, lanes = 1;
  int64_t read = 1, storeX = 1, storeChannels = 1;

  int64_t blocks() const;

private:
  int64_t tiles() const; ///< of one image and channel
};

/// None for others. Alignments in bytes.
std::optional<DepthwiseConv> depthwiseConv(const ConvProblem &p, int64_t inputAlignment, int64_t outputAlignment);

/// Would it be faster with channels innermost in the input? Where they are in the output and cannot leave but one by one.
bool wantsChannelsLast(const ConvProblem &p, int64_t inputAlignment, int64_t outputAlignment);

mlir::FailureOr<CudaUnit> emitDepthwiseConv(plan::KernelOp kernel, FamilyUnit &unit, const ConvProblem &p, const DepthwiseConv &conv);

} // namespace ditc
