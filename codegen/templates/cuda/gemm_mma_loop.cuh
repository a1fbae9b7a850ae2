// SPDX-License-Identifier: Apache-2.0
//
// The inner loop of products by mma.sync: from stages of shared memory, which a loader fills, to sums in registers. Both
// operands lie as rows of BLOCK_K values, A's before B's, swizzled as gemm_mma_layout.cuh says; how they came there is the
// loader's business (gemm_mma.cuh: rows of matrices; conv_mma.cuh: filters and pixels).
#pragma once

#include "gemm_mma_layout.cuh"

namespace ditc::gemm_mma {

// ---- products -----------------------------------------------------------------------------------------------------

/// A warp's operands: of A for this and the next 32 bytes of k, of B for this and the next 16 columns.
template <class L>
struct Operands {
  static constexpr int PAIRS = L::WARP_N / 16;  // of groups of eight columns
  MmaWord a[2][L::BANDS][4], b[2][4];
  int rowOfA, rowOfB, pieceOfA, pieceOfB;  // this lane's in matrix loads

  /// `warpRow`, `warpColumn`: the warp's first row and column (of the output) in the tile.
  __device__ Operands(int warpRow, int warpColumn) {
    int lane = threadIdx.x % 32;
    rowOfA = warpRow + lane % 16, pieceOfA = lane / 16;
    rowOfB = warpColumn + lane / 16 * 8 + lane % 8, pieceOfB = lane / 8 % 2;
  }

  __device__ void loadA(const typename L::Operand *stage, int k) {
    const auto *rows = stage + rowOfA * L::BLOCK_K + L::swizzled(rowOfA, 2 * k + pieceOfA);
#pragma unroll
    for (int band = 0; band < L::BANDS; ++band)
      loadMatrices4(a[k % 2][band], rows + 16 * band * L::BLOCK_K);
  }
  /// Two operands take turns, whatever the number of pairs in a step of k: there are an even number of steps.
  __device__ static int turn(int k, int pair) { return (k * PAIRS + pair) % 2; }
  __device__ void loadB(const typename L::Operand *stage, int k, int pair) {
    int otherHalf = L::GATED && pair >= PAIRS / 2 ? L::WIDTH - L::WARP_WIDTH : 0;
    const auto *columns = stage + L::B_AT + (rowOfB + 16 * pair + otherHalf) * L::BLOCK_K;
    loadMatrices4(b[turn(k, pair)], columns + L::swizzled(rowOfB, 2 * k + pieceOfB));
  }

  __device__ void multiply(Accumulators<L> &acc, int k, int pair) const {
    const MmaWord(&right)[4] = b[turn(k, pair)];
#pragma unroll
    for (int band = 0; band < L::BANDS; ++band) {
      mma16x8<typename L::Operand>(acc[band][2 * pair], a[k % 2][band], right[0], right[1]);
      mma16x8<typename L::Operand>(acc[band][2 * pair + 1], a[k % 2][band], right[2], right[3]);
    }
  }
};

template <class L>
__device__ void clear(Accumulators<L> &acc) {
#pragma unroll
  for (int band = 0; band < L::BANDS; ++band)
#pragma unroll
    for (int group = 0; group < L::GROUPS; ++group)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        acc[band][group][i] = 0.0f;
}

/// The sums of a tile. While 16 columns are multiplied, the operands of the next are on their way to registers.
/// Load: `steps`, and start(shared, step), which is called once for each step in order, and for those behind the last.
template <class L, class Load>
__device__ void accumulate(Load &&loader, typename L::Operand *shared, int warpRow, int warpColumn,
                           Accumulators<L> &acc) {
  constexpr int PAIRS = Operands<L>::PAIRS, LAST_K = L::K_STEPS - 1;
  clear<L>(acc);
#pragma unroll
  for (int step = 0; step < L::STAGES - 1; ++step)
    loader.start(shared, step);
  copyWait<L::STAGES - 2>();
  __syncthreads();

  Operands<L> operands(warpRow, warpColumn);
  operands.loadA(shared, 0);
  operands.loadB(shared, 0, 0);
  for (int step = 0; step < loader.steps; ++step) {
    const auto *stage = shared + step % L::STAGES * L::STAGE, *nextStage = shared + (step + 1) % L::STAGES * L::STAGE;
#pragma unroll
    for (int k = 0; k < L::K_STEPS; ++k)
#pragma unroll
      for (int pair = 0; pair < PAIRS; ++pair) {
        if (pair + 1 < PAIRS) {
          operands.loadB(stage, k, pair + 1);
        } else {
          if (k == LAST_K) {  // the next step has arrived, and every warp has read this one
            copyWait<L::STAGES - 2>();
            __syncthreads();
          }
          operands.loadA(k == LAST_K ? nextStage : stage, (k + 1) % L::K_STEPS);
          operands.loadB(k == LAST_K ? nextStage : stage, (k + 1) % L::K_STEPS, 0);
        }
        if (k == 0 && pair == 0)
          loader.start(shared, step + L::STAGES - 1);  // over the step before
        operands.multiply(acc, k, pair);
      }
  }
}

}  // namespace ditc::gemm_mma
