// SPDX-License-Identifier: Apache-2.0
//
// Matrix product for the tensor cores of every GPU since sm_80: out = epilogue(A Bᵀ), A [batch][M][K], B [N][K] (a linear
// layer's weight as it is stored), 16-bit values or (since sm_89) e4m3, fp32 accumulation; one or two products of different sizes in one
// launch. A block computes one tile.
//
//                    B  BLOCK_N rows of the weight             a block over time
//                   ┌───────┬───────┐ BLOCK_K of k
//                   └───────┴───────┘                          copies    step 2 │ step 3 │ step 4   STAGES deep
//   A   ┌───────┐  ┌───────┬───────┐                           matrices   step 0 │ step 1 │ step 2  to registers
//       │       │  │ warp 0│ warp 1│ fp32 in registers         products    step 0 │ step 1 │ step 2  16 columns behind
//       ├───────┤  ├───────┼───────┤
//       │       │  │ warp 2│ warp 3│                           One barrier a step, before the last 16 columns are
//       └───────┘  └───────┴───────┘                           multiplied; the epilogue needs none.
//
//   Config      allowed                        meaning
//   Operand     BF16, F16, E4M3                storage of A and B
//   Element     BF16, F16                      storage of out and of what the epilogue reads; Operand's where that is 16-bit
//   BLOCK_M     multiple of 16 · WARPS_M       rows of a tile
//   BLOCK_N     multiple of 16 · WARPS_N       columns of a tile; 32 · WARPS_N with GATED
//   BLOCK_K     32, 64; of E4M3 64, 128        values of k in a step: 64 or 128 bytes
//   STAGES      2 …                            steps in flight
//   WARPS_M     1 …                            warps above each other
//   WARPS_N     1 …                            warps beside each other, each with whole chunks of the epilogue's COLUMNS
//   GROUP       1 …                            tiles in M that are visited before the next in N
//   RANGES      1, 2                           ranges of k
//   EVEN        bool                           N is a multiple of the epilogue's COLUMNS
//   GATED       bool                           out = epilogue(A Gᵀ, A Uᵀ), an MLP's gate: half of a tile's columns are G's,
//                                              the other half U's at the same places, and so a warp's; b[0] is G, b[1] U
//
//   N is a multiple of 8, and K of 8 or, with E4M3, of 16; every row starts on 16 bytes; M, N and K need not fill tiles.
//   K may come in two ranges, A from a[0] then a[1]: a concat before a linear layer. B may come in up to four pieces of
//   columns (Q, K, V as separate weights), whose ends are multiples of BLOCK_N. Rows, heads and batches of `out` may have
//   any strides. The epilogue is one of common/epilogue.cuh without RESIDUAL: what it adds it loads itself.
//
//   A row of a stage is BLOCK_K values without padding; its 16-byte pieces are exchanged (swizzled) so that eight rows of
//   a matrix lie in different banks. Results leave as 16 bytes a thread: the four threads of a quad exchange what they
//   hold of four groups of eight columns.
//
//   shared memory  STAGES · 64 or 128 · (BLOCK_M + BLOCK_N) bytes
//   registers      BLOCK_M · BLOCK_N / THREADS accumulators, WARP_M / 2 + 8 for the operands, about 50
#pragma once

#include "common/epilogue.cuh"
#include "gemm_mma_loop.cuh"

namespace ditc::gemm_mma {

// ---- copies -------------------------------------------------------------------------------------------------------

/// Fills stages. A thread copies one piece of every ROWS_APART-th row.
template <class L>
struct Loader {
  using Operand = typename L::Operand;
  const typename L::Problem &p;
  const Operand *a[L::RANGES], *b, *up;  // this thread's first row; `up` with GATED
  i64 bRow, upRow;
  int column, aRows, bRows;  // first value of k in a step; rows of this thread that exist
  int firstSteps, steps;
  int at;  // in a stage, of A

  __device__ Loader(const typename L::Problem &p, const Tile &tile) : p(p) {
    int row = threadIdx.x / L::PIECES, piece = threadIdx.x % L::PIECES;
    column = L::PIECE * piece, at = row * L::BLOCK_K + L::swizzled(row, piece);
    aRows = ceilDiv(p.rows - tile.row - row, L::ROWS_APART);
    bRows = ceilDiv(p.columns - tile.column - row, L::ROWS_APART);
#pragma unroll
    for (int range = 0; range < L::RANGES; ++range)
      a[range] = p.a[range] + tile.batch * p.aBatch[range] + (tile.row + row) * p.aRow[range];
    int weight = 0, weightColumn = tile.column;
#pragma unroll
    for (int i = 0; i < 3; ++i)
      if (tile.column >= p.bEnd[i])
        weight = i + 1, weightColumn = tile.column - p.bEnd[i];
    bRow = p.bRow[weight], b = p.b[weight] + (weightColumn + row) * bRow;
    upRow = p.bRow[1], up = p.b[1] + (tile.column + row) * upRow;
    firstSteps = ceilDiv(p.k[0], L::BLOCK_K);
    steps = firstSteps + (L::RANGES == 2 ? ceilDiv(p.k[1], L::BLOCK_K) : 0);
  }

  /// Of a tile whose rows of B are no multiple of ROWS_APART.
  __device__ static bool hasLastRow() { return static_cast<int>(threadIdx.x) / L::PIECES < L::WIDTH % L::ROWS_APART; }

  /// Starts copying step `step`, zeros where there is nothing. Where a row does not exist nothing is read, so that its
  /// address may be anything.
  __device__ void start(Operand *shared, int step) const {
    if (step < steps) {
      bool second = L::RANGES == 2 && step >= firstSteps;
      int k = (second ? step - firstSteps : step) * L::BLOCK_K + column;
      bool inside = k < p.k[second];
      Operand *stage = shared + step % L::STAGES * L::STAGE + at;
      const Operand *fromA = a[second] + k, *fromB = b + (second ? p.k[0] : 0) + k;
      i64 aRow = p.aRow[second];
#pragma unroll
      for (int i = 0; i < L::BLOCK_M / L::ROWS_APART; ++i)
        copyAsync<16>(stage + i * L::ROWS_APART * L::BLOCK_K, fromA + i * L::ROWS_APART * aRow, inside && i < aRows);
#pragma unroll
      for (int i = 0; i < ceilDiv(L::WIDTH, L::ROWS_APART); ++i)
        if (L::WIDTH % L::ROWS_APART == 0 || i < L::WIDTH / L::ROWS_APART || hasLastRow())
          copyAsync<16>(stage + L::B_AT + i * L::ROWS_APART * L::BLOCK_K, fromB + i * L::ROWS_APART * bRow,
                        inside && i < bRows);
      if constexpr (L::GATED) {
        const Operand *fromUp = up + (second ? p.k[0] : 0) + k;
#pragma unroll
        for (int i = 0; i < L::WIDTH / L::ROWS_APART; ++i)
          copyAsync<16>(stage + L::B_AT + (i * L::ROWS_APART + L::WIDTH) * L::BLOCK_K, fromUp + i * L::ROWS_APART * upRow,
                        inside && i < bRows);
      }
    }
    copyCommit();
  }
};

// ---- results ------------------------------------------------------------------------------------------------------

/// A chunk of an epilogue's results. It lies in one output and one head.
template <class L, int COLUMNS>
__device__ void store(const typename L::Problem &p, int batch, int row, int column, const float *x) {
  using P = Pair<typename L::Element>;
  int part = 0, inPart = column;
#pragma unroll
  for (int i = 0; i < 3; ++i)
    if (column >= p.outEnd[i])
      part = i + 1, inPart = column - p.outEnd[i];
  int head = inPart / p.headColumns[part];
  auto *out = p.out[part] + batch * p.outBatch[part] + head * p.outHead[part] + inPart - head * p.headColumns[part];
  int quad = threadIdx.x % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int group = 0; group < COLUMNS / 8; group += 4) {
      MmaWord word[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        word[i] = group + i < COLUMNS / 8 ? P::pack(x[4 * (group + i) + 2 * half], x[4 * (group + i) + 2 * half + 1]) : 0;
      transposeInQuad(word);
      int at = 8 * (group + quad);
      bool isColumn = (COLUMNS % 32 == 0 || at < COLUMNS) && (L::EVEN || column + at < p.columns);
      if (row + 8 * half < p.rows && isColumn)
        storePack(reinterpret_cast<MmaWord *>(out + (row + 8 * half) * p.outRow[part] + at),
                  Pack<MmaWord, 4>{word[0], word[1], word[2], word[3]});
    }
}

template <class L, class Epilogue>
__device__ void finish(const typename L::Problem &p, const Epilogue &epilogue, const Tile &tile, int warpRow,
                       int warpColumn, Accumulators<L> &acc) {
  constexpr int COLUMNS = Epilogue::COLUMNS;
  static_assert(L::WARP_WIDTH % COLUMNS == 0, "a warp has whole chunks of the epilogue");
  static_assert(!Epilogue::RESIDUAL, "the epilogue loads what it adds");
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int band = 0; band < L::BANDS; ++band)
#pragma unroll
    for (int chunk = 0; chunk < L::WARP_WIDTH / COLUMNS; ++chunk) {
      int row = tile.row + warpRow + 16 * band, column = tile.column + warpColumn + chunk * COLUMNS;
      if (row >= p.rows || column >= p.columns)  // the same for the whole warp
        continue;
      float(&x)[COLUMNS / 2] = *reinterpret_cast<float(*)[COLUMNS / 2]>(&acc[band][chunk * COLUMNS / 8][0]);
      Place<!L::EVEN> at{tile.batch, row + lane / 4, column + lane % 4 * 2, p.rows, p.columns};
      if constexpr (L::GATED)
        epilogue(x, *reinterpret_cast<const float(*)[COLUMNS / 2]>(&acc[band][(L::WARP_WIDTH + chunk * COLUMNS) / 8][0]), at);
      else
        epilogue(x, at);
      store<L, COLUMNS>(p, tile.batch, row + lane / 4, column, x);
    }
}

// ---- run ----------------------------------------------------------------------------------------------------------

/// Launch: one block a tile, Layout<Config>::THREADS threads, Layout<Config>::SHARED_BYTES of dynamic shared memory.
template <class Config, class Epilogue, int PROBLEMS>
__device__ void run(const Params<Config, PROBLEMS> &params,
                    const Epilogues<Epilogue, PROBLEMS> &epilogues) {
  using L = Layout<Config>;
  extern __shared__ SharedChunk sharedMemory[];
  auto *shared = reinterpret_cast<typename L::Operand *>(sharedMemory);
  Tile tile = tileOf<L>(params, blockIdx.x);
  int which = PROBLEMS == 1 ? 0 : tile.problem;
  const auto &p = params.problem[which];
  int warp = threadIdx.x / 32, warpRow = warp / L::WARPS_N * L::WARP_M, warpColumn = warp % L::WARPS_N * L::WARP_WIDTH;
  followPreviousKernel();

  Accumulators<L> acc;
  accumulate<L>(Loader<L>(p, tile), shared, warpRow, warpColumn, acc);
  finish<L>(p, epilogues.of[which], tile, warpRow, warpColumn, acc);
}

}  // namespace ditc::gemm_mma
