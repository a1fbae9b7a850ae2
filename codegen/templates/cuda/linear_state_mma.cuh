// SPDX-License-Identifier: Apache-2.0
//
// linear_state.cuh on tensor cores, for keys and values of 16 bits whose channels are neighbours and start on 16 bytes: their
// products are exact in fp32, in which they are summed.
//
//   out[p, b, h, e, d] = Σ_n φ(key[b, h, n, d]) · value[b, h, n, e]     n: the tokens of part p, of PARTS equal ones
//   out[p, b, h, E, d] = Σ_n φ(key[b, h, n, d])                         with NORMALISER; φ(x) = max(x, 0) with RELU, else x
//
//                        d, TILE
//                      ┌────┬────┐     A block has TILE x TILE of (e, d) and all tokens of a part, kTokens a step. Both operands
//   values turned   e  │ w0 │ w1 │     lie as they come, tokens by channels, and are turned on their way to registers. The last
//   TILE x kTokens     ├────┼────┤     row is a product with ones, of the warps that have the first rows. Sums of a block are in
//                      │ w2 │ w3 │     the order of tokens: results are deterministic.
//                      └────┴────┘
//
//   shared       kStages · 2 · kTokens · (TILE + 8) elements: 54 KB for TILE 64, 30 KB for 32
//   registers    TILE² / 128 sums, 8 of the last row
//
//   Config   Key [B, H, N, D], Value [B, H, N, E], Output [PARTS, B, H, E (+ 1), D] of float; PARTS, RELU, NORMALISER;
//            TILE 32 or 64
#pragma once

#include "linear_attention_mma.cuh"

namespace ditc::linear_state_mma {

using linear_attention_mma::copyRows;
using linear_attention_mma::cut;
using linear_attention_mma::kThreads;
constexpr int kTokens = 64, kStages = 3;

/// The sums of a warp, of half a tile in both directions.
template <class Config>
struct Sums {
  using Element = ElementOf<typename Config::Key>;
  static constexpr int OF_WARP = Config::TILE / 2, ROW = Config::TILE + 8, UP = OF_WARP / 16, ACROSS = OF_WARP / 8;
  int e = int(threadIdx.x) / 64 * OF_WARP, d = int(threadIdx.x) / 32 % 2 * OF_WARP;
  float products[UP][ACROSS][4] = {}, keys[ACROSS][4] = {};

  __device__ void add(const Element *key, const Element *value, bool hasKeys) {
    int lane = threadIdx.x % 32, matrix = lane / 8, ones = Pair<Element>::pack(1.0f, 1.0f);
#pragma unroll
    for (int token = 0; token < kTokens; token += 16) {
      MmaWord left[UP][4], right[ACROSS / 2][4];
#pragma unroll
      for (int i = 0; i < UP; ++i)
        loadMatrices4Transposed(left[i], value + (token + matrix / 2 * 8 + lane % 8) * ROW + e + 16 * i + matrix % 2 * 8);
#pragma unroll
      for (int j = 0; j < ACROSS / 2; ++j) {
        loadMatrices4Transposed(right[j], key + (token + matrix % 2 * 8 + lane % 8) * ROW + d + 16 * j + matrix / 2 * 8);
        if constexpr (Config::RELU)
          cut<Element>(right[j]);
      }
#pragma unroll
      for (int j = 0; j < ACROSS; ++j) {
        MmaWord b0 = right[j / 2][j % 2 * 2], b1 = right[j / 2][j % 2 * 2 + 1];
#pragma unroll
        for (int i = 0; i < UP; ++i)
          mma16x8<Element>(products[i][j], left[i], b0, b1);
        if (Config::NORMALISER && hasKeys)
          mma16x8<Element>(keys[j], {MmaWord(ones), MmaWord(ones), MmaWord(ones), MmaWord(ones)}, b0, b1);
      }
    }
  }
};

template <class Config>
__device__ void store(const Sums<Config> &sums, float *out, int firstE, int firstD, bool hasKeys) {
  using Output = typename Config::Output;
  constexpr int ROWS = Config::Value::size(3);
  int lane = threadIdx.x % 32, row = lane / 4;
  auto put = [&](int e, int d, float sum) {
    if (d < Output::size(4))
      out[e * Output::stride(3) + d * Output::stride(4)] = sum;
  };
#pragma unroll
  for (int j = 0; j < Sums<Config>::ACROSS; ++j) {
    int d = firstD + sums.d + 8 * j + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < Sums<Config>::UP; ++i)
#pragma unroll
      for (int c = 0; c < 4; ++c)
        if (int e = firstE + sums.e + 16 * i + row + c / 2 * 8; e < ROWS)
          put(e, d + c % 2, sums.products[i][j][c]);
    if (hasKeys && row == 0)
      put(ROWS, d, sums.keys[j][0]), put(ROWS, d + 1, sums.keys[j][1]);
  }
}

template <class Config>
__device__ void run(const ElementOf<typename Config::Key> *key, const ElementOf<typename Config::Value> *value, float *out) {
  using Key = typename Config::Key;
  using Value = typename Config::Value;
  using Output = typename Config::Output;
  using Element = ElementOf<Key>;
  constexpr int ROWS = Value::size(3), TOKENS = Key::size(2) / Config::PARTS, HEADS = Key::size(0) * Key::size(1), ROW = Config::TILE + 8;
  constexpr int ACROSS = divideUp(Key::size(3), Config::TILE), TILES = ACROSS * divideUp(ROWS, Config::TILE), STEPS = divideUp(TOKENS, kTokens);
  extern __shared__ SharedChunk sharedMemory[];
  auto *stages = reinterpret_cast<Element *>(sharedMemory);
  int tile = blockIdx.x % TILES, head = blockIdx.x / TILES % HEADS, part = blockIdx.x / TILES / HEADS;
  int firstE = tile / ACROSS * Config::TILE, firstD = tile % ACROSS * Config::TILE;
  followPreviousKernel();

  key += Key::template leadingOffset<2>(head) + i64(part) * TOKENS * Key::stride(2);
  value += Value::template leadingOffset<2>(head) + i64(part) * TOKENS * Value::stride(2);
  auto keysOf = [&](int step) { return stages + step % kStages * 2 * kTokens * ROW; };
  auto load = [&](int step) {
    if (step < STEPS) {
      int first = step * kTokens;
      copyRows<Key, kTokens, Config::TILE>(keysOf(step), key + i64(first) * Key::stride(2), TOKENS - first, firstD);
      copyRows<Value, kTokens, Config::TILE>(keysOf(step) + kTokens * ROW, value + i64(first) * Value::stride(2), TOKENS - first, firstE);
    }
    copyCommit();
  };
  Sums<Config> sums;
  bool hasKeys = Config::NORMALISER && firstE == 0 && sums.e == 0;
  load(0), load(1);
  for (int step = 0; step < STEPS; ++step) {
    copyWait<1>();
    __syncthreads();
    load(step + 2);
    sums.add(keysOf(step), keysOf(step) + kTokens * ROW, hasKeys);
  }
  store<Config>(sums, out + part * Output::stride(0) + Output::template leadingOffset<3>(head), firstE, firstD, hasKeys);
}

}  // namespace ditc::linear_state_mma
