// SPDX-License-Identifier: Apache-2.0
//
// Linear attention's result: what its state (linear_state.cuh) says to each query, in fp32.
//
//   S[b, h, e, d] = Σ_p state[p, b, h, e, d]
//   out[b, h, n, e] = Σ_d φ(query[b, h, n, d]) · S[b, h, e, d]      with NORMALISER / (Σ_d φ(query[b, h, n, d]) · S[b, h, E, d] + epsilon)
//
//   tile         a block has kTokens tokens x 32 of e, a thread 4 x 4; d goes in steps of 32
//   shared       32 · (kTokens + 36 + 1) floats: 21 KB
//   inner loop   two 16-byte reads of shared memory for 16 multiply-adds and 4 of the normaliser
//
//   Config   Query [B, H, N, D], State [PARTS, B, H, E (+ 1), D] of float, Output [B, H, N, E]; RELU, NORMALISER, EPSILON
#pragma once

#include "linear_attention.cuh"

namespace ditc::linear_apply {

using linear_attention::kPatch;
using linear_attention::kThreads;
constexpr int kTokens = 128, kRow = kPatch + 4;  // rows of S by e: padded, on 16 bytes

/// 32 x 32 of S and its last row, from `firstD` on, turned: S by (d, e). What does not exist is 0.
template <class State, int ROWS, bool NORMALISER>
__device__ void fillState(float *s, float *last, const float *state, int firstE, int firstD) {
  for (int i = threadIdx.x; i < (kPatch + NORMALISER) * kPatch; i += kThreads) {
    int row = i / kPatch, d = firstD + i % kPatch, e = row == kPatch ? ROWS : firstE + row;
    float sum = 0;
    if (d < State::size(4) && (row == kPatch || e < ROWS))
#pragma unroll
      for (int part = 0; part < State::size(0); ++part)
        sum += state[part * State::stride(0) + e * State::stride(3) + d * State::stride(4)];
    *(row == kPatch ? last + i % kPatch : s + i % kPatch * kRow + row) = sum;
  }
}

/// A thread's four tokens and four values of e.
struct Sums {
  int token = int(threadIdx.x) / 8 * 4, e = int(threadIdx.x) % 8 * 4;
  float products[4][4] = {}, normalisers[4] = {};

  template <bool NORMALISER>
  __device__ void add(const float *query, const float *s, const float *last) {
#pragma unroll 8
    for (int d = 0; d < kPatch; ++d) {
      auto q = loadPack<4>(query + d * kTokens + token), row = loadPack<4>(s + d * kRow + e);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if constexpr (NORMALISER)
          normalisers[i] += q.at[i] * last[d];
#pragma unroll
        for (int j = 0; j < 4; ++j)
          products[i][j] += q.at[i] * row.at[j];
      }
    }
  }
};

template <class Config>
__device__ void store(const Sums &sums, ElementOf<typename Config::Output> *out, int firstToken, int firstE) {
  using Output = typename Config::Output;
  using Element = typename Output::Element;
  constexpr int ROWS = Output::size(3);
  constexpr bool TOGETHER = Output::VECTOR % 4 == 0 && ROWS % 4 == 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int token = firstToken + sums.token + i, e = firstE + sums.e;
    if (token >= Output::size(2) || e >= ROWS)
      continue;
    linear_attention::Divisor divisor(Config::NORMALISER ? sums.normalisers[i] + Config::EPSILON : 1.0f);
    Pack<Element, 4> pack;
#pragma unroll
    for (int j = 0; j < 4; ++j)
      pack.at[j] = narrow<Element>(Config::NORMALISER ? divisor.of(sums.products[i][j]) : sums.products[i][j]);
    Element *to = out + token * Output::stride(2) + e * Output::stride(3);
    if constexpr (TOGETHER)
      storePack(to, pack);
    else
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (e + j < ROWS)
          to[j * Output::stride(3)] = pack.at[j];
  }
}

template <class Config>
__device__ void run(const ElementOf<typename Config::Query> *query, const float *state, ElementOf<typename Config::Output> *out) {
  using Query = typename Config::Query;
  using State = typename Config::State;
  using Output = typename Config::Output;
  constexpr int ROWS = Output::size(3), TILES = divideUp(Query::size(2), kTokens), ACROSS = divideUp(ROWS, kPatch);
  extern __shared__ SharedChunk sharedMemory[];
  float *queries = reinterpret_cast<float *>(sharedMemory), *s = queries + kPatch * kTokens, *last = s + kPatch * kRow;
  int firstE = blockIdx.x % ACROSS * kPatch, firstToken = blockIdx.x / ACROSS % TILES * kTokens, head = blockIdx.x / ACROSS / TILES;
  followPreviousKernel();

  query += Query::template leadingOffset<2>(head) + firstToken * Query::stride(2);
  state += State::template leadingOffset<3>(head);
  Sums sums;
  for (int first = 0; first < Query::size(3); first += kPatch) {
    __syncthreads();
    auto turned = [queries](int token, int c) { return queries + c * kTokens + token; };
    linear_attention::fill<Query, kTokens, Config::RELU, /*BY_TOKEN=*/true>(turned, query, int(Query::size(2)) - firstToken, first);
    fillState<State, ROWS, Config::NORMALISER>(s, last, state, firstE, first);
    __syncthreads();
    sums.template add<Config::NORMALISER>(queries, s, last);
  }
  store<Config>(sums, out + Output::template leadingOffset<2>(head), firstToken, firstE);
}

}  // namespace ditc::linear_apply
