// SPDX-License-Identifier: Apache-2.0
//
// Arguments of attention_sm90.cuh, and the sizes and addresses that follow from its Config. Shared memory, from a
// 1024-byte boundary:
//
//   Q of each warpgroup │ K stages │ V stages │ quantised: sums of each warpgroup │ barriers
//
// A tile of Q, K or V is a row of panels; a panel is its rows times QK_PANEL or V_PANEL columns of 16 bits, or twice as
// many of 8, swizzled by the copy engine the way wgmma reads it. A quantised V lies with its channels as rows and tokens as
// columns.
#pragma once

#include "attention_split.cuh"
#include "attention_store.cuh"

namespace ditc::attention_sm90 {

struct Params {
  TensorMap q, k, v;
  Output out;
  int batch, heads, headsPerKey;  // headsPerKey: query heads that share one key head
  int queries, keys;
  float scaleLog2;  // scale · log2(e), positive
  Sharing sharing;
  int splitTiles;  // the last tiles that all blocks share, fewer than blocks; 0 and no `sharing` otherwise
  float *logSumExp;  // (batch, head, row) of ln Σ exp(score), or null; -inf for a row without keys
  // Of quantised operands: scales by (batch, head, query), (batch, key head, block, n mod 8 / 2) and (…, column of V).
  const float *qScale, *kScale, *vScale;
};

/// Sizes that follow from a Config.
template <class Config>
struct Layout : Config {
  static constexpr int CONSUMERS = Config::CONSUMERS, STAGES = Config::STAGES, BLOCK_N = Config::BLOCK_N;
  static constexpr int BLOCK_M = 64 * CONSUMERS;
  static constexpr int THREADS = 128 * (CONSUMERS + 1);
  static constexpr bool QUANTIZED = requires { requires Config::QUANTIZED; };
  static constexpr int ELEMENT_BYTES = QUANTIZED ? 1 : 2;
  static constexpr int QK_STEPS = ceilDiv(Config::HEAD_DIM * ELEMENT_BYTES, 32), PV_STEPS = BLOCK_N * ELEMENT_BYTES / 32;
  static constexpr int QK_PANELS = ceilDiv(Config::HEAD_DIM * ELEMENT_BYTES, 2 * Config::QK_PANEL);
  static constexpr int QK_COLUMNS = Config::QK_PANEL * 2 / ELEMENT_BYTES;  // of Q's and K's elements in a panel
  static constexpr int V_WIDTH = Config::V_DIM + (QUANTIZED ? 8 : 0);  // of the second product: V, and the sums of P
  static constexpr int SUMS = V_WIDTH / 2;                             // floats of O in a thread
  static constexpr int V_ROWS = QUANTIZED ? V_WIDTH : BLOCK_N;
  static constexpr int V_PANELS = QUANTIZED ? BLOCK_N / (2 * Config::V_PANEL) : ceilDiv(Config::V_DIM, Config::V_PANEL);

  static constexpr int Q_PANEL_BYTES = 64 * Config::QK_PANEL * 2, Q_BYTES = QK_PANELS * Q_PANEL_BYTES;
  static constexpr int K_PANEL_BYTES = BLOCK_N * Config::QK_PANEL * 2, K_BYTES = QK_PANELS * K_PANEL_BYTES;
  static constexpr int V_PANEL_BYTES = V_ROWS * Config::V_PANEL * 2, V_BYTES = V_PANELS * V_PANEL_BYTES;
  static constexpr int V_COPIED = QUANTIZED ? BLOCK_N * Config::V_DIM : V_BYTES;  // of them by the copy engine

  // Offsets from a 1024-byte boundary.
  static constexpr int Q_AT = 0, K_AT = CONSUMERS * Q_BYTES, V_AT = K_AT + STAGES * K_BYTES;
  static constexpr int SUMS_AT = V_AT + STAGES * V_BYTES, SUMS_BYTES = QUANTIZED ? 512 * SUMS : 0;
  static constexpr int BARRIERS_AT = SUMS_AT + CONSUMERS * SUMS_BYTES;
  static constexpr int SHARED_BYTES = BARRIERS_AT + 8 * (2 * CONSUMERS + 4 * STAGES) + 1024;

  // With one consumer a thread may have 255 registers from the start. A producer of 24 spills.
  static constexpr int PRODUCER_REGISTERS = 32;
  static constexpr int CONSUMER_REGISTERS = CONSUMERS == 2 ? 232 : CONSUMERS == 3 ? 160 : 112;

  static_assert(Config::HEAD_DIM % 8 == 0 && Config::HEAD_DIM <= 256, "HEAD_DIM is a multiple of 8 up to 256");
  static_assert(Config::V_DIM % 8 == 0 && Config::V_DIM <= 256, "V_DIM is a multiple of 8 up to 256");
  static_assert(BLOCK_N % 16 == 0 && BLOCK_N <= 256, "BLOCK_N is a multiple of 16 up to 256");
  static_assert(K_PANEL_BYTES % 1024 == 0 || Config::QK_PANEL < 64, "panels start on a repeat of their swizzle");
  static_assert(V_WIDTH <= 256, "a quantised V has room for the column of ones");
  static_assert(!QUANTIZED || BLOCK_N % (2 * Config::V_PANEL) == 0, "a block of quantised keys is whole panels of V");
  static_assert(SHARED_BYTES <= 232448, "the stages do not fit into shared memory");
};

/// Addresses of the tiles and the barriers.
template <class L>
struct Shared {
  u32 base;

  __device__ u32 q(int warpgroup) const { return base + L::Q_AT + warpgroup * L::Q_BYTES; }
  __device__ u32 k(int stage) const { return base + L::K_AT + stage * L::K_BYTES; }
  __device__ u32 v(int stage) const { return base + L::V_AT + stage * L::V_BYTES; }
  __device__ u32 sums(int warpgroup) const { return base + L::SUMS_AT + warpgroup * L::SUMS_BYTES; }
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

}  // namespace ditc::attention_sm90
