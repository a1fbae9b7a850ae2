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
  int group = 8, box = 64, boxes = 2;

  int threads() const { return 128 * (consumers + 1); }
  uint32_t sharedBytes() const {
    int warps = 4 * consumers;
    return stages * 128 * (m + n) + warps * boxes * 32 * box + 8 * (2 * stages + warps * boxes) + 1024;
  }
};

/// `head`: columns that an epilogue sees together (0: any), of which a tile's width is a multiple. `multiples`: columns that
/// the width divides.
GemmTiles chooseGemmTiles(mlir::ArrayRef<GemmSize> sizes, int64_t head, mlir::ArrayRef<int64_t> multiples, bool residual);

/// Cluster tiles of all products of a launch.
int64_t tileCount(mlir::ArrayRef<GemmSize> sizes, const GemmTiles &tiles);

} // namespace ditc
