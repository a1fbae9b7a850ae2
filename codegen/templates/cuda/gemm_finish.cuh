// SPDX-License-Identifier: Apache-2.0
//
// The end of a tile: the epilogue on the accumulators, and the way to memory. Every warp moves its 16 rows by itself,
// 64 columns at a time, through small boxes in shared memory that the copy engine reads; no warp waits for another.
//
//   accumulators ──epilogue──▶ 16-bit pairs ──stmatrix──▶ box (16 x 64, swizzled) ──copy engine──▶ out
//                     ▲                                    │ the same box, filled before the k loop
//                     └──────────── ldmatrix ──────────────┘ (epilogues with a residual)
#pragma once

#include "common/epilogue.cuh"
#include "gemm_layout.cuh"

namespace ditc::gemm_sm90 {

template <class L>
using Accumulators = float[L::BANDS][L::BLOCK_N / 2];

/// The boxes of one warp. A box holds rows of 128 bytes; the 16-byte piece c of row r lies at c ^ (r % 8), as the
/// 128-byte swizzle wants it, so that neither side meets bank conflicts.
template <class L>
struct Staging {
  const Shared<L> &shared;
  int warp, lane;
  int next = 0;            // the box that is written next
  u32 residualParity = 0;

  __device__ u32 box(int index) const { return shared.box(warp, index); }
  /// This lane's address in a matrix instruction on columns 16 · pair … 16 · pair + 15.
  __device__ u32 piece(int index, int pair) const {
    int row = lane % 16, column = 2 * pair + lane / 16;
    return box(index) + row * 128 + ((column ^ row % 8) << 4);
  }
};

/// Asks for the residual of this warp's rows; called before the k loop, so that it arrives during it.
template <class L>
__device__ void fetchResidual(const Staging<L> &staging, const Problem &p, const Tile &tile, int firstRow) {
  constexpr int ACROSS = L::BLOCK_N / 64, BOXES = L::BANDS * ACROSS;
  static_assert(L::BOXES >= BOXES, "a residual needs a staging box for every 16 x 64 values of a warp");
  if (staging.lane == 0) {
    storeWaitRead<0>();  // the previous tile has left the boxes
    u32 barrier = staging.shared.residual(staging.warp);
    barrierExpect(barrier, BOXES * L::BOX_BYTES);
#pragma unroll
    for (int i = 0; i < BOXES; ++i)
      copyBox(staging.box(i), p.residual, barrier, tile.column + i % ACROSS * 64, firstRow + i / ACROSS * 64, 0,
              tile.batch);
  }
}

/// Rounds 64 columns and sends them off. `column` counts the output's columns.
template <class L>
__device__ void store(const Staging<L> &staging, const Problem &p, const Tile &tile, int box, int row, int column,
                      const float *x) {
  using P = Pair<typename L::Element>;
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
    const float *y = x + 8 * pair;
    storeMatrices(staging.piece(box, pair), P::pack(y[0], y[1]), P::pack(y[2], y[3]), P::pack(y[4], y[5]),
                  P::pack(y[6], y[7]));
  }
  asyncProxyFence();
  __syncwarp();
  if (staging.lane == 0) {
    int part = column >= p.outSplit, inPart = part ? column - p.outSplit : column;
    storeBox(p.out[part], staging.box(box), inPart % p.headColumns[part], row, inPart / p.headColumns[part],
             tile.batch);
    storeCommit();
  }
}

template <class L, class Epilogue>
__device__ void finish(Staging<L> &staging, const Problem &p, const Epilogue &epilogue, const Tile &tile, int firstRow,
                       Accumulators<L> &acc) {
  constexpr int COLUMNS = Epilogue::COLUMNS, CHUNKS = L::BLOCK_N / COLUMNS;
  static_assert(L::BLOCK_N % COLUMNS == 0, "BLOCK_N is a multiple of the columns that the epilogue sees together");
  static_assert(!Epilogue::RESIDUAL || COLUMNS == 64, "a residual comes in boxes of 64 columns");
  if constexpr (Epilogue::RESIDUAL) {
    barrierWait(staging.shared.residual(staging.warp), staging.residualParity);
    staging.residualParity ^= 1;
  }
#pragma unroll
  for (int band = 0; band < L::BANDS; ++band)
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
      int row = firstRow + 64 * band, column = tile.column + chunk * COLUMNS;
      if (row >= p.rows || column >= p.columns)
        continue;  // the same for the whole warp
      float(&x)[COLUMNS / 2] = *reinterpret_cast<float(*)[COLUMNS / 2]>(&acc[band][chunk * COLUMNS / 2]);
      Place<!L::EVEN> at{tile.batch, row + staging.lane / 4, column + staging.lane % 4 * 2, p.rows, p.columns};

      if constexpr (Epilogue::RESIDUAL) {
        int box = band * CHUNKS + chunk;
        u32 residual[COLUMNS / 4];
#pragma unroll
        for (int pair = 0; pair < 4; ++pair)
          loadMatrices(staging.piece(box, pair), *reinterpret_cast<u32(*)[4]>(&residual[4 * pair]));
        epilogue(x, residual, at);
        __syncwarp();  // all of the residual has been read
        store(staging, p, tile, box, row, column, x);
      } else {
        epilogue(x, at);
        int outColumn = column / COLUMNS * Epilogue::OUTPUT;
#pragma unroll
        for (int part = 0; part < Epilogue::OUTPUT / 64; ++part) {
          if (staging.lane == 0)
            storeWaitRead<L::BOXES - 1>();  // the store that used this box last has read it
          __syncwarp();
          store(staging, p, tile, staging.next, row, outColumn + 64 * part, x + 32 * part);
          staging.next = staging.next + 1 == L::BOXES ? 0 : staging.next + 1;
        }
      }
    }
}

}  // namespace ditc::gemm_sm90
