// SPDX-License-Identifier: Apache-2.0
//
// What attention_sm90.cuh does otherwise where Q and K are int8 and V is e4m3 (Config::QUANTIZED); attention_quantize.cuh
// makes these numbers and their scales.
//
//   S = s_q s_k · (Q8 K8ᵀ)       exact in int32. s_q is of a row; s_k of the keys of a block that one thread has: those with
//                                n mod 8 = 2g, 2g + 1 share one, which makes it a factor of all scores of a thread
//   P = e4m3 of E(t), t = S · scale · log2(e),  E(t) = 2^⌊t⌋ (1 + t - ⌊t⌋)
//   O = s_v · (P V8) / (P 1)     s_v of a column joins at the end; a column of ones beside V sums the numbers that P has
//
// Masks hide scores, or do not; those that compute with them (additive ones, soft caps) are for 16-bit numbers.
//
// attention_codes.cuh has how P is made.
//
// Tensor cores keep some 14 bits of a sum of e4m3 products and cut off the rest, which adds up over thousands of keys. So O
// leaves them every KEYS_SUMMED keys and is added up in fp32, in shared memory as registers are full.
#pragma once

#include "attention_codes.cuh"
#include "attention_layout.cuh"
#include "attention_softmax.cuh"
#include "attention_wgmma.cuh"

namespace ditc::attention_sm90 {

template <bool CONDITION, class Then, class Else>
struct Choice {
  using Type = Then;
};
template <class Then, class Else>
struct Choice<false, Then, Else> {
  using Type = Else;
};
template <bool CONDITION, class Then, class Else>
using Either = typename Choice<CONDITION, Then, Else>::Type;

/// The number of a (batch, key head).
template <class Params>
__device__ inline int rowOfKeys(const Params &p, const WorkTile &tile) {
  return (tile.batch * p.heads + tile.head) / p.headsPerKey;
}

__device__ inline void loadShared(u32 address, float (&x)[4]) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]) : "r"(address) : "memory");
}
__device__ inline void storeShared(u32 address, float a, float b, float c, float d) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

/// The row of ones below V's columns in shared memory, and seven of zeros that fill up a group of eight.
template <class L>
__device__ inline void writeOnes(const Shared<L> &shared) {
  constexpr int WORDS = 8 * L::V_PANEL / 2;  // of 8 rows of a panel
  for (int i = threadIdx.x; i < L::STAGES * L::V_PANELS * WORDS; i += L::THREADS) {
    int panel = i / WORDS, word = i % WORDS;
    u32 address = shared.v(0) + panel * L::V_PANEL_BYTES + L::V_DIM * 2 * L::V_PANEL + 4 * word;
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(word < WORDS / 8 ? 0x38383838 : 0) : "memory");
  }
  asyncProxyFence();
}

/// O of the keys before, in shared memory, and the m that it has: where m moves, it follows with the next `take`. The last
/// eight columns are the sum of P and zeros, in whose place m lies.
template <class L>
struct KeptSums {
  static constexpr int KEYS_SUMMED = 1024, BLOCKS = KEYS_SUMMED / L::BLOCK_N, LAST = L::SUMS - 4;
  u32 address;
  int blocks;  // that are in the registers

  __device__ void reset(u32 sums) {
    address = sums + threadIdx.x % 128 * 16;
    blocks = 0;
#pragma unroll
    for (int i = 0; i < LAST; i += 4)
      storeShared(address + 512 * i, 0.0f, 0.0f, 0.0f, 0.0f);
    storeShared(address + 512 * LAST, 0.0f, negativeInfinity(), 0.0f, negativeInfinity());
  }
  /// Whether the block that was just added is the last that registers may hold.
  __device__ bool isFull() { return ++blocks >= BLOCKS; }
  /// Takes what registers hold in units of the softmax's m; the next product starts from zero.
  template <class Softmax>
  __device__ void take(float (&output)[L::SUMS], const Softmax &softmax) {
    join(output, softmax);
#pragma unroll
    for (int i = 0; i < LAST; i += 4)
      storeShared(address + 512 * i, output[i], output[i + 1], output[i + 2], output[i + 3]);
    storeShared(address + 512 * LAST, output[LAST], softmax.top[0], output[LAST + 2], softmax.top[1]);
    blocks = 0;
  }
  /// Adds it to what registers hold.
  template <class Softmax>
  __device__ void join(float (&output)[L::SUMS], const Softmax &softmax) const {
    float x[4];
    loadShared(address + 512 * LAST, x);
    const float factor[2] = {softmax.correction(x[1], softmax.top[0], 1.0f), softmax.correction(x[3], softmax.top[1], 1.0f)};
    output[LAST] = __fmaf_rn(x[0], factor[0], output[LAST]);
    output[LAST + 2] = __fmaf_rn(x[2], factor[1], output[LAST + 2]);
#pragma unroll
    for (int i = 0; i < LAST; i += 4) {
      loadShared(address + 512 * i, x);
#pragma unroll
      for (int j = 0; j < 4; ++j)
        output[i + j] = __fmaf_rn(x[j], factor[j / 2], output[i + j]);
    }
  }
};

/// An epilogue behind the scales of V's columns.
template <class Epilogue>
struct ScaledColumns {
  const Epilogue &epilogue;
  const float *scales;
  __device__ float operator()(float value, const WorkTile &tile, int row, int column) const {
    return epilogue(value * __ldcg(scales + column), tile, row, column);
  }
};

}  // namespace ditc::attention_sm90
