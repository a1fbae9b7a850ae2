// SPDX-License-Identifier: Apache-2.0
//
// Sums of a tile whose k is split over the blocks of a cluster (SPLIT > 1). Every warp deals with the warp of the same
// number in the other blocks, which has the same rows: it sends the chunks that others finish straight into their shared
// memory, and adds what it gets to its own, in the order of the ranks.
//
//   block 0   k part 0   [ finishes │ ──▶ 1    │ ──▶ 2    ]      a slot per chunk and partner: [8 columns][lane] of four
//   block 1   k part 1   [ ──▶ 0    │ finishes │ ──▶ 2    ]      accumulators, as the lane holds them: neither side meets
//   block 2   k part 2   [ ──▶ 0    │ ──▶ 1    │ finishes ]      bank conflicts
//
//   shared memory  that of the stages, which the k loop has left: a cluster thus has one tile, and nothing is sent before
//                  all its blocks have multiplied
//   measured       a multiprocessor takes in about 20 bytes a cycle from others, by these stores as by bulk copies from its
//                  own shared memory, which cost 300 cycles more; meeting takes 700 cycles, adding 200 to 500
#pragma once

#include "gemm_finish.cuh"

namespace ditc::gemm_sm90 {

template <class L, class Epilogue>
__device__ void exchange(const Staging<L> &staging, int share, Accumulators<L> &acc) {
  using Chunk = ChunksOf<L, Epilogue>;
  constexpr int BYTES = 64 * Chunk::COLUMNS, OF_WARP = Chunk::MOST * (L::SPLIT - 1);  // a slot: 16 rows, fp32
  constexpr int GROUPS = Chunk::COLUMNS / 8;                                         // of 8 columns
  static_assert(L::WARPS * OF_WARP * BYTES <= L::STAGING_AT, "sums that are received fit into the stages");
  u32 slots = staging.shared.base + staging.warp * OF_WARP * BYTES + 16 * staging.lane;
  u32 arrived = staging.shared.partials(staging.warp);
  int first = Chunk::first(share, staging.warp);
  if (staging.lane == 0)
    barrierExpect(arrived, (Chunk::COUNT - first + L::SPLIT - 1) / L::SPLIT * (L::SPLIT - 1) * BYTES);
  clusterMeet();  // every stage has been read
#pragma unroll
  for (int chunk = 0; chunk < Chunk::COUNT; ++chunk) {
    int to = Chunk::finisher(chunk, staging.warp);
    if (to == share)
      continue;
    u32 slot = ofBlock(slots + (chunk / L::SPLIT * (L::SPLIT - 1) + share - (share > to)) * BYTES, to);
    u32 barrier = ofBlock(arrived, to);
#pragma unroll
    for (int i = 0; i < GROUPS; ++i)
      storeRemote(slot + 512 * i, &acc[chunk / Chunk::ACROSS][4 * (chunk % Chunk::ACROSS * GROUPS + i)], barrier);
  }
  barrierWaitCluster(arrived, 0);
#pragma unroll
  for (int chunk = 0; chunk < Chunk::COUNT; ++chunk) {
    if (chunk % L::SPLIT != first)
      continue;
#pragma unroll
    for (int from = 0; from < L::SPLIT - 1; ++from)
#pragma unroll
      for (int i = 0; i < GROUPS; ++i)
        addShared(slots + (chunk / L::SPLIT * (L::SPLIT - 1) + from) * BYTES + 512 * i,
                  &acc[chunk / Chunk::ACROSS][4 * (chunk % Chunk::ACROSS * GROUPS + i)]);
  }
}

}  // namespace ditc::gemm_sm90
