// SPDX-License-Identifier: Apache-2.0
//
// Rowwise kernels of the operations that stand around products and attentions: which of them are one launch, and which
// views stay outside, where they cost nothing. Where the target has no such kernel, the operations stay as they are.
#pragma once

#include "dialects/fusion/TargetKernels.h"

namespace ditc {

class RowwiseGroups {
public:
  RowwiseGroups(mlir::OpBuilder &b, const TargetKernels &kernels) : b(b), kernels(kernels) {}

  /// What stands before or behind a product, attention or convolution becomes one rowwise kernel before `next`, but for
  /// views that others read.
  void group(mlir::ArrayRef<mlir::Operation *> ops, mlir::Operation *next);
  /// A concat whose parts one kernel computes (the halves of a rotation, even and odd columns) is written by it whole:
  /// each part in its place would be scattered accesses.
  void absorb(dit::ConcatOp concat);
  /// A kernel of one operation.
  void wrap(mlir::Operation *op);
  /// A kernel of maps that stands alone, and the rowwise kernel that reads its result first, become one launch, which stores that
  /// result where others read it too: those are behind it.
  void joinReader(dit::FusionOp maps);

private:
  dit::FusionOp fuse(mlir::ArrayRef<mlir::Operation *> ops, mlir::Operation *next);

  mlir::OpBuilder &b;
  const TargetKernels &kernels;
};

} // namespace ditc
