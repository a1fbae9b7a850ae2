// SPDX-License-Identifier: Apache-2.0
//
// What a target can launch, as passes see it. A fusion that the target does not take is split into parts that it does.
#pragma once

#include "dialects/dit/Dit.h"
#include "dialects/fusion/Reason.h"
#include "dialects/plan/Plan.h"

namespace ditc {

/// What an attention kernel wants beside its tensors; see passes/PlanAttention.cpp.
struct AttentionNeeds {
  /// Above 0: its boolean mask is to be packed, with one verdict for each tile of this many queries and keys.
  int64_t maskRows = 0, maskKeys = 0;
  /// Above 0: its additive mask, which all queries share, is to get one verdict for each so many keys.
  int64_t biasKeys = 0;
  /// Above 0: the last tiles are shared by all blocks. Scratch of so many numbers holds the parts (f32), and so many
  /// numbers of zeroed memory count them (i32).
  int64_t parts = 0, counters = 0;
  /// Above 0: its operands are to be 8-bit numbers, with scales of blocks of this many keys. Rows of values, turned around, are
  /// `keyPitch` keys long, and columns are surveyed in chunks of `chunkKeys`.
  int64_t quantizedKeys = 0, keyPitch = 0, chunkKeys = 0;
};

/// How a convolution's operands are to lie for the target's fastest kernel; see passes/PlanConvolutions.cpp.
struct ConvNeeds {
  /// Channels of a pixel, and of a tap of a filter, when laid out anew: those behind the last are zeros.
  int64_t inputChannels = 0, filterChannels = 0;
  /// What does not lie with its channels innermost.
  bool input = false, filter = false;
};

class TargetKernels {
public:
  virtual ~TargetKernels() = default;

  /// May all of `fusion` be one launch? Its family says by which kernel.
  virtual Verdict takes(dit::FusionOp fusion) const = 0;

  /// Should a gemm fusion that it takes, of products with nothing behind them, be a launch and not a call of the library?
  virtual bool prefersToLibrary(dit::FusionOp fusion) const;

  /// Is one call of the library for `count` products of one input worth a copy of their weights?
  virtual bool joiningPays(size_t count, int64_t weightBytes) const;

  /// Does the launch take its arguments, results last, as they lie? It does when they are dense.
  virtual bool takesLayouts(dit::FusionOp fusion, mlir::ArrayRef<mlir::MemRefType> types) const;

  /// Can the target's fastest kernel compute this one, of family "attention" as it was lowered? Where it cannot, another does.
  virtual Verdict takesFast(plan::KernelOp attention) const;

  /// Of a kernel of family "attention" as it was lowered. Nothing by default.
  virtual AttentionNeeds needsOf(plan::KernelOp attention) const;

  /// Of a kernel of family "conv" as it was lowered. Nothing by default.
  virtual ConvNeeds needsOfConv(plan::KernelOp convolution) const;
};

inline bool TargetKernels::prefersToLibrary(dit::FusionOp) const { return false; }
inline bool TargetKernels::joiningPays(size_t, int64_t) const { return true; }
inline bool TargetKernels::takesLayouts(dit::FusionOp, mlir::ArrayRef<mlir::MemRefType>) const { return true; }
inline Verdict TargetKernels::takesFast(plan::KernelOp) const { return {}; }
inline AttentionNeeds TargetKernels::needsOf(plan::KernelOp) const { return {}; }
inline ConvNeeds TargetKernels::needsOfConv(plan::KernelOp) const { return {}; }

} // namespace ditc
