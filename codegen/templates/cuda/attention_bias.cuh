// SPDX-License-Identifier: Apache-2.0
//
// Additive masks of attention, as types like those of attention_masks.cuh: a number is added to each scaled score.
//
//   AdditiveMask  one for each row; read when the scores are there, 2 · BLOCK_N / 8 numbers a thread and row
//   ColumnBias    one that all rows share (text padding); half as many, and 16-bit ones are read while QK runs
//   JudgedBias    a ColumnBias with a verdict per key block from attention_mask_pack.cuh: blocks of padding are skipped,
//                 those where nothing is added cost nothing
//
// Registers decide how many keys a block may have: with 3 consumer warpgroups and d 72, 128 keys spill 120 bytes with a
// ColumnBias and 112 none; AdditiveMask spills 8 with 96.
#pragma once

#include "attention_masks.cuh"

namespace ditc {

/// What a bias adds to a raw score, which is scaled later. The lowest finite values of a type stand for "hidden" in many
/// models: they stay finite, so that a row that sees nothing else is averaged as softmax says, and only -inf hides.
__device__ inline float biasOfRawScore(float bias, float inverseScale) {
  return bias > negativeInfinity() ? fmaxf(bias * inverseScale, -3.402823466e38f) : bias;
}

/// Numbers of 16 or 32 bits as fp32.
template <class Element>
struct BiasReader;
template <>
struct BiasReader<float> {
  using Word = u32;
  __device__ static float unpack(u32 bits) { return __int_as_float(int(bits)); }
};
template <>
struct BiasReader<BF16> {
  using Word = u16;
  __device__ static float unpack(u32 bits) { return __int_as_float(int(bits << 16)); }
};
template <>
struct BiasReader<F16> {
  using Word = u16;
  __device__ static float unpack(u32 bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(u16(bits)));
    return value;
  }
};

/// A bias added to the scaled scores, of any broadcast shape (stride 0 repeats). Element is float, BF16 or F16.
template <class Element>
struct AdditiveMask : NoMask {
  static constexpr bool PER_BLOCK = true, LOWS = true;
  const void *bias;
  long long biasBatch, biasHead, biasRow;  // strides in elements; columns are contiguous
  int rows, keys;
  float inverseScale;  // the bias joins the raw scores, which are scaled later

  template <int M, int N>
  __device__ int kind(const WorkTile &, int) const {
    return Partial;
  }

  template <int COUNT>
  __device__ void apply(float (&scores)[COUNT], const Fragment &, const WorkTile &tile, ScorePlace place) const {
    using Reader = BiasReader<Element>;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int row = place.row + 8 * half;
      const auto *line = static_cast<const typename Reader::Word *>(bias) + tile.batch * biasBatch +
                         tile.head * biasHead + (row < rows ? row : rows - 1) * biasRow;
#pragma unroll
      for (int i = 0; i < COUNT / 2; ++i) {
        int column = place.column + 8 * (i / 2) + i % 2, at = 4 * (i / 2) + 2 * half + i % 2;
        if (column < keys)
          scores[at] += biasOfRawScore(Reader::unpack(__ldg(line + column)), inverseScale);
      }
    }
  }
};

/// A bias that all rows share: a thread reads each of its columns once, for both of its rows. 16-bit values come while
/// the product runs, two in a word; PAIRS says that pairs of columns start on whole words.
template <class Element, bool PAIRS>
struct ColumnBias : NoMask {
  static constexpr bool PER_BLOCK = true, LOWS = true, EARLY = sizeof(Element) == 2;
  const void *bias;
  long long biasBatch, biasHead;  // strides in elements; columns are contiguous
  int keys;
  float inverseScale;

  struct Fragment {
    u32 pairs[32];  // by group of 8 columns
  };
  using Reader = BiasReader<Element>;
  using Word = typename Reader::Word;

  template <int M, int N>
  __device__ int kind(const WorkTile &, int) const {
    return Partial;
  }

  __device__ const Word *line(const WorkTile &tile) const {
    return static_cast<const Word *>(bias) + tile.batch * biasBatch + tile.head * biasHead;
  }

  /// Columns behind the last key read as 0; their scores are cut off.
  template <int N>
  __device__ Fragment load(const WorkTile &tile, int, ScorePlace place) const {
    if constexpr (!EARLY)
      return {};
    Fragment fragment;
    const Word *source = line(tile);
#pragma unroll
    for (int group = 0; group < N / 8; ++group) {
      int column = place.column + 8 * group;
      u32 low = 0, high = 0;
      if constexpr (PAIRS) {
        low = column < keys ? __ldg(reinterpret_cast<const u32 *>(source + column)) : 0;
      } else {
        low = column < keys ? __ldg(source + column) : 0;
        high = column + 1 < keys ? u32(__ldg(source + column + 1)) << 16 : 0;
      }
      fragment.pairs[group] = low | high;
    }
    return fragment;
  }

  template <int COUNT>
  __device__ void apply(float (&scores)[COUNT], const Fragment &fragment, const WorkTile &tile,
                        ScorePlace place) const {
    const Word *source = line(tile);
#pragma unroll
    for (int i = 0; i < COUNT / 2; ++i) {
      int group = i / 2, column = place.column + 8 * group + i % 2;
      u32 bits = 0;
      if constexpr (EARLY)
        bits = i % 2 ? fragment.pairs[group] >> 16 : fragment.pairs[group] & 0xffff;
      else if (column < keys)
        bits = __ldg(source + column);
      float value = biasOfRawScore(Reader::unpack(bits), inverseScale);
      scores[4 * group + i % 2] += value;
      scores[4 * group + 2 + i % 2] += value;
    }
  }
};

template <class Element, bool PAIRS>
struct JudgedBias : ColumnBias<Element, PAIRS> {
  static constexpr bool EVEN = false, SKIPS = true;
  const u8 *verdicts;
  long long verdictBatch, verdictHead;  // strides in bytes; key blocks are neighbours

  template <int M, int N>
  __device__ int kind(const WorkTile &tile, int block) const {
    return __ldg(verdicts + tile.batch * verdictBatch + tile.head * verdictHead + block);
  }
};

}  // namespace ditc
