// SPDX-License-Identifier: Apache-2.0
//
// Rowwise kernels: maps, norms, reductions, lookups and layout changes as one pass over memory. A generated unit spells
// out what is computed; here is how elements move and how threads meet.
//
//   rows      GROUP threads compute one row; the columns of the row are dealt out in chunks of up to 8 neighbours:
//             chunk j = k * GROUP + t belongs to thread t, which holds its chunks k = 0, 1, ... in registers between
//             the phases (statistics, then the outputs). GROUP is a power of two up to 32, several rows in a block, or
//             the block, one row.
//   flat      without statistics a thread computes one chunk of neighbouring output elements.
//
// Chunks are read and written by accesses of up to 16 bytes where the layout allows, and a permutation of the elements
// inside the accesses of a chunk (interleaved rotary embeddings) is free: pick<1, 0, 3, 2>(x).
//
// Shared memory: 512 bytes where a row is a block, else none; sums alternate between two places, so one barrier is
// enough for each. Registers: up to 8 per chunk and value that is kept; the emitter keeps at most 64 per value.
#pragma once

#include "common/scalars.cuh"
#include "common/tensor.cuh"

namespace ditc {

/// What code computes with: the compute type of the dialect, and bool for bool.
template <class Element>
struct ScalarOf {
  using Type = ComputeOf<Element>;
};
template <>
struct ScalarOf<bool> {
  using Type = bool;
};
template <class Element>
using Scalar = typename ScalarOf<Element>::Type;

/// N values of neighbouring positions.
template <class Value, int N>
struct Chunk {
  Value at[N];
  __device__ Value &operator[](int e) { return at[e]; }
  __device__ const Value &operator[](int e) const { return at[e]; }
};

/// The chunk of f(0), f(1), ...
template <int N, class F>
__device__ inline auto each(F f) {
  Chunk<decltype(f(0)), N> result;
#pragma unroll
  for (int e = 0; e < N; ++e)
    result[e] = f(e);
  return result;
}

/// x[LANES]...
template <int... LANES, class Value, int N>
__device__ inline Chunk<Value, sizeof...(LANES)> pick(const Chunk<Value, N> &x) {
  return {{x[LANES]...}};
}

/// Element e of b where bit e of MASK is set, else of a.
template <unsigned MASK, class Value, int N>
__device__ inline Chunk<Value, N> merge(const Chunk<Value, N> &a, const Chunk<Value, N> &b) {
  return each<N>([&](int e) { return MASK >> e & 1 ? b[e] : a[e]; });
}

// ---- memory -------------------------------------------------------------------------------------------------------

template <int BYTES>
struct Access;
template <>
struct Access<1> {
  using Type = unsigned char;
};
template <>
struct Access<2> {
  using Type = unsigned short;
};
template <>
struct Access<4> {
  using Type = unsigned;
};
template <>
struct Access<8> {
  using Type = uint2;
};
template <>
struct Access<16> {
  using Type = uint4;
};

/// One access, as its elements. The kernel does not write what it reads.
template <int BYTES, class Element>
__device__ inline Pack<Element, BYTES / sizeof(Element)> readOnly(const Element *p) {
  auto bits = __ldg(reinterpret_cast<const typename Access<BYTES>::Type *>(p));
  return __builtin_bit_cast(Pack<Element, BYTES / sizeof(Element)>, bits);
}

/// The element at p.
template <class Element>
__device__ inline Scalar<Element> load(const Element *p) {
  return static_cast<Scalar<Element>>(widen(readOnly<sizeof(Element)>(p).at[0]));
}

/// COUNT neighbouring elements by accesses of WIDTH elements; p is a multiple of WIDTH elements.
template <int COUNT, int WIDTH, class Element>
__device__ inline Chunk<Scalar<Element>, COUNT> load(const Element *p) {
  Chunk<Scalar<Element>, COUNT> result;
#pragma unroll
  for (int first = 0; first < COUNT; first += WIDTH) {
    auto part = readOnly<WIDTH * sizeof(Element)>(p + first);
    if constexpr (sizeof(Element) == 2 && sizeof(Scalar<Element>) == sizeof(float) && WIDTH > 1) {
      auto words = __builtin_bit_cast(Pack<unsigned, WIDTH / 2>, part);  // widening by pairs takes fewer instructions
#pragma unroll
      for (int i = 0; i < WIDTH / 2; ++i) {
        result[first + 2 * i] = Pair<Element>::low(words.at[i]);
        result[first + 2 * i + 1] = Pair<Element>::high(words.at[i]);
      }
    } else {
#pragma unroll
      for (int e = 0; e < WIDTH; ++e)
        result[first + e] = static_cast<Scalar<Element>>(widen(part.at[e]));
    }
  }
  return result;
}

/// The elements at p + OFFSETS...
template <long long... OFFSETS, class Element>
__device__ inline Chunk<Scalar<Element>, sizeof...(OFFSETS)> loadAt(const Element *p) {
  return {{load(p + OFFSETS)...}};
}

/// Rounds to the element type; integers wrap.
template <class Element, class Value>
__device__ inline void store(Element *p, Value value) {
  *p = narrow<Element>(value);
}

/// WIDTH elements from `first` on, as one access.
template <int WIDTH, class Element, class Value, int N>
__device__ inline auto packed(const Chunk<Value, N> &x, int first) {
  using Whole = typename Access<WIDTH * sizeof(Element)>::Type;
  if constexpr (sizeof(Element) == 2 && sizeof(Value) == sizeof(float) && WIDTH > 1) {  // two conversions at a time
    Pack<unsigned, WIDTH / 2> words;
#pragma unroll
    for (int i = 0; i < WIDTH / 2; ++i)
      words.at[i] = Pair<Element>::pack(x[first + 2 * i], x[first + 2 * i + 1]);
    return __builtin_bit_cast(Whole, words);
  } else {
    Pack<Element, WIDTH> elements;
#pragma unroll
    for (int e = 0; e < WIDTH; ++e)
      elements.at[e] = narrow<Element>(x[first + e]);
    return __builtin_bit_cast(Whole, elements);
  }
}

/// Neighbouring elements by accesses of WIDTH elements; p is a multiple of WIDTH elements.
template <int WIDTH, class Element, class Value, int N>
__device__ inline void store(Element *p, const Chunk<Value, N> &x) {
#pragma unroll
  for (int first = 0; first < N; first += WIDTH) {
    auto whole = packed<WIDTH, Element>(x, first);
    *reinterpret_cast<decltype(whole) *>(p + first) = whole;
  }
}

/// Element e at p + OFFSETS...
template <long long... OFFSETS, class Element, class Value, int N>
__device__ inline void storeAt(Element *p, const Chunk<Value, N> &x) {
  const long long offsets[] = {OFFSETS...};
#pragma unroll
  for (int e = 0; e < N; ++e)
    p[offsets[e]] = narrow<Element>(x[e]);
}

/// The value that the element type holds, where the roundings of the source graph are kept.
template <class Element, class Value>
__device__ inline Scalar<Element> rounded(Value value) {
  return static_cast<Scalar<Element>>(widen(narrow<Element>(value)));
}

// ---- reductions ---------------------------------------------------------------------------------------------------

struct Sum {
  __device__ static long long combine(long long a, long long b) { return addWrapping(a, b); }
  __device__ static float combine(float a, float b) { return a + b; }
  __device__ static double combine(double a, double b) { return a + b; }
};
struct Product {
  __device__ static long long combine(long long a, long long b) { return multiplyWrapping(a, b); }
  __device__ static float combine(float a, float b) { return a * b; }
  __device__ static double combine(double a, double b) { return a * b; }
};
/// NaN stays.
struct Max {
  template <class Value>
  __device__ static Value combine(Value a, Value b) {
    return isNan(a) || (!isNan(b) && a >= b) ? a : b;
  }
};
struct Min {
  template <class Value>
  __device__ static Value combine(Value a, Value b) {
    return isNan(a) || (!isNan(b) && a <= b) ? a : b;
  }
};
struct Any {
  __device__ static bool combine(bool a, bool b) { return a || b; }
};
struct All {
  __device__ static bool combine(bool a, bool b) { return a && b; }
};

/// All elements of a chunk, combined as a tree.
template <class Op, class Value, int N>
__device__ inline Value total(Chunk<Value, N> x) {
#pragma unroll
  for (int distance = N / 2; distance > 0; distance /= 2)
#pragma unroll
    for (int e = 0; e < distance; ++e)
      x[e] = Op::combine(x[e], x[e + distance]);
  return x[0];
}

template <class Value>
__device__ inline Value square(Value x) {
  return x * x;
}

__device__ inline bool fromNeighbour(unsigned mask, bool value, int distance) {
  return __shfl_xor_sync(mask, static_cast<int>(value), distance) != 0;
}
template <class Value>
__device__ inline Value fromNeighbour(unsigned mask, Value value, int distance) {
  return __shfl_xor_sync(mask, value, distance);
}

/// The values of GROUP threads of a warp combined, in all of them. Only the threads of the group need to be here.
template <class Op, int GROUP, class Value>
__device__ inline Value combineInWarp(Value value) {
  constexpr unsigned ALL = 0xffffffffu >> (32 - GROUP);
  const unsigned mask = ALL << (threadIdx.x % 32 / GROUP * GROUP);
#pragma unroll
  for (int distance = GROUP / 2; distance > 0; distance /= 2)
    value = Op::combine(value, fromNeighbour(mask, value, distance));
  return value;
}

/// The values of a block of GROUP threads combined, in all of them. Two uses in a row have different places.
template <class Op, int GROUP, class Value>
__device__ inline Value combineInBlock(Value value, double (&place)[32]) {
  static_assert(GROUP % 32 == 0, "a row is a whole block");
  Value *of = reinterpret_cast<Value *>(place);
  value = combineInWarp<Op, 32>(value);
  if (threadIdx.x % 32 == 0)
    of[threadIdx.x / 32] = value;
  __syncthreads();
  value = of[0];
#pragma unroll
  for (int warp = 1; warp < GROUP / 32; ++warp)
    value = Op::combine(value, of[warp]);
  return value;
}

}  // namespace ditc
