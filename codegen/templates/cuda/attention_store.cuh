// SPDX-License-Identifier: Apache-2.0
//
// The end of an attention tile: an accumulator tile of 64 rows leaves the registers of a warpgroup.
//
// A quad of lanes holds 8 neighbouring columns of a row, 2 in each lane. Four such groups are transposed inside the quad
// by shuffles, so that each lane stores 16 bytes and the quad 64 contiguous bytes of one row: whole sectors, no shared
// memory, any output strides that keep 16-byte alignment, and rows past the end are simply not stored.
#pragma once

#include "attention_masks.cuh"

namespace ditc {

struct Output {
  void *data;
  long long batchStride, headStride, rowStride;  // in elements, multiples of 8
};

/// The epilogue hole: (value, tile, row, column) -> value, on normalised fp32 before the cast.
struct StorePlain {
  __device__ float operator()(float value, const WorkTile &, int, int) const { return value; }
};

/// words[k] of lane q becomes words[q] of lane k, inside each quad.
__device__ inline void transposeQuad(u32 (&words)[4], int q) {
#pragma unroll
  for (int distance = 1; distance <= 2; distance *= 2) {
    bool high = q & distance;
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      int low = distance == 1 ? 2 * pair : pair;
      u32 sent = high ? words[low] : words[low + distance];
      u32 received = __shfl_xor_sync(0xffffffff, sent, distance);
      words[low] = high ? received : words[low];
      words[low + distance] = high ? words[low + distance] : received;
    }
  }
}

/// Stores rows place.row and place.row + 8 of this thread's quad, WIDTH columns from column 0, rows below `rows`.
template <class Element, int WIDTH, class Epilogue>
__device__ inline void storeTile(const float *values, const float (&factor)[2], const Output &out,
                                 const WorkTile &tile, int row, int rows, const Epilogue &epilogue) {
  constexpr int GROUPS = WIDTH / 8;
  int q = threadIdx.x % 4;
  u16 *base = static_cast<u16 *>(out.data) + tile.batch * out.batchStride + tile.head * out.headStride;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    int at = row + 8 * half;
    u16 *line = base + at * out.rowStride;
    auto word = [&](int group) {
      const float *pair = values + 4 * group + 2 * half;
      int column = 8 * group + 2 * q;
      return packPair<Element>(epilogue(pair[0] * factor[half], tile, at, column),
                               epilogue(pair[1] * factor[half], tile, at, column + 1));
    };
#pragma unroll
    for (int group = 0; group + 4 <= GROUPS; group += 4) {
      u32 words[4] = {word(group), word(group + 1), word(group + 2), word(group + 3)};
      transposeQuad(words, q);
      if (at < rows)
        *reinterpret_cast<uint4 *>(line + 8 * (group + q)) = make_uint4(words[0], words[1], words[2], words[3]);
    }
#pragma unroll
    for (int group = GROUPS / 4 * 4; group < GROUPS; ++group) {
      u32 pair = word(group);
      if (at < rows)
        *reinterpret_cast<u32 *>(line + 8 * group + 2 * q) = pair;
    }
  }
}

}  // namespace ditc
