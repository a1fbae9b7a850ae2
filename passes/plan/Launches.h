// SPDX-License-Identifier: Apache-2.0
//
// Launches of kernels: what they are told of their arguments, and dense copies of those that a kernel does not take as
// they lie.
#pragma once

#include "passes/KernelTable.h"
#include "passes/plan/Placement.h"

namespace ditc {

class Launches {
public:
  Launches(ProgramBuilder &program, Placement &placement, KernelTable &kernels, const PlanTarget &target)
      : program(program), placement(placement), kernels(kernels), target(target) {}

  /// One launch that reads the operands as they lie and writes the results where they are wanted.
  void lower(mlir::Operation *op, KernelSpec spec);
  /// `args`: operands, then results. Null when there is nothing to write.
  plan::LaunchOp launch(mlir::Location loc, KernelSpec spec, mlir::ArrayRef<mlir::Value> args, bool prepared);
  /// A copy by a kernel.
  void copy(mlir::Location loc, mlir::Value from, mlir::Value to, bool prepared);
  /// The elements densely: `source` itself, or a copy, made once however often it is asked for (Q, K and V read one
  /// input). Buffers hold one tensor each, so what was copied does not change.
  mlir::Value makeContiguous(mlir::Location loc, mlir::Value source);

private:
  mlir::Value makeDense(mlir::Location loc, mlir::Value source);
  mlir::DictionaryAttr deviceConfig(const KernelSpec &spec, mlir::ArrayRef<mlir::Value> args, bool prepared);
  bool areTakenAsTheyLie(mlir::Operation *op, mlir::ArrayRef<mlir::Value> args) const;
  void makeOperandsDense(mlir::Operation *op, mlir::MutableArrayRef<mlir::Value> args);
  void makeResultsDense(mlir::Operation *op, mlir::MutableArrayRef<mlir::Value> args, bool prepared);

  ProgramBuilder &program;
  Placement &placement;
  KernelTable &kernels;
  const PlanTarget &target;
  llvm::DenseMap<std::pair<mlir::Operation *, mlir::Type>, mlir::Value> denseCopies; ///< buffer and layout -> its dense copy
};

} // namespace ditc
