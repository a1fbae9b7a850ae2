// SPDX-License-Identifier: Apache-2.0
//
// Attention for small problems on Hopper (sm_90a): all keys of a problem fit into one tile, so that the softmax is not
// online, K and V are read once, and a block of 128 threads needs no producer. Several blocks share a multiprocessor
// and hide each other's latency; each keeps the next problem's tiles on their way.
//
//   one work item: 64 query rows            short problems share the 64 rows (SEGMENT 16, four of them):
//
//            BLOCK_N keys                             keys of  0    1    2    3
//         ┌─────────────────┐                              ┌────┬────┬────┬────┐
//   64    │ S = Q Kᵀ → P    │ one warpgroup      rows of 0 │ S  │ -∞ │ -∞ │ -∞ │  one copy of the box
//   rows  └─────────────────┘                            1 │ -∞ │ S  │ -∞ │ -∞ │  {columns, tokens, heads, batches}
//   O (64 × V_DIM) = P V                                 2 │ -∞ │ -∞ │ S  │ -∞ │  brings the rows of all four;
//                                                        3 │ -∞ │ -∞ │ -∞ │ S  │  the matrix unit has time to spare
//
//   Config       allowed                  meaning
//   Element      BF16, F16                storage of Q, K, V, out; accumulation is fp32
//   HEAD_DIM, V_DIM  8 … 256, multiples of 8
//   BLOCK_N      16 … 256, multiple of 16 keys of the tile, over all packed problems
//   SEGMENT      16, 32, 64               query rows per problem in the tile
//   PACK_HEADS   divides 64 / SEGMENT     how many of the packed problems are neighbouring heads; the rest are batches.
//                                         Above 1 it has to divide the head count, and key heads are not shared
//   PANEL        16, 32, 64               columns per panel in shared memory
//   STAGES       1 …                      work items in flight per block
//
//   boxes: Q {PANEL, SEGMENT, PACK_HEADS, PACK_BATCHES}, K and V {PANEL, SEGMENT_KEYS, PACK_HEADS, PACK_BATCHES}
//   shared memory  2·STAGES·(64·QK + BLOCK_N·(QK + V)) bytes, QK and V rounded up to whole panels, + 1.1 KB
//   registers      BLOCK_N·3/4 + V_DIM/2 + about 40 a thread
//
//   H200, bf16, beside torch's best back end in the same run: 3840×16×16×72 (Latte's temporal attention) 232 µs, 2.4 TB/s,
//   against 1148 µs; 1024×16×64×64 (8×8 windows) 139 µs, 3.9 TB/s, against 199 µs. By bytes moved the floor of each is
//   0.13 ms; rows of 144 bytes cross sectors, which may be what holds the first back. Panels of 64 columns are 9 % faster
//   there than of 32, although most of the second one is padding. For 2×16×256×72 the large kernel with one consumer is
//   faster (6.8 against 7.9 µs).
#pragma once

#include "attention_bias.cuh"
#include "attention_softmax.cuh"
#include "attention_store.cuh"
#include "attention_wgmma.cuh"

namespace ditc::attention_small {

struct Params {
  TensorMap q, k, v;
  Output out;
  int batch, heads, headsPerKey;
  int queries, keys;
  float scaleLog2;  // scale · log2(e), positive
  float *logSumExp;  // (batch, head, row) of ln Σ exp(score), or null; -inf for a row without keys
};

template <class Config>
struct Layout : Config {
  static constexpr int BLOCK_N = Config::BLOCK_N, STAGES = Config::STAGES, PANEL = Config::PANEL;
  static constexpr int PACK = 64 / Config::SEGMENT, PACK_BATCHES = PACK / Config::PACK_HEADS;
  static constexpr int SEGMENT_KEYS = BLOCK_N / PACK;
  static constexpr int QK_STEPS = ceilDiv(Config::HEAD_DIM, 16), PV_STEPS = BLOCK_N / 16;
  static constexpr int QK_PANELS = ceilDiv(Config::HEAD_DIM, PANEL), V_PANELS = ceilDiv(Config::V_DIM, PANEL);
  static constexpr int Q_PANEL_BYTES = 64 * PANEL * 2, KEY_PANEL_BYTES = BLOCK_N * PANEL * 2;

  // Offsets inside a stage.
  static constexpr int K_AT = QK_PANELS * Q_PANEL_BYTES, V_AT = K_AT + QK_PANELS * KEY_PANEL_BYTES;
  static constexpr int STAGE_BYTES = V_AT + V_PANELS * KEY_PANEL_BYTES;
  static constexpr int SHARED_BYTES = STAGES * STAGE_BYTES + 8 * STAGES + 1024;

  static_assert(Config::SEGMENT == 16 || Config::SEGMENT == 32 || Config::SEGMENT == 64, "SEGMENT is 16, 32 or 64");
  static_assert(PACK % Config::PACK_HEADS == 0, "PACK_HEADS divides 64 / SEGMENT");
  static_assert(BLOCK_N % (16 * 1) == 0 && BLOCK_N % PACK == 0 && BLOCK_N <= 256, "BLOCK_N is a multiple of 16");
  static_assert(SHARED_BYTES <= 232448, "the stages do not fit into shared memory");
};

/// A work item: the first batch, head and query row of its 64 rows.
template <class L>
__device__ WorkTile workItem(const Params &p, int index) {
  int rowTiles = ceilDiv(p.queries, L::SEGMENT), headTiles = ceilDiv(p.heads, L::PACK_HEADS);
  int head = index / rowTiles;
  return {head / headTiles * L::PACK_BATCHES, head % headTiles * L::PACK_HEADS, index % rowTiles * L::SEGMENT};
}

template <class L>
__device__ void load(const Params &p, const WorkTile &item, u32 stage, u32 full) {
  barrierExpect(full, L::STAGE_BYTES);
  int keyHead = item.head / p.headsPerKey;
  for (int panel = 0; panel < L::QK_PANELS; ++panel) {
    copyBox(stage + panel * L::Q_PANEL_BYTES, p.q, full, panel * L::PANEL, item.row, item.head, item.batch);
    copyBox(stage + L::K_AT + panel * L::KEY_PANEL_BYTES, p.k, full, panel * L::PANEL, 0, keyHead, item.batch);
  }
  for (int panel = 0; panel < L::V_PANELS; ++panel)
    copyBox(stage + L::V_AT + panel * L::KEY_PANEL_BYTES, p.v, full, panel * L::PANEL, 0, keyHead, item.batch);
}

/// V rows that a mask cut off are cleared, since 0 · NaN is NaN.
template <class L, class Mask>
__device__ void clearValues(const Params &p, const Mask &mask, const WorkTile &item, u32 values) {
  constexpr int CHUNKS = L::PANEL / 8;
  for (int i = threadIdx.x; i < L::BLOCK_N * CHUNKS; i += 128) {
    int key = i / CHUNKS, segment = key / L::SEGMENT_KEYS;
    WorkTile own{item.batch + segment / L::PACK_HEADS, item.head + segment % L::PACK_HEADS, item.row};
    if (own.batch < p.batch && key % L::SEGMENT_KEYS < mask.keyLimit(own, p.keys))
      continue;
    for (int panel = 0; panel < L::V_PANELS; ++panel)
      asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(values + panel * L::KEY_PANEL_BYTES + i * 16),
                   "r"(0)
                   : "memory");
  }
  asyncProxyFence();
  __syncthreads();
}

template <class L, class Mask, class Epilogue>
__device__ void compute(const Params &p, const Mask &mask, const Epilogue &epilogue, const WorkTile &item, u32 stage,
                        u32 full, u32 parity, const WorkTile &nextItem, bool hasNext) {
  using Element = typename L::Element;
  using P = Panel<L::PANEL>;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int segment = warp * 16 / L::SEGMENT;
  WorkTile own{item.batch + segment / L::PACK_HEADS, item.head + segment % L::PACK_HEADS, item.row};
  int row = item.row + warp * 16 % L::SEGMENT + lane / 4;
  bool exists = own.batch < p.batch && own.head < p.heads;

  float scores[L::BLOCK_N / 2];  // (64, BLOCK_N)
  phaseWait(full, parity);
  Operand queries = P::alongK(stage), keys = P::alongK(stage + L::K_AT);
  wgmmaFence();
#pragma unroll
  for (int step = 0; step < L::QK_STEPS; ++step) {
    int panel = step / P::STEPS, inside = step % P::STEPS * 32;
    Wgmma<L::BLOCK_N, Element>::ss(scores, queries.at(panel * L::Q_PANEL_BYTES + inside),
                                   keys.at(panel * L::KEY_PANEL_BYTES + inside), step > 0);
  }
  wgmmaCommit();
  wgmmaWait<0>();
  pinRegisters(scores);
  if constexpr (Mask::SHORTENS)
    clearValues<L>(p, mask, item, stage + L::V_AT);

  // Columns count from the first key of this row's own problem: outside 0 … limit lie other problems and padding.
  ScorePlace place{row, lane % 4 * 2 - segment * L::SEGMENT_KEYS};
  int limit = exists ? mask.keyLimit(own, p.keys) : 0;
  if constexpr (Mask::PER_BLOCK) {
    if (exists)
      mask.apply(scores, mask.template load<L::BLOCK_N>(own, 0, place), own, place);
  }
  if (L::PACK > 1 || limit < L::BLOCK_N) {
#pragma unroll
    for (int i = 0; i < L::BLOCK_N / 2; ++i)
      if (u32(place.column + 8 * (i / 4) + i % 2) >= u32(limit))
        scores[i] = negativeInfinity();
  }

  OnlineSoftmax<L::BLOCK_N / 2> softmax;
  softmax.reset();
  softmax.template update<Mask::LOWS>(scores, p.scaleLog2);
  u32 packed[L::BLOCK_N / 4];
  packScores<Element>(scores, packed);

  float output[L::V_DIM / 2];  // (64, V_DIM)
#pragma unroll
  for (int i = 0; i < L::V_DIM / 2; ++i)
    output[i] = 0.0f;
  Operand values = P::alongN(stage + L::V_AT, L::KEY_PANEL_BYTES);
  wgmmaFence();
#pragma unroll
  for (int step = 0; step < L::PV_STEPS; ++step)
    Wgmma<L::V_DIM, Element>::rs(output, packed + 4 * step, values.at(step * 16 * P::ROW_BYTES));
  wgmmaCommit();
  wgmmaWait<0>();
  pinRegisters(output);

  __syncthreads();  // every warp has read this stage: it can be filled again
  if (hasNext && threadIdx.x == 0)
    load<L>(p, nextItem, stage, full);

  float inverse[2];
  softmax.finish(inverse);
  if (p.logSumExp != nullptr && exists)
    storeLogSumExp(softmax, p.scaleLog2, p.logSumExp, (long long)own.batch * p.heads + own.head, row, p.queries);
  storeTile<Element, L::V_DIM>(output, inverse, p.out, own, row, exists ? p.queries : 0, epilogue);
}

template <class Config, class Mask, class Epilogue>
__device__ void run(const Params &p, const Mask &mask, const Epilogue &epilogue) {
  using L = Layout<Config>;
  extern __shared__ u8 raw[];
  u32 base = (sharedAddress(raw) + 1023) & ~1023u;
  u32 barriers = base + L::STAGES * L::STAGE_BYTES;
  int items = ceilDiv(p.queries, L::SEGMENT) * ceilDiv(p.heads, L::PACK_HEADS) * ceilDiv(p.batch, L::PACK_BATCHES);

  allowNextKernel();
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < L::STAGES; ++stage)
      barrierInit(barriers + 8 * stage, 1);
    barrierInitFence();
    waitForPreviousKernel();
    for (int stage = 0; stage < L::STAGES; ++stage)
      if (int index = blockIdx.x + stage * gridDim.x; index < items)
        load<L>(p, workItem<L>(p, index), base + stage * L::STAGE_BYTES, barriers + 8 * stage);
  }
  __syncthreads();
  waitForPreviousKernel();

  int stage = 0;
  u32 parity = 0;
  for (int index = blockIdx.x; index < items; index += gridDim.x) {
    int ahead = index + L::STAGES * int(gridDim.x);
    compute<L>(p, mask, epilogue, workItem<L>(p, index), base + stage * L::STAGE_BYTES, barriers + 8 * stage, parity,
               workItem<L>(p, ahead), ahead < items);
    if (++stage == L::STAGES)
      stage = 0, parity ^= 1;
  }
}

}  // namespace ditc::attention_small
