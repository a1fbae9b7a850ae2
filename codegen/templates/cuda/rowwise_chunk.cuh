// SPDX-License-Identifier: Apache-2.0
//
// What a thread of a rowwise kernel computes with: a few neighbouring elements at a time, in registers.
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

}  // namespace ditc
