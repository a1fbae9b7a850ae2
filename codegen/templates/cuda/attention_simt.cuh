// SPDX-License-Identifier: Apache-2.0
//
// Attention without tensor cores, for every type, size and GPU: exact products in fp32 (fp64 for double).
//
//   out = softmax(scale · Q Kᵀ + mask) V       online: m, sum and out are corrected when m grows
//
//                         BLOCK_N keys                   a block: ROWS = TY · TM query rows, TY × 16 threads
//                      ┌───────────────┐
//      ROWS queries    │ S = Q Kᵀ → P  │                 thread (ty, tx): rows ty·TM + i,
//      (Q: shared)     └───────────────┘                   keys tx + 16 j, columns (tx + 16 c)·OUT_VECTOR + e
//      O (registers) += P V                              the 16 threads of a row are half a warp
//
//   Config   see attention_any.cuh; beside it
//   TY       8, 16                  groups of 16 threads
//   TM       1, 2, 4                rows per thread
//   BLOCK_N  16, 32, 64             keys per step
//
//   shared memory  (ROWS·pitch(D) + max(BLOCK_N·pitch(D), BLOCK_N·Dv) + ROWS·(BLOCK_N+4)) compute elements; K and V take
//                  turns in one buffer, so that two or more blocks share a multiprocessor and hide each other's loads
//   registers      TM·Dv/16 + TM·BLOCK_N/16 values + about 40
#pragma once

#include "attention_any.cuh"

namespace ditc::attention_simt {

/// Constants that follow from a configuration. The emitter computes SHARED_BYTES in the same way.
template <class Config>
struct Layout : Config {
  using Compute = ComputeOf<typename Config::Query::Element>;
  static constexpr int TX = 16, TY = Config::TY, TM = Config::TM, BLOCK_N = Config::BLOCK_N;
  static constexpr int ROWS = TY * TM, THREADS = TY * TX, KEYS_EACH = BLOCK_N / TX;
  static constexpr int QK_VECTOR = 16 / int(sizeof(Compute)), OUT_VECTOR = 8 / int(sizeof(Compute));
  static constexpr int QUERIES = Config::Query::size(2), KEYS = Config::Key::size(2);
  static constexpr int QK_COLUMNS = int(divideUp(Config::Query::size(3), QK_VECTOR)) * QK_VECTOR;
  static constexpr int V_COLUMNS = int(divideUp(Config::Value::size(3), TX * OUT_VECTOR)) * TX * OUT_VECTOR;
  static constexpr int CHUNKS = V_COLUMNS / (TX * OUT_VECTOR);  // of a thread's output columns
  // Rows an odd number of vectors apart do not meet in a bank.
  static constexpr int QK_PITCH = QK_COLUMNS + (QK_COLUMNS / QK_VECTOR % 2 == 0 ? QK_VECTOR : 0);
  static constexpr int P_PITCH = BLOCK_N + 4;
  static constexpr int KEYS_AT = ROWS * QK_PITCH;
  static constexpr int TILE = BLOCK_N * (QK_PITCH > V_COLUMNS ? QK_PITCH : V_COLUMNS);
  static constexpr int P_AT = KEYS_AT + TILE;
  static constexpr int SHARED_BYTES = (P_AT + ROWS * P_PITCH) * int(sizeof(Compute));
};

/// Rows first … first + ROWS - 1 of a head as dense rows of the compute type. Columns and rows that do not exist, and
/// rows that are not wanted, become 0.
template <class T, int ROWS, int COLUMNS, int PITCH, int THREADS, class Compute, class Wanted>
__device__ void loadRows(Compute *shared, const typename T::Element *head, int first, int end, Wanted wanted) {
  constexpr int WIDTH = T::size(3), VECTOR = commonPower(T::VECTOR, WIDTH);
  constexpr int WRITE = commonPower(VECTOR, 16 / int(sizeof(Compute)));
  constexpr bool ALONG_ROWS = T::UNIT != 1 && T::stride(2) == 1;  // neighbours in memory are rows
  constexpr int PER_ROW = COLUMNS / VECTOR + (COLUMNS % VECTOR != 0);
  for (int i = threadIdx.x; i < ROWS * PER_ROW; i += THREADS) {
    int row = ALONG_ROWS ? i % ROWS : i / PER_ROW, column = (ALONG_ROWS ? i / ROWS : i % PER_ROW) * VECTOR;
    Compute *target = shared + row * PITCH + column;
    bool exists = column < WIDTH && first + row < end && wanted(first + row);
    if (exists) {
      auto pack = loadPack<VECTOR>(head + (first + row) * T::stride(2) + column * T::stride(3));
#pragma unroll
      for (int e = 0; e < VECTOR; e += WRITE) {
        Pack<Compute, WRITE> part;
#pragma unroll
        for (int w = 0; w < WRITE; ++w)
          part.at[w] = widen(pack.at[e + w]);
        storePack(target + e, part);
      }
    } else {
#pragma unroll
      for (int e = 0; e < VECTOR; ++e)
        if (column + e < COLUMNS)
          target[e] = 0;
    }
  }
}

/// The largest of, or the sum over, the 16 threads of a row.
template <class Compute, class Combine>
__device__ inline Compute acrossRow(Compute value, Combine combine) {
#pragma unroll
  for (int lanes = 8; lanes > 0; lanes /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, lanes));
  return value;
}

__device__ inline float powerOfTwo(float x) { return exp2f(x); }
__device__ inline double powerOfTwo(double x) { return exp2(x); }
__device__ inline float larger(float a, float b) { return fmaxf(a, b); }
__device__ inline double larger(double a, double b) { return fmax(a, b); }

/// What a thread keeps of its rows.
template <class L>
struct Rows {
  using Compute = typename L::Compute;
  Compute top[L::TM], sum[L::TM], output[L::TM][L::CHUNKS][L::OUT_VECTOR];

  __device__ Rows() {
#pragma unroll
    for (int i = 0; i < L::TM; ++i) {
      top[i] = negativeInfinityOf<Compute>(), sum[i] = 0;
#pragma unroll
      for (int c = 0; c < L::CHUNKS; ++c)
#pragma unroll
        for (int e = 0; e < L::OUT_VECTOR; ++e)
          output[i][c][e] = 0;
    }
  }

  /// Scores become p = 2^(score - top); what was summed before is corrected. sum holds this thread's part.
  __device__ void update(Compute (&scores)[L::TM][L::KEYS_EACH]) {
#pragma unroll
    for (int i = 0; i < L::TM; ++i) {
      Compute high = scores[i][0];
#pragma unroll
      for (int j = 1; j < L::KEYS_EACH; ++j)
        high = larger(high, scores[i][j]);
      high = larger(top[i], acrossRow(high, [](Compute a, Compute b) { return larger(a, b); }));
      // A row without keys so far: 2^(-inf - 0) is 0 and never NaN.
      Compute shift = high == negativeInfinityOf<Compute>() ? Compute(0) : high;
      Compute factor = powerOfTwo(top[i] - shift);
      top[i] = high, sum[i] *= factor;
#pragma unroll
      for (int j = 0; j < L::KEYS_EACH; ++j)
        sum[i] += scores[i][j] = powerOfTwo(scores[i][j] - shift);
#pragma unroll
      for (int c = 0; c < L::CHUNKS; ++c)
#pragma unroll
        for (int e = 0; e < L::OUT_VECTOR; ++e)
          output[i][c][e] *= factor;
    }
  }

  __device__ Compute totalOf(int i) const {
    return acrossRow(sum[i], [](Compute a, Compute b) { return a + b; });
  }

  /// -inf for a row without keys.
  __device__ void storeLogSumExp(float *logSumExp, const AttentionTile &tile, int firstRow) const {
#pragma unroll
    for (int i = 0; i < L::TM; ++i) {
      Compute total = totalOf(i), shift = top[i] == negativeInfinityOf<Compute>() ? Compute(0) : top[i];
      if (threadIdx.x % L::TX == 0 && firstRow + i < L::QUERIES)
        logSumExp[sumOffset<L>(tile, firstRow + i)] = float((shift + log2(total)) * Compute(1 / kLog2E));
    }
  }

  __device__ void store(typename L::Output::Element *head, int firstRow) {
    using Element = typename L::Output::Element;
    constexpr int WIDTH = L::Value::size(3), VECTOR = commonPower(commonPower(L::Output::VECTOR, WIDTH), L::OUT_VECTOR);
    int tx = threadIdx.x % L::TX;
#pragma unroll
    for (int i = 0; i < L::TM; ++i) {
      Compute total = totalOf(i);
      Compute inverse = total == 0 ? Compute(0) : Compute(1) / total;
      if (firstRow + i >= L::QUERIES)
        continue;
#pragma unroll
      for (int c = 0; c < L::CHUNKS; ++c)
#pragma unroll
        for (int e = 0; e < L::OUT_VECTOR; e += VECTOR) {
          int column = (tx + L::TX * c) * L::OUT_VECTOR + e;
          Pack<Element, VECTOR> pack;
#pragma unroll
          for (int v = 0; v < VECTOR; ++v)
            pack.at[v] = narrow<Element>(total == 0 ? Compute(0) : output[i][c][e + v] * inverse);
          if (column < WIDTH)
            storePack(head + (firstRow + i) * L::Output::stride(2) + column * L::Output::stride(3), pack);
        }
    }
  }
};

/// S of a thread: its rows of Q times its keys.
template <class L, class Compute = typename L::Compute>
__device__ void multiplyKeys(Compute (&scores)[L::TM][L::KEYS_EACH], const Compute *queries, const Compute *keys) {
  constexpr int VECTOR = L::QK_VECTOR;
  int tx = threadIdx.x % L::TX;
#pragma unroll
  for (int i = 0; i < L::TM; ++i)
#pragma unroll
    for (int j = 0; j < L::KEYS_EACH; ++j)
      scores[i][j] = 0;
#pragma unroll 4
  for (int d = 0; d < L::QK_COLUMNS; d += VECTOR) {
    Pack<Compute, VECTOR> q[L::TM], k[L::KEYS_EACH];
#pragma unroll
    for (int i = 0; i < L::TM; ++i)
      q[i] = loadPack<VECTOR>(queries + i * L::QK_PITCH + d);
#pragma unroll
    for (int j = 0; j < L::KEYS_EACH; ++j)
      k[j] = loadPack<VECTOR>(keys + (tx + L::TX * j) * L::QK_PITCH + d);
#pragma unroll
    for (int v = 0; v < VECTOR; ++v)
#pragma unroll
      for (int i = 0; i < L::TM; ++i)
#pragma unroll
        for (int j = 0; j < L::KEYS_EACH; ++j)
          scores[i][j] += q[i].at[v] * k[j].at[v];
  }
}

/// O += P V; `p` are this thread's rows of P.
template <class L, class Compute = typename L::Compute>
__device__ void multiplyValues(Rows<L> &rows, const Compute *p, const Compute *values) {
  constexpr int VECTOR = L::QK_VECTOR;
  int tx = threadIdx.x % L::TX;
#pragma unroll 2
  for (int key = 0; key < L::BLOCK_N; key += VECTOR) {
    Pack<Compute, VECTOR> weights[L::TM];
#pragma unroll
    for (int i = 0; i < L::TM; ++i)
      weights[i] = loadPack<VECTOR>(p + i * L::P_PITCH + key);
#pragma unroll
    for (int v = 0; v < VECTOR; ++v)
#pragma unroll
      for (int c = 0; c < L::CHUNKS; ++c) {
        auto value = loadPack<L::OUT_VECTOR>(values + (key + v) * L::V_COLUMNS + (tx + L::TX * c) * L::OUT_VECTOR);
#pragma unroll
        for (int i = 0; i < L::TM; ++i)
#pragma unroll
          for (int e = 0; e < L::OUT_VECTOR; ++e)
            rows.output[i][c][e] += weights[i].at[v] * value.at[e];
      }
  }
}

/// Scale, mask and the ends of keys; a score that does not count becomes -inf.
template <class L, class Mask, class Compute = typename L::Compute>
__device__ void maskScores(Compute (&scores)[L::TM][L::KEYS_EACH], const Mask &mask, int firstRow, int firstKey) {
  int tx = threadIdx.x % L::TX;
#pragma unroll
  for (int i = 0; i < L::TM; ++i)
#pragma unroll
    for (int j = 0; j < L::KEYS_EACH; ++j) {
      int key = firstKey + tx + L::TX * j, query = firstRow + i;
      bool counts = key < L::KEYS && query < L::QUERIES && seesKey<L>(query, key);
      scores[i][j] = scoreOf<L>(scores[i][j]);
      if constexpr (Mask::PRESENT)
        if (counts)
          scores[i][j] = addMask(scores[i][j], maskValue<Compute>(mask.at(query, key)));
      if (!counts)
        scores[i][j] = negativeInfinityOf<Compute>();
    }
}

template <class Config>
__device__ void run(const ElementOf<typename Config::Query> *query, const ElementOf<typename Config::Key> *key,
                    const ElementOf<typename Config::Value> *value, const ElementOf<typename Config::Mask> *maskBase,
                    float *logSumExp, ElementOf<typename Config::Output> *out) {
  using L = Layout<Config>;
  using Compute = typename L::Compute;
  extern __shared__ SharedChunk sharedMemory[];
  Compute *queries = reinterpret_cast<Compute *>(sharedMemory), *tile = queries + L::KEYS_AT, *p = queries + L::P_AT;
  AttentionTile at = AttentionTile::of<Config, L::ROWS>(blockIdx.x);
  int ownRow = threadIdx.x / L::TX * L::TM, tx = threadIdx.x % L::TX, firstRow = at.firstQuery + ownRow;
  followPreviousKernel();

  HeadMask<typename Config::Mask> mask(maskBase, at);
  auto always = [](int) { return true; };
  auto kept = [&](int row) { return mask.keepsKey(row); };
  loadRows<typename L::Query, L::ROWS, L::QK_COLUMNS, L::QK_PITCH, L::THREADS>(
      queries, query + at.queryOffset<typename L::Query>(), at.firstQuery, L::QUERIES, always);
  Rows<L> rows;
  int keyEnd = at.keyEnd<Config, L::ROWS>();
  for (int first = at.keyBegin<Config, L::BLOCK_N>(); first < keyEnd; first += L::BLOCK_N) {
    __syncthreads();  // the tile of the step before has been read
    loadRows<typename L::Key, L::BLOCK_N, L::QK_COLUMNS, L::QK_PITCH, L::THREADS>(
        tile, key + at.keyOffset<typename L::Key>(), first, L::KEYS, kept);
    __syncthreads();
    Compute scores[L::TM][L::KEYS_EACH];
    multiplyKeys<L>(scores, queries + ownRow * L::QK_PITCH, tile);
    __syncthreads();
    loadRows<typename L::Value, L::BLOCK_N, L::V_COLUMNS, L::V_COLUMNS, L::THREADS>(
        tile, value + at.keyOffset<typename L::Value>(), first, L::KEYS, kept);
    maskScores<L>(scores, mask, firstRow, first);
    rows.update(scores);
#pragma unroll
    for (int i = 0; i < L::TM; ++i)
#pragma unroll
      for (int j = 0; j < L::KEYS_EACH; ++j)
        p[(ownRow + i) * L::P_PITCH + tx + L::TX * j] = scores[i][j];
    __syncthreads();
    multiplyValues<L>(rows, p + ownRow * L::P_PITCH, tile);
  }
  rows.store(out + at.queryOffset<typename L::Output>(), firstRow);
  if (logSumExp != nullptr)
    rows.storeLogSumExp(logSumExp, at, firstRow);
}

}  // namespace ditc::attention_simt
