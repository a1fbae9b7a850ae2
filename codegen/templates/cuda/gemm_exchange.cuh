// SPDX-License-Identifier: Apache-2.0
//
// Sums of a tile whose k is split over the blocks of a cluster (SPLIT > 1). Every warp deals with the warp of the same
// number in the other blocks, which has the same rows: it sends each the columns that the other finishes, straight into
// the other's shared memory, and adds what it gets to its own. The order of additions is that of the ranks.
//
//   block 0   k part 0   [ finishes │ ──▶ 1    │ ──▶ 2    ]      a slot per sender: [16-row band][8 columns][lane] of four
//   block 1   k part 1   [ ──▶ 0    │ finishes │ ──▶ 2    ]      accumulators, as the lane holds them: neither side meets
//   block 2   k part 2   [ ──▶ 0    │ ──▶ 1    │ finishes ]      bank conflicts
//
//   shared memory  4 · BLOCK_M · BLOCK_N · (SPLIT - 1) / SPLIT bytes
#pragma once

#include "gemm_finish.cuh"

namespace ditc::gemm_sm90 {

/// `count`: tiles that this block has finished before.
template <class L>
__device__ void exchange(const Staging<L> &staging, int share, int count, Accumulators<L> &acc) {
  constexpr int GROUPS = L::FINISHED / 8;  // of 8 columns
  u32 full = staging.shared.partialsFull(staging.warp), read = staging.shared.partialsRead(staging.warp);
  barrierWaitCluster(read, (count & 1) ^ 1);  // the others have read what was sent last
#pragma unroll
  for (int to = 0; to < L::SPLIT; ++to) {
    if (to == share)
      continue;
    u32 slot = ofBlock(staging.shared.partial(staging.warp, share - (share > to)) + 16 * staging.lane, to);
#pragma unroll
    for (int band = 0; band < L::BANDS; ++band)
#pragma unroll
      for (int i = 0; i < GROUPS; ++i)
        storeRemote(slot + 512 * (band * GROUPS + i), &acc[band][4 * (to * GROUPS + i)]);
  }
  __syncwarp();
  bool isOther = staging.lane < L::SPLIT && staging.lane != share;
  if (isOther)
    barrierReleaseRemote(full, staging.lane);
  barrierWaitCluster(full, count & 1);
#pragma unroll
  for (int own = 0; own < L::SPLIT; ++own) {
    if (own != share)
      continue;
#pragma unroll
    for (int from = 0; from < L::SPLIT - 1; ++from)
#pragma unroll
      for (int band = 0; band < L::BANDS; ++band)
#pragma unroll
        for (int i = 0; i < GROUPS; ++i)
          addShared(staging.shared.partial(staging.warp, from) + 16 * staging.lane + 512 * (band * GROUPS + i),
                    &acc[band][4 * (own * GROUPS + i)]);
  }
  __syncwarp();
  if (isOther)
    barrierReleaseRemote(read, staging.lane);
}

}  // namespace ditc::gemm_sm90
