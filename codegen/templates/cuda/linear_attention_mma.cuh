// SPDX-License-Identifier: Apache-2.0
//
// What linear_state_mma.cuh and linear_apply_mma.cuh share: rows of 16-bit tokens on their way to shared memory, as they lie.
#pragma once

#include "common/mma.cuh"
#include "common/tensor.cuh"

namespace ditc::linear_attention_mma {

constexpr int kThreads = 128;

/// Channels `first` … `first + COLUMNS - 1` of ROWS tokens from `from` on, in rows of COLUMNS + 8 elements, which matrices of eight
/// rows read without conflicts. What is past the `count` tokens that there are, or past the last channel, is 0.
template <class Operand, int ROWS, int COLUMNS>
__device__ void copyRows(typename Operand::Element *to, const typename Operand::Element *from, int count, int first) {
  static_assert(Operand::stride(3) == 1 && Operand::size(3) % 8 == 0 && COLUMNS % 8 == 0, "pieces of eight channels");
#pragma unroll
  for (int i = threadIdx.x; i < ROWS * (COLUMNS / 8); i += kThreads) {
    int token = i / (COLUMNS / 8), c = i % (COLUMNS / 8) * 8;
    bool exists = token < count && first + c < Operand::size(3);
    copyAsync<16>(to + token * (COLUMNS + 8) + c, exists ? from + i64(token) * Operand::stride(2) + first + c : from, exists);
  }
}

/// max(x, 0) of all values; NaN stays.
template <class Element>
__device__ void cut(MmaWord (&words)[4]) {
  using P = Pair<Element>;
  auto above = [](float x) { return x < 0.0f ? 0.0f : x; };
#pragma unroll
  for (MmaWord &word : words)
    word = P::pack(above(P::low(word)), above(P::high(word)));
}

}  // namespace ditc::linear_attention_mma
