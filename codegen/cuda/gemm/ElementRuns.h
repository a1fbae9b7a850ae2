// SPDX-License-Identifier: Apache-2.0
//
// Elements of a chunk that are computed alike become one loop over groups of eight columns; what differs between them
// must then be a place that moves by the same step from group to group.
#pragma once

#include "codegen/cuda/gemm/TilePull.h"

#include <array>

namespace ditc {

/// The two elements of a pair of columns in groups first … last - 1.
struct ElementRun {
  int64_t first = 0, last = 0;
  std::array<TileExprRef, 2> pair;  ///< in group `first`
  mlir::SmallVector<int64_t> steps; ///< of each place, from group to group
};

/// `element(i, e)`: what element e of group i's pair is computed from.
std::vector<ElementRun> runsOf(int64_t groups, llvm::function_ref<TileExprRef(int64_t i, int64_t e)> element);

} // namespace ditc
