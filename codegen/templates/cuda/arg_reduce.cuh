// SPDX-License-Identifier: Apache-2.0
//
// The place of the largest or smallest element along an axis. The first of equal elements wins, and NaN is the extreme.
//
//   out[a..., 0, b...] = argmax_i in[a..., i, b...]       a warp per line, lanes take every 32nd element
//
//   Config   Input, Output: Tensors of one rank; AXIS; MAX (else the smallest)
#pragma once

#include "common/tensor.cuh"

namespace ditc::arg_reduce {

constexpr int kThreads = 128;

/// Does (a, i) win over (b, j)? A place of -1 has no element.
template <bool MAX, class Compute>
__device__ inline bool wins(Compute a, int i, Compute b, int j) {
  if (i < 0 || j < 0)
    return j < 0 && i >= 0;
  bool aIsNan = a != a, bIsNan = b != b;
  if (aIsNan || bIsNan)
    return aIsNan && (!bIsNan || i < j);
  return a == b ? i < j : MAX ? a > b : a < b;
}

template <class Config>
__device__ void run(const ElementOf<typename Config::Input> *input, ElementOf<typename Config::Output> *out) {
  using Input = typename Config::Input;
  using Output = typename Config::Output;
  using Compute = ComputeOf<typename Input::Element>;
  i64 line = (i64(blockIdx.x) * kThreads + threadIdx.x) / 32;
  int lane = threadIdx.x % 32;
  followPreviousKernel();
  if (line >= Input::template count<Config::AXIS>())
    return;

  input += Input::template offset<Config::AXIS>(line);
  Compute best = 0;
  int place = -1;
  for (int i = lane; i < Input::size(Config::AXIS); i += 32) {
    Compute candidate = widen(input[i * Input::stride(Config::AXIS)]);
    if (wins<Config::MAX>(candidate, i, best, place))
      best = candidate, place = i;
  }
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    Compute other = __shfl_xor_sync(0xffffffffu, best, lanes);
    int otherPlace = __shfl_xor_sync(0xffffffffu, place, lanes);
    if (wins<Config::MAX>(other, otherPlace, best, place))
      best = other, place = otherPlace;
  }
  if (lane == 0)
    out[Output::template offset<Config::AXIS>(line)] = place;
}

}  // namespace ditc::arg_reduce
