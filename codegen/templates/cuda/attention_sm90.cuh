// SPDX-License-Identifier: Apache-2.0
//
// Flash attention for Hopper (sm_90a): out = softmax(scale · Q Kᵀ + mask) V, exact, with no score in device memory.
//
//   one work tile: 64·CONSUMERS query rows of one head          K/V stages arrive by tensor copies
//
//                     BLOCK_N keys                              producer warp   K0  K1 V0  K2 V1  K3 V2 …
//               ┌──────────────────────┐                        warpgroup 0     QK0 │QK1 PV0│ softmax 1 │QK2 PV1│ …
//      64 rows  │ S = Q Kᵀ → P         │ warpgroup 0            warpgroup 1         QK0│softmax│QK1 PV0 │softmax 1│ …
//               ├──────────────────────┤
//      64 rows  │ S = Q Kᵀ → P         │ warpgroup 1            Inside a warpgroup the product QK of block j + 1 runs
//               └──────────────────────┘                        while block j is exponentiated; between warpgroups,
//      O (64 rows × V_DIM) += P V, all in registers             named barriers let one multiply while another does
//                                                               softmax. Blocks are visited from the last to the first.
//
//   Config       allowed                  meaning
//   Element      BF16, F16                storage of Q, K, V, out; accumulation is fp32
//   HEAD_DIM     8 … 256, multiple of 8   columns of Q and K; the copy engine fills up to a multiple of 16 with zeros
//   V_DIM        8 … 256, multiple of 8   columns of V and out, exactly that wide in the second product
//   BLOCK_N      16 … 256, multiple of 16 keys per block (of 32 with packed masks)
//   CONSUMERS    1, 2, 3                  warpgroups that compute; 64 query rows each
//   STAGES       2 …                      K and V buffers each
//   QK_PANEL     16, 32, 64               columns per panel of Q and K in shared memory (32, 64, 128-byte swizzle)
//   V_PANEL      16, 32, 64               the same for V
//   ORDERED      bool                     ping-pong between warpgroups by named barriers
//   POLYNOMIAL_EVERY  0, 2 …              every n-th exponential on the FMA pipe (attention_softmax.cuh)
//
//   Q, K, V are read in place through maps (column, token, head, batch) with any strides that are multiples of 16 bytes;
//   boxes: Q {QK_PANEL, 64}, K {QK_PANEL, BLOCK_N}, V {V_PANEL, BLOCK_N}; the map's column count is HEAD_DIM or V_DIM.
//
//   shared memory  2·(64·CONSUMERS·QK + STAGES·BLOCK_N·(QK + V)) bytes, QK and V rounded up to whole panels, + 2 KB
//   registers      BLOCK_N·3/4 + V_DIM/2 + about 35 a thread, of 240 with 2 consumers, 160 with 3
//
//   measured: see tests/bench/results
#pragma once

#include "attention_softmax.cuh"
#include "attention_store.cuh"
#include "attention_wgmma.cuh"

namespace ditc::attention_sm90 {

struct Params {
  TensorMap q, k, v;
  Output out;
  int batch, heads, headsPerKey;  // headsPerKey: query heads that share one key head
  int queries, keys;
  float scaleLog2;  // scale · log2(e), positive
};

/// Sizes that follow from a Config.
template <class Config>
struct Layout : Config {
  static constexpr int CONSUMERS = Config::CONSUMERS, STAGES = Config::STAGES, BLOCK_N = Config::BLOCK_N;
  static constexpr int BLOCK_M = 64 * CONSUMERS;
  static constexpr int THREADS = 128 * (CONSUMERS + 1);
  static constexpr int QK_STEPS = ceilDiv(Config::HEAD_DIM, 16), PV_STEPS = BLOCK_N / 16;
  static constexpr int QK_PANELS = ceilDiv(Config::HEAD_DIM, Config::QK_PANEL);
  static constexpr int V_PANELS = ceilDiv(Config::V_DIM, Config::V_PANEL);

  static constexpr int Q_PANEL_BYTES = 64 * Config::QK_PANEL * 2, Q_BYTES = QK_PANELS * Q_PANEL_BYTES;
  static constexpr int K_PANEL_BYTES = BLOCK_N * Config::QK_PANEL * 2, K_BYTES = QK_PANELS * K_PANEL_BYTES;
  static constexpr int V_PANEL_BYTES = BLOCK_N * Config::V_PANEL * 2, V_BYTES = V_PANELS * V_PANEL_BYTES;

  // Offsets from a 1024-byte boundary.
  static constexpr int Q_AT = 0, K_AT = CONSUMERS * Q_BYTES, V_AT = K_AT + STAGES * K_BYTES;
  static constexpr int BARRIERS_AT = V_AT + STAGES * V_BYTES;
  static constexpr int SHARED_BYTES = BARRIERS_AT + 8 * (2 * CONSUMERS + 4 * STAGES) + 4 * STAGES + 1024;

  // With one consumer a thread may have 255 registers from the start.
  static constexpr int PRODUCER_REGISTERS = CONSUMERS == 2 ? 24 : 32;
  static constexpr int CONSUMER_REGISTERS = CONSUMERS == 2 ? 240 : 160;

  static_assert(Config::HEAD_DIM % 8 == 0 && Config::HEAD_DIM <= 256, "HEAD_DIM is a multiple of 8 up to 256");
  static_assert(Config::V_DIM % 8 == 0 && Config::V_DIM <= 256, "V_DIM is a multiple of 8 up to 256");
  static_assert(BLOCK_N % 16 == 0 && BLOCK_N <= 256, "BLOCK_N is a multiple of 16 up to 256");
  static_assert(K_PANEL_BYTES % 1024 == 0 || Config::QK_PANEL < 64, "panels start on a repeat of their swizzle");
  static_assert(SHARED_BYTES <= 232448, "the stages do not fit into shared memory");
};

/// Addresses of the barriers and the ring of block verdicts.
template <class L>
struct Shared {
  u32 base;
  int *ring;  // per K stage: 4 · block + kind, or -1 at the end of a tile; written by the producer when the mask skips

  __device__ u32 q(int warpgroup) const { return base + L::Q_AT + warpgroup * L::Q_BYTES; }
  __device__ u32 k(int stage) const { return base + L::K_AT + stage * L::K_BYTES; }
  __device__ u32 v(int stage) const { return base + L::V_AT + stage * L::V_BYTES; }
  __device__ u32 barrier(int index) const { return base + L::BARRIERS_AT + 8 * index; }
  __device__ u32 qFull(int warpgroup) const { return barrier(warpgroup); }
  __device__ u32 qEmpty(int warpgroup) const { return barrier(L::CONSUMERS + warpgroup); }
  __device__ u32 kFull(int stage) const { return barrier(2 * L::CONSUMERS + stage); }
  __device__ u32 kEmpty(int stage) const { return barrier(2 * L::CONSUMERS + L::STAGES + stage); }
  __device__ u32 vFull(int stage) const { return barrier(2 * L::CONSUMERS + 2 * L::STAGES + stage); }
  __device__ u32 vEmpty(int stage) const { return barrier(2 * L::CONSUMERS + 3 * L::STAGES + stage); }
};

/// Position in a ring of stages.
template <int STAGES>
struct Cursor {
  int stage = 0;
  u32 parity = 0;
  __device__ void advance() {
    if (++stage == STAGES)
      stage = 0, parity ^= 1;
  }
};

// ---- setup --------------------------------------------------------------------------------------------------------

template <class L>
__device__ Shared<L> setup(const Params &p) {
  extern __shared__ u8 raw[];
  u32 base = (sharedAddress(raw) + 1023) & ~1023u;
  Shared<L> shared{base, reinterpret_cast<int *>(raw + (base - sharedAddress(raw)) + L::BARRIERS_AT +
                                                 8 * (2 * L::CONSUMERS + 4 * L::STAGES))};
  if (threadIdx.x == 0) {
    prefetchTensorMap(p.q);
    prefetchTensorMap(p.k);
    prefetchTensorMap(p.v);
    for (int warpgroup = 0; warpgroup < L::CONSUMERS; ++warpgroup) {
      barrierInit(shared.qFull(warpgroup), 1);
      barrierInit(shared.qEmpty(warpgroup), 4);  // one arrival per warp
    }
    for (int stage = 0; stage < L::STAGES; ++stage) {
      barrierInit(shared.kFull(stage), 1);
      barrierInit(shared.kEmpty(stage), 4 * L::CONSUMERS);
      barrierInit(shared.vFull(stage), 1);
      barrierInit(shared.vEmpty(stage), 4 * L::CONSUMERS);
    }
    barrierInitFence();
  }
  __syncthreads();
  return shared;
}

template <class L>
__device__ int workTiles(const Params &p) {
  return ceilDiv(p.queries, L::BLOCK_M) * p.heads * p.batch;
}

/// The number of the tile that this block computes in its `round`-th turn. Where late rows see more keys than early
/// ones, the order of blocks is turned around every round, so that no block gets the longest tile every time.
template <class Mask>
__device__ int tileNumber(int round) {
  int place = Mask::GROWS && round % 2 == 1 ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  return round * gridDim.x + place;
}

/// Tiles of one head are neighbours, so that blocks running at the same time share its K and V in the L2 cache; where
/// late rows see more keys, all heads' latest rows come first instead, and the short tiles fill the gaps at the end.
template <class L, class Mask>
__device__ WorkTile workTile(const Params &p, int number) {
  int rowTiles = ceilDiv(p.queries, L::BLOCK_M), problems = p.heads * p.batch;
  int problem = Mask::GROWS ? number % problems : number / rowTiles;
  int rowTile = Mask::GROWS ? rowTiles - 1 - number / problems : number % rowTiles;
  return {problem / p.heads, problem % p.heads, rowTile * L::BLOCK_M};
}

// ---- load: the producer warp --------------------------------------------------------------------------------------

template <class L, class Mask>
__device__ void load(const Params &p, const Mask &mask, const Shared<L> &shared) {
  Cursor<L::STAGES> k, v;
  u32 qParity = 1;
  for (int round = 0, number; (number = tileNumber<Mask>(round)) < workTiles<L>(p); ++round) {
    WorkTile tile = workTile<L, Mask>(p, number);
    BlockRange range = mask.template range<L::BLOCK_M, L::BLOCK_N>(tile, p.keys);
    if (range.first >= range.last)
      continue;
    int keyHead = tile.head / p.headsPerKey;

    for (int warpgroup = 0; warpgroup < L::CONSUMERS; ++warpgroup) {
      barrierWait(shared.qEmpty(warpgroup), qParity);
      barrierExpect(shared.qFull(warpgroup), L::Q_BYTES);
      for (int panel = 0; panel < L::QK_PANELS; ++panel)
        copyBox(shared.q(warpgroup) + panel * L::Q_PANEL_BYTES, p.q, shared.qFull(warpgroup), panel * L::QK_PANEL,
                tile.row + 64 * warpgroup, tile.head, tile.batch);
    }
    qParity ^= 1;

    auto loadV = [&](int block) {
      barrierWait(shared.vEmpty(v.stage), v.parity ^ 1);
      barrierExpect(shared.vFull(v.stage), L::V_BYTES);
      for (int panel = 0; panel < L::V_PANELS; ++panel)
        copyBox(shared.v(v.stage) + panel * L::V_PANEL_BYTES, p.v, shared.vFull(v.stage), panel * L::V_PANEL,
                block * L::BLOCK_N, keyHead, tile.batch);
      v.advance();
    };

    int previous = -1;  // V of a block is needed one step after its K
    for (int block = range.last - 1; block >= range.first; --block) {
      int kind = Full;
      if constexpr (Mask::SKIPS) {
        kind = mask.template kind<L::BLOCK_M, L::BLOCK_N>(tile, block);
        if (kind == Skip)
          continue;
      }
      barrierWait(shared.kEmpty(k.stage), k.parity ^ 1);
      if constexpr (Mask::SKIPS)
        shared.ring[k.stage] = 4 * block + kind;
      barrierExpect(shared.kFull(k.stage), L::K_BYTES);
      for (int panel = 0; panel < L::QK_PANELS; ++panel)
        copyBox(shared.k(k.stage) + panel * L::K_PANEL_BYTES, p.k, shared.kFull(k.stage), panel * L::QK_PANEL,
                block * L::BLOCK_N, keyHead, tile.batch);
      k.advance();
      if (previous >= 0)
        loadV(previous);
      previous = block;
    }
    if constexpr (Mask::SKIPS) {
      barrierWait(shared.kEmpty(k.stage), k.parity ^ 1);
      shared.ring[k.stage] = -1;
      barrierArrive(shared.kFull(k.stage));
      k.advance();
    }
    if (previous >= 0)
      loadV(previous);
  }
}

// ---- compute: one consumer warpgroup ------------------------------------------------------------------------------

template <class L, class Mask>
struct Consumer {
  static constexpr int SCORES = L::BLOCK_N / 2;  // fp32 registers of the score tile
  using ScoreProduct = Wgmma<L::BLOCK_N, typename L::Element>;
  using ValueProduct = Wgmma<L::V_DIM, typename L::Element>;

  const Params &p;
  const Mask &mask;
  const Shared<L> &shared;
  int warpgroup;
  Cursor<L::STAGES> k, v;
  u32 qParity = 0;

  float scores[SCORES];          // S, then P in fp32
  u32 packed[SCORES / 2];        // P in 16 bits, the A operand
  float output[L::V_DIM / 2];    // O
  OnlineSoftmax<SCORES, L::POLYNOMIAL_EVERY> softmax;

  WorkTile tile;  // the 64 rows of this warpgroup
  int row;        // the first of this thread's two rows
  int limit;      // keys of this sequence
  int block;      // the key block whose scores are at hand

  __device__ void arrivePerWarp(u32 barrier) const {
    if (threadIdx.x % 32 == 0)
      barrierArrive(barrier);
  }

  /// Named barrier 1 + w says that warpgroup w may issue its products.
  __device__ void waitTurn() const {
    if constexpr (L::ORDERED && L::CONSUMERS > 1)
      namedSync(1 + warpgroup, 256);
  }
  __device__ void passTurn() const {
    if constexpr (L::ORDERED && L::CONSUMERS > 1)
      namedArrive(1 + (warpgroup + 1) % L::CONSUMERS, 256);
  }

  /// Waits for the K block after `block`, makes it the current one and says its kind; Skip when there is none.
  __device__ int next(BlockRange range) {
    // NOTE: ptxas moves the wait for PV up to the first exponential and the exponentials down to their use, which undoes
    // the overlap of the two. The branch inside this wait, made to depend on the sum of the exponentials, stops it.
    u32 parity = k.parity ^ u32(__any_sync(0xffffffff, softmax.sum[0] + softmax.sum[1] < 0.0f));
    if constexpr (Mask::SKIPS) {
      barrierWait(shared.kFull(k.stage), parity);
      int entry = *static_cast<volatile int *>(shared.ring + k.stage);
      if (entry < 0) {
        releaseK();
        return Skip;
      }
      block = entry / 4;
      return entry % 4;
    }
    if (block <= range.first)
      return Skip;
    --block;
    barrierWait(shared.kFull(k.stage), parity);
    return Mask::PER_BLOCK ? mask.template kind<64, L::BLOCK_N>(tile, block) : int(Full);
  }

  __device__ void releaseK() {
    arrivePerWarp(shared.kEmpty(k.stage));
    k.advance();
  }

  __device__ void issueScores() {
    using P = Panel<L::QK_PANEL>;
    Operand a = P::alongK(shared.q(warpgroup)), b = P::alongK(shared.k(k.stage));
    wgmmaFence();
#pragma unroll
    for (int step = 0; step < L::QK_STEPS; ++step) {
      int panel = step / P::STEPS, inside = step % P::STEPS * 32;
      ScoreProduct::ss(scores, a.at(panel * L::Q_PANEL_BYTES + inside), b.at(panel * L::K_PANEL_BYTES + inside), step > 0);
    }
    wgmmaCommit();
  }

  __device__ void issueValues() {
    using P = Panel<L::V_PANEL>;
    Operand b = P::alongN(shared.v(v.stage), L::V_PANEL_BYTES);
    wgmmaFence();
#pragma unroll
    for (int step = 0; step < L::PV_STEPS; ++step)
      ValueProduct::rs(output, packed + 4 * step, b.at(step * 16 * P::ROW_BYTES));
    wgmmaCommit();
  }

  __device__ ScorePlace place() const { return {row, block * L::BLOCK_N + int(threadIdx.x % 4) * 2}; }

  __device__ typename Mask::Fragment loadMask(int kind) const {
    return kind == Partial ? mask.template load<L::BLOCK_N>(tile, block, place()) : typename Mask::Fragment{};
  }
  __device__ void applyMask(int kind, const typename Mask::Fragment &fragment) {
    if constexpr (Mask::PER_BLOCK)
      if (kind == Partial)
        mask.apply(scores, fragment, tile, place());
  }

  /// Hides the keys past the end. Only the block that is visited first can have some.
  __device__ void cutTail() {
    if ((block + 1) * L::BLOCK_N <= limit)
      return;
#pragma unroll
    for (int i = 0; i < SCORES; ++i)
      if (place().column + 8 * (i / 4) + i % 2 >= limit)
        scores[i] = negativeInfinity();
  }

  /// Clears the V rows from `firstRow`, which the mask cut off, since 0 · NaN is NaN.
  __device__ void clearValues(int firstRow) const {
    constexpr int CHUNKS = Panel<L::V_PANEL>::ROW_BYTES / 16;
    int chunks = (L::BLOCK_N - firstRow) * CHUNKS;
    for (int panel = 0; panel < L::V_PANELS; ++panel)
      for (int i = threadIdx.x % 128; i < chunks; i += 128)
        asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(
                         shared.v(v.stage) + panel * L::V_PANEL_BYTES + firstRow * CHUNKS * 16 + i * 16),
                     "r"(0)
                     : "memory");
    asyncProxyFence();
    namedSync(1 + L::CONSUMERS + warpgroup, 128);
  }

  __device__ void waitValues(int &rowsKept) {
    barrierWait(shared.vFull(v.stage), v.parity);
    if (Mask::SHORTENS && rowsKept < L::BLOCK_N) {
      clearValues(rowsKept);
      rowsKept = L::BLOCK_N;
    }
  }
  __device__ void releaseV() {
    arrivePerWarp(shared.vEmpty(v.stage));
    v.advance();
  }

  /// The first block of a tile: nothing to overlap with yet.
  __device__ void begin(int kind) {
    waitTurn();
    issueScores();
    passTurn();
    typename Mask::Fragment fragment = loadMask(kind);
    wgmmaWait<0>();
    pinRegisters(scores);
    releaseK();
    applyMask(kind, fragment);
    cutTail();
    softmax.update(scores, p.scaleLog2);
    packScores<typename L::Element>(scores, packed);
  }

  /// QK and softmax of the current block while PV of the block before runs. Returns the kind of the next block.
  __device__ int step(int kind, BlockRange range, int &rowsKept) {
    waitTurn();
    issueScores();
    waitValues(rowsKept);
    issueValues();
    passTurn();
    typename Mask::Fragment fragment = loadMask(kind);
    wgmmaWait<1>();
    pinRegisters(scores);
    releaseK();
    applyMask(kind, fragment);
    bool moved = softmax.update(scores, p.scaleLog2);
    int following = next(range);
    wgmmaWait<0>();
    pinRegisters(output);
    releaseV();
    if (moved)
      scaleRows(output, softmax.alpha);
    packScores<typename L::Element>(scores, packed);
    return following;
  }

  /// One work tile; leaves O unnormalised in `output`.
  __device__ void compute(const WorkTile &blockTile, BlockRange range) {
    tile = {blockTile.batch, blockTile.head, blockTile.row + 64 * warpgroup};
    row = tile.row + int(threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4);
    limit = mask.keyLimit(tile, p.keys);
    block = range.last;
    softmax.reset();
#pragma unroll
    for (int i = 0; i < L::V_DIM / 2; ++i)
      output[i] = 0.0f;
    if (range.first >= range.last)
      return;

    barrierWait(shared.qFull(warpgroup), qParity);
    qParity ^= 1;
    int kind = next(range);
    if (kind == Skip) {
      arrivePerWarp(shared.qEmpty(warpgroup));
      return;
    }
    begin(kind);
    int rowsKept = limit < p.keys ? limit - block * L::BLOCK_N : L::BLOCK_N;
    kind = next(range);
    while (kind != Skip)
      kind = step(kind, range, rowsKept);
    end(rowsKept);
  }

  /// PV of the last block.
  __device__ void end(int &rowsKept) {
    arrivePerWarp(shared.qEmpty(warpgroup));
    waitValues(rowsKept);
    issueValues();
    wgmmaWait<0>();
    pinRegisters(output);
    releaseV();
  }
};

// ---- run ----------------------------------------------------------------------------------------------------------

template <class Config, class Mask, class Epilogue>
__device__ void run(const Params &p, const Mask &mask, const Epilogue &epilogue) {
  using L = Layout<Config>;
  Shared<L> shared = setup<L>(p);
  // Read from one lane, so that the compiler knows it to be the same in the warp and keeps addresses in uniform registers.
  int warpgroup = __shfl_sync(0xffffffff, int(threadIdx.x) / 128, 0) - 1;
  if (warpgroup < 0) {
    if constexpr (L::CONSUMERS > 1)
      shrinkRegisters<L::PRODUCER_REGISTERS>();
    if (threadIdx.x == 0)
      load<L>(p, mask, shared);
    return;
  }

  if constexpr (L::CONSUMERS > 1)
    growRegisters<L::CONSUMER_REGISTERS>();
  Consumer<L, Mask> consumer{p, mask, shared, warpgroup};
  if (L::ORDERED && L::CONSUMERS > 1 && warpgroup == L::CONSUMERS - 1)
    consumer.passTurn();
  for (int round = 0, number; (number = tileNumber<Mask>(round)) < workTiles<L>(p); ++round) {
    WorkTile tile = workTile<L, Mask>(p, number);
    BlockRange range = mask.template range<L::BLOCK_M, L::BLOCK_N>(tile, p.keys);
    consumer.compute(tile, range);
    float inverse[2];
    consumer.softmax.finish(inverse);
    storeTile<typename L::Element, L::V_DIM>(consumer.output, inverse, p.out, tile, consumer.row, p.queries, epilogue);
  }
  if (warpgroup == 0)
    consumer.waitTurn();  // takes the turn that nobody will use, so that no barrier is left half full
}

}  // namespace ditc::attention_sm90
