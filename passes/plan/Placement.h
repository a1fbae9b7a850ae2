// SPDX-License-Identifier: Apache-2.0
//
// Where results are written: into an output, into their place in a concat, or in the order of dimensions to which their
// reader permutes them. A copy is saved wherever the operation that computes a tensor can write it as it is wanted.
#pragma once

#include "passes/plan/ProgramBuilder.h"

namespace ditc {

class Placement {
public:
  /// Makes the outputs of `function`.
  Placement(mlir::func::FuncOp function, ProgramBuilder &program, bool device);

  /// Memory for a result that is about to be computed.
  mlir::Value allocate(mlir::Location loc, mlir::Value tensor, bool prepared);
  /// The memory of a concat in which a part has been placed; else null.
  mlir::Value concatMemoryOf(dit::ConcatOp concat) const { return concatMemory.lookup(concat); }
  /// Where the dense form of a permuted tensor belongs that is returned in another shape; else null.
  mlir::Value denseDestination(mlir::Value tensor);
  /// The output buffers in order.
  mlir::ArrayRef<mlir::Value> outputBuffers() const { return outputs; }

private:
  mlir::Value computedValue(mlir::Value value) const;
  mlir::Value denseView(mlir::Location loc, mlir::Value buffer, mlir::Value tensor);
  mlir::Value placeForReader(mlir::Location loc, mlir::Value tensor);
  mlir::Value placeLikeInput(mlir::Value tensor);
  mlir::Value placeInConcat(dit::ConcatOp concat, unsigned index);
  mlir::Value memoryForConcat(dit::ConcatOp concat);
  mlir::Value createConcatBuffer(dit::ConcatOp concat);

  ProgramBuilder &program;
  bool device; ///< kernels write any strides
  mlir::SmallVector<mlir::Value> outputs;
  llvm::DenseMap<mlir::Value, mlir::Value> destinations;       ///< returned tensor -> the output that it is written to
  llvm::DenseMap<mlir::Value, mlir::Value> returnedViews;      ///< permuted tensor -> the output that has its elements in order
  llvm::DenseMap<mlir::Operation *, mlir::Value> concatMemory; ///< concat -> its memory, once a part has been placed in it
};

} // namespace ditc
