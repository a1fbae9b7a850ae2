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

/// Sixteen columns into a box.
template <class L>
__device__ void writePiece(const Staging<L> &staging, int box, int pair, const float *x) {
  using P = Pair<typename L::Element>;
  storeMatrices(staging.piece(box, pair), P::pack(x[0], x[1]), P::pack(x[2], x[3]), P::pack(x[4], x[5]),
                P::pack(x[6], x[7]));
}

/// Sends a box off. `column` counts the output's columns.
template <class L>
__device__ void send(const Staging<L> &staging, const Problem &p, const Tile &tile, int box, int row, int column) {
  asyncProxyFence();
  __syncwarp();
  if (staging.lane == 0) {
    int part = column >= p.outSplit, inPart = part ? column - p.outSplit : column;
    storeBox(p.out[part], staging.box(box), inPart % p.headColumns[part], row, inPart / p.headColumns[part],
             tile.batch);
    storeCommit();
  }
}

/// One chunk of an epilogue without a residual: the boxes are used in turn.
template <class L, class Epilogue, class At>
__device__ void finishChunk(Staging<L> &staging, const Problem &p, const Epilogue &epilogue, const Tile &tile, int row,
                            int column, float (&x)[Epilogue::COLUMNS / 2], const At &at) {
  epilogue(x, at);
#pragma unroll
  for (int part = 0; part < Epilogue::OUTPUT / 64; ++part) {
    if (staging.lane == 0)
      storeWaitRead<L::BOXES - 1>();  // the store that used this box last has read it
    __syncwarp();
#pragma unroll
    for (int pair = 0; pair < 4; ++pair)
      writePiece(staging, staging.next, pair, x + 32 * part + 8 * pair);
    send(staging, p, tile, staging.next, row, column / Epilogue::COLUMNS * Epilogue::OUTPUT + 64 * part);
    staging.next = staging.next + 1 == L::BOXES ? 0 : staging.next + 1;
  }
}

/// A box with its residual, which the result replaces sixteen columns at a time.
template <class L, class Epilogue, class At>
__device__ void finishBox(Staging<L> &staging, const Problem &p, const Epilogue &epilogue, const Tile &tile, int box,
                          int row, int column, float *x, At at) {
#pragma unroll
  for (int pair = 0; pair < 4; ++pair, at.firstColumn += 16) {
    u32 residual[4];
    loadMatrices(staging.piece(box, pair), residual);
    epilogue(*reinterpret_cast<float(*)[8]>(x + 8 * pair), residual, at);
    writePiece(staging, box, pair, x + 8 * pair);
  }
  send(staging, p, tile, box, row, column);
}

template <class L, class Epilogue>
__device__ void finish(Staging<L> &staging, const Problem &p, const Epilogue &epilogue, const Tile &tile, int firstRow,
                       Accumulators<L> &acc) {
  constexpr int COLUMNS = Epilogue::RESIDUAL ? 64 : Epilogue::COLUMNS, CHUNKS = L::BLOCK_N / COLUMNS;
  static_assert(L::BLOCK_N % COLUMNS == 0, "BLOCK_N is a multiple of the columns that the epilogue sees together");
  static_assert(!Epilogue::RESIDUAL || Epilogue::COLUMNS == 16, "a residual comes in pieces of 16 columns");
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
      if constexpr (Epilogue::RESIDUAL)
        finishBox(staging, p, epilogue, tile, band * CHUNKS + chunk, row, column, x, at);
      else
        finishChunk(staging, p, epilogue, tile, row, column, x, at);
    }
}

}  // namespace ditc::gemm_sm90
