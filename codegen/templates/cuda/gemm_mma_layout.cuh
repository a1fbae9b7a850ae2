// SPDX-License-Identifier: Apache-2.0
//
// What a matrix product by mma.sync is made of, beside the work itself: its arguments, the sizes that follow from a
// Config, and the order in which tiles are visited. gemm_mma.cuh explains the parameters.
#pragma once

#include "common/mma.cuh"
#include "common/tensor.cuh"

namespace ditc::gemm_mma {

/// One product. Rows are counted per batch, strides in elements; a tile does not span batches.
template <class Operand, class Element>
struct Problem {
  const Operand *a[2], *b[4];  // GATED: b[0] gives the gate, b[1] what it is multiplied with
  Element *out[4];
  i64 aRow[2], aBatch[2], bRow[4], outRow[4], outHead[4], outBatch[4];
  int rows, batches, columns;  // GATED: columns of the output
  int k[2];            // values of k in a[0] and a[1]
  int headColumns[4];  // columns of a head of out; all of them if there are no heads
  int outEnd[4];       // columns before outEnd[i] go to out[i], counted from outEnd[i - 1]
  int bEnd[4];         // columns before bEnd[i] are products with b[i]
};

template <class Config, int PROBLEMS>
struct Params {
  Problem<typename Config::Operand, typename Config::Element> problem[PROBLEMS];
};

/// One epilogue per product.
template <class Epilogue, int PROBLEMS>
struct Epilogues {
  Epilogue of[PROBLEMS];
};

/// Sizes that follow from a Config.
template <class Config>
struct Layout : Config {
  using Element = typename Config::Element;
  using Operand = typename Config::Operand;
  using Problem = gemm_mma::Problem<Operand, Element>;
  static constexpr int BLOCK_M = Config::BLOCK_M, BLOCK_N = Config::BLOCK_N, BLOCK_K = Config::BLOCK_K;
  static constexpr int THREADS = 32 * Config::WARPS_M * Config::WARPS_N;
  static constexpr int WARP_M = BLOCK_M / Config::WARPS_M, WARP_N = BLOCK_N / Config::WARPS_N;
  static constexpr int WIDTH = Config::GATED ? BLOCK_N / 2 : BLOCK_N;  // columns of the output that a tile is
  static constexpr int WARP_WIDTH = WIDTH / Config::WARPS_N;           // and a warp
  static constexpr int BANDS = WARP_M / 16, GROUPS = WARP_N / 8;
  static constexpr int ROW_BYTES = BLOCK_K * static_cast<int>(sizeof(Operand)), K_STEPS = ROW_BYTES / 32;
  static constexpr int PIECE = 16 / static_cast<int>(sizeof(Operand)), PIECES = BLOCK_K / PIECE;  // values; of a row of a stage
  static constexpr int ROWS_APART = THREADS / PIECES;     // rows that are copied at once
  static constexpr int B_AT = BLOCK_M * BLOCK_K, STAGE = B_AT + BLOCK_N * BLOCK_K;  // elements
  static constexpr int SHARED_BYTES = static_cast<int>(sizeof(Operand)) * STAGE * Config::STAGES;

  static_assert(WARP_M % 16 == 0 && WARP_N % (Config::GATED ? 32 : 16) == 0, "a warp's part is made of 16 x 16 products");
  static_assert(ROW_BYTES == 64 || ROW_BYTES == 128, "a row of a stage is 64 or 128 bytes");
  static_assert(BLOCK_M % ROWS_APART == 0 && (!Config::GATED || WIDTH % ROWS_APART == 0) && ROWS_APART % 8 == 0,
                "rows are copied evenly; those of B need not be");
  static_assert(Config::STAGES >= 2, "one step is copied while another is multiplied");

  /// Where piece `piece` of a row lies, in elements from the row's start.
  __device__ static int swizzled(int row, int piece) {
    return (PIECES == 8 ? piece ^ row % 8 : piece ^ row / 2 % 4) * PIECE;
  }
};

template <class L>
using Accumulators = float[L::BANDS][L::GROUPS][4];

// ---- schedule -----------------------------------------------------------------------------------------------------

/// A tile of one product.
struct Tile {
  int problem, batch, row, column;
};

__device__ constexpr int ceilDiv(int a, int b) { return (a + b - 1) / b; }

/// Tiles of a product above each other, in one batch, and beside each other.
template <class L, class Problem>
__device__ int downPerBatch(const Problem &p) {
  return ceilDiv(p.rows, L::BLOCK_M);
}
template <class L, class Problem>
__device__ int across(const Problem &p) {
  return ceilDiv(p.columns, L::WIDTH);
}

/// The tile of a block: down GROUP tiles of M, then one step in N, so that blocks that run at the same time read few
/// different rows of A and B.
template <class L, class Config, int PROBLEMS>
__device__ Tile tileOf(const Params<Config, PROBLEMS> &params, int index) {
  int which = 0;
  if constexpr (PROBLEMS == 2) {
    const auto &first = params.problem[0];
    int count = downPerBatch<L>(first) * first.batches * across<L>(first);
    if (index >= count)
      which = 1, index -= count;
  }
  const auto &p = params.problem[which];
  int down = downPerBatch<L>(p), rows = down * p.batches, perGroup = L::GROUP * across<L>(p);
  int group = index / perGroup, inGroup = index % perGroup;
  int height = min(L::GROUP, rows - group * L::GROUP);
  int row = group * L::GROUP + inGroup % height;
  return {which, row / down, row % down * L::BLOCK_M, inGroup / height * L::WIDTH};
}

}  // namespace ditc::gemm_mma
