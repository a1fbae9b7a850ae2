// SPDX-License-Identifier: Apache-2.0
//
// The online softmax of one warpgroup tile, in base 2: a thread holds 2 rows (g and g + 8) of an accumulator tile.
//
//   t   = score · scale · log2(e)
//   p   = 2^(t - m)                    one FFMA and one EX2 per score
//   sum = Σ p,  out = Σ p·v / sum      for any m that is the same in both sums
//
// m need not be the maximum. It follows the maximum only when that has grown by more than 2^8 since m was set: until
// then p stays below 256, which neither fp32 sums nor the 16-bit storage of p can notice, and the accumulator is left
// alone. The result is exact either way; the usual rescaling per key block (one multiply per accumulator) becomes rare.
#pragma once

#include "attention_ptx.cuh"

namespace ditc {

template <int COUNT>
struct OnlineSoftmax {
  static constexpr float kSlack = 8.0f, kLow = -1e6f;  // in log2 units

  float top[2];      // m / (scale · log2(e)), raw score units; -inf before the first key
  float sum[2];      // this thread's part
  float alpha[2];    // factor for what was accumulated before the last `update`
  int threshold[2];  // bits of the score at which m has to move; the lowest integer when that score is negative

  __device__ void reset() {
    top[0] = top[1] = negativeInfinity();
    sum[0] = sum[1] = 0.0f;
    threshold[0] = threshold[1] = kNever;
  }

  /// Turns scores into p. Says whether the accumulator has to be multiplied by alpha (the same for the whole warp).
  /// LOWS: finite scores may be as low as a type allows, and a row may have no others.
  template <bool LOWS>
  __device__ bool update(float (&scores)[COUNT], float scaleLog2) {
    bool moved = __any_sync(0xffffffff, mayExceed(scores)) && move(scores, scaleLog2);
    float shift[2] = {offset(top[0], scaleLog2), offset(top[1], scaleLog2)};
    if constexpr (LOWS) {
      // There top · scale is off by more than any exponent has room for; the difference of equal scores is 0.
      bool isLow[2] = {shift[0] < kLow, shift[1] < kLow};
      if (__any_sync(0xffffffff, isLow[0] || isLow[1])) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
          scores[i] -= isLow[i / 2 % 2] ? top[i / 2 % 2] : 0.0f;
        shift[0] = isLow[0] ? 0.0f : shift[0];
        shift[1] = isLow[1] ? 0.0f : shift[1];
      }
    }
    // Two partial sums per row: one chain of additions would be as long as the whole softmax.
    float partial[2][2] = {{sum[0], 0.0f}, {sum[1], 0.0f}};
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      int half = i / 2 % 2;
      scores[i] = exp2Approx(__fmaf_rn(scores[i], scaleLog2, -shift[half]));
      partial[half][i % 2] += scores[i];
    }
    sum[0] = partial[0][0] + partial[0][1];
    sum[1] = partial[1][0] + partial[1][1];
    return moved;
  }

  /// Sums over the row's four threads; then 1 / sum, and 0 for a row that saw no key.
  __device__ void finish(float (&inverse)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sum[half] += __shfl_xor_sync(0xffffffff, sum[half], 1);
      sum[half] += __shfl_xor_sync(0xffffffff, sum[half], 2);
      inverse[half] = sum[half] > 0.0f ? __fdividef(1.0f, sum[half]) : sum[half] == 0.0f ? 0.0f : sum[half];
    }
  }

  /// The shift of the exponent; 0 instead of -inf, so that a row without keys yields 2^-inf = 0 and never NaN.
  __device__ static float offset(float top, float scaleLog2) {
    return top == negativeInfinity() ? 0.0f : top * scaleLog2;
  }

  /// 2^(from - to), from ≤ to: what sums in units of one m are in another. Exactly 1 for equal ones.
  __device__ static float correction(float from, float to, float scaleLog2) {
    return from == to ? 1.0f : exp2Approx(from * scaleLog2 - offset(to, scaleLog2));
  }

  /// What parts of the keys leave each other, and how sums are joined.
  __device__ float4 state() const { return make_float4(top[0], top[1], sum[0], sum[1]); }
  __device__ void clearSums() { sum[0] = sum[1] = 0.0f; }
  __device__ void addSums(float4 part, const float (&factor)[2]) {
    sum[0] = __fmaf_rn(part.z, factor[0], sum[0]);
    sum[1] = __fmaf_rn(part.w, factor[1], sum[1]);
  }

private:
  static constexpr int kNever = -2147483647 - 1;

  /// Whether a score of this thread may lie above its row's threshold. The bits of floats compare like integers where
  /// at least one is positive, and the integer maximum takes three operands at once, half the instructions of fmaxf;
  /// a negative threshold always says yes, and `move` looks again.
  __device__ bool mayExceed(const float (&scores)[COUNT]) const {
    int high[2] = {kNever, kNever};
#pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
      high[0] = __vimax3_s32(high[0], __float_as_int(scores[i]), __float_as_int(scores[i + 1]));
      high[1] = __vimax3_s32(high[1], __float_as_int(scores[i + 2]), __float_as_int(scores[i + 3]));
    }
    return high[0] >= threshold[0] || high[1] >= threshold[1];
  }

  /// Raises m to the row's maximum if some row of the warp has outgrown it.
  __device__ bool move(const float (&scores)[COUNT], float scaleLog2) {
    float high[2] = {scores[0], scores[2]};
#pragma unroll
    for (int i = 1; i < COUNT; ++i)
      high[i / 2 % 2] = fmaxf(high[i / 2 % 2], scores[i]);
    // A first finite score makes the difference infinite; -inf against -inf makes NaN, which compares false.
    bool grown = (high[0] - top[0]) * scaleLog2 > kSlack || (high[1] - top[1]) * scaleLog2 > kSlack;
    if (!__any_sync(0xffffffff, grown))
      return false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      high[half] = fmaxf(high[half], __shfl_xor_sync(0xffffffff, high[half], 1));
      high[half] = fmaxf(high[half], __shfl_xor_sync(0xffffffff, high[half], 2));
      float next = fmaxf(top[half], high[half]);
      alpha[half] = correction(top[half], next, scaleLog2);
      sum[half] *= alpha[half];
      top[half] = next;
      float limit = next + __fdividef(kSlack, scaleLog2);
      threshold[half] = limit > 0.0f ? __float_as_int(limit) : kNever;
    }
    return true;
  }
};

/// ln Σ exp(score) of a thread's rows `row` and row + 8 below `rows`, once the softmax has finished; written by the
/// first thread of each quad into a dense (problem, row).
template <int COUNT>
__device__ inline void storeLogSumExp(const OnlineSoftmax<COUNT> &softmax, float scaleLog2, float *logSumExp,
                                      long long problem, int row, int rows) {
  constexpr float kLn2 = 0.6931471805599453f;
#pragma unroll
  for (int half = 0; half < 2; ++half)
    if (threadIdx.x % 4 == 0 && row + 8 * half < rows)
      logSumExp[problem * rows + row + 8 * half] =
          kLn2 * (softmax.offset(softmax.top[half], scaleLog2) + __log2f(softmax.sum[half]));
}

/// Rounds p to 16 bits, in the order in which it is the A operand of the second product.
template <class Element, int COUNT>
__device__ inline void packScores(const float (&scores)[COUNT], u32 (&packed)[COUNT / 2]) {
#pragma unroll
  for (int i = 0; i < COUNT / 2; ++i)
    packed[i] = packPair<Element>(scores[2 * i], scores[2 * i + 1]);
}

template <int COUNT>
__device__ inline void scaleRows(float (&values)[COUNT], const float (&factor)[2]) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i)
    values[i] *= factor[i / 2 % 2];
}

}  // namespace ditc
