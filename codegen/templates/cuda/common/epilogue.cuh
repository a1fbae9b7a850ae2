// SPDX-License-Identifier: Apache-2.0
//
// What can happen to a tile of a matrix product between the accumulators and memory. An epilogue is a type: the template
// calls it once per chunk of COLUMNS columns with the values of one thread, which it changes in place.
//
//   struct Epilogue {
//     static constexpr int COLUMNS;         // columns that have to be seen together; a multiple of 8; just 16 with RESIDUAL
//     static constexpr bool RESIDUAL;       // wants a second tensor of the output's shape, fetched by the copy engine
//     template <class Place> __device__ void operator()(float (&x)[COLUMNS / 2], const Place &at) const;
//     …or, with RESIDUAL:  operator()(float (&x)[COLUMNS / 2], const u32 (&residual)[COLUMNS / 4], const Place &at)
//     …or, where the template's Config is GATED:  operator()(float (&x)[COLUMNS / 2], const float (&up)[COLUMNS / 2], const Place &at)
//                                           with the columns of the second factor at the same places
//   };
//
//   a thread's part of a chunk           columns at.column(i), at.column(i) + 1       i = 0 … COLUMNS/8 - 1
//     row at.row(0)                      x[4i + 0]  x[4i + 1]      residual[2i + 0] (a pair in one word)
//     row at.row(1), eight below         x[4i + 2]  x[4i + 3]      residual[2i + 1]
//
// The four threads of a quad hold all columns of their two rows, so a row statistic takes two shuffles.
#pragma once

#include "common/elements.cuh"
#include "common/special_functions.cuh"
#include "common/words.cuh"

namespace ditc {

/// Where a thread's part of a chunk lies. With TAIL, rows and columns past the end are clamped: what is computed for
/// them is never stored, but what is read for them has to exist.
template <bool TAIL>
struct Place {
  int batch, firstRow, firstColumn;  // of this thread's x[0]
  int rows, columns;                 // of the problem, per batch

  /// Rows end anywhere, whatever the columns do.
  __device__ int row(int half) const { return min(firstRow + 8 * half, rows - 1); }
  __device__ int column(int i) const {
    return TAIL ? min(firstColumn + 8 * i, columns - 2) : firstColumn + 8 * i;
  }
};

/// What another of the four threads gives; all of them take part. Volatile: exchanges that the compiler starts early hold
/// registers beside the accumulators, which spilled.
__device__ inline float ofQuad(float given, int thread) {
#ifdef __CUDA_ARCH__
  float taken;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1c1f, 0xffffffff;" : "=f"(taken) : "f"(given), "r"(thread));
  return taken;
#else
  return __shfl_sync(~0u, given, thread, 4);
#endif
}

// ---- activations --------------------------------------------------------------------------------------------------

/// x · sigmoid(2u). For bf16 the hardware's tanh (error 2^-11) lies below the rounding of the result; fp16 takes two
/// special functions instead of one.
template <class Element>
__device__ inline float timesSigmoid2(float x, float u) {
  return x * reciprocalApprox(1.f + exp2Approx(u * -2.885390082f));
}
template <>
__device__ inline float timesSigmoid2<BF16>(float x, float u) {
  float half = 0.5f * x;
  return fmaf(half, tanhApprox(u), half);
}

struct NoActivation {
  template <class Element>
  __device__ static float apply(float x) { return x; }
};
struct Silu {
  template <class Element>
  __device__ static float apply(float x) { return timesSigmoid2<Element>(x, 0.5f * x); }
};
struct GeluTanh {
  template <class Element>
  __device__ static float apply(float x) {
    return timesSigmoid2<Element>(x, x * fmaf(0.0356774081f, x * x, 0.7978845608f));
  }
};
struct GeluErf {
  template <class Element>
  __device__ static float apply(float x) {
    float half = 0.5f * x;
    return fmaf(half, erff(x * 0.7071067812f), half);
  }
};

/// x += bias along the columns; no bias is a null pointer.
template <class Element, int VALUES, class Place>
__device__ inline void addBias(float (&x)[VALUES], const Element *bias, const Place &at) {
  if (!bias)
    return;
#pragma unroll
  for (int i = 0; i < VALUES / 4; ++i) {
    float2 b = loadPair(bias + at.column(i));
    x[4 * i + 0] += b.x, x[4 * i + 1] += b.y, x[4 * i + 2] += b.x, x[4 * i + 3] += b.y;
  }
}

// ---- epilogues ----------------------------------------------------------------------------------------------------

/// out = activation(acc + bias)
template <class Element, class Activation = NoActivation, int WIDTH = 64>
struct Pointwise {
  static constexpr int COLUMNS = WIDTH;
  static constexpr bool RESIDUAL = false;
  const Element *bias;

  template <class Place>
  __device__ void operator()(float (&x)[COLUMNS / 2], const Place &at) const {
    addBias(x, bias, at);
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; ++i)
      x[i] = Activation::template apply<Element>(x[i]);
  }
};

/// out = residual + gate · (acc + bias), the gate per batch or per token; without a gate (null) it is 1.
template <class Element, bool PER_TOKEN = false>
struct GateResidual {
  static constexpr int COLUMNS = 16;
  static constexpr bool RESIDUAL = true;
  const Element *bias, *gate;
  int gateBatchStride, gateRowStride;

  template <class Place>
  __device__ void operator()(float (&x)[COLUMNS / 2], const u32 (&residual)[COLUMNS / 4], const Place &at) const {
    addBias(x, bias, at);
    if (gate) {
      const Element *batch = gate + at.batch * gateBatchStride;
      const Element *row0 = PER_TOKEN ? batch + at.row(0) * gateRowStride : batch;
      const Element *row1 = PER_TOKEN ? batch + at.row(1) * gateRowStride : batch;
#pragma unroll
      for (int i = 0; i < COLUMNS / 8; ++i) {
        float2 g0 = loadPair(row0 + at.column(i)), g1 = PER_TOKEN ? loadPair(row1 + at.column(i)) : g0;
        x[4 * i + 0] *= g0.x, x[4 * i + 1] *= g0.y, x[4 * i + 2] *= g1.x, x[4 * i + 3] *= g1.y;
      }
    }
#pragma unroll
    for (int i = 0; i < COLUMNS / 4; ++i) {
      x[2 * i + 0] += Pair<Element>::low(residual[i]);
      x[2 * i + 1] += Pair<Element>::high(residual[i]);
    }
  }
};

/// out = silu(gate) · up, where the template is GATED.
template <class Element, int WIDTH = 64>
struct SwiGlu {
  static constexpr int COLUMNS = WIDTH;
  static constexpr bool RESIDUAL = false;
  const Element *gateBias, *upBias;

  template <class Place>
  __device__ void operator()(float (&x)[COLUMNS / 2], const float (&up)[COLUMNS / 2], const Place &at) const {
    addBias(x, gateBias, at);
    float y[COLUMNS / 2];
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; ++i)
      y[i] = up[i];
    addBias(y, upBias, at);
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; ++i)
      x[i] = Silu::apply<Element>(x[i]) * y[i];
  }
};

/// A product of queries, keys and values side by side: RMS norm over each head and rotary embedding on the queries and
/// keys, nothing but the bias on the values.
///   INTERLEAVED: the pairs that rotate together are columns 2j, 2j + 1 of a head; else j, j + HEAD/2.
template <class Element, int HEAD, bool INTERLEAVED = true>
struct HeadNormRope {
  static constexpr int COLUMNS = HEAD;
  static constexpr bool RESIDUAL = false;
  const Element *bias, *queryScale, *keyScale;  // scales: one value per column of a head, or null for no norm
  const float2 *rotations;                      // [row][HEAD / 2]: cosine and sine, or null
  int columnsPerPart;                           // of the queries; the keys have as many
  float epsilon;

  template <class Place>
  __device__ void operator()(float (&x)[COLUMNS / 2], const Place &at) const {
    addBias(x, bias, at);
    int part = at.firstColumn / columnsPerPart;  // the same for all threads
    if (part >= 2)
      return;
    const Element *scale = part == 0 ? queryScale : keyScale;
    if (scale)
      normalise(x, scale, at);
    if (rotations)
      rotate(x, at);
  }

private:
  template <class Place>
  __device__ void normalise(float (&x)[COLUMNS / 2], const Element *scale, const Place &at) const {
    float sum0 = 0, sum1 = 0;
#pragma unroll
    for (int i = 0; i < HEAD / 8; ++i) {
      sum0 = fmaf(x[4 * i + 0], x[4 * i + 0], fmaf(x[4 * i + 1], x[4 * i + 1], sum0));
      sum1 = fmaf(x[4 * i + 2], x[4 * i + 2], fmaf(x[4 * i + 3], x[4 * i + 3], sum1));
    }
#pragma unroll
    for (int lanes = 1; lanes <= 2; lanes *= 2) {
      sum0 += __shfl_xor_sync(~0u, sum0, lanes);
      sum1 += __shfl_xor_sync(~0u, sum1, lanes);
    }
    float inverse0 = rsqrtf(fmaf(sum0, 1.f / HEAD, epsilon)), inverse1 = rsqrtf(fmaf(sum1, 1.f / HEAD, epsilon));
    const Element *columns = scale + at.firstColumn % HEAD;
#pragma unroll
    for (int i = 0; i < HEAD / 8; ++i) {
      float2 s = loadPair(columns + 8 * i);
      x[4 * i + 0] *= inverse0 * s.x, x[4 * i + 1] *= inverse0 * s.y;
      x[4 * i + 2] *= inverse1 * s.x, x[4 * i + 3] *= inverse1 * s.y;
    }
  }

  template <class Place>
  __device__ void rotate(float (&x)[COLUMNS / 2], const Place &at) const {
    int column = at.firstColumn % HEAD;  // 2 · the thread's position in its quad
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float2 *row = rotations + at.row(half) * (HEAD / 2);
      if constexpr (INTERLEAVED) {
#pragma unroll
        for (int i = 0; i < HEAD / 8; ++i)
          turn(x[4 * i + 2 * half], x[4 * i + 2 * half + 1], __ldg(row + column / 2 + 4 * i));
      } else if constexpr (HEAD % 16 != 0) {
        rotateAcrossQuad(x, row, half);
      } else {
#pragma unroll
        for (int i = 0; i < HEAD / 16; ++i)
#pragma unroll
          for (int e = 0; e < 2; ++e)
            turn(x[4 * i + 2 * half + e], x[4 * (i + HEAD / 16) + 2 * half + e], __ldg(row + column + 8 * i + e));
      }
    }
  }

  /// Halves that are no whole groups: columns of the lower two threads turn with those of the upper two, in groups i and
  /// i + APART where the lower ones' group is the first. Each group is followed by one that it reads.
  __device__ static void rotateAcrossQuad(float (&x)[COLUMNS / 2], const float2 *row, int half) {
    constexpr int GROUPS = HEAD / 8, APART = HEAD / 16;
    int quad = threadIdx.x % 4;
    float y[COLUMNS / 4];
#pragma unroll
    for (int n = 0; n < GROUPS; ++n) {
      int i = n * (GROUPS - APART) % GROUPS, forUpper = (i + GROUPS - APART) % GROUPS, forLower = (i + APART) % GROUPS;
      int column = 8 * i + 2 * quad;
      bool isFirst = column < HEAD / 2;
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float other = ofQuad(quad < 2 ? x[4 * forUpper + 2 * half + e] : x[4 * forLower + 2 * half + e], quad ^ 2);
        float2 rotation = __ldg(row + column + e - (isFirst ? 0 : HEAD / 2));
        y[2 * i + e] = fmaf(x[4 * i + 2 * half + e], rotation.x, (isFirst ? -other : other) * rotation.y);
      }
    }
#pragma unroll
    for (int i = 0; i < COLUMNS / 4; ++i)
      x[i / 2 * 4 + 2 * half + i % 2] = y[i];
  }

  __device__ static void turn(float &a, float &b, float2 rotation) {
    float first = a;
    a = fmaf(first, rotation.x, -b * rotation.y);
    b = fmaf(b, rotation.x, first * rotation.y);
  }
};

/// Columns before `split` go to one epilogue, the others to a second one, for example queries, keys and values beside
/// the first half of an MLP. `split` is a multiple of both widths.
template <class First, class Second>
struct ByColumns {
  static constexpr int COLUMNS = First::COLUMNS;
  static constexpr bool RESIDUAL = false;
  static_assert(First::COLUMNS == Second::COLUMNS, "both parts see chunks of one width");
  First first;
  Second second;
  int split;

  template <class Place>
  __device__ void operator()(float (&x)[COLUMNS / 2], const Place &at) const {
    if (at.firstColumn < split)
      first(x, at);
    else
      second(x, at);
  }
};

}  // namespace ditc
