// SPDX-License-Identifier: Apache-2.0
//
// The compiler, in order. Each phase may assume the contract of the one above it; import comes before, and
// emission of kernels and the package after.
#include "compiler/Pipeline.h"

#include "codegen/templates/hopper/Catalogue.h"
#include "passes/GroupKernels.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <filesystem>

using namespace mlir;

namespace ditc {

/// Canonical forms and common subexpressions, once at the start of a phase.
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

LogicalResult runPipeline(ModuleOp module, const CompileOptions &options, const std::string &dumpFolder, const PhaseObserver &observe) {
  if (failed(verifyContract(module, Contract::Imported)))
    return failure();
  for (const PhaseSteps &steps : pipelinePhases()) {
    if (options.stopAfter && *options.stopAfter < steps.phase)
      break;
    PassManager pm(module.getContext());
    if (!dumpFolder.empty()) {
      std::filesystem::create_directories(dumpFolder + "/" + std::string(nameOf(steps.contract)));
      pm.enableIRPrintingToFileTree([](Pass *, Operation *) { return false; }, [](Pass *, Operation *) { return true; }, true, false, false,
                                    dumpFolder + "/" + std::string(nameOf(steps.contract)));
    }
    steps.build(pm, options);
    if (failed(pm.run(module)) || failed(verifyContract(module, steps.contract)))
      return failure();
    if (observe)
      observe(steps.contract, module);
  }
  return success();
}

/// Summaries come from the pass registry, which nothing else needs.
static void registerForListing() {
  registerFoldConstants();
  registerFuseMaps();
  registerLegalizeForHost();
  registerLowerToPlan();
  registerMarkInvariant();
  registerPlanMemory();
  registerRecogniseNorms();
  registerSinkConcats();
  registerCanonicalizerPass();
  registerCSEPass();
  registerPass([] { return createGroupKernels(std::make_shared<const Catalogue>(hopperCatalogue())); });
}

std::string describePipeline() {
  registerForListing();
  std::string text = "import\n  reads the .pt2, binds symbolic sizes, builds dit IR; then holds: imported\n";
  for (const PhaseSteps &steps : pipelinePhases()) {
    OpPassManager pm;
    steps.build(pm, CompileOptions());
    std::string pipeline;
    llvm::raw_string_ostream stream(pipeline);
    pm.printAsTextualPipeline(stream);
    text += fmt::format("{}\n", nameOf(steps.contract));
    // "any(func.func(canonicalize{...},cse))": the names between the punctuation that are passes
    SmallVector<StringRef> words;
    for (StringRef rest = pipeline; !rest.empty();) {
      size_t length = rest.find_first_not_of("abcdefghijklmnopqrstuvwxyz-");
      if (length != 0)
        words.push_back(rest.take_front(length));
      rest = rest.drop_front(std::min(rest.size(), std::max<size_t>(length, 1)));
    }
    for (StringRef word : words)
      if (const PassInfo *info = PassInfo::lookup(word))
        text += fmt::format("  {}: {}\n", word.str(), info->getPassDescription().str());
  }
  return text;
}

} // namespace ditc
