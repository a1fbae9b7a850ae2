// SPDX-License-Identifier: Apache-2.0
//
// Attention in bf16 or fp16 on the tensor cores of every GPU since sm_80: any head sizes up to 256, masks and strides.
//
//   out = softmax(scale · Q Kᵀ + mask) V       online, in base 2; fp32 sums
//
//                              BLOCK_N keys
//                           ┌───────────────┐
//      WARPS × BANDS × 16   │ S = Q Kᵀ → P  │  a warp owns BANDS × 16 rows: S, P and out never leave its registers
//             rows          └───────────────┘
//      out (BANDS × 16 × Dv a warp) += P V      what is read of K and V from shared memory serves all bands
//
//      STAGES 1   K ┃ copy ┃ QKᵀ │ copy of the next ┃ …      STAGES 2   both of the next step are copied while those of
//                 V        ┃ copy┃ softmax, PV      ┃                  this one are multiplied
//
//   Config   see attention_any.cuh; beside it
//   WARPS    1, 2, 4, 8        of a block
//   BANDS    1, 2              2 reads half as much of shared memory, which limits 16-row warps, for twice the registers
//   BLOCK_N  16, 32, … 128     keys per step
//   STAGES   1, 2              of K and V in shared memory
//
//   shared memory  2·(16·WARPS·BANDS + STAGES·BLOCK_N)·(D + 8) + 2·STAGES·BLOCK_N·(Dv + 8) bytes, D and Dv rounded up to 16;
//                  rows are 16 bytes longer than their values, so that eight rows of a matrix lie in different banks
//   registers      BANDS · (Dv/2 (out) + BLOCK_N/2 (S)) + D/4 (Q, with one band and D ≤ 128) + about 50
//
// Rows of 4, 8 or 16 aligned bytes are copied asynchronously; others go element by element through registers. A key that
// the mask hides from every query is not read, and a warp skips a step in which the mask hides all keys from its rows.
//
//   measured (H200, us, beside FlashAttention-2 of torch 2.11; "100 KB": with the tiles and the shared memory that a
//   multiprocessor of sm_86, sm_89 or sm_120 has, by a preferred carve-out)
//                        FA-2   chosen   16-row warps, 2 stages     100 KB: chosen   16-row warps, 2 stages
//     1x24x4608x128      789      856     1130                              1148     1561
//     2x38x4429x64      1307     1461     1719                              1451     2043
//     2x16x4096x72       698      576      739                               604     1229
//     2x16x4096x96       598      673                                        755
//     2x8x4096x40        279      202      255                               202      325
//     2x12x4360x256     1597     1813                                       2426
#pragma once

#include "attention_any.cuh"
#include "common/mma.cuh"

namespace ditc::attention_mma {

/// Constants that follow from a configuration. The emitter computes SHARED_BYTES in the same way.
template <class Config>
struct Layout : Config {
  using Element = typename Config::Query::Element;
  static constexpr int WARPS = Config::WARPS, BLOCK_N = Config::BLOCK_N, BANDS = Config::BANDS, STAGES = Config::STAGES;
  static constexpr int BAND_ROWS = 16 * BANDS, ROWS = BAND_ROWS * WARPS, THREADS = 32 * WARPS;
  static constexpr int QUERIES = Config::Query::size(2), KEYS = Config::Key::size(2);
  static constexpr int HEAD = Config::Query::size(3), V_HEAD = Config::Value::size(3);
  static constexpr int QK_STEPS = int(divideUp(HEAD, 16)), V_TILES = 2 * int(divideUp(V_HEAD, 16));
  static constexpr int QK_COLUMNS = 16 * QK_STEPS, V_COLUMNS = 8 * V_TILES;
  static constexpr int QK_PITCH = QK_COLUMNS + 8, V_PITCH = V_COLUMNS + 8;
  static constexpr int N_TILES = BLOCK_N / 8, K_STEPS = BLOCK_N / 16;
  static constexpr int K_AT = ROWS * QK_PITCH, V_AT = K_AT + STAGES * BLOCK_N * QK_PITCH;  // elements
  static constexpr int SHARED_BYTES = 2 * (V_AT + STAGES * BLOCK_N * V_PITCH);
  static constexpr bool KEEPS_QUERIES = HEAD <= 128 && BANDS == 1;  // in registers
  // Without a mask the scale joins the exponent's multiply-add, which a negative scale would turn round and 0 make NaN.
  static constexpr bool SCALES_LATE =
      !HeadMask<typename Config::Mask>::PRESENT && float(Config::SCALE * kLog2E) > 0 && Config::SOFT_CAP == 0;
  static constexpr float SCALE_LOG2 = float(Config::SCALE * kLog2E);
  static constexpr float FACTOR = SCALES_LATE ? SCALE_LOG2 : 1.0f;
};

/// Starts copying rows first … first + ROWS - 1 of a head. Rows that do not exist or are not wanted become 0; columns
/// past WIDTH are left alone (clearPadding).
template <class L, class T, int ROWS, int PITCH, class Wanted>
__device__ void copyRows(typename T::Element *shared, const typename T::Element *head, int first, int end,
                         Wanted wanted) {
  constexpr int WIDTH = T::size(3), VECTOR = commonPower(T::VECTOR, WIDTH), PER_ROW = WIDTH / VECTOR;
  constexpr bool ALONG_ROWS = T::UNIT != 1 && T::stride(2) == 1;  // neighbours in memory are rows
  for (int i = threadIdx.x; i < ROWS * PER_ROW; i += L::THREADS) {
    int row = ALONG_ROWS ? i % ROWS : i / PER_ROW, column = (ALONG_ROWS ? i / ROWS : i % PER_ROW) * VECTOR;
    auto *target = shared + row * PITCH + column;
    bool exists = first + row < end && wanted(first + row);
    const auto *source = head;
    if constexpr (T::size(2) * T::stride(2) + T::size(3) * T::stride(3) < 1ll << 31)
      source += exists ? (first + row) * int(T::stride(2)) + column * int(T::stride(3)) : 0;
    else
      source += exists ? (first + row) * T::stride(2) + column * T::stride(3) : 0;
    if constexpr (VECTOR >= 2)
      copyAsync<2 * VECTOR>(target, source, exists);
    else
      target->bits = exists ? source->bits : 0;
  }
}

/// Columns between the head size and the next multiple of 16: 0 · garbage may be NaN.
template <int WIDTH, int COLUMNS, int PITCH, int THREADS, class Element>
__device__ void clearPadding(Element *shared, int rows) {
  if constexpr (WIDTH < COLUMNS)
    for (int i = threadIdx.x; i < rows * (COLUMNS - WIDTH); i += THREADS)
      shared[i / (COLUMNS - WIDTH) * PITCH + WIDTH + i % (COLUMNS - WIDTH)] = {0};
}

/// A warp's part of the mask for one step, fetched before the products: pairs of keys of this thread's two rows.
template <class L, class Mask>
struct MaskTile {
  using Element = typename Mask::Element;
  Element at[L::N_TILES][Mask::PER_QUERY ? 2 : 1][2];

  /// Keys and queries past the end read the last one: what comes of it is overwritten or not stored.
  __device__ void load(const Mask &mask, int row, int key) {
    constexpr bool PAIRS = L::Mask::VECTOR >= 2 && L::KEYS % 2 == 0;
#pragma unroll
    for (int n = 0; n < L::N_TILES; ++n)
#pragma unroll
      for (int half = 0; half < (Mask::PER_QUERY ? 2 : 1); ++half) {
        int query = min(row + 8 * half, L::QUERIES - 1), column = key + 8 * n;
        if constexpr (PAIRS) {
          auto pair = loadPack<2>(mask.address(query, min(column, L::KEYS - 2)));
          at[n][half][0] = pair.at[0], at[n][half][1] = pair.at[1];
        } else {
#pragma unroll
          for (int e = 0; e < 2; ++e)
            at[n][half][e] = *mask.address(query, min(column + e, L::KEYS - 1));
        }
      }
  }

  __device__ float added(int n, int i) const {
    return maskValue<float>(at[n][Mask::PER_QUERY ? i / 2 : 0][i % 2]);
  }

  /// Whether a row of the warp sees a key.
  __device__ bool keepsAny() const {
    bool keeps = false;
#pragma unroll
    for (int n = 0; n < L::N_TILES; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        keeps |= added(n, i) != negativeInfinityOf<float>();
    return __any_sync(kWholeWarp, keeps);
  }
};
template <class L>
struct MaskTile<L, HeadMask<void>> {
  __device__ static void load(const HeadMask<void> &, int, int) {}
  __device__ static bool keepsAny() { return true; }
};

/// A band of 16 rows: running maximum and sum, and the output tile.
template <class L>
struct Rows {
  float top[2] = {negativeInfinityOf<float>(), negativeInfinityOf<float>()};  // rows lane/4 and lane/4 + 8
  float sum[2] = {0.0f, 0.0f};                                                // this thread's part
  float output[L::V_TILES][4] = {};

  /// Scores become p; sums and output so far are brought to the new maximum.
  __device__ void update(float (&scores)[L::N_TILES][4]) {
    float high[2] = {top[0], top[1]}, factor[2];
#pragma unroll
    for (int n = 0; n < L::N_TILES; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        high[i / 2] = fmaxf(high[i / 2], scores[n][i]);
    float shift[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      high[half] = fmaxf(high[half], __shfl_xor_sync(kWholeWarp, high[half], 1));
      high[half] = fmaxf(high[half], __shfl_xor_sync(kWholeWarp, high[half], 2));
      // A row without keys so far: 2^(-inf - 0) is 0 and never NaN.
      shift[half] = high[half] == negativeInfinityOf<float>() ? 0.0f : high[half] * L::FACTOR;
      factor[half] = exp2Approx(top[half] * L::FACTOR - shift[half]);
      top[half] = high[half], sum[half] *= factor[half];
    }
#pragma unroll
    for (int n = 0; n < L::N_TILES; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        sum[i / 2] += scores[n][i] = exp2Approx(fmaf(scores[n][i], L::FACTOR, -shift[i / 2]));
    if (__any_sync(kWholeWarp, factor[0] != 1.0f || factor[1] != 1.0f)) {
#pragma unroll
      for (int n = 0; n < L::V_TILES; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          output[n][i] *= factor[i / 2];
    }
  }

  __device__ float totalOf(int half) const {
    float total = sum[half];
    total += __shfl_xor_sync(kWholeWarp, total, 1);
    return total + __shfl_xor_sync(kWholeWarp, total, 2);
  }

  /// -inf for a row without keys.
  __device__ void storeLogSumExp(float *logSumExp, const AttentionTile &tile, int row, int lane) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float total = totalOf(half), shift = top[half] == negativeInfinityOf<float>() ? 0.0f : top[half] * L::FACTOR;
      if (lane % 4 == 0 && row + 8 * half < L::QUERIES)
        logSumExp[sumOffset<L>(tile, row + 8 * half)] = (shift + log2f(total)) * float(1 / kLog2E);
    }
  }

  __device__ void store(typename L::Output::Element *head, int row, int lane) {
    using Out = typename L::Output;
    using Element = typename Out::Element;
    constexpr bool PAIRS = Out::VECTOR >= 2 && L::V_HEAD % 2 == 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float total = totalOf(half);
      float inverse = total == 0.0f ? 0.0f : 1.0f / total;
      if (row + 8 * half >= L::QUERIES)
        continue;
      Element *line = head + (row + 8 * half) * Out::stride(2);
#pragma unroll
      for (int n = 0; n < L::V_TILES; ++n) {
        int column = 8 * n + lane % 4 * 2;
        Pack<Element, 2> pair;
#pragma unroll
        for (int e = 0; e < 2; ++e)
          pair.at[e] = narrow<Element>(total == 0.0f ? 0.0f : output[n][2 * half + e] * inverse);
        if (PAIRS && column < L::V_HEAD)
          storePack(line + column, pair);
#pragma unroll
        for (int e = 0; e < 2; ++e)
          if (!PAIRS && column + e < L::V_HEAD)
            line[(column + e) * Out::stride(3)] = pair.at[e];
      }
    }
  }
};

/// The A operand of one step along D: rows of Q.
template <class L, class Element>
__device__ inline void loadQueries(MmaWord (&a)[4], const Element *warpRows, int step, int lane) {
  loadMatrices4(a, warpRows + lane % 16 * L::QK_PITCH + 16 * step + lane / 16 * 8);
}

template <class L>
using Scores = float[L::BANDS][L::N_TILES][4];

/// S = Q Kᵀ of a warp.
template <class L, class Element>
__device__ inline void multiplyKeys(Scores<L> &scores, const MmaWord (&kept)[L::QK_STEPS][4], const Element *queries,
                                    const Element *keys, int lane) {
#pragma unroll
  for (auto &band : scores)
#pragma unroll
    for (auto &tile : band)
      tile[0] = tile[1] = tile[2] = tile[3] = 0.0f;
  const Element *row = keys + (lane / 16 * 8 + lane % 8) * L::QK_PITCH + lane / 8 % 2 * 8;
#pragma unroll
  for (int step = 0; step < L::QK_STEPS; ++step) {
    MmaWord a[L::BANDS][4];
#pragma unroll
    for (int band = 0; band < L::BANDS; ++band)
      if constexpr (L::KEEPS_QUERIES)
        a[band][0] = kept[step][0], a[band][1] = kept[step][1], a[band][2] = kept[step][2], a[band][3] = kept[step][3];
      else
        loadQueries<L>(a[band], queries + 16 * band * L::QK_PITCH, step, lane);
#pragma unroll
    for (int n = 0; n < L::N_TILES; n += 2) {
      MmaWord b[4];
      loadMatrices4(b, row + 8 * n * L::QK_PITCH + 16 * step);
#pragma unroll
      for (int band = 0; band < L::BANDS; ++band) {
        mma16x8<Element>(scores[band][n], a[band], b[0], b[1]);
        mma16x8<Element>(scores[band][n + 1], a[band], b[2], b[3]);
      }
    }
  }
}

/// O += P V of a warp. The accumulators of S are laid out as the A operand is.
template <class L, class Element>
__device__ inline void multiplyValues(Rows<L> (&rows)[L::BANDS], const Scores<L> &p, const Element *values, int lane) {
  MmaWord a[L::BANDS][L::K_STEPS][4];
#pragma unroll
  for (int band = 0; band < L::BANDS; ++band)
#pragma unroll
    for (int step = 0; step < L::K_STEPS; ++step)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float(&tile)[4] = p[band][2 * step + i / 2];
        a[band][step][i] = Pair<Element>::pack(tile[i % 2 * 2], tile[i % 2 * 2 + 1]);
      }
  const Element *row = values + lane % 16 * L::V_PITCH + lane / 16 * 8;
#pragma unroll
  for (int step = 0; step < L::K_STEPS; ++step)
#pragma unroll
    for (int n = 0; n < L::V_TILES; n += 2) {
      MmaWord b[4];
      loadMatrices4Transposed(b, row + 16 * step * L::V_PITCH + 8 * n);
#pragma unroll
      for (int band = 0; band < L::BANDS; ++band) {
        mma16x8<Element>(rows[band].output[n], a[band][step], b[0], b[1]);
        mma16x8<Element>(rows[band].output[n + 1], a[band][step], b[2], b[3]);
      }
    }
}

/// Scale and mask.
template <class L, class Mask>
__device__ inline void maskScores(float (&scores)[L::N_TILES][4], const MaskTile<L, Mask> &mask) {
#pragma unroll
  for (int n = 0; n < L::N_TILES; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (!L::SCALES_LATE)
        scores[n][i] = scoreOf<L>(scores[n][i]);
      if constexpr (Mask::PRESENT)
        scores[n][i] = addMask(scores[n][i], mask.added(n, i));
    }
}

/// Hides keys past the end and those that a query does not see by its place. Most steps have none for a whole band, which
/// begins at row `bandRow`.
template <class L>
__device__ inline void hideKeys(float (&scores)[L::N_TILES][4], int bandRow, int first, int lane) {
  constexpr bool TAIL = L::KEYS % L::BLOCK_N != 0, PLACES = L::KEYS_BEFORE != kAllKeys || L::KEYS_AFTER != kAllKeys;
  if constexpr (TAIL || PLACES) {
    int last = first + L::BLOCK_N - 1;
    if ((!TAIL || last < L::KEYS) && seesKey<L>(bandRow, last) && seesKey<L>(bandRow + 15, first))
      return;
#pragma unroll
    for (int n = 0; n < L::N_TILES; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        int key = first + lane % 4 * 2 + 8 * n + i % 2;
        if ((TAIL && key >= L::KEYS) || !seesKey<L>(bandRow + lane / 4 + i / 2 * 8, key))
          scores[n][i] = negativeInfinityOf<float>();
      }
  }
}

template <class Config>
__device__ void run(const ElementOf<typename Config::Query> *query, const ElementOf<typename Config::Key> *key,
                    const ElementOf<typename Config::Value> *value,
                    const ElementOf<typename Config::Mask> *maskBase, float *logSumExp,
                    ElementOf<typename Config::Output> *out) {
  using L = Layout<Config>;
  using Element = typename L::Element;
  using Mask = HeadMask<typename Config::Mask>;
  extern __shared__ SharedChunk sharedMemory[];
  Element *queries = reinterpret_cast<Element *>(sharedMemory), *keys = queries + L::K_AT, *values = queries + L::V_AT;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  AttentionTile at = AttentionTile::of<Config, L::ROWS>(blockIdx.x);
  int row = at.firstQuery + L::BAND_ROWS * warp + lane / 4, keyEnd = at.keyEnd<Config, L::ROWS>();
  followPreviousKernel();

  Mask mask(maskBase, at);
  key += at.keyOffset<typename L::Key>(), value += at.keyOffset<typename L::Value>();
  auto wanted = [&](int token) { return mask.keepsKey(token); };
  auto keysAt = [&](int first) { return keys + first / L::BLOCK_N % L::STAGES * L::BLOCK_N * L::QK_PITCH; };
  auto valuesAt = [&](int first) { return values + first / L::BLOCK_N % L::STAGES * L::BLOCK_N * L::V_PITCH; };
  auto startKeys = [&](int first) {
    if (first < keyEnd)
      copyRows<L, typename L::Key, L::BLOCK_N, L::QK_PITCH>(keysAt(first), key, first, L::KEYS, wanted);
  };
  auto startValues = [&](int first) {
    if (first < keyEnd)
      copyRows<L, typename L::Value, L::BLOCK_N, L::V_PITCH>(valuesAt(first), value, first, L::KEYS, wanted);
  };

  // Q and the padding of K lie one behind the other.
  clearPadding<L::HEAD, L::QK_COLUMNS, L::QK_PITCH, L::THREADS>(queries, L::ROWS + L::STAGES * L::BLOCK_N);
  copyRows<L, typename L::Query, L::ROWS, L::QK_PITCH>(queries, query + at.queryOffset<typename L::Query>(), at.firstQuery,
                                                       L::QUERIES, [](int) { return true; });
  copyCommit();
  int keyBegin = at.keyBegin<Config, L::BLOCK_N>();
  startKeys(keyBegin);
  if constexpr (L::STAGES == 2)
    startValues(keyBegin);
  copyCommit();
  const Element *warpQueries = queries + L::BAND_ROWS * warp * L::QK_PITCH;
  MmaWord kept[L::QK_STEPS][4];
  if constexpr (L::KEEPS_QUERIES) {
    copyWait<1>();
    __syncthreads();
#pragma unroll
    for (int step = 0; step < L::QK_STEPS; ++step)
      loadQueries<L>(kept[step], warpQueries, step, lane);
  }

  constexpr int MASKS = Mask::PER_QUERY ? L::BANDS : 1;  // of the bands together where queries share one
  Rows<L> rows[L::BANDS];
  for (int first = keyBegin; first < keyEnd; first += L::BLOCK_N) {
    int column = first + lane % 4 * 2;
    MaskTile<L, Mask> masks[MASKS];
    bool keepsAny = false;
#pragma unroll
    for (int band = 0; band < MASKS; ++band) {
      masks[band].load(mask, row + 16 * band, column);
      keepsAny |= masks[band].keepsAny();
    }
    if constexpr (L::STAGES == 2) {
      startKeys(first + L::BLOCK_N);
      startValues(first + L::BLOCK_N);
      copyCommit();
      copyWait<1>();
      __syncthreads();
    } else {
      copyWait<0>();
      __syncthreads();  // K is here, and every warp has read V of the step before
      startValues(first);
      copyCommit();
    }
    Scores<L> scores;
    if (keepsAny)
      multiplyKeys<L>(scores, kept, warpQueries, keysAt(first), lane);
    if constexpr (L::STAGES == 1) {
      copyWait<0>();
      __syncthreads();  // V is here, and every warp has read K
      startKeys(first + L::BLOCK_N);
      copyCommit();
    }
    if (keepsAny) {
#pragma unroll
      for (int band = 0; band < L::BANDS; ++band) {
        maskScores<L, Mask>(scores[band], masks[band % MASKS]);
        hideKeys<L>(scores[band], row - lane / 4 + 16 * band, first, lane);
        rows[band].update(scores[band]);
      }
      multiplyValues<L>(rows, scores, valuesAt(first), lane);
    }
    if constexpr (L::STAGES == 2)
      __syncthreads();  // every warp has read this stage: it may be filled again
  }
  copyWait<0>();  // of Q, where no step was to be done
#pragma unroll
  for (int band = 0; band < L::BANDS; ++band) {
    rows[band].store(out + at.queryOffset<typename L::Output>(), row + 16 * band, lane);
    if (logSumExp != nullptr)
      rows[band].storeLogSumExp(logSumExp, at, row + 16 * band, lane);
  }
}

}  // namespace ditc::attention_mma
