// SPDX-License-Identifier: Apache-2.0
#include "compiler/TuningBundle.h"

#include "compiler/BundleWriter.h"
#include "compiler/KernelEmission.h"
#include "compiler/PlanWriter.h"
#include "compiler/Version.h"
#include "runtime/Error.h"
#include "runtime/Package.h"

#include <fmt/ranges.h>

using namespace mlir;

namespace ditc {

/// A bundle without kernels is of no use. `libraryProducts`: how many products cuBLASLt computes, by type.
static void needTiledKernels(ModuleOp kernels, const std::map<DType, size_t> &libraryProducts, const std::string &target) {
  if (llvm::any_of(kernels.getOps<plan::KernelOp>(), [](plan::KernelOp kernel) { return kernel.getFamily() == "gemm"; }))
    return;
  std::vector<std::string> counts;
  for (const auto &[dtype, count] : libraryProducts)
    counts.push_back(fmt::format("{} of {}", count, nameOf(dtype)));
  bool hasHalf = libraryProducts.contains(DType::bf16) || libraryProducts.contains(DType::f16);
  std::string why =
      counts.empty() ? "the model has no large products of matrices" : fmt::format("cuBLASLt computes all large products ({})", fmt::join(counts, ", "));
  std::string advice = counts.empty() || hasHalf ? "compile without --tuning-bundle"
                                                 : "kernels with tiles take bf16 and f16: export the model in bf16, or compile without --tuning-bundle";
  fail("--tuning-bundle: there is nothing to measure, no kernel for {} has tiles to choose: {}; {}", target, why, advice);
}

static void compileCandidates(CompileState &state, const TuningChoice &tuning, ModuleOp kernels, const std::map<std::string, uint32_t> &launches,
                              const std::string &target) {
  state.progress.step("compile candidates for " + target);
  DiagnosticText diagnostics(state);
  std::optional<Cache> cache;
  FailureOr<BundleSummary> summary = writeTuningBundle(kernels, launches, *parseCudaArch(target), cudaOptions(state, tuning, cache),
                                                       {state.options.tuningCandidates, state.options.tuningMissingOnly}, fmt::format("ditc {}", kVersion), state.options.tuningBundle);
  if (failed(summary))
    diagnostics.fail(fmt::format("target '{}' failed", target));
  state.result.path = state.options.tuningBundle;
  state.result.notes = std::move(summary->notes);
  state.result.summary = fmt::format("{} kernels, {} candidates in {} images", summary->kernels, summary->candidates, summary->images);
  if (summary->measuredBefore > 0)
    state.result.summary += fmt::format("; {} kernels are left out, they have measured tiles", summary->measuredBefore);
  if (cache)
    state.takeWarnings(*cache);
}

void compileTuningBundle(CompileState &state, const CompileInputs &inputs, const TuningChoice &tuning) {
  if (state.options.targets.size() != 1 || !parseCudaArch(state.options.targets.front()))
    throw Error(ErrorKind::Usage,
                fmt::format("--tuning-bundle is for one GPU target, as in --target sm_90a; --target says {}", fmt::join(state.options.targets, ", ")));
  const std::string &target = state.options.targets.front();
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(UnknownLoc::get(&state.context));
  BucketCompiler buckets(state, inputs);
  std::map<std::string, uint32_t> launches;
  std::map<DType, size_t> libraryProducts;
  for (const Model &model : inputs.models)
    for (const Bucket &bucket : model.buckets) {
      OwningOpRef<ModuleOp> module = buckets.plan(*buckets.compile(model, bucket), bucket, target);
      Plan plan = writePlanProgram(*module->getOps<plan::ProgramOp>().begin(), [](std::span<const uint8_t> bytes) { return constantMember(bytes); });
      for (const PlanOp &op : plan.step)
        if (const auto *launch = std::get_if<LaunchOp>(&op.body))
          ++launches[plan.kernels[launch->kernel]];
        else if (const auto *product = std::get_if<GemmOp>(&op.body))
          ++libraryProducts[product->dtype];
      takeKernels(*module, *kernels);
    }
  needTiledKernels(*kernels, libraryProducts, target);
  compileCandidates(state, tuning, *kernels, launches, target);
  state.progress.done();
}

} // namespace ditc
