// SPDX-License-Identifier: Apache-2.0
//
// A plan.kernel of family "conv", (input, filter, [bias,] output), as the emitters of convolutions read it: all of three
// spatial dimensions, missing ones of size 1 in front.
#pragma once

#include "codegen/cuda/families/FamilyUnit.h"

namespace ditc {

struct ConvProblem {
  mlir::MemRefType input, filter, output; ///< rank 5
  mlir::SmallVector<int64_t> steps, low, dilations; ///< of three spatial dimensions
  int64_t groups = 1;
  bool hasBias = false;

  /// What is wrong is an error of the reader.
  static ConvProblem read(KernelReader &r);

  unsigned outputArg() const { return 2 + hasBias; }
  int64_t channels() const { return filter.getDimSize(1); }               ///< of a group
  int64_t outChannels() const { return filter.getDimSize(0) / groups; }   ///< of a group
  int64_t depth() const { return mlir::ShapedType::getNumElements(filter.getShape().drop_front()); }
  int64_t positions() const { return mlir::ShapedType::getNumElements(output.getShape().take_back(3)); }

  /// The lines of Config that say what is computed.
  void configure(FamilyUnit &unit) const;
  mlir::FailureOr<CudaUnit> finish(FamilyUnit &unit, llvm::StringRef header, llvm::StringRef space, int64_t blocks, uint32_t threads, uint32_t sharedBytes) const;
};

/// [N, C, spatial...] with dimensions of size 1 between C and the spatial ones.
mlir::MemRefType withThreeSpatial(mlir::MemRefType type);

/// How many neighbouring positions (of the last three dimensions of five) lie one element apart and, counted from the first,
/// aligned to as many elements: 1, 2, 4 or 8. `alignment`: bytes to which element 0 is aligned.
int64_t positionsTogether(mlir::MemRefType type, int64_t alignment);
/// The same of positions along x, counted from the start of any row; they divide its length.
int64_t rowTogether(mlir::MemRefType type, int64_t alignment);
/// The same of channels.
int64_t channelsTogether(mlir::MemRefType type, int64_t count, int64_t alignment);

} // namespace ditc
