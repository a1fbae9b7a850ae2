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
//      64 rows  │ S = Q Kᵀ → P         │ warpgroup 1            Inside a warpgroup PV of a block runs while the next block is
//               └──────────────────────┘                        exponentiated; between warpgroups, named barriers let
//      O (64 rows × V_DIM) += P V, all in registers             one multiply while another does softmax. Blocks are
//                                                               visited from the last to the first.
//
//   Config       allowed                  meaning
//   Element      BF16, F16                storage of Q, K, V, out; accumulation is fp32
//   HEAD_DIM     8 … 256, multiple of 8   columns of Q and K; the copy engine fills up to a multiple of 16 with zeros
//   V_DIM        8 … 256, multiple of 8   columns of V and out, exactly that wide in the second product
//   BLOCK_N      16 … 256, multiple of 16 keys per block (of 32 with packed masks)
//   CONSUMERS    1, 2, 3, 4               warpgroups that compute; 64 query rows each
//   STAGES       2 …                      K and V buffers each
//   QK_PANEL     16, 32, 64               columns per panel of Q and K in shared memory (32, 64, 128-byte swizzle)
//   V_PANEL      16, 32, 64               the same for V
//   ORDERED      bool                     ping-pong between warpgroups by named barriers
//   SHARES       bool                     whether the launch may have shared tiles (attention_split.cuh)
//   QUANTIZED    true, or not there       Q and K are int8, V is e4m3 (attention_quantized.cuh); BLOCK_N is a multiple of 32
//
//   Q, K, V are read in place through maps (column, token, head, batch) with any strides that are multiples of 16 bytes;
//   boxes: Q {QK_PANEL, 64}, K {QK_PANEL, BLOCK_N}, V {V_PANEL, BLOCK_N}; the map's column count is HEAD_DIM or V_DIM.
//
//   shared memory  2·(64·CONSUMERS·QK + STAGES·BLOCK_N·(QK + V)) bytes, QK and V rounded up to whole panels, + 1.1 KB
//                  quantised: 64·CONSUMERS·QK + 256·CONSUMERS·(V + 8) + STAGES·BLOCK_N·(QK + V + 8) bytes
//   registers      BLOCK_N·3/4 + V_DIM/2 + about 35 a thread, of 232 with 2 consumers, 160 with 3, 112 with 4
//                  quantised: BLOCK_N·5/8 + V_DIM/2 + about 40
//   device memory  only where blocks share the last tiles (attention_split.cuh): 2·SMs·CONSUMERS·128·(V_DIM/2 + 4) floats,
//                  18 MB at d 128, whatever the lengths
//
//   H200, bf16, beside torch 2.11's best back end (always cuDNN here) in the same run; TFLOP/s by 4·B·H·Nq·Nk·D, graphs, random data:
//
//     shape              Config (consumers, BLOCK_N)   µs       TFLOP/s   peer µs   ratio
//     1×24×4608×128      3, 80, shared tiles           348      751       403       1.16
//     1×24×16896×128     3, 80                         4197     836       4981      1.19
//     1×40×32760×128     3, 80, shared tiles           28419    773       39888     1.40
//     1×40×32760×128     3, 64 (512 keys)              552      623       586       1.06
//     2×38×4429×64       3, 128                        673      567       933       1.39
//     2×16×4096×72       4, 64                         287      539       399       1.39
//     2×16×1024×72       4, 64                         27.7     349       34.5      1.25
//     2×16×4096×72       4, 64 (300 keys)              48.2     235       59.6      1.24
//     2×8×4096×40        3, 128, shared tiles          127      338       151       1.19
//     2×16×4096×80       3, 112, shared tiles          297      578       389       1.31
//     2×16×4096×96       2, 160                        340      607       416       1.22
//     2×8×4096×160       2, 128                        225      764       296       1.32
//     2×12×4360×256      2, 80, shared tiles           598      782       743       1.24
//     2×16×256×72        1, 64                         7.1      85        9.9       1.40
//     1×24×16896×128     2, 192, quantised             3243      1082      4976      1.53   (quantising included)
//     1×12×32760×128     2, 192, quantised             5853      1127      10531     1.80
//     1×24×4608×128 half of the keys, by bits          207      1260      840       4.06
//     1×24×4608×128 boolean N×N, packing included      477      547       852       1.78
//     1×24×4608×128 window of 576 keys both ways       131                845       6.44
//
//   What limits it: up to d 80 the exponentials (16 a clock and multiprocessor) and the products need equal time. At d 128
//   power does, once the GPU is hot, and what K and V take from the L2 cache: 192 query rows a block instead of 128 are 1 %
//   faster when cool and 13 % when hot (1×24×16896). Panels of 32 columns cost 8 % against 64 (d 72).
//   NOTE: the place of one wait matters much; see `next` in attention_consumer.cuh before moving statements there. That
//   place and the integer maxima together took 1×24×4608×128 from 613 to 685 TFLOP/s (whole tiles, BLOCK_N 128).
#pragma once

#include "attention_bias.cuh"
#include "attention_consumer.cuh"

namespace ditc::attention_sm90 {

// ---- setup --------------------------------------------------------------------------------------------------------

template <class L>
__device__ Shared<L> setup(const Params &p) {
  extern __shared__ u8 raw[];
  u32 base = (sharedAddress(raw) + 1023) & ~1023u;
  Shared<L> shared{base};
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
  if constexpr (L::QUANTIZED)
    writeOnes(shared);
  __syncthreads();
  return shared;
}

// ---- load: the producer warp --------------------------------------------------------------------------------------

template <class L, class Mask>
__device__ void load(const Params &p, const Mask &mask, const Shared<L> &shared) {
  Cursor<L::STAGES> k, v;
  u32 qParity = 1;
  WorkItem item;
  bool more = false;
  if constexpr (Mask::EVEN)  // what it works on does not depend on memory
    more = workItem<L>(p, mask, 0, item);
  waitForPreviousKernel();
  if constexpr (!Mask::EVEN)
    more = workItem<L>(p, mask, 0, item);
  for (int step = 1; more; more = workItem<L>(p, mask, step++, item)) {
    WorkTile tile = item.tile;
    BlockRange range = item.range;
    if (range.first >= range.last)
      continue;
    int keyHead = tile.head / p.headsPerKey;

    for (int warpgroup = 0; warpgroup < L::CONSUMERS; ++warpgroup) {
      phaseWait(shared.qEmpty(warpgroup), qParity);
      barrierExpect(shared.qFull(warpgroup), L::Q_BYTES);
      for (int panel = 0; panel < L::QK_PANELS; ++panel)
        copyBox(shared.q(warpgroup) + panel * L::Q_PANEL_BYTES, p.q, shared.qFull(warpgroup), panel * L::QK_COLUMNS,
                tile.row + 64 * warpgroup, tile.head, tile.batch);
    }
    qParity ^= 1;

    auto loadV = [&](int block) {
      phaseWait(shared.vEmpty(v.stage), v.parity ^ 1);
      barrierExpect(shared.vFull(v.stage), L::V_COPIED);
      for (int panel = 0; panel < L::V_PANELS; ++panel) {
        u32 to = shared.v(v.stage) + panel * L::V_PANEL_BYTES;
        if constexpr (L::QUANTIZED)
          copyBox(to, p.v, shared.vFull(v.stage), block * L::BLOCK_N + panel * 2 * L::V_PANEL, 0, keyHead, tile.batch);
        else
          copyBox(to, p.v, shared.vFull(v.stage), panel * L::V_PANEL, block * L::BLOCK_N, keyHead, tile.batch);
      }
      v.advance();
    };

    int previous = -1;  // V of a block is needed one step after its K
    for (int block = range.last - 1; block >= range.first; --block) {
      if constexpr (Mask::SKIPS)
        if (mask.template kind<L::BLOCK_M, L::BLOCK_N>(tile, block) == Skip)
          continue;
      phaseWait(shared.kEmpty(k.stage), k.parity ^ 1);
      barrierExpect(shared.kFull(k.stage), L::K_BYTES);
      for (int panel = 0; panel < L::QK_PANELS; ++panel)
        copyBox(shared.k(k.stage) + panel * L::K_PANEL_BYTES, p.k, shared.kFull(k.stage), panel * L::QK_COLUMNS,
                block * L::BLOCK_N, keyHead, tile.batch);
      k.advance();
      if (previous >= 0)
        loadV(previous);
      previous = block;
    }
    if (previous >= 0)
      loadV(previous);
  }
  allowNextKernel();
}

// ---- run ----------------------------------------------------------------------------------------------------------

template <class Config, class Mask, class Epilogue>
__device__ void run(const Params &p, const Mask &mask, const Epilogue &epilogue) {
  using L = Layout<Config>;
  Shared<L> shared = setup<L>(p);
  // Read from one lane, so that the compiler knows it to be the same in the warp and keeps addresses in uniform registers.
  int warpgroup = uniform(threadIdx.x / 128) - 1;
  if (warpgroup < 0) {
    if constexpr (L::CONSUMERS > 1)
      shrinkRegisters<L::PRODUCER_REGISTERS>();
    if (uniform(threadIdx.x / 32) == 0 && isElected())
      load<L>(p, mask, shared);
    return;
  }

  if constexpr (L::CONSUMERS > 1)
    growRegisters<L::CONSUMER_REGISTERS>();
  waitForPreviousKernel();
  Consumer<L, Mask> consumer{p, mask, shared, warpgroup};
  if (L::ORDERED && L::CONSUMERS > 1 && warpgroup == L::CONSUMERS - 1)
    consumer.passTurn();
  WorkItem item;
  for (int step = 0; workItem<L>(p, mask, step, item); ++step) {
    if (item.kind == WorkKind::Nothing)
      continue;
    consumer.compute(item.tile, item.range);
    if constexpr (Mask::EVEN && L::SHARES)
      if (item.kind == WorkKind::Part && !joinParts<L>(p, item.shared, warpgroup, consumer.output, consumer.softmax))
        continue;
    float inverse[2];
    if constexpr (L::QUANTIZED) {
      consumer.softmax.finish(consumer.output + L::V_DIM / 2, inverse);
      storeTile<typename L::Element, L::V_DIM>(consumer.output, inverse, p.out, item.tile, consumer.row, p.queries,
                                               ScaledColumns<Epilogue>{epilogue, p.vScale + rowOfKeys(p, item.tile) * L::V_DIM});
      continue;
    } else {
      consumer.softmax.finish(inverse);
      if (p.logSumExp != nullptr)
        storeLogSumExp(consumer.softmax, p.scaleLog2, p.logSumExp, (long long)item.tile.batch * p.heads + item.tile.head,
                       consumer.row, p.queries);
      storeTile<typename L::Element, L::V_DIM>(consumer.output, inverse, p.out, item.tile, consumer.row, p.queries,
                                               epilogue);
    }
  }
  if (warpgroup == 0)
    consumer.waitTurn();  // takes the turn that nobody will use, so that no barrier is left half full
}

}  // namespace ditc::attention_sm90
