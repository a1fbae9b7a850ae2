// SPDX-License-Identifier: Apache-2.0
//
// The loops of a kernel over several strided arguments, brought into their simplest form: dimensions of size 1
// dropped, the last argument walked in memory order, dimensions that every argument walks like one merged.
#pragma once

#include "codegen/templates/host/descriptors.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/SmallVector.h"

namespace ditc {

struct StridedLoop {
  int64_t size;
  llvm::SmallVector<int64_t, 4> strides; ///< in elements, one per argument
};
using StridedLoops = llvm::SmallVector<StridedLoop>;

/// Loops over dimensions `dims` of arguments that lie as `types` say. The sizes are the largest of each dimension;
/// an argument whose size there is 1 stays in place. Arguments of lower rank are aligned at the front.
StridedLoops loopsOver(llvm::ArrayRef<mlir::MemRefType> types, llvm::ArrayRef<int64_t> dims);

/// All dimensions in order.
llvm::SmallVector<int64_t> allDims(int64_t rank);

/// Drops loops of size 1 and merges neighbours, in the given order. An empty domain stays empty (one loop of size 0).
StridedLoops merged(StridedLoops loops);

/// The same in the order of the last argument's strides, largest first.
StridedLoops simplified(StridedLoops loops);

int64_t elementCount(const StridedLoops &loops);

/// As a part of a descriptor. At most kMaxLoops loops and kMaxOperands arguments.
Nest toNest(const StridedLoops &loops);

} // namespace ditc
