// SPDX-License-Identifier: Apache-2.0
//
// Matrix product for Hopper (sm_90a): out = epilogue(A Bᵀ), A [batch][M][K], B [N][K] (a linear layer's weight as it is
// stored), 16-bit or e4m3 values, fp32 accumulation; one or two products of different sizes in one persistent launch.
//
//        one k step of a 128 x 192 tile                      a block over time (PINGPONG)
//
//                  B  192 rows of the weight                 producer    tile 0: a a a a a │ tile 1: a a a a a │ tile 2 …
//                 ┌──────────────┐ 64 of k                   consumer 0  ├─── multiply ────┤epilogue├ wait ┤ multiply …
//                 └──────────────┘                           consumer 1  ├─────  wait  ─────├─── multiply ────┤epilogue
//   A   ┌──────┐  ┌──────────────┐
//       │      │  │ 64 x 192     │ fp32 in registers         The tensor cores never wait for an epilogue. Without
//       ├──────┤  ├──────────────┤                           PINGPONG the consumers share a tile, one band of rows
//       │      │  │ 64 x 192     │                           each, and finish it at the same time.
//       └──────┘  └──────────────┘
//         one consumer's two bands                           A stage is one k step of A and B, filled by the copy engine.
//
//   Config      allowed                        meaning
//   Operand     BF16, F16, E4M3                  storage of A and B
//   Element     BF16, F16                      storage of out and of what the epilogue reads; Operand's where that is 16-bit
//   BLOCK_M     64 · consumers (· 2)           rows of a tile; all consumers together, or one of them with PINGPONG
//   BLOCK_N     16 … 256, multiple of 16       columns of a tile, a multiple of the epilogue's COLUMNS
//   STAGES      2 …                            k steps (of 64, or 128 of E4M3: 128 bytes) in flight
//   CONSUMERS   2, 3                           warpgroups that multiply
//   CLUSTER_M   1, 2                           blocks above each other that share B by multicast
//   CLUSTER_N   1, 2                           blocks beside each other that share A by multicast
//   PINGPONG    bool                           consumers work on different tiles
//   SPLIT       1 … 8                          blocks (a cluster) that share a tile: each multiplies a part of k, sends the
//                                              others their chunks of its sums, and finishes every SPLIT-th; for products
//                                              with fewer tiles than multiprocessors; k has SPLIT steps or more
//   GROUP       1 …                            cluster tiles in M that are visited before the next in N
//   BOX         64, or 8 or 16 · odd           columns of a staging box, a divisor of the epilogue's COLUMNS
//   BOXES       1 …                            staging boxes (16 rows x BOX columns) per warp; a residual wants about as
//                                              many as a warp's share of the tile has
//   EARLY       bool                           B is the same in every step: it is fetched before the kernel before has ended
//   EVEN        bool                           N is a multiple of the epilogue's COLUMNS
//   CUT         bool                           there is a residual, and N is no multiple of BOX: the last box reaches past N
//   OUTPUTS     1 … 4                          of one product, side by side
//   HEAD        -1, 0, 1 …                     columns of a head in every output; 0 without heads, -1: headColumns has it
//   GATED       bool                           out = epilogue(A Gᵀ, A Uᵀ), an MLP's gate: half of a tile's columns are G's,
//                                              the other half U's at the same places; b[0] is G, b[1] U; not with SPLIT
//
//   K is a multiple of 8, of E4M3 16 (the copy engine's 16 bytes); M, N (multiple of 8) and K need not fill tiles. K may come in two
//   ranges, A from a[0] then a[1]: a concat before a linear layer. B may come in up to four pieces of columns (Q, K, V as
//   separate weights), whose ends are multiples of a tile. Rows of `out` are placed by its map, so that the
//   output may be part of a larger buffer, or have its heads outside (headColumns).
//   boxes of the maps, 64 being 128 for E4M3: A {64, BLOCK_M / CLUSTER_N, 1}, B {64, BLOCK_N / CLUSTER_M, 1} (GATED: always {64, BLOCK_N / 2, 1}),
//   out, residual {BOX, 16, 1, 1}; all with the 128-byte swizzle, but out and residual without where BOX is not 64.
//
//   shared memory  STAGES · 128 (BLOCK_M + BLOCK_N) + 128 · CONSUMERS · BOX · BOXES bytes, + 2 KB
//   registers      BLOCK_M · BLOCK_N / (128 · consumers of a tile) accumulators a thread, + about 40; of 240, 160 with 3
//
//   measured (one NVIDIA H200 at its power limit, bf16, random data, beside cuBLAS 13.0 in the same run)
//     PINGPONG 128 x 192, no cluster   4096 x 12288 x 3072: 654 TFLOP/s, 1.01 x    32760 x 15360 x 5120: 633, 1.05 x
//     PINGPONG 128 x 128, no cluster   4608 x 21504 x 3072: 662 TFLOP/s, 1.07 x    8192 x 7296 x 2432: 657, 1.08 x
//     GATED, PINGPONG 128 x 128, 4608 x (2 · 9216) x 3072: 735 us, in clusters of two 762 and at the power limit 796 (without 811)
//     fourteen products of FLUX, SD3.5, PixArt and Wan: 1.05 x with the best tile for each, 1.03 x with the first alone
//     with epilogues beside cuBLAS(Lt) and torch.compile, thirteen cases: 1.14 x; every figure is in tests/bench/results
//     steady state, 1440 MHz: 192 x 192 with 3 consumers, CLUSTER_M 2, 4608 x 3072 x 15360: 679 TFLOP/s, cuBLAS 686; without
//     clusters the best is 622. Few tiles, 512 x 1152 x 4608: SPLIT 3 with 128 x 128 13.2 us, SPLIT 2 with 128 x 96 14.4,
//     SPLIT 4 with 128 x 192 14.6, 128 x 64 without 18.8, cuBLAS 12.0. Of the 13.2 us a k loop without copies leaves 10.8: a
//     step of 128 x 128 takes 518 cycles without, 556 to 642 with operands in L2, 619 to 675 with weights in device memory,
//     while copies alone take 350 to 500. Boxes of 32 or 64 rows, bulk copies of weights laid out in tiles and multicast
//     are no faster, nor are weights fetched into L2 beforehand (cp.async.bulk.prefetch). Clusters
//     of 2, 3, 4 and 5 blocks run 66, 39, 30 and 22 at once. With 2048 rows power is the limit: SPLIT 2 with 256 x 144 is
//     slower (36 us) than 128 x 144 without (32).
#pragma once

#include "gemm_exchange.cuh"
#include "gemm_sm90_loop.cuh"

namespace ditc::gemm_sm90 {

// ---- load ---------------------------------------------------------------------------------------------------------

/// Where a tile's columns lie among the pieces of B: the piece's map, and `column` in it.
__device__ inline const TensorMap *weightOf(const Problem &p, int &column) {
  const TensorMap *weight = &p.b[0];
  int inPiece = column;
#pragma unroll
  for (int i = 0; i < 3; ++i)
    if (column >= p.bEnd[i])
      weight = &p.b[i + 1], inPiece = column - p.bEnd[i];
  column = inPiece;
  return weight;
}

/// The copies of one tile. Blocks of a cluster each fetch a slice of the shared operand and send it to all.
template <class L, int PROBLEMS>
struct TileCopies {
  static constexpr int A_SLICE = L::BLOCK_M / L::CLUSTER_N, B_SLICE = L::BLOCK_N / L::CLUSTER_M;
  const Shared<L> &shared;
  const Schedule<L, PROBLEMS> &schedule;
  int clusterRow, clusterColumn;
  const Problem *p;
  Tile tile;
  const TensorMap *weight;
  int firstSteps, begin, end;

  __device__ TileCopies(const Shared<L> &shared, const Schedule<L, PROBLEMS> &schedule, int index)
      : shared(shared), schedule(schedule), clusterRow(schedule.clusterRow()), clusterColumn(schedule.clusterColumn()) {
    moveTo(index);
  }

  __device__ void moveTo(int index) {
    tile = schedule.tile(index);
    p = &schedule.params.problem[tile.problem];
    firstSteps = ceilDiv(p->k[0], L::BLOCK_K);
    begin = schedule.firstStep(tile.problem), end = begin + schedule.steps(tile.problem);
    weight = L::GATED ? &p->b[clusterRow] : weightOf(*p, tile.column);
    tile.row += clusterColumn * A_SLICE;
    tile.column += L::GATED ? 0 : clusterRow * B_SLICE;
  }

  /// Past the end of a range A is zero, whatever B holds there.
  __device__ void copyA(int stage, int step) const {
    bool second = step >= firstSteps;
    int k = (second ? step - firstSteps : step) * L::BLOCK_K;
    u32 full = shared.full(stage), a = shared.a(stage) + clusterColumn * A_SLICE * 128;
    if constexpr (L::CLUSTER_N == 2)
      copyBoxMulticast(a, p->a[second], full, 3, k, tile.row, tile.batch);
    else
      copyBox(a, p->a[second], full, k, tile.row, tile.batch);
  }

  __device__ void copyB(int stage, int step) const {
    int k = step >= firstSteps ? p->k[0] + (step - firstSteps) * L::BLOCK_K : step * L::BLOCK_K;
    u32 full = shared.full(stage), b = shared.b(stage) + clusterRow * B_SLICE * 128;
    if constexpr (L::CLUSTER_M == 2)
      copyBoxMulticast(b, *weight, full, 3, k, tile.column, 0);
    else
      copyBox(b, *weight, full, k, tile.column, 0);
    if constexpr (L::GATED && L::CLUSTER_M == 1)
      copyBox(b + L::WIDTH * 128, p->b[1], full, k, tile.column, 0);
  }
};

/// The producer: one thread keeps the ring of stages full. While the kernel before still runs it finds its first tile,
/// and with EARLY fetches weights into the empty ring.
template <class L, int PROBLEMS>
__device__ void load(const Shared<L> &shared, const Schedule<L, PROBLEMS> &schedule) {
  Cursor<L::STAGES> cursor;
  int index = blockIdx.x / L::CLUSTER, early = 0;
  bool more = schedule.has(index);
  TileCopies<L, PROBLEMS> copies(shared, schedule, index);
  if (L::EARLY && more)
    for (; early < min(L::STAGES, copies.end - copies.begin); ++early) {
      barrierExpect(shared.full(early), L::A_BYTES + L::B_BYTES);
      copies.copyB(early, copies.begin + early);
    }
  waitForPreviousKernel();
  while (more) {
    for (int step = copies.begin; step < copies.end; ++step, cursor.advance()) {
      if (L::EARLY && early > 0) {
        --early;  // B is on its way
      } else {
        barrierWait(shared.empty(cursor.stage), cursor.parity ^ 1);
        barrierExpect(shared.full(cursor.stage), L::A_BYTES + L::B_BYTES);
        copies.copyB(cursor.stage, step);
      }
      copies.copyA(cursor.stage, step);
    }
    index += gridDim.x / L::CLUSTER;
    more = schedule.has(index);
    if (more)
      copies.moveTo(index);
  }
  allowNextKernel();  // not before: blocks that only wait would hold multiprocessors, which measured 5 % slower
}

// ---- run ----------------------------------------------------------------------------------------------------------

template <class L, int PROBLEMS>
__device__ Shared<L> setup(const Params<PROBLEMS> &params) {
  extern __shared__ u8 raw[];
  Shared<L> shared{(sharedAddress(raw) + 1023) & ~1023u};
  if (threadIdx.x == 32)
    for (const Problem &p : params.problem)
      for (const TensorMap *map : {&p.a[0], &p.b[0], &p.out[0]})
        prefetchTensorMap(*map);
  if (threadIdx.x == 0) {  // a lane for each barrier measured 1 us slower
    for (int stage = 0; stage < L::STAGES; ++stage) {
      barrierInit(shared.full(stage), 1);
      barrierInit(shared.empty(stage), 4 * L::SHARERS * L::SHARING);  // one arrival per warp that reads
    }
    for (int box = 0; box < L::WARPS * L::BOXES; ++box)
      barrierInit(shared.residual(0, box), 1);
    if constexpr (L::SPLIT > 1)
      for (int warp = 0; warp < L::WARPS; ++warp)
        barrierInit(shared.partials(warp), 1);
    barrierInitFence();
  }
  if constexpr (L::SHARING > 1)
    clusterMeet();
  else
    __syncthreads();
  return shared;
}

/// One consumer: multiply, finish, next tile.
template <class L, class Epilogue, int PROBLEMS>
__device__ void consume(const Shared<L> &shared, const Schedule<L, PROBLEMS> &schedule,
                        const Epilogues<Epilogue, PROBLEMS> &epilogues, int consumer) {
  Accumulators<L> acc;
  Cursor<L::STAGES> cursor;
  int warp = uniform(threadIdx.x / 32 % 4);
  Staging<L> staging{shared, 4 * consumer + warp, static_cast<int>(threadIdx.x % 32)};
  int rowInTile = (L::PINGPONG ? 0 : consumer * 64 * L::BANDS) + 16 * warp;
  if (L::PINGPONG && consumer == 1)
    namedArrive(turnBarrier(0), 256);  // consumer 0 begins

  int clusters = gridDim.x / L::CLUSTER;
  for (int index = blockIdx.x / L::CLUSTER; schedule.has(index); index += clusters) {
    Tile tile = schedule.tile(index);
    int steps = schedule.steps(tile.problem);
    if (L::PINGPONG && index / clusters % 2 != consumer) {
      cursor.advance(steps);
      continue;
    }
    const Problem &p = schedule.params.problem[tile.problem];
    int first = ChunksOf<L, Epilogue>::first(schedule.share(), staging.warp);
    if constexpr (Epilogue::RESIDUAL)
      Residual<L>{p, tile, tile.row + rowInTile, first}.begin(staging);
    multiply(shared, cursor, consumer, steps, acc);
    if constexpr (L::SPLIT > 1)
      exchange<L, Epilogue>(staging, schedule.share(), acc);
    finish(staging, p, epilogues, tile, tile.row + rowInTile, first, acc);
  }
  if (isElected())
    storeWaitRead<0>();  // shared memory has to live until it has been read
}

/// Launch: a multiple of CLUSTER blocks, at most one per SM, with SPLIT a cluster for every tile; Layout<Config>::THREADS threads, Layout<Config>::SHARED_BYTES
/// of dynamic shared memory, clusters of CLUSTER blocks in x.
template <class Config, class Epilogue, int PROBLEMS>
__device__ void run(const Params<PROBLEMS> &params, const Epilogues<Epilogue, PROBLEMS> &epilogues) {
  using L = Layout<Config>;
  Shared<L> shared = setup<L>(params);
  Schedule<L, PROBLEMS> schedule{params};

  int warpgroup = uniform(threadIdx.x / 128);
  if (warpgroup == 0) {
    shrinkRegisters<L::producerRegisters(PROBLEMS)>();
    if (uniform(threadIdx.x / 32) == 0 && isElected())
      load(shared, schedule);
    if constexpr (L::SPLIT > 1)
      clusterMeet();  // with the consumers' exchange
  } else {
    growRegisters<L::consumerRegisters(PROBLEMS)>();
    waitForPreviousKernel();
    consume(shared, schedule, epilogues, warpgroup - 1);
  }
  // A block may not end while others of its cluster still copy into it or arrive at its barriers. With SPLIT it has waited
  // for all that they send.
  if constexpr (L::SHARING > 1)
    clusterSync();
}

}  // namespace ditc::gemm_sm90
