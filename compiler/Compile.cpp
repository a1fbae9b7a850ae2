// SPDX-License-Identifier: Apache-2.0
//
// The five steps: read, import per bucket, run the pipeline, emit kernels, write the package.
#include "compiler/Compile.h"

#include "compiler/BucketCompiler.h"
#include "compiler/CoreCache.h"
#include "compiler/Dump.h"
#include "compiler/KernelEmission.h"
#include "compiler/ManifestPorts.h"
#include "compiler/PlanWriter.h"
#include "compiler/QuantizeOptions.h"
#include "compiler/TuningBundle.h"
#include "compiler/Version.h"
#include "compiler/report/FailIf.h"
#include "runtime/Hash.h"
#include "runtime/JsonText.h"
#include "runtime/Package.h"

#include <filesystem>

using namespace mlir;

namespace ditc {

namespace {

//===-- Graph to package, without weights -----------------------------------------------------------------===//

class CoreCompilation {
public:
  CoreCompilation(CompileState &state, const CompileInputs &inputs, const TuningChoice &tuning)
      : state(state), inputs(inputs), tuning(tuning), buckets(state, inputs), report(state.context) {}

  CorePackage run() {
    for (const std::string &target : state.options.targets)
      kernels[target] = ModuleOp::create(UnknownLoc::get(&state.context));
    for (const Model &model : inputs.models)
      for (const Bucket &bucket : model.buckets)
        compileBucket(model, bucket);
    for (const std::string &target : state.options.targets)
      emitKernels(target);
    describeModel();
    core.add("report.json", jsonText(report.toJson()) + "\n");
    return std::move(core);
  }

private:
  void compileBucket(const Model &model, const Bucket &bucket) {
    OwningOpRef<ModuleOp> fused = buckets.compile(model, bucket, [&](Contract contract, ModuleOp at) { report.observe(contract, at); });
    report.addBucket(bucket.name);
    core.manifest.buckets.push_back(describeBucket(bucket));
    for (const std::string &target : state.options.targets)
      addPlan(*buckets.plan(*fused, bucket, target), bucket, target);
  }

  void addPlan(ModuleOp module, const Bucket &bucket, const std::string &target) {
    Plan plan = writePlanProgram(*module.getOps<plan::ProgramOp>().begin(), [&](std::span<const uint8_t> bytes) { return storeConstant(bytes); });
    describePinned(plan);
    const Plan &first = plans.empty() ? plan : plans.front(); // all buckets have the same ports; only sizes differ
    checkSamePorts("input", bucket.name, first.inputs, plan.inputs);
    checkSamePorts("output", bucket.name, first.outputs, plan.outputs);
    std::string member = planMember(bucket.name, target);
    core.manifest.buckets.back().plans[target] = member;
    core.add(member, writePlan(plan));
    for (const PlanBuffer &buffer : plan.buffers)
      if (buffer.space == Space::Weight)
        core.weightNames.insert(buffer.name);
    report.addPlan(target, module, plan);
    plans.push_back(std::move(plan));
    takeKernels(module, *kernels[target]);
  }

  /// The name of the member with these bytes.
  std::string storeConstant(std::span<const uint8_t> bytes) {
    std::string name = constantMember(bytes);
    if (constants.insert(name).second)
      core.addConstant(name, bytes);
    return name;
  }

  void describePinned(Plan &plan) const {
    for (const auto &[name, tensor] : inputs.pinned) {
      PinnedInput input;
      input.name = name;
      input.dtype = tensor.dtype;
      input.shape = tensor.shape;
      input.xxh128 = hashHex(tensor.bytes);
      plan.pinned.push_back(input);
    }
  }

  void emitKernels(const std::string &target) {
    report.addKernels(target, *kernels[target]);
    if (parseCudaArch(target))
      emitCudaKernels(state, tuning, target, *kernels[target], core, report);
    else
      emitHostKernels(state, *kernels[target], core);
  }

  void describeModel() {
    const Model &model = inputs.models.front();
    core.manifest.producer = fmt::format("ditc {}", kVersion);
    core.manifest.modelName = std::filesystem::path(model.archive.path()).stem().string();
    core.manifest.sourceHash = model.archive.contentHash();
    core.manifest.torchVersion = model.program.torchVersion;
    describePorts(core.manifest, model.program, plans.front(), plans);
    for (const auto &[name, tensor] : inputs.pinned)
      core.manifest.pinned.push_back(name);
    describePadding(buckets.paddingProofs(), core.manifest);
  }

  CompileState &state;
  const CompileInputs &inputs;
  const TuningChoice &tuning;
  BucketCompiler buckets;
  Report report;
  CorePackage core;
  std::map<std::string, OwningOpRef<ModuleOp>> kernels; ///< by target
  std::set<std::string> constants;                      ///< members of the package
  std::vector<Plan> plans;                              ///< of all buckets and targets
};

std::string irAtStop(CompileState &state, const CompileInputs &inputs) {
  BucketCompiler buckets(state, inputs);
  std::string text;
  for (const Model &model : inputs.models)
    for (const Bucket &bucket : model.buckets) {
      OwningOpRef<ModuleOp> module = buckets.compile(model, bucket);
      if (*state.options.stopAfter == Phase::Planned)
        module = buckets.plan(*module, bucket, state.options.targets.front());
      text += printModule(*module);
    }
  state.progress.done();
  return text;
}

//===-- Package ---------------------------------------------------------------------------------------------===//

/// Before anything is written: --fail-if leaves no package behind.
void readReport(CompileState &state, const CorePackage &core) {
  for (const CorePackage::Member &member : core.members)
    if (member.name == "report.json")
      state.result.report = nlohmann::json::parse(member.bytes.begin(), member.bytes.end());
  checkFailIf(state.result.report, state.options.failIf);
}

void writePackage(CompileState &state, CorePackage &core, const WeightSource &weights) {
  const CompileOptions &options = state.options;
  if (weights.hasAnyBytes() && options.weightsMode != WeightsMode::None)
    weights.checkComplete(core.weightNames);
  state.progress.step("write " + options.output);
  PackageWriter writer(options.output);
  for (const CorePackage::Member &member : core.members)
    if (member.unpackedBytes > 0)
      writer.addCompressed(member.name, member.bytes, member.unpackedBytes);
    else
      writer.add(member.name, member.bytes);
  weights.store(core.weightNames, options.weightsMode, options.output, writer, core.manifest);
  writer.finish(core.manifest);
  state.result.path = options.output;
}

} // namespace

CompileResult compile(const CompileOptions &options, Progress &progress) {
  checkQuantizeOptions(options);
  CompileState state(options, progress);
  CompileInputs inputs = readInputs(state);
  if (options.stopAfter) {
    state.result.ir = irAtStop(state, inputs);
    return std::move(state.result);
  }
  TuningChoice tuning = readTuning(options);
  if (!options.tuningBundle.empty()) {
    compileTuningBundle(state, inputs, tuning);
    return std::move(state.result);
  }
  WeightSource weights = readWeights(state, inputs);
  CorePackage core = loadOrCompile(state, inputs, tuning, [&] { return CoreCompilation(state, inputs, tuning).run(); });
  readReport(state, core);
  writePackage(state, core, weights);
  progress.done();
  return std::move(state.result);
}

} // namespace ditc
