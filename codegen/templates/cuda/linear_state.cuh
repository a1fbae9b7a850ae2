// SPDX-License-Identifier: Apache-2.0
//
// What linear attention keeps of its keys and values, in fp32.
//
//   out[p, b, h, e, d] = Σ_n φ(key[b, h, n, d]) · value[b, h, n, e]     n: the tokens of part p, of PARTS equal ones
//   out[p, b, h, E, d] = Σ_n φ(key[b, h, n, d])                         with NORMALISER; φ(x) = max(x, 0) with RELU, else x
//
//   tile         a block has 32 x 32 of (e, d) and all tokens of a part, in steps of kTokens; four groups of 64 threads take every
//                fourth token, a thread 4 x 4 sums; the groups' sums are added in order, so that results are deterministic
//   shared       2 · kTokens · 32 floats: 32 KB
//   inner loop   two 16-byte reads of shared memory for 16 multiply-adds and the 4 additions of the last row
//
//   Config   Key [B, H, N, D], Value [B, H, N, E], Output [PARTS, B, H, E (+ 1), D] of float; PARTS, RELU, NORMALISER
#pragma once

#include "linear_attention.cuh"

namespace ditc::linear_state {

using linear_attention::kPatch;
using linear_attention::kThreads;
constexpr int kTokens = 128, kGroup = 64, kGroups = kThreads / kGroup;

/// A thread's place among those of its group, and its sums.
struct Sums {
  int group = int(threadIdx.x) / kGroup, e = int(threadIdx.x) % kGroup / 8 * 4, d = int(threadIdx.x) % 8 * 4;
  float products[4][4] = {}, keys[4] = {};

  __device__ void add(const float *key, const float *value) {
    for (int token = group; token < kTokens; token += kGroups) {
      auto k = loadPack<4>(key + token * kPatch + d), v = loadPack<4>(value + token * kPatch + e);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        keys[j] += k.at[j];
#pragma unroll
        for (int i = 0; i < 4; ++i)
          products[i][j] += v.at[i] * k.at[j];
      }
    }
  }
};

/// Adds the groups' sums up through shared memory, of kGroups · 33 · 32 floats, and stores those that exist.
template <class Output, int ROWS>
__device__ void store(const Sums &sums, float *shared, float *out, int firstE, int firstD, bool hasKeys) {
  constexpr int OF_GROUP = (kPatch + 1) * kPatch;
  __syncthreads();
  float *own = shared + sums.group * OF_GROUP;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    storePack(own + (sums.e + i) * kPatch + sums.d,
              Pack<float, 4>{sums.products[i][0], sums.products[i][1], sums.products[i][2], sums.products[i][3]});
  if (sums.e == 0)
    storePack(own + kPatch * kPatch + sums.d, Pack<float, 4>{sums.keys[0], sums.keys[1], sums.keys[2], sums.keys[3]});
  __syncthreads();
  for (int i = threadIdx.x; i < OF_GROUP; i += kThreads) {
    float sum = 0;
#pragma unroll
    for (int group = 0; group < kGroups; ++group)
      sum += shared[group * OF_GROUP + i];
    bool isLast = i >= kPatch * kPatch;  // the keys' own sum
    int e = isLast ? ROWS : firstE + i / kPatch, d = firstD + i % kPatch;
    if (d < Output::size(4) && (isLast ? hasKeys : e < ROWS))
      out[e * Output::stride(3) + d * Output::stride(4)] = sum;
  }
}

template <class Config>
__device__ void run(const ElementOf<typename Config::Key> *key, const ElementOf<typename Config::Value> *value, float *out) {
  using Key = typename Config::Key;
  using Value = typename Config::Value;
  using Output = typename Config::Output;
  constexpr int ROWS = Value::size(3), TOKENS = Key::size(2) / Config::PARTS, HEADS = Key::size(0) * Key::size(1);
  constexpr int ACROSS = divideUp(Key::size(3), kPatch), PATCHES = ACROSS * divideUp(ROWS, kPatch);
  extern __shared__ SharedChunk sharedMemory[];
  float *keys = reinterpret_cast<float *>(sharedMemory), *values = keys + kTokens * kPatch;
  int patch = blockIdx.x % PATCHES, head = blockIdx.x / PATCHES % HEADS, part = blockIdx.x / PATCHES / HEADS;
  int firstE = patch / ACROSS * kPatch, firstD = patch % ACROSS * kPatch;
  followPreviousKernel();

  key += Key::template leadingOffset<2>(head) + i64(part) * TOKENS * Key::stride(2);
  value += Value::template leadingOffset<2>(head) + i64(part) * TOKENS * Value::stride(2);
  Sums sums;
  for (int first = 0; first < TOKENS; first += kTokens) {
    __syncthreads();
    auto to = [](float *tile) { return [tile](int token, int c) { return tile + token * kPatch + c; }; };
    linear_attention::fill<Key, kTokens, Config::RELU>(to(keys), key + first * Key::stride(2), TOKENS - first, firstD);
    linear_attention::fill<Value, kTokens, false>(to(values), value + first * Value::stride(2), TOKENS - first, firstE);
    __syncthreads();
    sums.add(keys, values);
  }
  out += part * Output::stride(0) + Output::template leadingOffset<3>(head);
  store<Output, ROWS>(sums, keys, out, firstE, firstD, Config::NORMALISER && firstE == 0);
}

}  // namespace ditc::linear_state
