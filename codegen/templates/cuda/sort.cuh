// SPDX-License-Identifier: Apache-2.0
//
// Stable sort along an axis: the values, and where they came from. NaN is larger than every number.
//
//   in shared memory   one block per line of up to 4096 elements: a bitonic network over pairs (key, place); places make
//                      every pair different, which makes it stable
//   by rank            longer lines: a thread counts the elements that come before its own, n² comparisons, the line
//                      passing through shared memory; no scratch memory is needed
//
//   Config   Input, Values, Indices: Tensors of one rank; AXIS; DESCENDING; SIZE: a power of two that holds the line, or 0
//            for sorting by rank
//
//   shared memory  SIZE · (key + 4) bytes; 1 KB · key by rank
#pragma once

#include "common/tensor.cuh"

namespace ditc::sort {

constexpr int kThreads = 256;

template <class Config>
struct Layout : Config {
  using Input = typename Config::Input;
  using Element = typename Input::Element;
  using Compute = ComputeOf<Element>;
  static constexpr int LENGTH = Input::size(Config::AXIS);

  /// Does (a, place i) come before (b, place j)? Places past the line come last.
  __device__ static bool isBefore(Compute a, int i, Compute b, int j) {
    if (i >= LENGTH || j >= LENGTH)
      return i < j;
    Compute low = Config::DESCENDING ? b : a, high = Config::DESCENDING ? a : b;
    bool below = low < high || (low == low && high != high), above = high < low || (high == high && low != low);
    return below || (!above && i < j);
  }
};

template <class L>
__device__ void sortShared(const ElementOf<typename L::Input> *input, ElementOf<typename L::Values> *values,
                           ElementOf<typename L::Indices> *indices) {
  using Compute = typename L::Compute;
  extern __shared__ SharedChunk sharedMemory[];
  auto *keys = reinterpret_cast<Compute *>(sharedMemory);
  auto *places = reinterpret_cast<int *>(keys + L::SIZE);
  for (int i = threadIdx.x; i < L::SIZE; i += kThreads) {
    keys[i] = i < L::LENGTH ? widen(input[i * L::Input::stride(L::AXIS)]) : Compute(0);
    places[i] = i;
  }
  for (int run = 2; run <= L::SIZE; run *= 2)
    for (int distance = run / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (int pair = threadIdx.x; pair < L::SIZE / 2; pair += kThreads) {
        int i = pair / distance * distance * 2 + pair % distance, j = i + distance;
        bool ascending = (i & run) == 0;
        if (L::isBefore(keys[j], places[j], keys[i], places[i]) == ascending) {
          Compute key = keys[i];
          int place = places[i];
          keys[i] = keys[j], places[i] = places[j];
          keys[j] = key, places[j] = place;
        }
      }
    }
  __syncthreads();
  for (int i = threadIdx.x; i < L::LENGTH; i += kThreads) {
    values[i * L::Values::stride(L::AXIS)] = input[places[i] * L::Input::stride(L::AXIS)];
    indices[i * L::Indices::stride(L::AXIS)] = places[i];
  }
}

/// The elements first … first + kThreads - 1 of a line.
template <class L>
__device__ void sortByRank(const ElementOf<typename L::Input> *input, ElementOf<typename L::Values> *values,
                           ElementOf<typename L::Indices> *indices, int first) {
  using Compute = typename L::Compute;
  extern __shared__ SharedChunk sharedMemory[];
  auto *keys = reinterpret_cast<Compute *>(sharedMemory);
  int own = first + threadIdx.x, rank = 0;
  Compute key = own < L::LENGTH ? widen(input[own * L::Input::stride(L::AXIS)]) : Compute(0);
  for (int start = 0; start < L::LENGTH; start += kThreads) {
    int other = start + threadIdx.x;
    __syncthreads();
    keys[threadIdx.x] = other < L::LENGTH ? widen(input[other * L::Input::stride(L::AXIS)]) : Compute(0);
    __syncthreads();
    for (int i = 0; i < min(kThreads, L::LENGTH - start); ++i)
      rank += L::isBefore(keys[i], start + i, key, own);
  }
  if (own < L::LENGTH) {
    values[rank * L::Values::stride(L::AXIS)] = input[own * L::Input::stride(L::AXIS)];
    indices[rank * L::Indices::stride(L::AXIS)] = own;
  }
}

template <class Config>
__device__ void run(const ElementOf<typename Config::Input> *input, ElementOf<typename Config::Values> *values,
                    ElementOf<typename Config::Indices> *indices) {
  using L = Layout<Config>;
  constexpr int BLOCKS = Config::SIZE > 0 ? 1 : int(divideUp(L::LENGTH, kThreads));  // of a line
  i64 line = blockIdx.x / BLOCKS;
  followPreviousKernel();
  input += L::Input::template offset<Config::AXIS>(line);
  values += L::Values::template offset<Config::AXIS>(line);
  indices += L::Indices::template offset<Config::AXIS>(line);
  if constexpr (Config::SIZE > 0)
    sortShared<L>(input, values, indices);
  else
    sortByRank<L>(input, values, indices, int(blockIdx.x % BLOCKS) * kThreads);
}

}  // namespace ditc::sort
