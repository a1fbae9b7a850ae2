// SPDX-License-Identifier: Apache-2.0
//
// The 8-bit operands of a quantised attention (attention_quantized.cuh), in two launches.
//
// surveyKeys: what is to be known of all tokens. For each (batch, key head) and chunk of tokens, the mean of K over every
// eighth token, and the largest magnitude of every column of V.
//
//   k (batch, key head, key, D), v (…, DV)   →   means (batch · key head, chunk, D), tops (batch · key head, chunk, DV), fp32
//   grid (chunks · batch · key heads), 256 threads: groups of D / 8 threads take a token each, 16 bytes a thread
//
// quantizeAttention: the first blocks have tiles of 128 rows of Q, then blocks of K, then tiles of 128 rows of V.
//
//   q8 [m, c] = rint(127 q[m, c] / top),  s_q[m] = top / 127       top: the row's largest magnitude
//   k8 [n, c] the same of k - mean, which softmax does not see, as all scores of a row move alike; any mean will do. top: of
//             the keys of a block of the attention kernel that one of its threads has, n mod 8 = 2g, 2g + 1; four scales a block
//   v8 [c, n] = e4m3(448 v[n, c] / top),  s_v[c] = top / 448       top: the column's; keys behind the last are 0
//
// Tops are at least 1e-12; NaN and infinities leave a scale that makes the scores, or the column, NaN. v8 has its channels
// as rows, and the keys of each 32 in the order that packCodes says: place 16h + 4q + 2e + i has key 16h + 8e + 2q + i.
//
//   Config   Element (BF16, F16), HEAD_DIM, V_DIM: multiples of 8 up to 256; BLOCK_N: keys of a block of the attention kernel
//   shared memory  1 KB of means or column scales, and V_DIM · 132 bytes of a tile of V (34 KB at 256)
//
//   H200, 1×24×4608×128: 127 MB and 32 more of the survey.
#pragma once

#include "common/scalars.cuh"
#include "common/tensor.cuh"
#include "common/words.cuh"

namespace ditc::attention_quantize {

constexpr int THREADS = 256, TILE = 128, SAMPLED = 8;
constexpr float kSmallest = 1e-12f;

/// Strides in elements, multiples of 8; columns are neighbours, rows start on 16 bytes.
struct Operand {
  const void *data;
  long long batch, head, row;
};

struct Params {
  Operand q, k, v;
  float *means, *tops;
  u8 *q8, *k8, *v8;  // rows of q8 and k8: padded to 16 bytes; rows of v8: keyPitch
  float *qScale, *kScale, *vScale;
  int heads, keyHeads, queries, keys, keyPitch;
  int chunks, chunkKeys;
  int queryTiles, keyBlocks, valueTiles;  // of one head
  int problems, keyProblems;              // batch · heads, batch · key heads
};

/// How the threads of a block share rows: a power of two of lanes for each, 16 bytes a lane.
template <int COLUMNS>
struct RowLanes {
  static constexpr int VECTORS = COLUMNS / 8;
  static constexpr int LANES = VECTORS <= 1 ? 1 : VECTORS <= 2 ? 2 : VECTORS <= 4 ? 4 : VECTORS <= 8 ? 8 : VECTORS <= 16 ? 16 : 32;
  static constexpr int ROWS = THREADS / LANES, PITCH = (COLUMNS + 15) / 16 * 16;
};

/// The largest over the lanes of a row; NaN is.
template <int LANES>
__device__ inline float largest(float top) {
#pragma unroll
  for (int distance = LANES / 2; distance > 0; distance /= 2)
    top = maximum(top, __shfl_xor_sync(0xffffffff, top, distance));
  return top;
}

/// One (batch, head) of an operand, read 8 columns at a time.
template <class Element>
struct Head {
  const Element *data;
  long long row;

  __device__ Head(const Operand &x, int batch, int head)
      : data(static_cast<const Element *>(x.data) + batch * x.batch + head * x.head), row(x.row) {}

  __device__ uint4 words(int at, int column) const { return *reinterpret_cast<const uint4 *>(data + at * row + column); }
  __device__ static void numbers(uint4 words, float (&values)[8]) {
    const u32 pairs[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      values[2 * i] = Pair<Element>::low(pairs[i]);
      values[2 * i + 1] = Pair<Element>::high(pairs[i]);
    }
  }
};

// ---- surveyKeys ---------------------------------------------------------------------------------------------------

/// One operand's columns over every STEP-th of tokens [first, last): the mean, or the largest magnitudes.
template <class Element, int COLUMNS, int STEP, bool MEAN>
__device__ void survey(const Head<Element> &x, int first, int last, float *shared, float *out) {
  constexpr int VECTORS = COLUMNS / 8, ROWS = THREADS / VECTORS;
  int vector = threadIdx.x % VECTORS, lane = threadIdx.x / VECTORS;
  float total[8] = {};
  if (lane < ROWS) {
#pragma unroll 4
    for (int row = first + lane * STEP; row < last; row += ROWS * STEP) {
      float values[8];
      Head<Element>::numbers(x.words(row, 8 * vector), values);
#pragma unroll
      for (int i = 0; i < 8; ++i)
        total[i] = MEAN ? total[i] + values[i] : maximum(total[i], fabsf(values[i]));
    }
  }
  __syncthreads();  // what was in `shared` has been read
  if (lane < ROWS)
#pragma unroll
    for (int i = 0; i < 8; ++i)
      shared[lane * COLUMNS + 8 * vector + i] = total[i];
  __syncthreads();
  for (int column = threadIdx.x; column < COLUMNS; column += THREADS) {
    float result = shared[column];
    for (int row = 1; row < ROWS; ++row)
      result = MEAN ? result + shared[row * COLUMNS + column] : maximum(result, shared[row * COLUMNS + column]);
    out[column] = MEAN ? result / ((last - first + STEP - 1) / STEP) : result;
  }
}

template <class Config>
__device__ void surveyKeys(const Params &p) {
  using Element = typename Config::Element;
  __shared__ float shared[8 * THREADS];
  followPreviousKernel();
  int problem = blockIdx.x / p.chunks, batch = problem / p.keyHeads, head = problem % p.keyHeads;
  int first = blockIdx.x % p.chunks * p.chunkKeys, last = first + p.chunkKeys < p.keys ? first + p.chunkKeys : p.keys;
  survey<Element, Config::HEAD_DIM, SAMPLED, true>(Head<Element>(p.k, batch, head), first, last, shared,
                                                   p.means + (long long)blockIdx.x * Config::HEAD_DIM);
  survey<Element, Config::V_DIM, 1, false>(Head<Element>(p.v, batch, head), first, last, shared,
                                           p.tops + (long long)blockIdx.x * Config::V_DIM);
}

// ---- quantizeAttention --------------------------------------------------------------------------------------------

/// values · inverse, at most 127 in magnitude, as eight bytes. The sum with 1.5 · 2^23 has the rounded integer in its low byte,
/// at four times the rate of a conversion; of NaN it has some byte.
__device__ inline void storeIntegers(u8 *at, const float (&values)[8], float inverse) {
  u32 bits[8];
#pragma unroll
  for (int i = 0; i < 8; ++i)
    bits[i] = __float_as_uint(__fadd_rn(values[i] * inverse, 12582912.0f));
  auto word = [&](int i) {
    return __byte_perm(__byte_perm(bits[i], bits[i + 1], 0x0040), __byte_perm(bits[i + 2], bits[i + 3], 0x0040), 0x5410);
  };
  *reinterpret_cast<uint2 *>(at) = make_uint2(word(0), word(4));
}

/// A tile of rows of Q.
template <class Element, int COLUMNS>
__device__ void quantizeQueries(const Head<Element> &x, int firstRow, int rows, u8 *numbers, float *scales) {
  using L = RowLanes<COLUMNS>;
  constexpr int PASSES = (TILE + L::ROWS - 1) / L::ROWS;
  int vector = threadIdx.x % L::LANES;
#pragma unroll
  for (int pass = 0; pass < PASSES; ++pass) {
    int row = firstRow + pass * L::ROWS + threadIdx.x / L::LANES;
    bool here = row < rows && row < firstRow + TILE && vector < L::VECTORS;
    float values[8], top = kSmallest;
    Head<Element>::numbers(here ? x.words(row, 8 * vector) : make_uint4(0, 0, 0, 0), values);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      top = maximum(top, fabsf(values[i]));
    top = largest<L::LANES>(top);
    if (here)
      storeIntegers(numbers + (long long)row * L::PITCH + 8 * vector, values, 127.0f / top);
    if (here && vector == 0)
      scales[row] = top / 127.0f;
  }
}

/// A block of keys as the attention kernel has them, less `mean`; keys n mod 8 = 2g, 2g + 1 share scale g. A thread's rows
/// are of one g.
template <class Element, int COLUMNS, int BLOCK>
__device__ void quantizeKeys(const Head<Element> &x, int firstRow, int rows, const float *mean, u8 *numbers, float *scales) {
  using L = RowLanes<COLUMNS>;
  constexpr int PASSES = (BLOCK + L::ROWS - 1) / L::ROWS;
  static_assert(L::ROWS % 8 == 0, "a thread's rows are alike mod 8");
  __shared__ int tops[4];  // of magnitudes, which compare like their bits
  if (threadIdx.x < 4)
    tops[threadIdx.x] = __float_as_int(kSmallest);
  __syncthreads();
  int vector = threadIdx.x % L::LANES, own = threadIdx.x / L::LANES, group = own % 8 / 2;
  auto isHere = [&](int pass) {
    int at = own + pass * L::ROWS;
    return at < BLOCK && firstRow + at < rows && vector < L::VECTORS;
  };
  auto centred = [&](uint4 words, float (&values)[8]) {
    Head<Element>::numbers(words, values);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      values[i] -= mean[8 * vector + i];
  };
  uint4 words[PASSES];
#pragma unroll
  for (int pass = 0; pass < PASSES; ++pass)
    words[pass] = isHere(pass) ? x.words(firstRow + own + pass * L::ROWS, 8 * vector) : make_uint4(0, 0, 0, 0);
  float top = 0.0f;
#pragma unroll
  for (int pass = 0; pass < PASSES; ++pass)
    if (isHere(pass)) {
      float values[8];
      centred(words[pass], values);
#pragma unroll
      for (int i = 0; i < 8; ++i)
        top = maximum(top, fabsf(values[i]));
    }
  atomicMax(&tops[group], __float_as_int(largest<L::LANES>(top)));
  __syncthreads();
  float inverse = 127.0f / __int_as_float(tops[group]);
#pragma unroll
  for (int pass = 0; pass < PASSES; ++pass)
    if (isHere(pass)) {
      float values[8];
      centred(words[pass], values);
      storeIntegers(numbers + (long long)(firstRow + own + pass * L::ROWS) * L::PITCH + 8 * vector, values, inverse);
    }
  if (threadIdx.x < 4)
    scales[threadIdx.x] = __int_as_float(tops[threadIdx.x]) / 127.0f;
}

/// A tile of V, turned around through shared memory. A thread has 8 columns of the four keys that are neighbours in v8, two of
/// which are two in V, and so writes words. `inverse`: 448 / top of each column.
template <class Element, int COLUMNS>
__device__ void quantizeValues(const Head<Element> &x, int firstRow, int rows, int pitch, const float *inverse, u32 *tile, u8 *numbers) {
  constexpr int VECTORS = COLUMNS / 8, WORDS = TILE / 4, TILE_PITCH = WORDS + 1;
#pragma unroll 2
  for (int i = threadIdx.x; i < WORDS * VECTORS; i += THREADS) {
    int word = i / VECTORS, column = i % VECTORS * 8, key = word / 4 * 16 + word % 4 * 2;
    float values[4][8];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      int row = firstRow + key + j / 2 * 8 + j % 2;
      Head<Element>::numbers(row < rows ? x.words(row, column) : make_uint4(0, 0, 0, 0), values[j]);
    }
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      float scale = inverse[column + c];
      tile[(column + c) * TILE_PITCH + word] = Pair<E4M3>::pack(values[0][c] * scale, values[1][c] * scale) |
                                               u32(Pair<E4M3>::pack(values[2][c] * scale, values[3][c] * scale)) << 16;
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < COLUMNS * (WORDS / 4); i += THREADS) {
    int column = i / (WORDS / 4), word = i % (WORDS / 4) * 4;
    const u32 *from = tile + column * TILE_PITCH + word;
    *reinterpret_cast<uint4 *>(numbers + (long long)column * pitch + firstRow + 4 * word) = make_uint4(from[0], from[1], from[2], from[3]);
  }
}

template <class Config>
__device__ void quantizeAttention(const Params &p) {
  using Element = typename Config::Element;
  constexpr int D = Config::HEAD_DIM, DV = Config::V_DIM, PITCH = (D + 15) / 16 * 16;
  __shared__ float columns[D > DV ? D : DV];
  __shared__ u32 tile[DV * (TILE / 4 + 1)];
  followPreviousKernel();
  int block = blockIdx.x, queryBlocks = p.problems * p.queryTiles, keyBlocks = p.keyProblems * p.keyBlocks;
  if (block < queryBlocks) {
    int problem = block / p.queryTiles;
    quantizeQueries<Element, D>(Head<Element>(p.q, problem / p.heads, problem % p.heads), block % p.queryTiles * TILE, p.queries,
                                p.q8 + (long long)problem * p.queries * PITCH, p.qScale + (long long)problem * p.queries);
    return;
  }
  block -= queryBlocks;
  bool ofKeys = block < keyBlocks;
  block -= ofKeys ? 0 : keyBlocks;
  int perHead = ofKeys ? p.keyBlocks : p.valueTiles;
  int problem = block / perHead, part = block % perHead, batch = problem / p.keyHeads, head = problem % p.keyHeads;
  if (ofKeys) {
    for (int c = threadIdx.x; c < D; c += THREADS) {
      float sum = 0.0f;
      for (int chunk = 0; chunk < p.chunks; ++chunk)
        sum += p.means[((long long)problem * p.chunks + chunk) * D + c];
      columns[c] = sum / p.chunks;
    }
    __syncthreads();
    quantizeKeys<Element, D, Config::BLOCK_N>(Head<Element>(p.k, batch, head), part * Config::BLOCK_N, p.keys, columns,
                                              p.k8 + (long long)problem * p.keys * PITCH, p.kScale + 4 * (long long)block);
    return;
  }
  for (int c = threadIdx.x; c < DV; c += THREADS) {
    float top = kSmallest;
    for (int chunk = 0; chunk < p.chunks; ++chunk)
      top = maximum(top, p.tops[((long long)problem * p.chunks + chunk) * DV + c]);
    columns[c] = 448.0f / top;
    if (part == 0)
      p.vScale[(long long)problem * DV + c] = top / 448.0f;
  }
  __syncthreads();
  quantizeValues<Element, DV>(Head<Element>(p.v, batch, head), part * TILE, p.keys, p.keyPitch, columns, tile,
                              p.v8 + (long long)problem * DV * p.keyPitch);
}

}  // namespace ditc::attention_quantize
