// SPDX-License-Identifier: Apache-2.0
//
// Folds repeated blocks: of 57 blocks with two kinds of code the report shows two. Blocks are the elements of
// a module list whose sequences of kernels are equal up to the index. Works on plain structs.
#pragma once

#include "compiler/report/Graph.h"

namespace ditc {

/// Kernels that are one entry of the report.
struct FoldedKernel {
  std::vector<size_t> members; ///< positions in GraphRecord::kernels; the first one represents them
  int block = -1;              ///< position in Folded::blocks, or -1
};

struct FoldedBlock {
  std::string list;             ///< "transformer_blocks"
  std::vector<int64_t> indices; ///< elements of the list that are equal
  std::vector<size_t> kernels;  ///< positions in Folded::kernels, in order of launches
};

struct Folded {
  std::vector<FoldedKernel> kernels; ///< in order of their first launch
  std::vector<FoldedBlock> blocks;
  std::vector<size_t> entryOf;       ///< per kernel of the graph: its position in `kernels`
};

/// Sets `home` of every kernel that belongs to a block.
void assignHomes(GraphRecord &graph);

/// Text that is equal for equal kernels of different blocks.
std::string signatureOf(const KernelRecord &kernel);

Folded foldBlocks(const GraphRecord &graph);

} // namespace ditc
