// SPDX-License-Identifier: Apache-2.0
//
// One consumer warpgroup of attention_sm90.cuh: 64 query rows of a tile against its key blocks, last block first.
//
//   begin  QK₀  → softmax
//   step   QKⱼ, PVⱼ₋₁ issued together; softmax of QKⱼ while PVⱼ₋₁ runs; then O follows m and P is rounded   (repeated)
//   end    PV of the last block
//
// Between warpgroups, `waitTurn` and `passTurn` let one issue its products while the others do softmax.
#pragma once

#include "attention_layout.cuh"
#include "attention_softmax.cuh"
#include "attention_wgmma.cuh"

namespace ditc::attention_sm90 {

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
  OnlineSoftmax<SCORES> softmax;

  WorkTile tile;  // the 64 rows of this warpgroup
  int row;        // the first of this thread's two rows
  int limit;      // keys of this sequence
  int block;      // the key block whose scores are at hand
  int verdictsFrom;       // where the mask skips blocks: block of the first verdict at hand
  u32 visible, partial;   // 32 verdicts; of `visible` those that are still to come
  int verdict;            // this lane's of the next 32

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

  /// The verdict of this lane's block among the 32 before `verdictsFrom`, for the time when those are at hand.
  __device__ void loadVerdict(BlockRange range) {
    WorkTile whole = {tile.batch, tile.head, tile.row - 64 * warpgroup};
    int candidate = verdictsFrom - 32 + int(threadIdx.x % 32);
    verdict = candidate >= range.first ? mask.template kind<L::BLOCK_M, L::BLOCK_N>(whole, candidate) : int(Skip);
  }

  /// The next block that the mask lets through, as `block`, and its kind. The producer asks the mask the same questions
  /// and loads the same blocks; each warp reads the verdicts itself, 32 at a time, so that none pass through shared memory.
  __device__ int nextVisible(BlockRange range) {
    while (visible == 0) {
      if (verdictsFrom <= range.first)
        return Skip;
      verdictsFrom -= 32;
      visible = __ballot_sync(0xffffffff, verdict != Skip);
      partial = __ballot_sync(0xffffffff, verdict == Partial);
      loadVerdict(range);
    }
    int last = 31 - __clz(int(visible));
    visible ^= 1u << last;
    block = verdictsFrom + last;
    return partial >> last & 1 ? Partial : Full;
  }

  /// Waits for the K block after `block`, makes it the current one and says its kind; Skip when there is none.
  __device__ int next(BlockRange range) {
    // NOTE: ptxas moves the wait for PV up to the first exponential and the exponentials down to their use, which undoes
    // the overlap of the two. The branch inside this wait, made to depend on the sum of the exponentials, stops it.
    u32 parity = k.parity ^ u32(__any_sync(0xffffffff, softmax.sum[0] + softmax.sum[1] < 0.0f));
    if constexpr (Mask::SKIPS) {
      int kind = nextVisible(range);
      if (kind != Skip)
        phaseWait(shared.kFull(k.stage), parity);
      return kind;
    }
    if (block <= range.first)
      return Skip;
    --block;
    phaseWait(shared.kFull(k.stage), parity);
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
    phaseWait(shared.vFull(v.stage), v.parity);
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
    softmax.template update<Mask::LOWS>(scores, p.scaleLog2);
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
    bool moved = softmax.template update<Mask::LOWS>(scores, p.scaleLog2);
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
    // From one lane, as in `run`: loop counters that the compiler knows to be uniform leave registers to the tiles.
    range = {__shfl_sync(0xffffffff, range.first, 0), __shfl_sync(0xffffffff, range.last, 0)};
    tile = {blockTile.batch, blockTile.head, blockTile.row + 64 * warpgroup};
    row = tile.row + int(threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4);
    limit = mask.keyLimit(tile, p.keys);
    block = verdictsFrom = range.last;
    visible = 0;
    softmax.reset();
#pragma unroll
    for (int i = 0; i < L::V_DIM / 2; ++i)
      output[i] = 0.0f;
    if (range.first >= range.last)
      return;

    if constexpr (Mask::SKIPS)
      loadVerdict(range);
    phaseWait(shared.qFull(warpgroup), qParity);
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

}  // namespace ditc::attention_sm90
