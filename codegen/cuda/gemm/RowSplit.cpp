// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/gemm/RowSplit.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace ditc {

/// Stride of the dimensions as one run; nothing when they are not.
static std::optional<int64_t> joinedStride(ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides) {
  std::optional<int64_t> inner;
  int64_t expected = 0;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1)
      continue;
    if (!inner)
      inner = strides[i];
    else if (strides[i] != expected)
      return std::nullopt;
    expected = strides[i] * sizes[i];
  }
  return inner.value_or(0);
}

std::optional<std::pair<int64_t, int64_t>> rowStrides(ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides, const RowSplit &split) {
  if (std::optional<int64_t> row = joinedStride(sizes, strides))
    return std::pair{*row, split.batches == 1 ? *row : *row * split.rows};
  int64_t batches = 1;
  for (size_t i = 0; i < sizes.size() && batches < split.batches; ++i) {
    batches *= sizes[i];
    auto batch = joinedStride(sizes.take_front(i + 1), strides.take_front(i + 1)), row = joinedStride(sizes.drop_front(i + 1), strides.drop_front(i + 1));
    if (batches == split.batches && batch && row)
      return std::pair{*row, *batch};
  }
  return std::nullopt;
}

SmallVector<RowRun> rowRuns(ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides) {
  SmallVector<RowRun> runs;
  for (auto [size, stride] : llvm::zip_equal(sizes, strides))
    if (size > 1 && !runs.empty() && runs.back().stride == stride * size)
      runs.back() = {runs.back().size * size, stride};
    else if (size > 1)
      runs.push_back({size, stride});
  return runs;
}

SmallVector<int64_t> batchCounts(ArrayRef<int64_t> sizes) {
  SmallVector<int64_t> counts;
  int64_t count = 1;
  for (int64_t size : sizes)
    if (size > 1)
      counts.push_back(count *= size);
  return counts;
}

} // namespace ditc
