// SPDX-License-Identifier: Apache-2.0
//
// A boolean attention mask becomes what BitMask reads: 32 keys a word, and one verdict per tile of queries × keys.
//
//   mask (batch, head, row, key) of bytes, any strides, 0 repeats   →   words (problem, row, ceil(keys / N)·N / 32)
//                                                                       verdicts (problem, row tile, key block)
//
// Skip: no key of the tile is visible to any of its rows; Full: all are; Partial: some. Runs once per step: a 4608² mask
// is 21 MB of bytes and becomes 2.7 MB, read by all heads.
//
//   grid (key blocks, row tiles, problems), 128 threads: one tile each. tileRows and blockKeys are the attention
//   kernel's BLOCK_M and BLOCK_N. A key mask has rows = 1.
#pragma once

#include "attention_masks.cuh"

namespace ditc {

struct MaskPackParams {
  const u8 *mask;
  u32 *words;
  u8 *verdicts;
  long long batchStride, headStride, rowStride, keyStride;  // of mask, in bytes
  int heads;                                                // problems are batch · heads + head
  int rows, keys, tileRows, blockKeys;
};

__device__ inline void packMask(const MaskPackParams &p) {
  __shared__ int hidden, visible;
  if (threadIdx.x == 0)
    hidden = visible = 0;
  __syncthreads();

  int block = blockIdx.x, tile = blockIdx.y, problem = blockIdx.z;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int wordsPerBlock = p.blockKeys / 32;
  const u8 *source = p.mask + problem / p.heads * p.batchStride + problem % p.heads * p.headStride;
  u32 *target = p.words + (long long)problem * p.rows * gridDim.x * wordsPerBlock;
  int rowsHere = p.rows - tile * p.tileRows < p.tileRows ? p.rows - tile * p.tileRows : p.tileRows;

  u32 anyHidden = 0, anyVisible = 0;
  for (int i = warp; i < rowsHere * wordsPerBlock; i += 4) {
    int row = tile * p.tileRows + i / wordsPerBlock;
    int key = block * p.blockKeys + i % wordsPerBlock * 32 + lane;
    bool exists = key < p.keys;
    bool seen = exists && source[row * p.rowStride + key * p.keyStride] != 0;
    u32 bits = __ballot_sync(0xffffffff, seen);
    anyHidden |= __ballot_sync(0xffffffff, exists && !seen);
    anyVisible |= bits;
    if (lane == 0)
      target[(long long)row * gridDim.x * wordsPerBlock + block * wordsPerBlock + i % wordsPerBlock] = bits;
  }
  if (lane == 0 && anyHidden)
    hidden = 1;
  if (lane == 0 && anyVisible)
    visible = 1;
  __syncthreads();
  if (threadIdx.x == 0)
    p.verdicts[((long long)problem * gridDim.y + tile) * gridDim.x + block] =
        !visible ? Skip : hidden ? Partial : Full;
}

}  // namespace ditc
