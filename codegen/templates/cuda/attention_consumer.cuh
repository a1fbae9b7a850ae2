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

#include "attention_quantized.cuh"
#include "attention_softmax.cuh"
#include "attention_wgmma.cuh"

namespace ditc::attention_sm90 {

template <class L, class Mask>
struct Consumer {
  static constexpr int SCORES = L::BLOCK_N / 2;  // fp32 registers of the score tile
  static constexpr int PACKED = SCORES * L::ELEMENT_BYTES / 4;
  static_assert(!L::QUANTIZED || (!Mask::LOWS && !Mask::SHORTENS), "masks of quantised scores hide, and whole keys exist");
  using ScoreProduct = Wgmma<L::BLOCK_N, Either<L::QUANTIZED, S8, typename L::Element>>;
  using ValueProduct = Wgmma<L::V_WIDTH, Either<L::QUANTIZED, E4M3, typename L::Element>>;
  using Softmax = Either<L::QUANTIZED, CodeSoftmax<SCORES>, OnlineSoftmax<SCORES>>;

  const Params &p;
  const Mask &mask;
  const Shared<L> &shared;
  int warpgroup;
  Cursor<L::STAGES> k, v;
  u32 qParity = 0;

  float scores[SCORES];          // S, then P in fp32
  int sums[L::QUANTIZED ? SCORES : 1];  // S of int8 numbers
  u32 packed[PACKED];            // P in 16 or 8 bits, the A operand
  float output[L::SUMS];         // O
  Softmax softmax;
  float qScale[2];               // of this thread's rows, where they are quantised, in log2 units
  int firstScale;                // where in p.kScale that of the first block is
  float kScale;                  // of this thread's keys of the block at hand
  float unit[2], high[2];        // of their scores: what 1 stands for, and the largest
  KeptSums<L> kept;

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

  /// Long before the scores that it belongs to are at hand.
  __device__ void loadKeyScale() {
    if constexpr (L::QUANTIZED)
      kScale = __ldcg(p.kScale + firstScale + 4 * block);
  }

  /// Waits for the K block after `block`, makes it the current one and says its kind; Skip when there is none.
  __device__ int next(BlockRange range) {
    // NOTE: ptxas moves the wait for PV up to the first exponential and the exponentials down to their use, which undoes
    // the overlap of the two. The branch inside this wait, made to depend on the sum of the exponentials, stops it.
    u32 parity = k.parity;
    if constexpr (!L::QUANTIZED)
      parity ^= u32(__any_sync(0xffffffff, softmax.sum[0] + softmax.sum[1] < 0.0f));
    if constexpr (Mask::SKIPS) {
      int kind = nextVisible(range);
      if (kind != Skip) {
        loadKeyScale();
        phaseWait(shared.kFull(k.stage), parity);
      }
      return kind;
    }
    if (block <= range.first)
      return Skip;
    --block;
    loadKeyScale();
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
      u64 rows = a.at(panel * L::Q_PANEL_BYTES + inside), columns = b.at(panel * L::K_PANEL_BYTES + inside);
      if constexpr (L::QUANTIZED)
        ScoreProduct::ss(sums, rows, columns, step > 0);
      else
        ScoreProduct::ss(scores, rows, columns, step > 0);
    }
    wgmmaCommit();
  }

  __device__ void issueValues() {
    using P = Panel<L::V_PANEL>;
    Operand b = L::QUANTIZED ? P::alongK(shared.v(v.stage)) : P::alongN(shared.v(v.stage), L::V_PANEL_BYTES);
    wgmmaFence();
#pragma unroll
    for (int step = 0; step < L::PV_STEPS; ++step) {
      u32 at = L::QUANTIZED ? step / P::STEPS * L::V_PANEL_BYTES + step % P::STEPS * 32 : step * 16 * P::ROW_BYTES;
      if constexpr (L::QUANTIZED)
        ValueProduct::rs(output, packed + 4 * step, b.at(at), step > 0 || kept.blocks > 0);
      else
        ValueProduct::rs(output, packed + 4 * step, b.at(at));
    }
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

  /// The scores of the product that has been waited for, after which K's stage is free. Quantised ones are integers.
  __device__ void takeScores() {
    if constexpr (L::QUANTIZED) {
      pinRegisters(sums);
      asFloats(sums, scores, high);
      unit[0] = qScale[0] * kScale;
      unit[1] = qScale[1] * kScale;
    } else {
      pinRegisters(scores);
    }
    releaseK();
  }
  /// Scores become P. `all`: no mask has changed them.
  __device__ bool exponentiate(bool all) {
    if constexpr (L::QUANTIZED) {
      if (!all)
        largestOfRows(scores, high);
      return softmax.update(scores, high, unit);
    } else {
      return softmax.template update<Mask::LOWS>(scores, p.scaleLog2);
    }
  }
  /// P as the A operand.
  __device__ void pack() {
    if constexpr (L::QUANTIZED)
      packCodes(scores, packed);
    else
      packScores<typename L::Element>(scores, packed);
  }

  /// Hides the keys past the end, and says whether there are some. Only the block that is visited first can have some.
  __device__ bool cutTail() {
    if ((block + 1) * L::BLOCK_N <= limit)
      return false;
#pragma unroll
    for (int i = 0; i < SCORES; ++i)
      if (place().column + 8 * (i / 4) + i % 2 >= limit)
        scores[i] = negativeInfinity();
    return true;
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
    takeScores();
    applyMask(kind, fragment);
    bool all = !cutTail();
    exponentiate(all && kind != Partial);
    pack();
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
    takeScores();
    applyMask(kind, fragment);
    bool moved = exponentiate(kind != Partial);
    int following = next(range);
    wgmmaWait<0>();
    pinRegisters(output);
    releaseV();
    if (moved)
      scaleRows(output, softmax.alpha);
    if constexpr (L::QUANTIZED)
      if (kept.isFull())
        kept.take(output, softmax);
    pack();
    return following;
  }

  /// Rows past the end have some scale.
  __device__ void loadScales() {
    if constexpr (L::QUANTIZED) {
      const float *scales = p.qScale + ((long long)tile.batch * p.heads + tile.head) * p.queries;
      qScale[0] = __ldcg(scales + min(row, p.queries - 1)) * p.scaleLog2;
      qScale[1] = __ldcg(scales + min(row + 8, p.queries - 1)) * p.scaleLog2;
      firstScale = 4 * rowOfKeys(p, tile) * ceilDiv(p.keys, L::BLOCK_N) + threadIdx.x % 4;
    }
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
    loadScales();
    softmax.reset();
    if constexpr (L::QUANTIZED)
      kept.reset(shared.sums(warpgroup));
#pragma unroll
    for (int i = 0; i < L::SUMS; ++i)
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
    if constexpr (L::QUANTIZED)
      kept.join(output, softmax);
  }
};

}  // namespace ditc::attention_sm90
