// SPDX-License-Identifier: Apache-2.0
//
// Loop nests over strided arguments: collecting and merging.
#include "codegen/host/StridedLoops.h"

#include "dialects/plan/Plan.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

namespace ditc {

llvm::SmallVector<int64_t> allDims(int64_t rank) { return llvm::to_vector(llvm::seq<int64_t>(0, rank)); }

StridedLoops loopsOver(llvm::ArrayRef<mlir::MemRefType> types, llvm::ArrayRef<int64_t> dims) {
  StridedLoops loops;
  llvm::SmallVector<plan::Layout> layouts;
  for (mlir::MemRefType type : types)
    layouts.push_back(plan::layoutOf(type));
  for (int64_t dim : dims) {
    StridedLoop loop{1, {}};
    for (auto [type, layout] : llvm::zip(types, layouts)) {
      int64_t size = type.getDimSize(dim);
      if (size != 1)
        loop.size = size;
      loop.strides.push_back(size == 1 ? 0 : layout.strides[dim]);
    }
    loops.push_back(loop);
  }
  return loops;
}

int64_t elementCount(const StridedLoops &loops) {
  int64_t count = 1;
  for (const StridedLoop &loop : loops)
    count *= loop.size;
  return count;
}

/// Sorts before: larger steps of the last argument, then of those before it.
static bool walksSlower(const StridedLoop &a, const StridedLoop &b) {
  for (size_t i = a.strides.size(); i-- > 0;)
    if (a.strides[i] != b.strides[i])
      return a.strides[i] > b.strides[i];
  return a.size > b.size;
}

static bool mergeable(const StridedLoop &outer, const StridedLoop &inner) {
  for (auto [outerStride, innerStride] : llvm::zip(outer.strides, inner.strides))
    if (outerStride != innerStride * inner.size)
      return false;
  return true;
}

StridedLoops merged(StridedLoops loops) {
  for (const StridedLoop &loop : loops)
    if (loop.size == 0)
      return {loop};
  llvm::erase_if(loops, [](const StridedLoop &loop) { return loop.size == 1; });
  StridedLoops result;
  for (const StridedLoop &loop : loops) {
    if (!result.empty() && mergeable(result.back(), loop))
      result.back() = {result.back().size * loop.size, loop.strides};
    else
      result.push_back(loop);
  }
  return result;
}

StridedLoops simplified(StridedLoops loops) {
  llvm::erase_if(loops, [](const StridedLoop &loop) { return loop.size == 1; });
  llvm::sort(loops, walksSlower);
  return merged(std::move(loops));
}

Nest toNest(const StridedLoops &loops) {
  Nest nest{};
  nest.rank = static_cast<int64_t>(loops.size());
  for (auto [d, loop] : llvm::enumerate(loops)) {
    nest.size[d] = loop.size;
    llvm::copy(loop.strides, nest.stride[d]);
  }
  return nest;
}

} // namespace ditc
