// SPDX-License-Identifier: Apache-2.0
//
// Rows of a product as the templates address them: all in one batch with one stride, or in batches with two. Tensors
// spell rows by several dimensions, and need not all have the same.
#pragma once

#include "mlir/Support/LLVM.h"

#include <cstdint>
#include <optional>
#include <utility>

namespace ditc {

/// `rows` are those of a batch.
struct RowSplit {
  int64_t batches = 1, rows = 1;
  bool divides = false; ///< what epilogues load may lie in any runs: they divide the row by their lengths
};

/// Row dimensions that have one stride.
struct RowRun {
  int64_t size = 1, stride = 0;
};

/// Element strides of rows and of batches, over row dimensions of these sizes and strides. With one batch both are the
/// same. Nothing when the dimensions are no such runs.
std::optional<std::pair<int64_t, int64_t>> rowStrides(mlir::ArrayRef<int64_t> sizes, mlir::ArrayRef<int64_t> strides, const RowSplit &split);

/// The dimensions as few runs, outermost first.
mlir::SmallVector<RowRun> rowRuns(mlir::ArrayRef<int64_t> sizes, mlir::ArrayRef<int64_t> strides);

/// Numbers of batches, above 1, into which the dimensions come apart.
mlir::SmallVector<int64_t> batchCounts(mlir::ArrayRef<int64_t> sizes);

} // namespace ditc
