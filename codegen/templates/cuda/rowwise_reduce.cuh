// SPDX-License-Identifier: Apache-2.0
//
// Statistics of rows: what elements of a chunk, threads of a warp and threads of a block are combined by, always in the
// same order. A block's combination takes 256 bytes of shared memory, one barrier, and a place that the one before did
// not use.
#pragma once

#include "rowwise_chunk.cuh"

namespace ditc {

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
/// NaN stays; of floats, one instruction.
struct Max {
  template <class Value>
  __device__ static Value combine(Value a, Value b) {
    return a >= b ? a : b;
  }
  __device__ static float combine(float a, float b) { return maximum(a, b); }
  __device__ static double combine(double a, double b) { return maximum(a, b); }
};
struct Min {
  template <class Value>
  __device__ static Value combine(Value a, Value b) {
    return a <= b ? a : b;
  }
  __device__ static float combine(float a, float b) { return minimum(a, b); }
  __device__ static double combine(double a, double b) { return minimum(a, b); }
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

/// Mean of some values, and the sum of their squared distances from it.
struct Moments {
  float mean, squares;
};

/// Of `count` values and as many others (Chan, Golub and LeVeque, 1979): no large sums that nearly cancel.
__device__ inline Moments joined(Moments a, Moments b, float count) {
  float apart = b.mean - a.mean;
  return {0.5f * (a.mean + b.mean), a.squares + b.squares + apart * apart * (0.5f * count)};
}

/// The moments of GROUP threads of a warp, of COUNT values each, in all of them.
template <int GROUP, int COUNT>
__device__ inline Moments momentsInWarp(Moments own) {
  constexpr unsigned ALL = 0xffffffffu >> (32 - GROUP);
  const unsigned mask = ALL << (threadIdx.x % 32 / GROUP * GROUP);
#pragma unroll
  for (int distance = 1; distance < GROUP; distance *= 2)
    own = joined(own, {fromNeighbour(mask, own.mean, distance), fromNeighbour(mask, own.squares, distance)},
                 COUNT * distance);
  return own;
}

/// The moments of a block of GROUP threads, of COUNT values each, in all of them.
template <int GROUP, int COUNT>
__device__ inline Moments momentsInBlock(Moments own, double (&place)[32]) {
  static_assert(GROUP % 32 == 0, "a row is a whole block");
  Moments *of = reinterpret_cast<Moments *>(place);
  own = momentsInWarp<32, COUNT>(own);
  if (threadIdx.x % 32 == 0)
    of[threadIdx.x / 32] = own;
  __syncthreads();
  constexpr int WARPS = GROUP / 32;
  if constexpr (WARPS >= 8 && (WARPS & (WARPS - 1)) == 0)  // one after another would take longer
    return momentsInWarp<WARPS, 32 * COUNT>(of[threadIdx.x % WARPS]);
  Moments all = of[0];
#pragma unroll
  for (int warp = 1; warp < WARPS; ++warp) {  // warps so far, and one more
    float apart = of[warp].mean - all.mean;
    all.mean += apart * (1.f / (warp + 1));
    all.squares += of[warp].squares + apart * apart * (32.f * COUNT * warp / (warp + 1));
  }
  return all;
}

}  // namespace ditc
