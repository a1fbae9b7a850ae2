// SPDX-License-Identifier: Apache-2.0
//
// The end of a tile: the epilogue on the accumulators, and the way to memory. Every warp moves its 16 rows by itself,
// BOX columns at a time, through small boxes in shared memory that the copy engine reads; no warp waits for another.
//
//   accumulators ──epilogue──▶ 16-bit pairs ──stmatrix──▶ box (16 x BOX) ──copy engine──▶ out
//                     ▲                                    │ the same box, filled before the k loop
//                     └──────────── ldmatrix ──────────────┘ (epilogues with a residual)
#pragma once

#include "common/epilogue.cuh"
#include "gemm_sm90_loop.cuh"

namespace ditc::gemm_sm90 {

/// The boxes of one warp. In a box of 64 columns the 16-byte piece c of row r lies at c ^ (r % 8), as the 128-byte
/// swizzle wants it, so that neither side meets bank conflicts. Other widths are stored plainly: odd multiples of 16 with
/// conflicts of two, odd multiples of 8 without.
template <class L>
struct Staging {
  const Shared<L> &shared;
  int warp, lane;
  int next = 0;              // the box that is written next
  u32 residualParities = 0;  // a bit per box: the parity of its next residual

  __device__ u32 box(int index) const { return shared.box(warp, index); }
  /// This lane's address in a matrix instruction on columns 16 · pair … 16 · pair + 15.
  __device__ u32 piece(int index, int pair) const {
    int row = lane % 16, column = 2 * pair + lane / 16;
    return box(index) + row * 2 * L::BOX + ((L::BOX == 64 ? column ^ row % 8 : column) << 4);
  }
};

/// A warp's rows of a tile in chunks of COLUMNS columns, band by band. With SPLIT the blocks of a cluster finish them in
/// turn, beginning one further with every warp: all blocks finish about as many, whatever their number is.
template <class L, int COLUMNS_>
struct Chunks {
  static constexpr int COLUMNS = COLUMNS_, ACROSS = L::WIDTH / COLUMNS, COUNT = L::BANDS * ACROSS;
  static constexpr int MOST = ceilDiv(COUNT, L::SPLIT);  // that one block finishes
  static_assert(L::WIDTH % COLUMNS == 0, "a tile has whole chunks of the columns that the epilogue sees together");

  __device__ static int finisher(int chunk, int warp) { return L::SPLIT == 1 ? 0 : (chunk + warp) % L::SPLIT; }
  /// The first chunk of a warp that block `share` finishes; every SPLIT-th follows.
  __device__ static int first(int share, int warp) {
    return L::SPLIT == 1 ? 0 : (share + (L::SPLIT - 1) * warp) % L::SPLIT;
  }
};

template <class L, class Epilogue>
using ChunksOf = Chunks<L, Epilogue::RESIDUAL ? L::BOX : Epilogue::COLUMNS>;

/// The residual of what a warp finishes, a box for every chunk of BOX columns. The first BOXES are asked for before the k
/// loop and arrive during it; the others follow as boxes become free.
template <class L>
struct Residual {
  using Chunk = Chunks<L, L::BOX>;
  const Problem &p;
  const Tile &tile;
  int firstRow, firstChunk;

  /// One lane asks for box `index`.
  __device__ void fetch(const Staging<L> &staging, int index) const {
    u32 barrier = staging.shared.residual(staging.warp, index % L::BOXES);
    int chunk = firstChunk + L::SPLIT * index;
    if (chunk >= Chunk::COUNT)
      return;
    barrierExpect(barrier, L::BOX_BYTES);
    copyBox(staging.box(index % L::BOXES), p.residual, barrier, tile.column + chunk % Chunk::ACROSS * L::BOX,
            firstRow + chunk / Chunk::ACROSS * 64, 0, tile.batch);
  }

  __device__ void begin(const Staging<L> &staging) const {
    if (isElected()) {
      storeWaitRead<0>();  // the previous tile has left the boxes
#pragma unroll
      for (int i = 0; i < min(L::BOXES, Chunk::MOST); ++i)
        fetch(staging, i);
    }
  }

  /// Before box `index` is read.
  __device__ void wait(Staging<L> &staging, int index) const {
    int box = index % L::BOXES;
    barrierWait(staging.shared.residual(staging.warp, box), staging.residualParities >> box & 1);
    staging.residualParities ^= 1u << box;
  }

  /// After box `index` has been sent: the one before it has left its place, except with a single box, which is waited
  /// for.
  __device__ void refill(const Staging<L> &staging, int index) const {
    constexpr int BEHIND = L::BOXES > 1 ? 1 : 0;
    int next = index - BEHIND + L::BOXES;
    if (next >= L::BOXES && next < Chunk::MOST && isElected()) {
      storeWaitRead<BEHIND>();
      fetch(staging, next);
    }
  }
};

/// Sixteen columns into a box.
template <class L>
__device__ void writePiece(const Staging<L> &staging, int box, int pair, const float *x) {
  using P = Pair<typename L::Element>;
  storeMatrices(staging.piece(box, pair), P::pack(x[0], x[1]), P::pack(x[2], x[3]), P::pack(x[4], x[5]),
                P::pack(x[6], x[7]));
}

/// The last eight columns of a box that has an odd number of eights.
template <class L>
__device__ void writeLast(const Staging<L> &staging, int box, const float *x) {
  using P = Pair<typename L::Element>;
  storeMatrices(staging.piece(box, L::BOX / 16), P::pack(x[0], x[1]), P::pack(x[2], x[3]));
}

/// Sends a box off. `column` counts the output's columns.
template <class L>
__device__ void send(const Staging<L> &staging, const Problem &p, const Tile &tile, int box, int row, int column) {
  asyncProxyFence();
  __syncwarp();
  if (isElected()) {
    int part = 0, inPart = column;
#pragma unroll
    for (int i = 0; i < L::OUTPUTS - 1; ++i)
      if (column >= p.outEnd[i])
        part = i + 1, inPart = column - p.outEnd[i];
    int columns = L::HEAD < 0 ? p.headColumns[part] : L::HEAD, head = L::HEAD == 0 ? 0 : inPart / columns;
    storeBox(p.out[part], staging.box(box), inPart - head * columns, row, head, tile.batch);
    storeCommit();
  }
}

/// One chunk of an epilogue without a residual: the boxes are used in turn. `up`: with GATED, what `x` meets.
template <class L, class Epilogue, class At>
__device__ void finishChunk(Staging<L> &staging, const Problem &p, const Epilogue &epilogue, const Tile &tile, int row,
                            int column, float (&x)[Epilogue::COLUMNS / 2], const float (&up)[Epilogue::COLUMNS / 2],
                            const At &at) {
  if constexpr (L::GATED)
    epilogue(x, up, at);
  else
    epilogue(x, at);
#pragma unroll
  for (int part = 0; part < Epilogue::COLUMNS / L::BOX; ++part) {
    if (isElected())
      storeWaitRead<L::BOXES - 1>();  // the store that used this box last has read it
    __syncwarp();
#pragma unroll
    for (int pair = 0; pair < L::BOX / 16; ++pair)
      writePiece(staging, staging.next, pair, x + L::BOX / 2 * part + 8 * pair);
    if constexpr (L::BOX % 16 != 0)
      writeLast(staging, staging.next, x + L::BOX / 2 * (part + 1) - 4);
    send(staging, p, tile, staging.next, row, column + L::BOX * part);
    staging.next = staging.next + 1 == L::BOXES ? 0 : staging.next + 1;
  }
}

/// A box with its residual, which the result replaces sixteen columns at a time. Where accumulators leave few registers,
/// the loads of all pieces at once would spill: each piece waits for the one before. With CUT pieces past the last column
/// are left out: what an epilogue reads by columns ends there, and so may the memory.
template <class L, class Epilogue, class At>
__device__ void finishBox(Staging<L> &staging, const Problem &p, const Epilogue &epilogue, const Tile &tile, int box,
                          int row, int column, float *x, At at) {
#pragma unroll
  for (int pair = 0; pair < L::BOX / 16; ++pair, at.firstColumn += 16) {
    if (L::CUT && column + 16 * pair >= p.columns)  // the same for the whole warp
      break;
    u32 residual[4];
    if constexpr (L::CROWDED)
      __syncwarp();
    loadMatrices(staging.piece(box, pair), residual);
    if constexpr (L::CROWDED)
      __syncwarp();
    epilogue(*reinterpret_cast<float(*)[8]>(x + 8 * pair), residual, at);
    writePiece(staging, box, pair, x + 8 * pair);
  }
  send(staging, p, tile, box, row, column);
}

/// The chunks of a tile that this block finishes: every SPLIT-th from `first` on.
template <class L, class Epilogue, int PROBLEMS>
__device__ void finish(Staging<L> &staging, const Problem &p, const Epilogues<Epilogue, PROBLEMS> &epilogues,
                       const Tile &tile, int firstRow, int first, Accumulators<L> &acc) {
  using Chunk = ChunksOf<L, Epilogue>;
  constexpr int COLUMNS = Chunk::COLUMNS;
  static_assert(COLUMNS % L::BOX == 0, "a chunk fills whole boxes");
  static_assert(!Epilogue::RESIDUAL || (Epilogue::COLUMNS == 16 && L::BOX % 16 == 0 && !L::GATED),
                "a residual comes in pieces of 16 columns");
  Residual<L> residual{p, tile, firstRow, first};
#pragma unroll
  for (int band = 0; band < L::BANDS; ++band)
#pragma unroll
    for (int across = 0; across < Chunk::ACROSS; ++across) {
      int chunk = band * Chunk::ACROSS + across, index = chunk / L::SPLIT;  // `index` among those that are finished here
      if (L::SPLIT > 1 && chunk % L::SPLIT != first)
        continue;
      int row = firstRow + 64 * band, column = tile.column + across * COLUMNS;
      int which = PROBLEMS == 1 ? 0 : tile.problem;
      if constexpr (PROBLEMS > 1)
        asm volatile("" : "+r"(which));  // the arguments are read when they are used: no registers hold them meanwhile
      const Epilogue &epilogue = epilogues.of[which];
      bool inside = row < p.rows && column < p.columns;  // the same for the whole warp
      float(&x)[COLUMNS / 2] = *reinterpret_cast<float(*)[COLUMNS / 2]>(&acc[band][across * COLUMNS / 2]);
      Place<!L::EVEN> at{tile.batch, row + staging.lane / 4, column + staging.lane % 4 * 2, p.rows, p.columns};
      if constexpr (Epilogue::RESIDUAL) {
        residual.wait(staging, index);
        if (inside)
          finishBox(staging, p, epilogue, tile, index % L::BOXES, row, column, x, at);
        else if (isElected())
          storeCommit();  // an empty group, so that groups count boxes
        residual.refill(staging, index);
      } else if (inside) {
        constexpr int OTHER_HALF = L::GATED ? L::BLOCK_N / 4 : 0;
        const auto &up = *reinterpret_cast<const float(*)[COLUMNS / 2]>(&acc[band][OTHER_HALF + across * COLUMNS / 2]);
        finishChunk(staging, p, epilogue, tile, row, column, x, up, at);
      }
    }
}

}  // namespace ditc::gemm_sm90
