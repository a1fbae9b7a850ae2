// SPDX-License-Identifier: Apache-2.0
//
// What linear_state.cuh and linear_apply.cuh share: tiles of tokens x 32 channels of an operand [B, H, N, C] in shared memory,
// widened to fp32; and the division that linear_apply_mma.cuh does as well.
#pragma once

#include "common/tensor.cuh"

namespace ditc::linear_attention {

constexpr int kThreads = 256, kPatch = 32;

/// Channels `first` … `first + 31` of TOKENS tokens from `from` on: each goes to *place(token, channel - first), four and eight
/// channels of a token together where they lie so. What is past the `count` tokens that there are, or past the last
/// channel, is 0. Neighbouring threads take neighbouring channels, or with BY_TOKEN neighbouring tokens.
template <class Operand, int TOKENS, bool RELU, bool BY_TOKEN = false, class Place>
__device__ void fill(Place place, const typename Operand::Element *from, int count, int first) {
  constexpr int CHANNELS = Operand::size(3), TOGETHER = commonPower(Operand::VECTOR, CHANNELS), PIECES = kPatch / TOGETHER;
#pragma unroll 4
  for (int i = threadIdx.x; i < TOKENS * PIECES; i += kThreads) {
    int token = BY_TOKEN ? i % TOKENS : i / PIECES, c = (BY_TOKEN ? i / TOKENS : i % PIECES) * TOGETHER;
    Pack<typename Operand::Element, TOGETHER> pack{};
    if (token < count && first + c < CHANNELS)
      pack = loadPack<TOGETHER>(from + token * Operand::stride(2) + (first + c) * Operand::stride(3));
#pragma unroll
    for (int j = 0; j < TOGETHER; ++j) {
      float x = widen(pack.at[j]);
      *place(token, c + j) = RELU && x < 0.0f ? 0.0f : x;  // NaN stays
    }
  }
}

/// Division by a sum of weights, which may be so small that its reciprocal is infinite.
struct Divisor {
  float scale, factor;
  __device__ explicit Divisor(float divisor) : scale(fabsf(divisor) < 1e-30f ? 0x1p64f : 1.0f), factor(1.0f / (divisor * scale)) {}
  __device__ float of(float x) const { return x * scale * factor; }
};

}  // namespace ditc::linear_attention
