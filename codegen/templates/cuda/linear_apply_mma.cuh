// SPDX-License-Identifier: Apache-2.0
//
// linear_apply.cuh on tensor cores, for queries of bf16 whose channels are neighbours and start on 16 bytes.
//
//   S[b, h, e, d] = Σ_p state[p, b, h, e, d]
//   out[b, h, n, e] = Σ_d φ(query[b, h, n, d]) · S[b, h, e, d]      with NORMALISER / (Σ_d φ(query[b, h, n, d]) · S[b, h, E, d] + epsilon)
//
//   S is two numbers of bf16, what it rounds to and what that leaves: 16 bits of it count, eight more than of a result in bf16.
//
//             e, TILE               A block has TILE columns of e, holds S of them, and goes through TOKENS tokens, kTokens at a time;
//           ┌─────────┐             the next ones are on their way meanwhile. A warp has 32 tokens and all columns. The normaliser is
//   kTokens │ warp 0  │             one more row of S, which all blocks of a token compute.
//           │ …       │
//           │ warp 3  │
//           └─────────┘
//
//   shared       2 · kTokens · (DEPTH + 8) + 2 · (TILE + 8) · (DEPTH + 8) elements, DEPTH: D in steps of 16. 95 KB for D 112
//   registers    TILE / 2 sums, 8 of the normaliser
//
//   Config   Query [B, H, N, D], State [PARTS, B, H, E (+ 1), D] of float, Output [B, H, N, E]; RELU, NORMALISER, EPSILON;
//            TILE 32 or 64; TOKENS, a multiple of kTokens
#pragma once

#include "linear_attention.cuh"
#include "linear_attention_mma.cuh"

namespace ditc::linear_apply_mma {

using linear_attention_mma::copyRows;
using linear_attention_mma::cut;
using linear_attention_mma::kThreads;
constexpr int kTokens = 128;

template <class Config>
struct Layout {
  static constexpr int DEPTH = divideUp(Config::Query::size(3), 16) * 16, ROW = DEPTH + 8;
  static constexpr int STATE_ROWS = Config::TILE + 8;  // with the normaliser, and seven of zeros
};

/// TILE rows of S from `firstE` on and its last row: what they round to, and behind all of that what that leaves.
template <class Config>
__device__ void fillState(BF16 *s, const float *state, int firstE) {
  using State = typename Config::State;
  using L = Layout<Config>;
  constexpr int ROWS = Config::Output::size(3);
  for (int i = threadIdx.x; i < L::STATE_ROWS * L::DEPTH; i += kThreads) {
    int row = i / L::DEPTH, d = i % L::DEPTH, e = row == Config::TILE ? ROWS : firstE + row;
    bool exists = row < Config::TILE ? e < ROWS : Config::NORMALISER && row == Config::TILE;
    float sum = 0;
    if (exists && d < State::size(4))
#pragma unroll
      for (int part = 0; part < State::size(0); ++part)
        sum += state[part * State::stride(0) + e * State::stride(3) + d * State::stride(4)];
    BF16 rounded = narrow<BF16>(sum);
    float left = sum - widen(rounded);
    s[row * L::ROW + d] = rounded;
    s[(L::STATE_ROWS + row) * L::ROW + d] = narrow<BF16>(left - left == 0.0f ? left : 0.0f);  // of inf and NaN nothing is left
  }
}

/// A warp's sums, of 32 tokens.
template <class Config>
struct Sums {
  using L = Layout<Config>;
  static constexpr int ACROSS = Config::TILE / 8;
  float products[2][ACROSS][4] = {}, normalisers[2][4] = {};

  __device__ void add(const BF16 *query, const BF16 *s) {
    int lane = threadIdx.x % 32, matrix = lane / 8;
    query += (int(threadIdx.x) / 32 * 32 + matrix % 2 * 8 + lane % 8) * L::ROW + matrix / 2 * 8;
    s += (matrix / 2 * 8 + lane % 8) * L::ROW + matrix % 2 * 8;
#pragma unroll
    for (int d = 0; d < L::DEPTH; d += 16) {
      MmaWord left[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        loadMatrices4(left[i], query + 16 * i * L::ROW + d);
        if constexpr (Config::RELU)
          cut<BF16>(left[i]);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const BF16 *from = s + half * L::STATE_ROWS * L::ROW + d;
#pragma unroll
        for (int j = 0; j < ACROSS / 2; ++j) {
          MmaWord right[4];
          loadMatrices4(right, from + 16 * j * L::ROW);
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            mma16x8<BF16>(products[i][2 * j], left[i], right[0], right[1]);
            mma16x8<BF16>(products[i][2 * j + 1], left[i], right[2], right[3]);
          }
        }
        if constexpr (Config::NORMALISER)
          addNormaliser(left, from + (Config::TILE - matrix / 2 * 8) * L::ROW);
      }
    }
  }

  /// `row`: this lane's of the eight behind the tile; both halves of k lie there, and the other two matrices are the same again.
  __device__ void addNormaliser(const MmaWord (&left)[2][4], const BF16 *row) {
    MmaWord right[4];
    loadMatrices4(right, row);
#pragma unroll
    for (int i = 0; i < 2; ++i)
      mma16x8<BF16>(normalisers[i], left[i], right[0], right[1]);
  }
};

template <class Config>
__device__ void store(const Sums<Config> &sums, ElementOf<typename Config::Output> *out, int firstToken, int firstE) {
  using Output = typename Config::Output;
  using Element = typename Output::Element;
  constexpr int ROWS = Output::size(3);
  constexpr bool TOGETHER = Output::VECTOR % 2 == 0 && ROWS % 2 == 0;
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 4; ++half) {
    int i = half / 2, c = half % 2 * 2, token = firstToken + int(threadIdx.x) / 32 * 32 + 16 * i + lane / 4 + 8 * (half % 2);
    linear_attention::Divisor divisor(Config::NORMALISER ? __shfl_sync(kWholeWarp, sums.normalisers[i][c], lane & ~3) + Config::EPSILON : 1.0f);
    if (token >= Output::size(2))
      continue;
#pragma unroll
    for (int j = 0; j < Sums<Config>::ACROSS; ++j) {
      int e = firstE + 8 * j + lane % 4 * 2;
      Pack<Element, 2> pack;
#pragma unroll
      for (int k = 0; k < 2; ++k)
        pack.at[k] = narrow<Element>(Config::NORMALISER ? divisor.of(sums.products[i][j][c + k]) : sums.products[i][j][c + k]);
      Element *to = out + token * Output::stride(2) + e * Output::stride(3);
      if constexpr (TOGETHER) {
        if (e < ROWS)
          storePack(to, pack);
      } else {
#pragma unroll
        for (int k = 0; k < 2; ++k)
          if (e + k < ROWS)
            to[k * Output::stride(3)] = pack.at[k];
      }
    }
  }
}

template <class Config>
__device__ void run(const BF16 *query, const float *state, ElementOf<typename Config::Output> *out) {
  using Query = typename Config::Query;
  using State = typename Config::State;
  using Output = typename Config::Output;
  using L = Layout<Config>;
  constexpr int ROWS = Output::size(3), CHUNKS = divideUp(Query::size(2), Config::TOKENS), ACROSS = divideUp(ROWS, Config::TILE);
  extern __shared__ SharedChunk sharedMemory[];
  auto *s = reinterpret_cast<BF16 *>(sharedMemory), *queries = s + 2 * L::STATE_ROWS * L::ROW;
  int firstE = blockIdx.x % ACROSS * Config::TILE, begin = blockIdx.x / ACROSS % CHUNKS * Config::TOKENS, head = blockIdx.x / ACROSS / CHUNKS;
  int end = begin + Config::TOKENS < Query::size(2) ? begin + Config::TOKENS : Query::size(2);
  followPreviousKernel();

  query += Query::template leadingOffset<2>(head);
  out += Output::template leadingOffset<2>(head);
  auto stageOf = [&](int first) { return queries + (first - begin) / kTokens % 2 * kTokens * L::ROW; };
  auto load = [&](int first) {
    if (first < end)
      copyRows<Query, kTokens, L::DEPTH>(stageOf(first), query + i64(first) * Query::stride(2), end - first, 0);
    copyCommit();
  };
  load(begin);
  fillState<Config>(s, state + State::template leadingOffset<3>(head), firstE);
  for (int first = begin; first < end; first += kTokens) {
    load(first + kTokens);
    copyWait<1>();
    __syncthreads();
    Sums<Config> sums;
    sums.add(stageOf(first), s);
    store<Config>(sums, out, first, firstE);
    __syncthreads();
  }
}

}  // namespace ditc::linear_apply_mma
