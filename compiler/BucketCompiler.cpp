// SPDX-License-Identifier: Apache-2.0
#include "compiler/BucketCompiler.h"

#include "compiler/QuantizeOptions.h"
#include "compiler/import/Importer.h"
#include "runtime/Error.h"

using namespace mlir;

namespace ditc {

OwningOpRef<ModuleOp> BucketCompiler::compile(const Model &model, const Bucket &bucket, const PhaseObserver &observe) {
  state.progress.step("import bucket " + bucket.name);
  for (const std::string &guard : bucket.broken)
    state.result.notes.push_back(fmt::format(
        "bucket '{}': the export recorded {}, which does not hold here; exporters write such inequalities for sizes that merely differed", bucket.name, guard));
  ImportOptions importOptions{.bucket = bucket.name, .symbols = bucket.symbols, .pinned = inputs.pinned};
  DiagnosticText diagnostics(state);
  OwningOpRef<ModuleOp> module = importProgram(state.context, model.program, model.archive, importOptions);
  if (inputs.models.size() == 1 && !state.options.stopAfter)
    proofs.push_back(decidePadding(*module, model.program, model.archive, importOptions, inputs.paddingClaims));
  markInvariantInputs(*module);
  checkQuantizePatterns(*module, state.options);
  state.progress.step("compile bucket " + bucket.name);
  if (failed(runPipeline(*module, state.options, dumpFolder(bucket), observe)))
    failInternal("{}the compiler failed on bucket '{}'", diagnostics.text(), bucket.name);
  return module;
}

std::string BucketCompiler::dumpFolder(const Bucket &bucket) const {
  return state.options.dumpDirectory.empty() ? "" : state.options.dumpDirectory + "/" + bucket.name;
}

/// Positions and rotary tables do not change from step to step; other inputs when the user says so.
void BucketCompiler::markInvariantInputs(ModuleOp module) {
  std::set<std::string> unknown(state.options.invariant.begin(), state.options.invariant.end());
  for (func::FuncOp function : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      auto name = function.getArgAttrOfType<StringAttr>(i, "dit.name");
      if (!name)
        continue;
      bool named = unknown.erase(name.str()) > 0;
      bool position = name.getValue().ends_with("_ids") || name.getValue().contains("rotary") || name.getValue().contains("rope");
      if (named || position)
        function.setArgAttr(i, "dit.invariant", UnitAttr::get(&state.context));
    }
  if (!unknown.empty())
    fail("--invariant {}: the model has no such input", *unknown.begin());
}

OwningOpRef<ModuleOp> BucketCompiler::plan(ModuleOp fused, const Bucket &bucket, const std::string &target) {
  state.progress.step(fmt::format("plan bucket {} for {}", bucket.name, target));
  OwningOpRef<ModuleOp> module(fused.clone());
  DiagnosticText diagnostics(state);
  if (failed(runPlanPhase(*module, state.options, target, dumpFolder(bucket))))
    failInternal("{}the compiler failed on bucket '{}' for target '{}'", diagnostics.text(), bucket.name, target);
  return module;
}

void takeKernels(ModuleOp source, ModuleOp target) {
  SymbolTable known(target);
  for (plan::KernelOp kernel : llvm::make_early_inc_range(source.getOps<plan::KernelOp>()))
    if (!known.lookup(kernel.getSymName())) {
      kernel->remove();
      known.insert(kernel);
    }
}

} // namespace ditc
