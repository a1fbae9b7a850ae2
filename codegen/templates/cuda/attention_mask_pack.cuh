// SPDX-License-Identifier: Apache-2.0
//
// What kernels want to know of a mask before they read it.
//
// packMask: a boolean mask becomes what BitMask reads, 32 keys a word, and one verdict per tile of queries × keys.
//
//   mask (batch, head, row, key) of bytes, any strides, 0 repeats   →   words (problem, row, ceil(keys / N)·N / 32)
//                                                                       verdicts (problem, row tile, key block)
//
// Skip: no key of the tile is visible to any of its rows; Full: all are; Partial: some. Runs once per step: a 4608² mask
// is 21 MB of bytes and becomes 2.7 MB, read by all heads.
//
//   grid (key blocks, row tiles, problems), 128 threads: one tile each. tileRows and blockKeys are the attention
//   kernel's BLOCK_M and BLOCK_N. A key mask has rows = 1.
//
// judgeBias: an additive mask that all queries share becomes the verdicts that JudgedBias reads, one per key block.
//
//   bias (batch, head, 1, key), any strides but 1 along the keys   →   verdicts (problem, 1, key block)
//
// A key whose number lies kHidden below the largest of its problem gets a weight of 0 in fp32, unless its score is as
// much higher than all others. Skip: all keys of the block are such; Full: all numbers are 0.
//
//   grid (problems), 128 threads
#pragma once

#include "attention_blocks.cuh"
#include "common/tensor.cuh"
#include "common/words.cuh"

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
  followPreviousKernel();
  __syncthreads();

  int block = blockIdx.x, tile = blockIdx.y, problem = blockIdx.z;
  int wordsPerBlock = p.blockKeys / 32;
  const u8 *source = p.mask + problem / p.heads * p.batchStride + problem % p.heads * p.headStride;
  u32 *target = p.words + (long long)problem * p.rows * gridDim.x * wordsPerBlock + block * wordsPerBlock;
  int rowsHere = p.rows - tile * p.tileRows < p.tileRows ? p.rows - tile * p.tileRows : p.tileRows;
  // Four keys a thread: whole words of the mask where its strides allow, else byte by byte.
  bool whole = p.keyStride == 1 && ((reinterpret_cast<u64>(source) | p.rowStride) & 3) == 0;

  bool anyHidden = false, anyVisible = false;
  int quads = rowsHere * wordsPerBlock * 8;
  for (int i = threadIdx.x; i < (quads + 31) / 32 * 32; i += 128) {
    int row = tile * p.tileRows + i / (wordsPerBlock * 8);
    int quad = i % (wordsPerBlock * 8), key = block * p.blockKeys + quad * 4;
    const u8 *from = source + row * p.rowStride + key * p.keyStride;
    u32 bits = 0, exist = 0;
    if (i < quads) {
      exist = key + 4 <= p.keys ? 0xf : key < p.keys ? 0xf >> (key + 4 - p.keys) : 0;
      if (whole && exist == 0xf)
        bits = (*reinterpret_cast<const u32 *>(from) & 0x01010101) * 0x10204080 >> 28;
      else
        for (int j = 0; j < 4; ++j)
          if (exist >> j & 1)
            bits |= u32(from[j * p.keyStride] != 0) << j;
    }
    anyHidden |= bits != exist;
    anyVisible |= bits != 0;
    bits <<= threadIdx.x % 8 * 4;
    for (int distance = 1; distance < 8; distance *= 2)
      bits |= __shfl_xor_sync(0xffffffff, bits, distance);
    if (i < quads && threadIdx.x % 8 == 0)
      target[(long long)row * gridDim.x * wordsPerBlock + quad / 8] = bits;
  }
  if (anyHidden)
    atomicMax(&hidden, 1);
  if (anyVisible)
    atomicMax(&visible, 1);
  __syncthreads();
  if (threadIdx.x == 0)
    p.verdicts[((long long)problem * gridDim.y + tile) * gridDim.x + block] =
        !visible ? Skip : hidden ? Partial : Full;
}

struct BiasJudgeParams {
  const void *bias;
  u8 *verdicts;
  long long batchStride, headStride;  // of bias, in elements; keys are neighbours
  int heads, keys, blockKeys;
};

template <class Element>
__device__ inline void judgeBias(const BiasJudgeParams &p) {
  constexpr float kHidden = 9000.0f;  // models write -10000
  int problem = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int blocks = (p.keys + p.blockKeys - 1) / p.blockKeys;
  followPreviousKernel();
  const Element *bias =
      static_cast<const Element *>(p.bias) + problem / p.heads * p.batchStride + problem % p.heads * p.headStride;
  float top = -__int_as_float(0x7f800000);
  for (int key = lane; key < p.keys; key += 32)
    top = fmaxf(top, widen(bias[key]));
  for (int distance = 16; distance > 0; distance /= 2)
    top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, distance));

  for (int block = warp; block < blocks; block += 4) {
    int end = (block + 1) * p.blockKeys < p.keys ? (block + 1) * p.blockKeys : p.keys;
    bool visible = false, added = false;
    for (int key = block * p.blockKeys + lane; key < end; key += 32) {
      float value = widen(bias[key]);
      visible |= !(value < top - kHidden) && value != -__int_as_float(0x7f800000);  // NaN is visible
      added |= value != 0.0f;
    }
    visible = __any_sync(0xffffffff, visible);
    added = __any_sync(0xffffffff, added);
    if (lane == 0)
      p.verdicts[(long long)problem * blocks + block] = !visible ? Skip : added ? Partial : Full;
  }
}

}  // namespace ditc
