// SPDX-License-Identifier: Apache-2.0
//
// One bucket: imported, through the pipeline, planned for a target.
#pragma once

#include "compiler/CompileInputs.h"
#include "compiler/Pipeline.h"

#include "mlir/IR/OwningOpRef.h"

namespace ditc {

class BucketCompiler {
public:
  BucketCompiler(CompileState &state, const CompileInputs &inputs) : state(state), inputs(inputs) {}

  /// One bucket as a module, through the pipeline.
  mlir::OwningOpRef<mlir::ModuleOp> compile(const Model &model, const Bucket &bucket, const PhaseObserver &observe = {});
  /// A copy of the fused module, planned for a target.
  mlir::OwningOpRef<mlir::ModuleOp> plan(mlir::ModuleOp fused, const Bucket &bucket, const std::string &target);

  /// Of the buckets that were compiled, in order.
  const std::vector<std::map<std::string, PaddingProof>> &paddingProofs() const { return proofs; }

private:
  void markInvariantInputs(mlir::ModuleOp module);
  std::string dumpFolder(const Bucket &bucket) const;

  CompileState &state;
  const CompileInputs &inputs;
  std::vector<std::map<std::string, PaddingProof>> proofs;
};

/// Moves the kernels that `target` does not have yet.
void takeKernels(mlir::ModuleOp source, mlir::ModuleOp target);

} // namespace ditc
