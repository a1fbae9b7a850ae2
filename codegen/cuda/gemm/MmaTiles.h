// SPDX-License-Identifier: Apache-2.0
//
// Which tiles a product gets in gemm_mma.cuh, without a GPU: by how well they fill the multiprocessors.
#pragma once

#include "codegen/cuda/gemm/GemmKernel.h"

namespace ditc {

/// A Config of gemm_mma.cuh; see there.
struct MmaTiles {
  int m = 128, n = 128;
  int k = 32; ///< of 16-bit values; twice as many of e4m3
  int stages = 3, warpsM = 2, warpsN = 2;
  int group = 8;

  int threads() const { return 32 * warpsM * warpsN; }
  uint32_t stageBytes() const { return 2 * k * (m + n); }
  uint32_t sharedBytes() const { return stages * stageBytes(); }
};

/// Columns of the product that a pointwise epilogue sees together.
constexpr int kMmaChunk = 64;
/// Columns of the product that the epilogue of a kernel sees together.
inline int64_t mmaColumns(const GemmKernel &gemm) { return gemm.epilogue().columns > 0 ? gemm.epilogue().columns : kMmaChunk; }

/// All tiles that fit, the one that should be fastest first; never none. `columns`: what the epilogue sees together, a
/// divisor of a warp's columns. `multiples`: columns that a tile's width divides.
std::vector<MmaTiles> mmaCandidates(const CudaArch &arch, mlir::ArrayRef<GemmSize> sizes, int64_t columns, mlir::ArrayRef<int64_t> multiples);
/// The first of them.
MmaTiles chooseMmaTiles(const CudaArch &arch, mlir::ArrayRef<GemmSize> sizes, int64_t columns, mlir::ArrayRef<int64_t> multiples);

/// Tiles of all products of a launch.
int64_t tileCount(mlir::ArrayRef<GemmSize> sizes, const MmaTiles &tiles);

} // namespace ditc
