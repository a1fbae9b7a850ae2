// SPDX-License-Identifier: Apache-2.0
//
// The softmax of attention of 8-bit numbers: scores that are integers become e4m3 weights, without an exponential.
//
//   t = unit · score in log2 units, P = e4m3 of E(t),  E(t) = 2^⌊t⌋ (1 + t - ⌊t⌋)
//
// E is 2^t with a line between powers of two, 0 to 6.1 % above it: after the division by the sum, which has the same
// factor, a weight is off by 2 % in the mean square, less than by the rounding to e4m3, 2.6 %. And an e4m3 number counts up
// along that line, eight to a power of two: the code of P is 8 (t - m + 15) rounded, one saturating FFMA and one that
// rounds, where 2^t by the exponential unit alone would take as long as both products. m is an integer, so that it does
// not matter which: weights do not depend on the order of blocks. It moves when the largest t is further above it than the
// last code allows. Weights down to 2^-14 of 2^m keep their three bits, as a row with one key far above many others needs;
// below, codes end within a power of two.
//
// A thread has rows g and g + 8 of an accumulator tile, as in attention_softmax.cuh.
#pragma once

#include "common/special_functions.cuh"
#include "common/words.cuh"

namespace ditc::attention_sm90 {

/// Scores that are integers as floats, and the largest of each row.
template <int COUNT>
__device__ inline void asFloats(const int (&sums)[COUNT], float (&scores)[COUNT], float (&high)[2]) {
  constexpr int CHAINS = 3;  // for each row, as each waits for its own last maximum
  int top[CHAINS][2];
#pragma unroll
  for (int i = 0; i < COUNT / 4; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int first = sums[4 * i + 2 * half], second = sums[4 * i + 2 * half + 1];
      top[i % CHAINS][half] = i < CHAINS ? max(first, second) : __vimax3_s32(top[i % CHAINS][half], first, second);
    }
#pragma unroll
  for (int i = 0; i < COUNT; ++i)
    scores[i] = __int2float_rn(sums[i]);
  high[0] = __int2float_rn(__vimax3_s32(top[0][0], top[1][0], top[2][0]));
  high[1] = __int2float_rn(__vimax3_s32(top[0][1], top[1][1], top[2][1]));
}

/// The same where some scores are hidden, -inf.
template <int COUNT>
__device__ inline void largestOfRows(const float (&scores)[COUNT], float (&high)[2]) {
  high[0] = scores[0];
  high[1] = scores[2];
#pragma unroll
  for (int i = 1; i < COUNT; ++i)
    high[i / 2 % 2] = fmaxf(high[i / 2 % 2], scores[i]);
}

/// a · b + c, between 0 and 1; 0 for NaN.
__device__ inline float saturated(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  float x;
  asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(x) : "f"(a), "f"(b), "f"(c));
  return x;
#else
  return __saturatef(__fmaf_rn(a, b, c));
#endif
}

/// 1.5 · 2^23, whose last bit is 1: a number that is added to it is rounded to an integer, the low bits of the sum. Four sums
/// times 1, 256, 256² and 256³ are a word of four bytes, but for what the bits of kMagic add, which kPlaces takes away.
constexpr float kMagic = 12582912.0f;
__device__ constexpr float kPlaces[4] = {0.0f, 0.0f, -64.0f, 117.0f};

/// m of a thread's two rows, and codes of P. Scores that are -inf are hidden.
template <int COUNT>
struct CodeSoftmax {
  static constexpr float kLift = 15.0f;   // what m has for a code, in log2 units
  static constexpr float kSlack = 0.75f;  // how far t may be above m: 8 · 15.75 = 126 is e4m3's last number

  float top[2];    // m; -inf before the first key
  float alpha[2];  // factor for what was accumulated before the last `update`
  float bad[2];    // 0, or NaN when some unit was no number

  __device__ void reset() {
    top[0] = top[1] = negativeInfinity();
    bad[0] = bad[1] = 0.0f;
  }

  /// Turns scores into codes, as the low bytes of floats. `high`: the largest of this thread's rows; t is unit · score. Says
  /// whether the accumulator has to be multiplied by alpha (the same for the whole warp).
  __device__ bool update(float (&scores)[COUNT], const float (&high)[2], const float (&unit)[2]) {
    bool grown = false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      grown |= high[half] * unit[half] > top[half] + kSlack;
      bad[half] = __fmaf_rn(unit[half], 0.0f, bad[half]);
    }
    bool moved = __any_sync(0xffffffff, grown);
    if (moved)
      move(high, unit);
    float base[2] = {top[0] == negativeInfinity() ? 0.0f : top[0], top[1] == negativeInfinity() ? 0.0f : top[1]};
    float scale[2] = {unit[0] / 16, unit[1] / 16}, shift[2] = {(kLift - base[0]) / 16, (kLift - base[1]) / 16};
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      float code = saturated(scores[i], scale[i / 2 % 2], shift[i / 2 % 2]);  // by 128
      scores[i] = __fmaf_rn(code, 128.0f, kMagic + kPlaces[i / 4 % 2 * 2 + i % 2]);
    }
    return moved;
  }

  /// What parts of the keys leave each other, and how sums are joined: those of P are columns of O.
  __device__ float4 state() const { return make_float4(top[0], top[1], bad[0], bad[1]); }
  __device__ void clearSums() { bad[0] = bad[1] = 0.0f; }
  __device__ void addSums(float4 part, const float (&)[2]) {
    bad[0] += part.z;
    bad[1] += part.w;
  }

  /// What sums in units of one m are in another.
  __device__ static float correction(float from, float to, float) { return from == to ? 1.0f : exp2Approx(from - to); }

  /// 1 / sum of both rows, which the first thread of four has; 0 for a row that saw no key.
  __device__ void finish(const float *sums, float (&inverse)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = __shfl_sync(0xffffffff, sums[2 * half], threadIdx.x % 32 & ~3);
      float wrong = bad[half] + __shfl_xor_sync(0xffffffff, bad[half], 1);
      wrong += __shfl_xor_sync(0xffffffff, wrong, 2);
      inverse[half] = (sum > 0.0f ? __fdividef(1.0f, sum) : sum == 0.0f ? 0.0f : sum) + wrong;
    }
  }

private:
  __device__ void move(const float (&high)[2], const float (&unit)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float t = high[half] * unit[half];
      t = fmaxf(t, __shfl_xor_sync(0xffffffff, t, 1));
      t = fmaxf(t, __shfl_xor_sync(0xffffffff, t, 2));
      float next = fmaxf(top[half], ceilf(t));
      alpha[half] = correction(top[half], next, 1.0f);
      top[half] = next;
    }
  }
};

/// Codes, low bytes of words, as the A operand of e4m3 products. A thread has of a row columns 2q, 2q + 1 of each 8, but is to
/// give four in a line: so column 16h + 4q + 2e + i of the product stands for key 16h + 8e + 2q + i, and V lies in that order.
template <int COUNT>
__device__ inline void packCodes(const float (&codes)[COUNT], u32 (&packed)[COUNT / 4]) {
#pragma unroll
  for (int i = 0; i < COUNT / 4; ++i) {
    const float *x = codes + 8 * (i / 2) + 2 * (i % 2);
    u32 low = __float_as_uint(x[1]) * 256u + __float_as_uint(x[0]), high = __float_as_uint(x[5]) * 256u + __float_as_uint(x[4]);
    packed[i] = high * 65536u + low;
  }
}

}  // namespace ditc::attention_sm90
