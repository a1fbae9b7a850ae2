// SPDX-License-Identifier: Apache-2.0
//
// A plan.kernel of family "attention" as the Hopper templates see it: whether they can read it, which of them computes
// it, and with which tiles. Passes ask before (what the launch needs), the emitters afterwards, and get the same answer.
#pragma once

#include "codegen/AttentionOptions.h"
#include "codegen/cuda/sm90/Hopper.h"
#include "dialects/fusion/TargetKernels.h"

namespace ditc {

/// How the mask is given: packed bits, a bias that all rows share, a bias for each row.
enum class AttentionMask { None, Bits, Columns, Rows };

/// The kernel's arguments and sizes, read once. Operands that PlanAttention has quantised are q (batch, head, query, column)
/// and k (batch, key head, key, column) of int8, v (batch, key head, column, key) of e4m3 with keys filled up, and behind the
/// mask the scales of rows of q, of keys and of v's columns.
struct AttentionProblem {
  explicit AttentionProblem(plan::KernelOp kernel);

  mlir::MemRefType type(unsigned i) const { return kernel.getArgType(i); }
  unsigned outIndex() const { return kernel.getNumArgs() - 1; }
  /// Of the log-sum-exp, where that is wanted.
  unsigned sumsIndex() const { return outIndex() - 1 - (sharedTiles ? 2 : 0); }
  /// Of the three scales of quantised operands.
  unsigned scalesIndex() const { return 3 + options.hasMask + (packedMask || judgedMask); }
  int64_t alignment(unsigned i) const;
  /// 0 where the mask repeats.
  int64_t maskStride(unsigned dim) const;
  /// Rows that lie in pieces of 16 bytes, the types and sizes of the templates, and a mask that they know. A boolean
  /// mask counts when it is packed, or will be.
  Verdict verdict() const;
  bool fits() const { return static_cast<bool>(verdict()); }

  mutable plan::KernelOp kernel; ///< MLIR's accessors are not const
  AttentionOptions options;
  bool packedMask = false, judgedMask = false, sharedTiles = false;
  bool isQuantized = false; ///< its operands are
  AttentionMask mask = AttentionMask::None;
  int64_t batch, heads, keyHeads, queries, keys, headDim, valueDim;
  /// Its operands are 8-bit numbers, or will be.
  bool quantizes() const;
  /// Multiplications and additions of both products, without a mask.
  double flop() const { return 2.0 * static_cast<double>(batch * heads * queries) * static_cast<double>(keys * (headDim + valueDim)); }

private:
  bool canCopy(unsigned arg) const;
  bool typesFit() const;
  bool maskFits() const;
};

/// Config of attention_sm90.cuh. Panels in columns of 16 bits.
struct AttentionTiles {
  int consumers, blockN, qkPanel, vPanel, stages;
  bool quantized = false;
  int64_t rows() const { return 64 * consumers; }
  uint32_t threads() const { return 128 * (consumers + 1); }
  uint32_t sharedBytes(const AttentionProblem &problem) const;
};
AttentionTiles attentionTilesFor(const AttentionProblem &problem);

/// How many of the last tiles all blocks share; 0 when it does not pay or the mask makes tiles uneven.
int64_t attentionSharedTiles(const AttentionProblem &problem, const AttentionTiles &tiles);

/// Config of attention_small.cuh.
struct SmallAttentionTiles {
  int segment, packHeads, blockN, panel, stages, blocks;
  int packed() const { return 64 / segment; }
  uint32_t sharedBytes(const AttentionProblem &problem) const;
};
/// Nothing when the problem is for the large kernel.
std::optional<SmallAttentionTiles> smallAttentionTilesFor(const AttentionProblem &problem);

/// What PlanAttention has to add.
AttentionNeeds hopperAttentionNeeds(plan::KernelOp kernel);

} // namespace ditc
