// SPDX-License-Identifier: Apache-2.0
//
// The compiler, in order. Each phase may assume the contract of the one above it; import comes before, and
// emission of kernels and the package after.
#include "compiler/Pipeline.h"

#include "codegen/cuda/CudaTarget.h"
#include "codegen/templates/hopper/Catalogue.h"
#include "passes/GroupKernels.h"
#include "passes/LegalizeForCuda.h"
#include "passes/LowerToPlan.h"
#include "passes/PlanAttention.h"
#include "passes/PlanConvolutions.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <filesystem>

using namespace mlir;

namespace ditc {

/// Canonical forms and common subexpressions: at the start of a phase, and where operations were doubled.
static void simplify(OpPassManager &pm) {
  pm.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  pm.addNestedPass<func::FuncOp>(createCSEPass());
}

/// Sizes were bound at import. What depends on constants only becomes data.
static void buildSpecialise(OpPassManager &pm, const CompileOptions &options, const std::string &) {
  simplify(pm);
  if (options.numerics != Numerics::Eager) {
    pm.addNestedPass<func::FuncOp>(createNarrowTables()); // rotations are in f32
    pm.addNestedPass<func::FuncOp>(createRotateAllRows()); // before tables are data: they get rows
    pm.addNestedPass<func::FuncOp>(createCSEPass()); // queries and keys of all blocks: the same
  }
  pm.addNestedPass<func::FuncOp>(createFoldConstants());
  pm.addNestedPass<func::FuncOp>(createMarkInvariant()); // what is the same in every denoising step
  // From here on: tables of positions, RoPE and known masks are constants.
}

static SmallVector<std::string> listOf(const std::vector<std::string> &patterns) { return SmallVector<std::string>(patterns.begin(), patterns.end()); }

/// One op = one launch, a library call, or a free view.
static void buildFuse(OpPassManager &pm, const CompileOptions &options, const std::string &) {
  simplify(pm);
  bool keepRoundings = options.numerics == Numerics::Eager;
  pm.addNestedPass<func::FuncOp>(createHoistSlices()); // Q, K and V are columns of their product
  pm.addNestedPass<func::FuncOp>(createPadAddends()); // behind it: two products where both parts have sums of their own
  pm.addNestedPass<func::FuncOp>(createConvToMatmul()); // patch embedding is a product
  pm.addNestedPass<func::FuncOp>(createRecogniseNorms({.keepRoundings = keepRoundings})); // one spelling for every norm
  pm.addNestedPass<func::FuncOp>(createRecogniseAttention({.keepRoundings = keepRoundings})); // and every attention
  pm.addNestedPass<func::FuncOp>(createRecogniseLinearAttention());
  pm.addNestedPass<func::FuncOp>(createSimplifyAttention());
  if (!keepRoundings)
    pm.addNestedPass<func::FuncOp>(createNarrowAttention()); // f32 copies that only attention reads
  simplify(pm);
  pm.addNestedPass<func::FuncOp>(createSinkRepeats()); // modulations of frames: not for each token
  simplify(pm); // maps of other shapes read views of views
  pm.addNestedPass<func::FuncOp>(createArrangeRows()); // rows of products: where their order is free
  simplify(pm); // products of one input read it by one view
  pm.addNestedPass<func::FuncOp>(createSinkConcats()); // QK-norm and RoPE onto the parts of joint attention
  simplify(pm); // queries and keys cut the same tables
  if (options.quantize == Quantize::Fp8) // before maps fuse: scales join what is in front of products and behind them
    pm.addNestedPass<func::FuncOp>(createQuantizeProducts({.skip = listOf(options.quantizeSkip), .only = listOf(options.quantizeOnly)}));
  if (options.quantizeAttention == QuantizeAttention::Int8) // attention is what kernels will see
    pm.addNestedPass<func::FuncOp>(createQuantizeAttention({.skip = listOf(options.quantizeSkip), .only = listOf(options.quantizeOnly)}));
  pm.addNestedPass<func::FuncOp>(createFuseMaps({.keepRoundings = keepRoundings})); // chains: one pass over memory
  pm.addNestedPass<func::FuncOp>(createSplitMaps()); // modulation of each token: parts belong to what reads them
  pm.addNestedPass<func::FuncOp>(createFuseMaps({.keepRoundings = keepRoundings}));
  simplify(pm); // and blocks read the same parts
  auto catalogue = std::make_shared<const Catalogue>(hopperCatalogue());
  pm.addNestedPass<func::FuncOp>(createGroupKernels(catalogue)); // what one launch computes
  pm.addNestedPass<func::FuncOp>(createMarkInvariant());
}

/// Buffers at fixed offsets, launches in order; what runs as one launch is the target's to say.
static void buildPlan(OpPassManager &pm, const CompileOptions &options, const std::string &target) {
  if (std::optional<CudaArch> arch = parseCudaArch(target)) {
    bool keepRoundings = options.numerics == Numerics::Eager;
    std::shared_ptr<const TargetKernels> kernels = cudaTargetKernels(*arch, keepRoundings);
    pm.addNestedPass<func::FuncOp>(createSplitNorms()); // GroupNorm of large images
    pm.addNestedPass<func::FuncOp>(createSplitSums()); // sums over all tokens
    pm.addNestedPass<func::FuncOp>(createLegalizeForCuda(kernels)); // one operation = one launch
    simplify(pm);
    pm.addPass(createLowerToPlan(keepRoundings, kernels));
    pm.addPass(createPlanAttention(kernels));
    pm.addPass(createPlanConvolutions(kernels)); // images and filters as tensor cores read them
  } else {
    pm.addNestedPass<func::FuncOp>(createLegalizeForHost()); // products as the BLAS takes them
    simplify(pm);
    pm.addNestedPass<func::FuncOp>(createFuseMaps({.keepRoundings = options.numerics == Numerics::Eager})); // bias and casts join the maps beside them
    pm.addPass(createLowerToPlan());
  }
  pm.addPass(createOrderLaunches()); // of those that need not be where the model has them
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

/// One phase, with its contract checked behind it.
static LogicalResult runPhase(const PhaseSteps &steps, ModuleOp module, const CompileOptions &options, const std::string &target, const std::string &dumpFolder) {
  PassManager pm(module.getContext());
  if (!dumpFolder.empty()) {
    std::filesystem::create_directories(dumpFolder);
    pm.enableIRPrintingToFileTree([](Pass *, Operation *) { return false; }, [](Pass *, Operation *) { return true; }, true, false, false, dumpFolder);
  }
  steps.build(pm, options, target);
  return success(succeeded(pm.run(module)) && succeeded(verifyContract(module, steps.contract)));
}

LogicalResult runPipeline(ModuleOp module, const CompileOptions &options, const std::string &dumpFolder, const PhaseObserver &observe) {
  if (failed(verifyContract(module, Contract::Imported)))
    return failure();
  for (const PhaseSteps &steps : pipelinePhases()) {
    if (steps.phase == Phase::Planned || (options.stopAfter && *options.stopAfter < steps.phase))
      break;
    if (failed(runPhase(steps, module, options, "", dumpFolder.empty() ? "" : dumpFolder + "/" + std::string(nameOf(steps.contract)))))
      return failure();
    if (observe)
      observe(steps.contract, module);
  }
  return success();
}

LogicalResult runPlanPhase(ModuleOp module, const CompileOptions &options, const std::string &target, const std::string &dumpFolder) {
  return runPhase(pipelinePhases().back(), module, options, target, dumpFolder.empty() ? "" : dumpFolder + "/" + target);
}

/// Summaries come from the pass registry, which nothing else needs.
static void registerForListing() {
  registerConvToMatmul();
  registerFoldConstants();
  registerFuseMaps();
  registerLegalizeForHost();
  registerLowerToPlan();
  registerMarkInvariant();
  registerOrderLaunches();
  registerPlanMemory();
  registerQuantizeAttention();
  registerQuantizeProducts();
  registerRecogniseAttention();
  registerRecogniseLinearAttention();
  registerRecogniseNorms();
  registerSimplifyAttention();
  registerHoistSlices();
  registerNarrowAttention();
  registerNarrowTables();
  registerPadAddends();
  registerRotateAllRows();
  registerSinkConcats();
  registerArrangeRows();
  registerSinkRepeats();
  registerSplitMaps();
  registerSplitNorms();
  registerSplitSums();
  registerCanonicalizerPass();
  registerCSEPass();
  registerPass([] { return createLegalizeForCuda(cudaTargetKernels(*parseCudaArch("sm_90a"))); });
  registerPass([] { return createPlanAttention(cudaTargetKernels(*parseCudaArch("sm_90a"))); });
  registerPass([] { return createPlanConvolutions(cudaTargetKernels(*parseCudaArch("sm_90a"))); });
  registerPass([] { return createGroupKernels(std::make_shared<const Catalogue>(hopperCatalogue())); });
}

std::string describePipeline() {
  registerForListing();
  std::string text = "import\n  reads the .pt2, binds symbolic sizes, builds dit IR; then holds: imported\n";
  CompileOptions options;
  options.quantize = Quantize::Fp8, options.quantizeAttention = QuantizeAttention::Int8; // all passes that there are
  auto describe = [&](const PhaseSteps &steps, const std::string &target, const std::string &title) {
    OpPassManager pm;
    steps.build(pm, options, target);
    std::string pipeline;
    llvm::raw_string_ostream stream(pipeline);
    pm.printAsTextualPipeline(stream);
    text += title + "\n";
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
  };
  for (const PhaseSteps &steps : pipelinePhases()) {
    std::string name(nameOf(steps.contract));
    if (steps.phase != Phase::Planned) {
      describe(steps, "", name);
      continue;
    }
    describe(steps, "host", name + ", for the host");
    describe(steps, "sm_90a", name + ", for CUDA");
  }
  return text;
}

} // namespace ditc
