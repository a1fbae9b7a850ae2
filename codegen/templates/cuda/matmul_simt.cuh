// SPDX-License-Identifier: Apache-2.0
//
// Matrix products that no BLAS takes: integers, and any strides.
//
//   out[b..., m, n] = Σ_k a[b..., m, k] · b[b..., k, n] (+ bias[n])
//
// A block computes a tile of 64 × 64 (common/tile_product.cuh). Floats are summed in fp32 (fp64 for double) in the order
// of k, integers wrap in 64 bits.
//
//   Config   Lhs [batch..., M, K], Rhs [batch..., K, N], Output [batch..., M, N]: Tensors of one rank, stride 0 where a
//            batch repeats; Bias [N] or void
#pragma once

#include "common/tile_product.cuh"

namespace ditc::matmul_simt {

template <class Config>
__device__ void run(const ElementOf<typename Config::Lhs> *lhs, const ElementOf<typename Config::Rhs> *rhs,
                    const ElementOf<typename Config::Bias> *bias, ElementOf<typename Config::Output> *out) {
  using Lhs = typename Config::Lhs;
  using Rhs = typename Config::Rhs;
  using Output = typename Config::Output;
  using Compute = ComputeOf<typename Lhs::Element>;
  constexpr int R = Output::RANK - 2, C = Output::RANK - 1;  // row and column dimension
  constexpr int M = Output::size(R), N = Output::size(C), K = Lhs::size(C);
  constexpr int ROW_TILES = divideUp(M, kTileRows), COLUMN_TILES = divideUp(N, kTileColumns);
  extern __shared__ SharedChunk sharedMemory[];
  int firstColumn = int(blockIdx.x % COLUMN_TILES) * kTileColumns;
  int firstRow = int(blockIdx.x / COLUMN_TILES % ROW_TILES) * kTileRows;
  i64 batch = blockIdx.x / COLUMN_TILES / ROW_TILES;
  followPreviousKernel();

  lhs += Lhs::template leadingOffset<R>(batch), rhs += Rhs::template leadingOffset<R>(batch);
  auto a = [&](int m, int k) {
    bool exists = firstRow + m < M && k < K;
    return exists ? Compute(widen(lhs[(firstRow + m) * Lhs::stride(R) + k * Lhs::stride(C)])) : Compute(0);
  };
  auto b = [&](int k, int n) {
    bool exists = k < K && firstColumn + n < N;
    return exists ? Compute(widen(rhs[k * Rhs::stride(R) + (firstColumn + n) * Rhs::stride(C)])) : Compute(0);
  };
  TileProduct<Compute> tile;
  tile.template accumulate<Lhs::stride(C) == 1, Rhs::stride(C) != 1>(sharedMemory, K, a, b);

  out += Output::template leadingOffset<R>(batch);
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      int row = firstRow + tile.row() + i, column = firstColumn + tile.column() + j;
      if (row >= M || column >= N)
        continue;
      Compute value = tile.sums[i][j];
      if constexpr (Operand<typename Config::Bias>::PRESENT)
        value += Compute(widen(bias[column * Config::Bias::stride(0)]));
      out[row * Output::stride(R) + column * Output::stride(C)] = narrow<typename Output::Element>(value);
    }
}

}  // namespace ditc::matmul_simt
