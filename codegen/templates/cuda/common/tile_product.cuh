// SPDX-License-Identifier: Apache-2.0
//
// A tile of a product whose operands are functions of their indices, in exact arithmetic of the compute type: what
// products of odd strides and convolutions run on.
//
//   out[m, n] = Σ_k a(m, k) · b(k, n)          tile 64 × 64, 16 k at a time, 256 threads of 4 × 4 sums
//
// Shared memory: 2 · 16 · 68 compute elements. Registers: 16 sums + 8 operands + 8 on their way from memory.
#pragma once

#include "common/tensor.cuh"

namespace ditc {

constexpr int kTileRows = 64, kTileColumns = 64, kTileDepth = 16, kTileThreads = 256;

/// The sums of one thread: rows and columns of the tile from row() and column() on.
template <class Compute>
struct TileProduct {
  using Four = Pack<Compute, 4>;
  Compute sums[4][4] = {};

  __device__ static int row() { return threadIdx.x / 16 * 4; }
  __device__ static int column() { return threadIdx.x % 16 * 4; }

  /// `a` and `b` give 0 outside. A_ALONG_K: neighbours in memory of a are along k; of b they are along n unless B_ALONG_K.
  template <bool A_ALONG_K, bool B_ALONG_K, class A, class B>
  __device__ void accumulate(SharedChunk *shared, int depth, A a, B b) {
    Four(*left)[17] = reinterpret_cast<Four(*)[17]>(shared), (*right)[17] = left + kTileDepth;
    Compute nextA[4], nextB[4];
    fetch<A_ALONG_K, B_ALONG_K>(nextA, nextB, 0, a, b);
    for (int first = 0; first < depth; first += kTileDepth) {
      __syncthreads();  // the step before has been read
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        int ka = depthOf<A_ALONG_K>(i), m = lineOf<A_ALONG_K>(i), kb = depthOf<B_ALONG_K>(i), n = lineOf<B_ALONG_K>(i);
        left[ka][m / 4].at[m % 4] = nextA[i];
        right[kb][n / 4].at[n % 4] = nextB[i];
      }
      __syncthreads();
      if (first + kTileDepth < depth)
        fetch<A_ALONG_K, B_ALONG_K>(nextA, nextB, first + kTileDepth, a, b);
#pragma unroll
      for (int k = 0; k < kTileDepth; ++k) {
        Four x = left[k][threadIdx.x / 16], y = right[k][threadIdx.x % 16];
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int j = 0; j < 4; ++j)
            sums[i][j] += x.at[i] * y.at[j];
      }
    }
  }

private:
  /// Which k, and which row or column, a thread fetches as its element i.
  template <bool ALONG_K>
  __device__ static int depthOf(int i) {
    int element = threadIdx.x + kTileThreads * i;
    return ALONG_K ? element % kTileDepth : element / kTileRows;
  }
  template <bool ALONG_K>
  __device__ static int lineOf(int i) {
    int element = threadIdx.x + kTileThreads * i;
    return ALONG_K ? element / kTileDepth : element % kTileRows;
  }

  template <bool A_ALONG_K, bool B_ALONG_K, class A, class B>
  __device__ static void fetch(Compute (&nextA)[4], Compute (&nextB)[4], int first, A a, B b) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      nextA[i] = a(lineOf<A_ALONG_K>(i), first + depthOf<A_ALONG_K>(i));
      nextB[i] = b(first + depthOf<B_ALONG_K>(i), lineOf<B_ALONG_K>(i));
    }
  }
};

}  // namespace ditc
