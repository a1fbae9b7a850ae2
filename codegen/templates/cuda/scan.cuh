// SPDX-License-Identifier: Apache-2.0
//
// Running sums and products along an axis.
//
//   out[a..., i, b...] = Σ or Π of in[a..., 0 … i, b...]      a warp per line, 32 elements a step: a scan over the lanes
//                                                            by doubling distances, on top of what came before
//
// Floats run in fp64 and are rounded when they are stored; integers wrap in 64 bits. Deterministic.
//
//   Config   Input, Output: Tensors of one rank; AXIS; PRODUCT (else a sum)
#pragma once

#include "common/tensor.cuh"

namespace ditc::scan {

constexpr int kThreads = 128;

/// What a running value of these elements is kept in.
template <class Compute>
struct Running {
  using Type = double;
};
template <>
struct Running<i64> {
  using Type = unsigned long long;
};

template <class Config>
__device__ void run(const ElementOf<typename Config::Input> *input, ElementOf<typename Config::Output> *out) {
  using Input = typename Config::Input;
  using Output = typename Config::Output;
  using Type = typename Running<ComputeOf<typename Output::Element>>::Type;
  constexpr Type IDENTITY = Config::PRODUCT ? 1 : 0;
  constexpr int SIZE = Input::size(Config::AXIS);
  auto combine = [](Type a, Type b) { return Config::PRODUCT ? a * b : a + b; };
  i64 line = (i64(blockIdx.x) * kThreads + threadIdx.x) / 32;
  int lane = threadIdx.x % 32;
  followPreviousKernel();
  if (line >= Input::template count<Config::AXIS>())
    return;

  input += Input::template offset<Config::AXIS>(line), out += Output::template offset<Config::AXIS>(line);
  Type before = IDENTITY;
  for (int first = 0; first < SIZE; first += 32) {
    int i = first + lane;
    Type value = i < SIZE ? Type(widen(input[i * Input::stride(Config::AXIS)])) : IDENTITY;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      Type left = __shfl_up_sync(0xffffffffu, value, distance);
      if (lane >= distance)
        value = combine(left, value);
    }
    value = combine(before, value);
    before = __shfl_sync(0xffffffffu, value, 31);
    if (i < SIZE)
      out[i * Output::stride(Config::AXIS)] = narrow<typename Output::Element>(value);
  }
}

}  // namespace ditc::scan
