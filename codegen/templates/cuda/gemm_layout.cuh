// SPDX-License-Identifier: Apache-2.0
//
// What a matrix product for Hopper is made of, beside the work itself: its arguments, the sizes that follow from a
// Config, addresses in shared memory, and the order in which tiles are visited. gemm_sm90.cuh explains the parameters.
#pragma once

#include "common/ptx.cuh"

namespace ditc::gemm_sm90 {

constexpr int STEP_BYTES = 128;  // of k: one row of the swizzle pattern

/// Division of 0 … 2³¹-1 by a number that the host knows: ⌈2^shift / value⌉ · x / 2^shift, shift = 31 + ⌈log₂ value⌉.
struct Divisor {
  int value;
  u32 multiplier;
  int shift;
  __device__ int quotient(int x) const { return static_cast<int>(static_cast<u64>(x) * multiplier >> shift); }
};

/// One product. Rows are counted per batch; a tile does not span batches.
struct Problem {
  TensorMap a[2], b[4];      // (k, row, batch), (k, column, 0); GATED: b[0] gives the gate, b[1] what it is multiplied with
  TensorMap out[4];          // (column in the head, row, head, batch)
  TensorMap residual;        // like out
  int rows, batches, columns;  // GATED: columns of the output
  int k[2];                  // values of k in a[0] and a[1]
  int headColumns[4];        // columns of a head in out's maps, read where HEAD is -1
  int outEnd[4];             // output columns before outEnd[i] go to out[i], counted from outEnd[i - 1]
  int bEnd[4];               // columns before bEnd[i] are products with b[i]; multiples of BLOCK_N · CLUSTER_N
  int tiles;                 // cluster tiles
  Divisor down;              // of them, those of a batch above each other
  Divisor perGroup;          // GROUP of these times those beside each other
  Divisor lastGroup;         // how many above each other the last group has
};

template <int PROBLEMS>
struct Params {
  Problem problem[PROBLEMS];
};

/// One epilogue per product.
template <class Epilogue, int PROBLEMS>
struct Epilogues {
  Epilogue of[PROBLEMS];
};

/// Sizes that follow from a Config.
template <class Config>
struct Layout : Config {
  static constexpr int BLOCK_M = Config::BLOCK_M, BLOCK_N = Config::BLOCK_N, STAGES = Config::STAGES;
  static constexpr int CONSUMERS = Config::CONSUMERS, SPLIT = Config::SPLIT;
  static constexpr int BLOCK_K = STEP_BYTES / sizeof(typename Config::Operand);  // values of k in a step
  static constexpr int WIDTH = Config::GATED ? BLOCK_N / 2 : BLOCK_N;  // columns of the output that a tile is
  static constexpr int SHARING = Config::CLUSTER_M * Config::CLUSTER_N, CLUSTER = SHARING * SPLIT;
  static constexpr int THREADS = 128 * (CONSUMERS + 1);
  static constexpr int SHARERS = Config::PINGPONG ? 1 : CONSUMERS;  // consumers of one tile
  static constexpr int BANDS = BLOCK_M / 64 / SHARERS;              // 64-row products of one consumer
  static constexpr bool CROWDED = BANDS * BLOCK_N / 2 >= 192;       // accumulators leave an epilogue about 40 registers

  static constexpr int A_BYTES = BLOCK_M * STEP_BYTES, B_BYTES = BLOCK_N * STEP_BYTES;
  static constexpr int BOX_BYTES = 16 * Config::BOX * 2, WARPS = 4 * CONSUMERS;
  // Offsets from a 1024-byte boundary.
  static constexpr int A_AT = 0, B_AT = STAGES * A_BYTES, STAGING_AT = B_AT + STAGES * B_BYTES;
  static constexpr int BARRIERS_AT = STAGING_AT + WARPS * Config::BOXES * BOX_BYTES;
  static constexpr int BARRIERS = 2 * STAGES + WARPS * Config::BOXES + (SPLIT > 1 ? WARPS : 0);
  static constexpr int SHARED_BYTES = BARRIERS_AT + 8 * BARRIERS + 1024;

  // Registers a thread once the roles are known: 504 for all warpgroups together with two consumers, as at the launch.
  // Two problems, or clusters, take the producer more than 24.
  __device__ static constexpr int producerRegisters(int problems) {
    return CONSUMERS > 2 ? 32 : problems == 1 && SHARING == 1 ? 24 : 40;
  }
  __device__ static constexpr int consumerRegisters(int problems) {
    return CONSUMERS > 2 ? 160 : problems == 1 && SHARING == 1 ? 240 : 232;
  }

  static_assert(BANDS * 64 * SHARERS == BLOCK_M, "BLOCK_M is a multiple of 64 times the consumers of a tile");
  static_assert(BLOCK_N % 16 == 0 && BLOCK_N <= 256, "BLOCK_N is a multiple of 16 up to 256");
  static_assert(WIDTH % Config::BOX == 0 && (Config::BOX == 64 || Config::BOX % 32 == 16 || Config::BOX % 16 == 8),
                "BOX divides the columns of a tile, and is 64 or an odd multiple of 8 or 16");
  static_assert(BLOCK_M % (8 * Config::CLUSTER_N) == 0 && BLOCK_N % (8 * Config::CLUSTER_M) == 0 && SHARING <= 2,
                "at most 2 blocks share an operand, each fetches whole repeats of the swizzle");
  static_assert(SPLIT == 1 || (SPLIT <= 8 && !Config::GATED && SHARING == 1 && !Config::PINGPONG),
                "k is split over up to 8 blocks that share a tile, which all their consumers multiply");
  static_assert(CONSUMERS == 2 || (CONSUMERS == 3 && !Config::PINGPONG), "two consumers, or three without ping-pong");
  static_assert(SHARED_BYTES <= 232448, "the stages do not fit into shared memory");
};

/// Addresses in shared memory.
template <class L>
struct Shared {
  u32 base;
  __device__ u32 a(int stage) const { return base + L::A_AT + stage * L::A_BYTES; }
  __device__ u32 b(int stage) const { return base + L::B_AT + stage * L::B_BYTES; }
  __device__ u32 box(int warp, int index) const {
    return base + L::STAGING_AT + (warp * L::BOXES + index) * L::BOX_BYTES;
  }
  __device__ u32 full(int stage) const { return base + L::BARRIERS_AT + 8 * stage; }
  __device__ u32 empty(int stage) const { return base + L::BARRIERS_AT + 8 * (L::STAGES + stage); }
  __device__ u32 residual(int warp, int box) const {
    return base + L::BARRIERS_AT + 8 * (2 * L::STAGES + warp * L::BOXES + box);
  }
  /// A warp's sums from the other blocks of its cluster have come.
  __device__ u32 partials(int warp) const { return residual(L::WARPS, 0) + 8 * warp; }
};

/// Position in the ring of stages.
template <int STAGES>
struct Cursor {
  int stage = 0;
  u32 parity = 0;
  __device__ void advance(int steps = 1) {
    stage += steps;
    if (stage >= STAGES) {
      parity ^= stage / STAGES & 1;
      stage %= STAGES;
    }
  }
};

/// A tile of one product.
struct Tile {
  int problem, batch, row, column;
};

// ---- schedule -----------------------------------------------------------------------------------------------------

/// The tiles of a launch in the order in which clusters take them: down GROUP cluster tiles of M, then one step in N, so
/// that the clusters that run at the same time read few different rows of A and B.
template <class L, int PROBLEMS>
struct Schedule {
  const Params<PROBLEMS> &params;

  // Where this block is in its cluster is read when it is wanted: accumulators need the register that would hold it.
  static constexpr bool SHARES = L::SPLIT > 1;
  __device__ static int rank() { return L::CLUSTER > 1 ? clusterRank() : 0; }
  /// This block among those that share operands.
  __device__ static int clusterRow() { return SHARES ? 0 : rank() % L::CLUSTER_M; }
  __device__ static int clusterColumn() { return SHARES ? 0 : rank() / L::CLUSTER_M; }
  /// This block among those that share a tile: which part of k, which chunks to finish.
  __device__ static int share() { return SHARES ? rank() : 0; }

  /// True when there is a tile `index`. Counted each time, which `first` makes sure of: the count is not worth a register.
  __device__ bool has(int index) const {
    int count = 0, first = 0;
    asm volatile("" : "+r"(first));
#pragma unroll
    for (int i = 0; i < PROBLEMS; ++i)
      count += params.problem[first + i].tiles;
    return index < count;
  }

  __device__ Tile tile(int index) const {
    int which = 0;
    if constexpr (PROBLEMS == 2)
      if (index >= params.problem[0].tiles)
        which = 1, index -= params.problem[0].tiles;
    const Problem &p = params.problem[which];
    int group = p.perGroup.quotient(index), inGroup = index - group * p.perGroup.value;
    bool isLast = (group + 1) * L::GROUP > p.down.value * p.batches;
    int column = isLast ? p.lastGroup.quotient(inGroup) : inGroup / L::GROUP;
    int row = group * L::GROUP + inGroup - column * (isLast ? p.lastGroup.value : L::GROUP);
    int batch = p.down.quotient(row), inBatch = row - batch * p.down.value;
    return {which, batch, (inBatch * L::CLUSTER_M + clusterRow()) * L::BLOCK_M,
            (column * L::CLUSTER_N + clusterColumn()) * L::WIDTH};
  }

  __device__ int allSteps(int problem) const {
    return ceilDiv(params.problem[problem].k[0], L::BLOCK_K) + ceilDiv(params.problem[problem].k[1], L::BLOCK_K);
  }
  /// This block's steps are firstStep … firstStep + steps - 1.
  __device__ int firstStep(int problem) const {
    return L::SPLIT == 1 ? 0 : allSteps(problem) * share() / L::SPLIT;
  }
  __device__ int steps(int problem) const {
    return L::SPLIT == 1 ? allSteps(problem) : allSteps(problem) * (share() + 1) / L::SPLIT - firstStep(problem);
  }
};

}  // namespace ditc::gemm_sm90
