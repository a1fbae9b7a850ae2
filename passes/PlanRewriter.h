// SPDX-License-Identifier: Apache-2.0
//
// What passes share that give launches of one family more buffers and launches beside them: what follows from a value that
// is the same in every step is made once, in the prepare part.
#pragma once

#include "passes/KernelTable.h"

namespace ditc {

class PlanRewriter {
public:
  PlanRewriter(plan::ProgramOp program, KernelTable &table);

  /// Calls `rewrite` for every launch of `family`, those of the prepare part first; it may erase the launch.
  void forEachLaunch(mlir::StringRef family, mlir::function_ref<void(plan::LaunchOp, plan::KernelOp)> rewrite);

protected:
  /// What a buffer of its own starts on, in bytes.
  static constexpr int64_t kAlignment = 16;

  static mlir::MemRefType typeOf(mlir::Value value) { return mlir::cast<mlir::MemRefType>(value.getType()); }
  bool isPrepared(plan::LaunchOp launch) { return launch->getParentOp() == prepare; }

  mlir::Value createBuffer(mlir::Location loc, mlir::ArrayRef<int64_t> shape, mlir::Type element, plan::Space space);
  /// `value` seen as `type`.
  mlir::Value createView(mlir::Location loc, mlir::MemRefType type, mlir::Value value);

  plan::LaunchOp createLaunch(mlir::Operation *before, const KernelSpec &spec, mlir::ArrayRef<mlir::Value> args);

  /// Where what follows from a value lies: what does not change between steps is made once.
  static plan::Space spaceBeside(mlir::Value value);
  /// In front of `reader`, or behind what makes its operand when the result is prepared.
  void createLaunchBefore(plan::LaunchOp reader, const KernelSpec &spec, mlir::ArrayRef<mlir::Value> args, plan::Space space);

  mlir::OpBuilder b;

private:
  KernelTable &table;
  plan::PrepareOp prepare;
  plan::StepOp step;
};

/// Kernels of a family that no launch uses any more.
void eraseUnusedKernels(mlir::ModuleOp module, mlir::StringRef family);

} // namespace ditc
