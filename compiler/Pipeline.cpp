// SPDX-License-Identifier: Apache-2.0
//
// The compiler, in order. Each phase may assume the contract of the one above it; import comes before, and
// emission of kernels and the package after.
#include "compiler/Pipeline.h"

#include "codegen/templates/hopper/Catalogue.h"
#include "passes/GroupKernels.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace ditc {

/// Canonical forms and common subexpressions, at most once per phase.
static void simplify(OpPassManager &pm) {
  pm.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  pm.addNestedPass<func::FuncOp>(createCSEPass());
}

/// Sizes were bound at import. What depends on constants only becomes data.
static void buildSpecialise(OpPassManager &pm, const CompileOptions &) {
  simplify(pm);
  pm.addNestedPass<func::FuncOp>(createFoldConstants());
  pm.addNestedPass<func::FuncOp>(createMarkInvariant()); // what is the same in every denoising step
  // From here on: tables of positions, RoPE and known masks are constants.
}

/// One op = one launch, a library call, or a free view.
static void buildFuse(OpPassManager &pm, const CompileOptions &options) {
  simplify(pm);
  pm.addNestedPass<func::FuncOp>(createRecogniseNorms()); // one spelling for every RMSNorm
  pm.addNestedPass<func::FuncOp>(createSinkConcats()); // QK-norm and RoPE onto the parts of joint attention
  pm.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  pm.addNestedPass<func::FuncOp>(createFuseMaps({.keepRoundings = options.numerics == Numerics::Eager})); // chains: one pass over memory
  pm.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  auto catalogue = std::make_shared<const Catalogue>(hopperCatalogue());
  pm.addNestedPass<func::FuncOp>(createGroupKernels(catalogue)); // what one launch computes
  pm.addNestedPass<func::FuncOp>(createMarkInvariant());
}

/// Buffers at fixed offsets, launches in order.
static void buildPlan(OpPassManager &pm, const CompileOptions &options) {
  pm.addNestedPass<func::FuncOp>(createLegalizeForHost()); // products as the BLAS takes them
  simplify(pm);
  pm.addNestedPass<func::FuncOp>(createFuseMaps({.keepRoundings = options.numerics == Numerics::Eager})); // bias and casts join the maps beside them
  pm.addPass(createLowerToPlan());
  pm.addPass(createPlanMemory());
}

ArrayRef<PhaseSteps> pipelinePhases() {
  static const PhaseSteps phases[] = {
      {Phase::Specialised, Contract::Specialised, buildSpecialise},
      {Phase::Fused, Contract::Fused, buildFuse},
      {Phase::Planned, Contract::Planned, buildPlan},
  };
  return phases;
}

LogicalResult runPipeline(ModuleOp module, const CompileOptions &options, const std::string &dumpFolder) {
  if (failed(verifyContract(module, Contract::Imported)))
    return failure();
  for (const PhaseSteps &steps : pipelinePhases()) {
    if (options.stopAfter && *options.stopAfter < steps.phase)
      break;
    PassManager pm(module.getContext());
    if (!dumpFolder.empty())
      pm.enableIRPrintingToFileTree([](Pass *, Operation *) { return false; }, [](Pass *, Operation *) { return true; }, true, false, false,
                                    dumpFolder + "/" + std::string(nameOf(steps.contract)));
    steps.build(pm, options);
    if (failed(pm.run(module)) || failed(verifyContract(module, steps.contract)))
      return failure();
  }
  return success();
}

std::string describePipeline() {
  std::string text = "import\n  read the .pt2, bind symbolic sizes, build dit IR        -> contract 'imported'\n";
  for (const PhaseSteps &steps : pipelinePhases()) {
    text += std::string(nameOf(steps.contract)) + "\n";
    OpPassManager pm;
    steps.build(pm, CompileOptions());
    auto list = [&](auto &&self, OpPassManager &manager) -> void {
      for (Pass &pass : manager.getPasses())
        text += "  " + pass.getArgument().str() + ": " + pass.getDescription().str() + "\n";
    };
    list(list, pm);
  }
  return text;
}

} // namespace ditc
