// SPDX-License-Identifier: Apache-2.0
//
// The loop over k of one consumer: a stage of A and B at a time, as the copy engine fills them (64 values of 16 bits, 128 of
// E4M3, with the 128-byte swizzle), into accumulators in registers. Matrix products (gemm_sm90.cuh) and convolutions
// (conv_sm90.cuh) share it; what is in the stages is the producer's affair.
#pragma once

#include "common/wgmma.cuh"
#include "gemm_layout.cuh"

namespace ditc::gemm_sm90 {

template <class L>
using Accumulators = float[L::BANDS][L::BLOCK_N / 2];

/// One warp says that it has read a stage; every block that copies into it hears it.
template <class L>
__device__ void release(const Shared<L> &shared, int stage) {
  int lane = threadIdx.x % 32;
  if constexpr (L::SHARING == 1) {
    if (lane == 0)
      barrierArrive(shared.empty(stage));
  } else if (lane < L::SHARING) {
    barrierArriveRemote(shared.empty(stage), lane);
  }
}

/// Name of the barrier on which a consumer waits for its turn to multiply. It must: with the parity of a phase alone, a
/// stage that was filled two rounds ago would look like the one that is awaited.
__device__ inline int turnBarrier(int consumer) { return 1 + consumer; }

template <class L>
__device__ void multiply(const Shared<L> &shared, Cursor<L::STAGES> &cursor, int consumer, int steps,
                         Accumulators<L> &acc) {
  int firstRow = L::PINGPONG ? 0 : consumer * 64 * L::BANDS;
  int previous = 0;
  if constexpr (L::PINGPONG)
    namedSync(turnBarrier(consumer), 256);

  for (int step = 0; step < steps; ++step) {
    barrierWait(shared.full(cursor.stage), cursor.parity);
    KMajorOperand a(shared.a(cursor.stage) + firstRow * 128), b(shared.b(cursor.stage));
    wgmmaFence();
#pragma unroll
    for (int k = 0; k < STEP_BYTES / 32; ++k)
#pragma unroll
      for (int band = 0; band < L::BANDS; ++band)
        Wgmma<L::BLOCK_N, typename L::Operand>::multiply(acc[band], a.at(band * 64 * 128 + k * 32), b.at(k * 32),
                                                         step + k > 0);
    wgmmaCommit();
    wgmmaWait<1>();  // the step before this one is done
    if (step > 0)
      release(shared, previous);
    previous = cursor.stage;
    cursor.advance();
  }
  if constexpr (L::PINGPONG)
    namedArrive(turnBarrier(consumer ^ 1), 256);
  wgmmaWait<0>();
  release(shared, previous);
  // The accumulators are outputs of instructions before the wait: keeps their uses behind it.
#pragma unroll
  for (int band = 0; band < L::BANDS; ++band)
#pragma unroll
    for (int i = 0; i < L::BLOCK_N / 2; ++i)
      asm volatile("" : "+f"(acc[band][i])::"memory");
}

}  // namespace ditc::gemm_sm90
