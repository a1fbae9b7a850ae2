// SPDX-License-Identifier: Apache-2.0
//
// Convolutions on Hopper's copy engine and wgmma (templates/cuda/conv_sm90.cuh), and which these are: of those that could go to
// the tensor cores by mma.sync (codegen/cuda/conv/MmaConv.h), with operands that lie for it, the ones of a single
// group, and sizes that fill its larger tiles well enough to be faster.
#pragma once

#include "codegen/cuda/families/ConvProblem.h"

#include <array>
#include <optional>

namespace ditc {

/// A tile; `box` is that of its pixels along x, y and z.
struct HopperConvTiles {
  int64_t rows = 0, columns = 0;
  std::array<int64_t, 3> box = {1, 1, 1};
  bool channelRows = false;
  int64_t count = 0; ///< tiles of the problem
  double cycles = 0; ///< of the loops over k of the whole launch

  int64_t channelTile() const { return channelRows ? rows : columns; }
  int64_t stages() const;
  int64_t sharedBytes() const;
};

/// The best tiles; none where mma.sync is thought to be as fast, or the problem is none for this kernel.
std::optional<HopperConvTiles> hopperConvTiles(const ConvProblem &p, bool channelRows);

/// `alignment`: bytes to which the output is aligned.
mlir::FailureOr<CudaUnit> emitHopperConv(FamilyUnit &unit, const ConvProblem &p, const HopperConvTiles &tiles, int64_t alignment);

} // namespace ditc
