// SPDX-License-Identifier: Apache-2.0
//
// A copy of a table whose rows are replaced or added to, in the order of the updates.
//
//   out = base;  for i in order: out[indices[i], ...] = (or +=) updates[i, ...]        indices outside are skipped
//
// A warp owns 32 · EACH columns of one row of the result: it looks at all indices, 32 at a time, and takes the updates of
// its row one after the other, so that the order is kept and nothing is written twice. Additions run in the compute type
// and are rounded once.
//
//   Config   Base, Updates, Output: Tensors [rows, ...]; Indices: Tensor [updates]; ADD (else replace)
#pragma once

#include "common/tensor.cuh"

namespace ditc::scatter {

constexpr int kThreads = 128, kEach = 4;

template <class Config>
__device__ void run(const ElementOf<typename Config::Base> *base, const ElementOf<typename Config::Indices> *indices,
                    const ElementOf<typename Config::Updates> *updates, ElementOf<typename Config::Output> *out) {
  using Base = typename Config::Base;
  using Indices = typename Config::Indices;
  using Updates = typename Config::Updates;
  using Output = typename Config::Output;
  using Element = typename Base::Element;
  constexpr i64 ROWS = Base::size(0), COLUMNS = Base::template count<0>(), PARTS = divideUp(COLUMNS, 32 * kEach);
  constexpr int COUNT = Indices::size(0);
  i64 warp = (i64(blockIdx.x) * kThreads + threadIdx.x) / 32, row = warp / PARTS;
  int lane = threadIdx.x % 32;
  i64 firstColumn = warp % PARTS * 32 * kEach + lane;
  followPreviousKernel();
  if (row >= ROWS)
    return;

  ComputeOf<Element> sums[kEach] = {};
  Element last[kEach] = {};
#pragma unroll
  for (int e = 0; e < kEach; ++e)
    if (i64 column = firstColumn + 32 * e; column < COLUMNS) {
      last[e] = base[row * Base::stride(0) + Base::template offset<0>(column)];
      sums[e] = widen(last[e]);
    }
  for (int first = 0; first < COUNT; first += 32) {
    int i = first + lane;
    i64 index = i < COUNT ? widen(indices[i * Indices::stride(0)]) : -1;
    for (unsigned hits = __ballot_sync(0xffffffffu, index == row); hits != 0; hits &= hits - 1) {
      int update = first + __ffs(hits) - 1;
#pragma unroll
      for (int e = 0; e < kEach; ++e)
        if (i64 column = firstColumn + 32 * e; column < COLUMNS) {
          last[e] = updates[update * Updates::stride(0) + Updates::template offset<0>(column)];
          sums[e] += widen(last[e]);
        }
    }
  }
#pragma unroll
  for (int e = 0; e < kEach; ++e)
    if (i64 column = firstColumn + 32 * e; column < COLUMNS)
      out[row * Output::stride(0) + Output::template offset<0>(column)] =
          Config::ADD ? narrow<Element>(sums[e]) : last[e];
}

}  // namespace ditc::scatter
