// SPDX-License-Identifier: Apache-2.0
//
// The masks of attention as types (additive ones are in attention_bias.cuh). A kernel template takes one of them as its
// hole and asks it four questions:
//
//   keyLimit(tile, keys)          how many keys of this sequence exist; those beyond are never loaded
//   range<M, N>(tile, keys)       the key blocks [first, last) that can matter to M query rows
//   kind<M, N>(tile, block)       Skip (nothing visible), Partial, or Full (nothing hidden)
//   load / apply                  fetch what a thread needs for one block early, then change its scores
//
//   EVEN        every query tile sees all key blocks, so tiles take equally long
//   GROWS       later rows see more keys
//   PER_BLOCK   any block may be Partial. Otherwise `apply` is never called and costs nothing
//   SKIPS       `kind` can be Skip, so the producer evaluates it too; otherwise only the consumers do
//   SHORTENS    keyLimit can be below the tensor's key count, so V rows past it must be cleared (0 · NaN is NaN)
//   LOWS        hidden scores may be finite, near the lowest number
//
// Scores are raw QKᵀ values here; the kernel multiplies by scale · log2(e) later. A hidden score is -inf.
#pragma once

#include "attention_blocks.cuh"
#include "attention_ptx.cuh"
#include "common/scalars.cuh"

namespace ditc {

struct WorkTile {
  int batch, head, row;  // row: the first query of the tile
};

struct BlockRange {
  int first, last;
};

/// Where a thread's scores lie: d[4i + 0, 1] at (row, column + 8i + {0, 1}), d[4i + 2, 3] at row + 8.
struct ScorePlace {
  int row, column;
};

/// Every key counts.
struct NoMask {
  static constexpr bool EVEN = true, GROWS = false, PER_BLOCK = false, SKIPS = false, SHORTENS = false, LOWS = false;
  struct Fragment {};

  __device__ int keyLimit(const WorkTile &, int keys) const { return keys; }
  template <int M, int N>
  __device__ BlockRange range(const WorkTile &tile, int keys) const {
    return {0, ceilDiv(keyLimit(tile, keys), N)};
  }
  template <int M, int N>
  __device__ int kind(const WorkTile &, int) const {
    return Full;
  }
  template <int N>
  __device__ Fragment load(const WorkTile &, int, ScorePlace) const {
    return {};
  }
  template <int COUNT>
  __device__ void apply(float (&)[COUNT], const Fragment &, const WorkTile &, ScorePlace) const {}
};

/// The first lengths[batch] keys count.
struct KeyLengths : NoMask {
  static constexpr bool EVEN = false, SHORTENS = true;
  const int *lengths;

  __device__ int keyLimit(const WorkTile &tile, int keys) const {
    int length = __ldg(lengths + tile.batch);
    return length < keys ? (length > 0 ? length : 0) : keys;
  }
  template <int M, int N>
  __device__ BlockRange range(const WorkTile &tile, int keys) const {
    return {0, ceilDiv(keyLimit(tile, keys), N)};
  }
};

/// Query i sees keys 0 .. i + offset (offset 0 is the upper-left convention).
struct Causal : NoMask {
  static constexpr bool EVEN = false, GROWS = true, PER_BLOCK = true;
  int offset;

  template <int M, int N>
  __device__ BlockRange range(const WorkTile &tile, int keys) const {
    int visible = tile.row + M + offset;  // one past the last key that the last row sees
    visible = visible < 0 ? 0 : visible < keys ? visible : keys;
    return {0, ceilDiv(visible, N)};
  }
  template <int M, int N>
  __device__ int kind(const WorkTile &tile, int block) const {
    return (block + 1) * N - 1 <= tile.row + offset ? Full : Partial;
  }
  template <int COUNT>
  __device__ void apply(float (&scores)[COUNT], const Fragment &, const WorkTile &, ScorePlace place) const {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      int column = place.column + 8 * (i / 4) + i % 2;
      int row = place.row + 8 * (i / 2 % 2);
      if (column > row + offset)
        scores[i] = negativeInfinity();
    }
  }
};

/// Query i sees keys i - before .. i + after: attention to near neighbours in one dimension.
struct Window : NoMask {
  static constexpr bool EVEN = false, PER_BLOCK = true;
  int before, after;

  template <int M, int N>
  __device__ BlockRange range(const WorkTile &tile, int keys) const {
    int first = tile.row - before, last = tile.row + M + after;
    return {first > 0 ? first / N : 0, ceilDiv(last < keys ? last : keys, N)};
  }
  template <int M, int N>
  __device__ int kind(const WorkTile &tile, int block) const {
    bool allSeen = block * N >= tile.row + M - 1 - before && (block + 1) * N - 1 <= tile.row + after;
    return allSeen ? Full : Partial;
  }
  template <int COUNT>
  __device__ void apply(float (&scores)[COUNT], const Fragment &, const WorkTile &, ScorePlace place) const {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      int distance = place.column + 8 * (i / 4) + i % 2 - (place.row + 8 * (i / 2 % 2));
      if (distance < -before || distance > after)
        scores[i] = negativeInfinity();
    }
  }
};

/// Scaled scores x become cap · tanh(x / cap); combine it before masks that hide keys.
struct SoftCap : NoMask {
  static constexpr bool PER_BLOCK = true;
  float inverse;  // 2 · log2(e) · scale / cap
  float factor;   // cap / scale

  template <int M, int N>
  __device__ int kind(const WorkTile &, int) const {
    return Partial;
  }
  template <int COUNT>
  __device__ void apply(float (&scores)[COUNT], const Fragment &, const WorkTile &, ScorePlace) const {
#pragma unroll
    for (int i = 0; i < COUNT; ++i)  // tanh y = 1 - 2 / (1 + e^2y), exact enough where tanh.approx (5e-4) is not
      scores[i] = factor - __fdividef(2.0f * factor, 1.0f + exp2Approx(minimum(scores[i] * inverse, 126.0f)));
  }
};

/// A boolean mask of any broadcast shape, packed 32 keys a word by attention_mask_pack.cuh, with one verdict (Skip,
/// Partial, Full) per tile. A stride of 0 broadcasts; a key-validity mask has row stride 0 and one row of verdicts.
struct BitMask : NoMask {
  static constexpr bool EVEN = false, PER_BLOCK = true, SKIPS = true;
  const u32 *words;
  const u8 *verdicts;
  long long wordBatch, wordHead, wordRow;           // strides in words; rows are padded to whole key blocks
  long long verdictBatch, verdictHead, verdictRow;  // strides in bytes; verdictRow per query tile
  int rows;                                         // query rows that the mask has

  template <int N>
  static constexpr int WORDS = N / 32;
  struct Fragment {
    u32 bits[2][8];
  };

  template <int M, int N>
  __device__ int kind(const WorkTile &tile, int block) const {
    return __ldg(verdicts + tile.batch * verdictBatch + tile.head * verdictHead + tile.row / M * verdictRow + block);
  }

  template <int N>
  __device__ Fragment load(const WorkTile &tile, int block, ScorePlace place) const {
    static_assert(N % 32 == 0 && N <= 256, "packed masks need key blocks of whole words");
    Fragment fragment;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int row = place.row + 8 * half;
      const u32 *source = words + tile.batch * wordBatch + tile.head * wordHead +
                          (row < rows ? row : rows - 1) * wordRow + block * (N / 32);
#pragma unroll
      for (int word = 0; word < N / 32; ++word)
        fragment.bits[half][word] = __ldg(source + word);
    }
    return fragment;
  }

  template <int COUNT>
  __device__ void apply(float (&scores)[COUNT], const Fragment &fragment, const WorkTile &, ScorePlace place) const {
    int lane = place.column & 7;  // 2q, the first of this thread's columns in a group of 8
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int word = 0; word < COUNT / 16; ++word) {
        u32 bits = fragment.bits[half][word] >> lane;
#pragma unroll
        for (int bit = 0; bit < 8; ++bit)  // groups of 8 columns, two of them this thread's
          if (!(bits >> (8 * (bit / 2) + bit % 2) & 1))
            scores[16 * word + 4 * (bit / 2) + 2 * half + bit % 2] = negativeInfinity();
      }
  }
};

/// A key counts when both masks let it through.
template <class First, class Second>
struct Both {
  static constexpr bool EVEN = First::EVEN && Second::EVEN;
  static constexpr bool GROWS = First::GROWS || Second::GROWS;
  static constexpr bool PER_BLOCK = First::PER_BLOCK || Second::PER_BLOCK;
  static constexpr bool SKIPS = First::SKIPS || Second::SKIPS;
  static constexpr bool SHORTENS = First::SHORTENS || Second::SHORTENS;
  static constexpr bool LOWS = First::LOWS || Second::LOWS;
  First first;
  Second second;
  struct Fragment {
    typename First::Fragment first;
    typename Second::Fragment second;
  };

  __device__ int keyLimit(const WorkTile &tile, int keys) const {
    return second.keyLimit(tile, first.keyLimit(tile, keys));
  }
  template <int M, int N>
  __device__ BlockRange range(const WorkTile &tile, int keys) const {
    BlockRange a = first.template range<M, N>(tile, keys), b = second.template range<M, N>(tile, keys);
    return {a.first > b.first ? a.first : b.first, a.last < b.last ? a.last : b.last};
  }
  template <int M, int N>
  __device__ int kind(const WorkTile &tile, int block) const {
    int a = first.template kind<M, N>(tile, block), b = second.template kind<M, N>(tile, block);
    return a < b ? a : b;
  }
  template <int N>
  __device__ Fragment load(const WorkTile &tile, int block, ScorePlace place) const {
    return {first.template load<N>(tile, block, place), second.template load<N>(tile, block, place)};
  }
  template <int COUNT>
  __device__ void apply(float (&scores)[COUNT], const Fragment &fragment, const WorkTile &tile,
                        ScorePlace place) const {
    first.apply(scores, fragment.first, tile, place);
    second.apply(scores, fragment.second, tile, place);
  }
};

}  // namespace ditc
