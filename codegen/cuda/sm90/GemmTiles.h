// SPDX-License-Identifier: Apache-2.0
//
// Which tiles a product gets on Hopper, without a GPU: by how well they fill the multiprocessors, and the rates that were
// measured (tests/bench/results).
#pragma once

#include "codegen/cuda/gemm/GemmKernel.h"

namespace ditc {

/// A Config of gemm_sm90.cuh; see there.
struct GemmTiles {
  int m = 128, n = 192, stages = 4, consumers = 2, clusterM = 1, clusterN = 1;
  bool pingpong = true;
  int split = 1, group = 8, box = 64, boxes = 2;

  int threads() const { return 128 * (consumers + 1); }
  int cluster() const { return clusterM * clusterN * split; }
  uint32_t sharedBytes() const {
    int warps = 4 * consumers, barriers = 2 * stages + warps * boxes + (split > 1 ? warps : 0);
    return stages * 128 * (m + n) + warps * boxes * 32 * box + 8 * barriers + 1024;
  }
  /// Of a split product: the most columns that one warp finishes in a block, in chunks of so many that the epilogue sees together.
  int finishedBy(int chunk) const { return (m / (64 * consumers) * (n / chunk) + split - 1) / split * chunk; }
  /// Its sums are received in the stages.
  bool exchangeFits(int chunk) const { return split == 1 || 4 * consumers * (split - 1) * 64 * finishedBy(chunk) <= stages * 128 * (m + n); }
};

/// What a kernel asks of its tiles.
struct GemmNeeds {
  int64_t head = 0;                             ///< columns that the epilogue sees together (0: any); a tile has whole ones
  mlir::SmallVector<int64_t> weightColumns;     ///< of weights side by side; a tile's width divides them
  mlir::SmallVector<int64_t> outputBegins;      ///< columns that a store does not cross
  bool residual = false;                        ///< fetched by the copy engine during the k loop
  bool gated = false;                           ///< a tile's results are half of its columns
  bool loadsRows = false;                       ///< the epilogue loads what differs between rows, which takes registers

  static GemmNeeds of(const GemmKernel &kernel);
  /// Columns that the epilogue sees together, where boxes have so many.
  int chunk(int box) const { return head > 0 && !residual ? static_cast<int>(head) : box; }
};

/// All tiles that fit, the one that should be fastest first; never none.
std::vector<GemmTiles> gemmCandidates(mlir::ArrayRef<GemmSize> sizes, const GemmNeeds &needs);

/// Microseconds that the fastest of them should take on an H200.
double gemmMicroseconds(mlir::ArrayRef<GemmSize> sizes, const GemmNeeds &needs);

/// Cluster tiles of all products of a launch.
int64_t tileCount(mlir::ArrayRef<GemmSize> sizes, const GemmTiles &tiles);

/// The kernel with given tiles, which fit it.
mlir::FailureOr<CudaUnit> emitHopperGemm(plan::KernelOp kernel, const GemmKernel &gemm, const GemmTiles &tiles);

} // namespace ditc
