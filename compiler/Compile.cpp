// SPDX-License-Identifier: Apache-2.0
//
// The five steps: read, import per bucket, run the pipeline, emit kernels, write the package.
#include "compiler/Compile.h"

#include "codegen/cuda/CudaTarget.h"
#include "codegen/cuda/Images.h"
#include "codegen/cuda/tuning/TunedTiles.h"
#include "codegen/host/HostTarget.h"
#include "codegen/host/Machine.h"
#include "compiler/BundleWriter.h"
#include "compiler/CorePackage.h"
#include "compiler/Dump.h"
#include "compiler/ManifestPorts.h"
#include "compiler/Pipeline.h"
#include "compiler/PlanWriter.h"
#include "compiler/Version.h"
#include "compiler/WeightSource.h"
#include "compiler/import/Buckets.h"
#include "compiler/import/Importer.h"
#include "compiler/padding/Padding.h"
#include "compiler/report/FailIf.h"
#include "compiler/report/Report.h"
#include "passes/Passes.h"
#include "runtime/Cache.h"
#include "runtime/Error.h"
#include "runtime/Hash.h"
#include "runtime/JsonText.h"
#include "runtime/MappedFile.h"
#include "runtime/Package.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

#include <filesystem>
#include <fmt/ranges.h>
#include <optional>
#include <unordered_set>

using namespace mlir;

namespace ditc {

namespace {

namespace fs = std::filesystem;

struct Model {
  Pt2Archive archive;
  ExportedProgram program;
  std::vector<Bucket> buckets;
};

/// Collects MLIR diagnostics: errors become the text of an Error, warnings are told to the user.
class DiagnosticText {
public:
  DiagnosticText(MLIRContext &context, std::vector<std::string> &warnings)
      : handler(&context, [this, &warnings](Diagnostic &diagnostic) {
          std::string place = describeLocation(diagnostic.getLocation());
          std::string line = fmt::format("{}{}{}", place, place.empty() ? "" : ": ", diagnostic.str());
          if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
            text += line + "\n";
          else if (diagnostic.getSeverity() == DiagnosticSeverity::Warning)
            warnings.push_back(line);
          return success();
        }) {}

  std::string text;

private:
  ScopedDiagnosticHandler handler;
};

class Compilation {
public:
  Compilation(const CompileOptions &options, Progress &progress) : options(options), progress(progress), context(MLIRContext::Threading::DISABLED) {
    DialectRegistry registry;
    registry.insert<dit::DitDialect, plan::PlanDialect, arith::ArithDialect, math::MathDialect, func::FuncDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  CompileResult run() {
    readModels();
    if (options.stopAfter) {
      result.ir = irAtStop();
      return std::move(result);
    }
    readTuning();
    if (!options.tuningBundle.empty()) {
      writeBundle();
      return std::move(result);
    }
    WeightSource weights = readWeights();
    CorePackage core = loadOrCompile();
    readReport(core);
    writePackage(core, weights);
    progress.done();
    return std::move(result);
  }

private:
  //===-- Read ------------------------------------------------------------------------------------===//

  void readModels() {
    for (const ModelPath &path : options.models) {
      progress.step("read " + path.path);
      Pt2Archive archive = Pt2Archive::open(path.path);
      ExportedProgram program = parseExportedProgram(archive.programJson(), path.path);
      std::vector<Bucket> buckets = resolveBuckets(program, options.buckets);
      if (!path.bucket.empty() || options.models.size() > 1)
        nameAfterModel(path, buckets);
      for (const std::string &warning : archive.warnings())
        result.warnings.push_back(warning);
      models.push_back({std::move(archive), std::move(program), std::move(buckets)});
    }
    checkBucketNames();
    pinned = readPins();
    if (!options.padding.empty() && models.size() > 1)
      fail("--pad is for one export with symbolic sizes; {} exports of fixed sizes have none", models.size());
    paddingClaims = parsePaddingClaims(models.front().program, options.padding);
  }

  /// A static export among several is one bucket, named by the user or after its file.
  static void nameAfterModel(const ModelPath &path, std::vector<Bucket> &buckets) {
    std::string name = path.bucket.empty() ? fs::path(path.path).stem().string() : path.bucket;
    if (buckets.size() == 1)
      buckets.front().name = name;
    else
      for (Bucket &bucket : buckets)
        bucket.name = name + "-" + bucket.name;
  }

  void checkBucketNames() {
    std::unordered_set<std::string> names;
    for (const Model &model : models)
      for (const Bucket &bucket : model.buckets)
        if (!names.insert(bucket.name).second)
          fail("two buckets are called '{}'; give the models names: NAME=MODEL.pt2", bucket.name);
  }

  std::map<std::string, HostTensor> readPins() {
    std::map<std::string, HostTensor> pins;
    for (const auto &[name, path] : options.pins) {
      SafetensorsFile file = SafetensorsFile::open(path);
      auto tensor = file.tensors().find(name);
      if (tensor == file.tensors().end())
        fail("--pin {}={}: the file has no tensor of that name", name, path);
      const TensorView &view = tensor->second;
      pins[name] = {view.dtype, view.shape, {view.bytes.begin(), view.bytes.end()}};
    }
    return pins;
  }

  WeightSource readWeights() {
    std::vector<Pt2Archive> archives;
    for (const Model &model : models)
      archives.push_back(model.archive);
    if (!options.weights.empty())
      progress.step("read weights");
    WeightSource weights(archives, options.weights);
    if (!weights.extraNames().empty())
      result.warnings.push_back(fmt::format("{} tensors of --weights are not part of the model: {}", weights.extraNames().size(), fmt::join(weights.extraNames(), ", ")));
    return weights;
  }

  /// Measured tiles: the shipped database, then the user's in the order given.
  void readTuning() {
    if (!options.useTuning)
      return;
    tuning = shippedTuning();
    for (const std::string &path : options.tuning) {
      tuningKey += hashHex(MappedFile::open(path)->bytes()) + "\n";
      tuning.overrideBy(tuning::Database::open(path));
    }
    tuningGpu = findTuningGpu();
  }

  /// The whole name of the GPU that the user named; empty when none is.
  std::string findTuningGpu() const {
    if (options.tuningGpu.empty())
      return "";
    std::set<std::string> named = tuning.gpusNamed(options.tuningGpu), all = tuning.gpusNamed("");
    if (named.size() == 1)
      return *named.begin();
    if (all.empty())
      fail("--tuning-gpu '{}': nothing has been measured; measure a bundle of --tuning-bundle there, and give the result with --tuning", options.tuningGpu);
    fail("--tuning-gpu '{}': {}; there are measurements of {}", options.tuningGpu, named.empty() ? "no GPU that was measured is called so" : "several GPUs are called so",
         fmt::join(named.empty() ? all : named, ", "));
  }

  //===-- Compile ---------------------------------------------------------------------------------===//

  /// For the NVRTC of that version; with none, for whichever made the latest package of the kind.
  std::string cacheKey(const std::string &nvrtc) const {
    // The program itself is part of the key: another build may emit other code under the same version.
    std::string text = fmt::format("{}\n{}\n{}\n", kVersion, hashHex(MappedFile::open("/proc/self/exe")->bytes()), options.digest());
    text += fmt::format("nvrtc {}\n", nvrtc);
    text += tuningKey; // the shipped database is part of the program
    for (const Model &model : models)
      text += model.archive.contentHash() + "\n";
    for (const auto &[name, tensor] : pinned)
      text += fmt::format("{} {} [{}] {}\n", name, nameOf(tensor.dtype), fmt::join(tensor.shape, ","), hashHex(tensor.bytes));
    if (options.hostCpu == "native") { // another processor on the machine to which the cache is copied
      llvm::Expected<MachineName> machine = resolveMachine(options.hostCpu);
      text += machine ? machine->cpu + " " + machine->features : llvm::toString(machine.takeError());
    }
    return hashHex(text);
  }

  /// A folder that cannot be written is told of once, whatever could not be stored there.
  void takeWarnings(Cache &cache) {
    auto isStore = [](const std::string &warning) { return warning.find("not cached: ") != std::string::npos; };
    for (std::string &warning : cache.takeWarnings())
      if (!isStore(warning) || llvm::none_of(result.warnings, isStore))
        result.warnings.push_back(std::move(warning));
  }

  CorePackage loadOrCompile() {
    if (!options.useCache || !options.dumpDirectory.empty())
      return compileCore();
    Cache cache;
    bool hasCuda = llvm::any_of(options.targets, [](const std::string &target) { return parseCudaArch(target).has_value(); });
    std::string nvrtc = hasCuda ? nvrtcVersion() : "";
    std::optional<std::vector<uint8_t>> cached = cache.load(cacheKey(nvrtc));
    if (cached && hasCuda && nvrtc.empty()) // a copied cache on a machine without NVRTC: the entry is another one's key
      cached = cache.load(std::string(cached->begin(), cached->end()));
    result.fromCache = cached.has_value();
    CorePackage core = cached ? CorePackage::parse(*cached) : compileCore();
    if (!cached) {
      cache.store(cacheKey(nvrtc), core.serialise());
      if (!nvrtc.empty())
        cache.store(cacheKey(""), llvm::arrayRefFromStringRef(cacheKey(nvrtc)));
    }
    takeWarnings(cache);
    return core;
  }

  /// One bucket as a module, through the pipeline.
  OwningOpRef<ModuleOp> compileBucket(const Model &model, const Bucket &bucket, const PhaseObserver &observe = {}) {
    progress.step("import bucket " + bucket.name);
    for (const std::string &guard : bucket.broken)
      result.notes.push_back(fmt::format("bucket '{}': the export recorded {}, which does not hold here; exporters write such inequalities for sizes that merely differed", bucket.name, guard));
    ImportOptions importOptions{.bucket = bucket.name, .symbols = bucket.symbols, .pinned = pinned};
    DiagnosticText diagnostics(context, result.warnings);
    OwningOpRef<ModuleOp> module = importProgram(context, model.program, model.archive, importOptions);
    if (models.size() == 1 && !options.stopAfter)
      paddingProofs.push_back(decidePadding(*module, model.program, model.archive, importOptions, paddingClaims));
    markInvariantInputs(*module);
    progress.step("compile bucket " + bucket.name);
    if (failed(runPipeline(*module, options, dumpFolder(bucket), observe)))
      failInternal("{}the compiler failed on bucket '{}'", diagnostics.text, bucket.name);
    return module;
  }

  std::string dumpFolder(const Bucket &bucket) const { return options.dumpDirectory.empty() ? "" : options.dumpDirectory + "/" + bucket.name; }

  /// Positions and rotary tables do not change from step to step; other inputs when the user says so.
  void markInvariantInputs(ModuleOp module) {
    std::set<std::string> unknown(options.invariant.begin(), options.invariant.end());
    for (func::FuncOp function : module.getOps<func::FuncOp>())
      for (unsigned i = 0; i < function.getNumArguments(); ++i) {
        auto name = function.getArgAttrOfType<StringAttr>(i, "dit.name");
        if (!name)
          continue;
        bool named = unknown.erase(name.str()) > 0;
        bool position = name.getValue().ends_with("_ids") || name.getValue().contains("rotary") || name.getValue().contains("rope");
        if (named || position)
          function.setArgAttr(i, "dit.invariant", UnitAttr::get(&context));
      }
    if (!unknown.empty())
      fail("--invariant {}: the model has no such input", *unknown.begin());
  }

  /// A copy of the fused module, planned for a target.
  OwningOpRef<ModuleOp> planBucket(ModuleOp fused, const Bucket &bucket, const std::string &target) {
    progress.step(fmt::format("plan bucket {} for {}", bucket.name, target));
    OwningOpRef<ModuleOp> module(fused.clone());
    DiagnosticText diagnostics(context, result.warnings);
    if (failed(runPlanPhase(*module, options, target, dumpFolder(bucket))))
      failInternal("{}the compiler failed on bucket '{}' for target '{}'", diagnostics.text, bucket.name, target);
    return module;
  }

  std::string irAtStop() {
    std::string text;
    for (const Model &model : models)
      for (const Bucket &bucket : model.buckets) {
        OwningOpRef<ModuleOp> module = compileBucket(model, bucket);
        if (*options.stopAfter == Phase::Planned)
          module = planBucket(*module, bucket, options.targets.front());
        text += printModule(*module);
      }
    progress.done();
    return text;
  }

  CorePackage compileCore() {
    CorePackage core;
    Report report(context);
    std::map<std::string, OwningOpRef<ModuleOp>> kernels; // by target
    for (const std::string &target : options.targets)
      kernels[target] = ModuleOp::create(UnknownLoc::get(&context));
    std::set<std::string> constants;
    std::optional<Plan> firstPlan;
    std::vector<Plan> plans;
    auto storeConstant = [&](std::span<const uint8_t> bytes) {
      std::string name = "constants/" + hashHex(bytes);
      if (constants.insert(name).second)
        core.add(name, bytes);
      return name;
    };
    for (const Model &model : models)
      for (const Bucket &bucket : model.buckets) {
        OwningOpRef<ModuleOp> fused = compileBucket(model, bucket, [&](Contract contract, ModuleOp at) { report.observe(contract, at); });
        report.addBucket(bucket.name);
        core.manifest.buckets.push_back(describeBucket(bucket));
        for (const std::string &target : options.targets) {
          OwningOpRef<ModuleOp> module = planBucket(*fused, bucket, target);
          Plan plan = writePlanProgram(*module->getOps<plan::ProgramOp>().begin(), storeConstant);
          describePinned(plan);
          if (!firstPlan)
            firstPlan = plan;
          checkSamePorts("input", bucket.name, firstPlan->inputs, plan.inputs);
          checkSamePorts("output", bucket.name, firstPlan->outputs, plan.outputs);
          std::string member = planMember(bucket.name, target);
          core.manifest.buckets.back().plans[target] = member;
          core.add(member, writePlan(plan));
          for (const PlanBuffer &buffer : plan.buffers)
            if (buffer.space == Space::Weight)
              core.weightNames.insert(buffer.name);
          report.addPlan(target, *module, plan);
          plans.push_back(std::move(plan));
          takeKernels(*module, *kernels[target]);
        }
      }
    for (const std::string &target : options.targets) {
      report.addKernels(target, *kernels[target]);
      if (std::optional<CudaArch> arch = parseCudaArch(target))
        emitCudaKernels(target, *arch, *kernels[target], core, report);
      else
        emitHostKernels(*kernels[target], core);
    }
    describeModel(core.manifest, *firstPlan, plans);
    core.add("report.json", jsonText(report.toJson()) + "\n");
    return core;
  }

  /// All buckets of a package have the same inputs and outputs; only sizes differ.
  static void takeKernels(ModuleOp source, ModuleOp target) {
    SymbolTable known(target);
    for (plan::KernelOp kernel : llvm::make_early_inc_range(source.getOps<plan::KernelOp>()))
      if (!known.lookup(kernel.getSymName())) {
        kernel->remove();
        known.insert(kernel);
      }
  }

  void emitHostKernels(ModuleOp kernels, CorePackage &core) {
    progress.step("emit kernels for the host");
    DiagnosticText diagnostics(context, result.warnings);
    HostOptions hostOptions;
    hostOptions.cpu = options.hostCpu;
    FailureOr<HostObject> object = emitHost(kernels, hostOptions);
    if (failed(object))
      throw Error(ErrorKind::Input, diagnostics.text.empty() ? "the host target failed" : diagnostics.text.substr(0, diagnostics.text.size() - 1));
    core.manifest.targets.push_back({.name = "host", .object = "host/kernels.so", .triple = object->triple, .cpu = object->cpu, .instructionSets = object->instructionSets});
    core.add("host/kernels.so", object->sharedObject);
    if (!options.dumpDirectory.empty())
      dumpKernels(kernels, options.dumpDirectory, hostOptions);
  }

  /// With the persistent cache, unless that is off.
  CudaOptions cudaOptions(std::optional<Cache> &cache) const {
    CudaOptions cuda{.load = {}, .store = {}, .progress = [this](size_t done, size_t total) { progress.part(done, total); }, .tuning = &tuning, .tuningGpu = tuningGpu};
    if (options.useCache) {
      cache.emplace();
      cuda.load = [&](const std::string &key) { return cache->load(key); };
      cuda.store = [&](const std::string &key, std::span<const uint8_t> bytes) { cache->store(key, bytes); };
    }
    return cuda;
  }

  static nlohmann::json describeTiles(const ChosenTiles &chosen) {
    nlohmann::json tiles = {{"key", chosen.key.text()}, {"text", tuning::textOf(chosen.tiles)}, {"fields", chosen.tiles}, {"from", chosen.gpu.empty() ? "model" : "measured"}};
    if (!chosen.gpu.empty())
      tiles["gpu"] = chosen.gpu;
    if (!chosen.note.empty())
      tiles["note"] = chosen.note;
    return tiles;
  }

  void emitCudaKernels(const std::string &target, const CudaArch &arch, ModuleOp kernels, CorePackage &core, Report &report) {
    progress.step("emit kernels for " + target);
    DiagnosticText diagnostics(context, result.warnings);
    std::optional<Cache> cache;
    FailureOr<CudaObject> object = emitCuda(kernels, arch, cudaOptions(cache));
    if (failed(object))
      throw Error(ErrorKind::Input, diagnostics.text.empty() ? fmt::format("target '{}' failed", target) : diagnostics.text.substr(0, diagnostics.text.size() - 1));
    std::string file = target + "/kernels.json";
    core.manifest.targets.push_back({.name = target, .object = file, .triple = "", .cpu = "", .instructionSets = {}});
    nlohmann::json resources = nlohmann::json::array();
    for (auto [image, kernel] : llvm::zip(object->file.kernels, object->kernels)) {
      core.add(image.image, kernel.image);
      core.add(fmt::format("{}/{}.cu", arch.name, kernel.name), kernel.source);
      resources.push_back({{"name", kernel.name}, {"family", kernel.family}, {"registers", kernel.registers}, {"shared_bytes", kernel.sharedBytes + image.launch.sharedBytes},
                           {"spill_bytes", kernel.spillBytes}, {"threads", image.launch.threads}, {"grid", image.launch.grid}, {"source", fmt::format("{}/{}.cu", arch.name, kernel.name)}});
      if (kernel.tiles)
        resources.back()["tiles"] = describeTiles(*kernel.tiles);
      if (kernel.spillBytes > 0)
        result.warnings.push_back(fmt::format("kernel {} of {} spills {} bytes of registers", kernel.name, target, kernel.spillBytes));
    }
    core.add(file, writeKernelFile(object->file));
    report.addResources(target, std::move(resources));
    if (!options.dumpDirectory.empty())
      dumpCudaKernels(*object, kernels, options.dumpDirectory + "/" + target);
    if (cache)
      takeWarnings(*cache);
  }

  //===-- Tuning ----------------------------------------------------------------------------------===//

  /// All gemm kernels of all buckets. The models need not be of one kind: nothing is run.
  void writeBundle() {
    if (options.targets.size() != 1 || !parseCudaArch(options.targets.front()))
      throw Error(ErrorKind::Usage, fmt::format("--tuning-bundle is for one GPU target, as in --target sm_90a; --target says {}", fmt::join(options.targets, ", ")));
    const std::string &target = options.targets.front();
    OwningOpRef<ModuleOp> kernels = ModuleOp::create(UnknownLoc::get(&context));
    std::map<std::string, uint32_t> launches;
    std::map<DType, size_t> libraryProducts;
    for (const Model &model : models)
      for (const Bucket &bucket : model.buckets) {
        OwningOpRef<ModuleOp> module = planBucket(*compileBucket(model, bucket), bucket, target);
        Plan plan = writePlanProgram(*module->getOps<plan::ProgramOp>().begin(), [](std::span<const uint8_t> bytes) { return "constants/" + hashHex(bytes); });
        for (const PlanOp &op : plan.step)
          if (const auto *launch = std::get_if<LaunchOp>(&op.body))
            ++launches[plan.kernels[launch->kernel]];
          else if (const auto *product = std::get_if<GemmOp>(&op.body))
            ++libraryProducts[product->dtype];
        takeKernels(*module, *kernels);
      }
    needTiledKernels(*kernels, libraryProducts, target);
    compileCandidates(*kernels, launches, target);
    progress.done();
  }

  /// A bundle without kernels is of no use. `libraryProducts`: how many products cuBLASLt computes, by type.
  static void needTiledKernels(ModuleOp kernels, const std::map<DType, size_t> &libraryProducts, const std::string &target) {
    if (llvm::any_of(kernels.getOps<plan::KernelOp>(), [](plan::KernelOp kernel) { return kernel.getFamily() == "gemm"; }))
      return;
    std::vector<std::string> counts;
    for (const auto &[dtype, count] : libraryProducts)
      counts.push_back(fmt::format("{} of {}", count, nameOf(dtype)));
    bool hasHalf = libraryProducts.contains(DType::bf16) || libraryProducts.contains(DType::f16);
    std::string why = counts.empty() ? "the model has no large products of matrices" : fmt::format("cuBLASLt computes all large products ({})", fmt::join(counts, ", "));
    std::string advice = counts.empty() || hasHalf ? "compile without --tuning-bundle" : "kernels with tiles take bf16 and f16: export the model in bf16, or compile without --tuning-bundle";
    fail("--tuning-bundle: there is nothing to measure, no kernel for {} has tiles to choose: {}; {}", target, why, advice);
  }

  void compileCandidates(ModuleOp kernels, const std::map<std::string, uint32_t> &launches, const std::string &target) {
    progress.step("compile candidates for " + target);
    DiagnosticText diagnostics(context, result.warnings);
    std::optional<Cache> cache;
    FailureOr<BundleSummary> summary = writeTuningBundle(kernels, launches, *parseCudaArch(target), cudaOptions(cache), options.tuningCandidates, fmt::format("ditc {}", kVersion), options.tuningBundle);
    if (failed(summary))
      throw Error(ErrorKind::Input, diagnostics.text.empty() ? fmt::format("target '{}' failed", target) : diagnostics.text.substr(0, diagnostics.text.size() - 1));
    result.path = options.tuningBundle;
    result.notes = std::move(summary->notes);
    result.summary = fmt::format("{} kernels, {} candidates in {} images", summary->kernels, summary->candidates, summary->images);
    if (cache)
      takeWarnings(*cache);
  }

  //===-- Describe --------------------------------------------------------------------------------===//

  void describePinned(Plan &plan) const {
    for (const auto &[name, tensor] : pinned) {
      PinnedInput input;
      input.name = name;
      input.dtype = tensor.dtype;
      input.shape = tensor.shape;
      input.xxh128 = hashHex(tensor.bytes);
      plan.pinned.push_back(input);
    }
  }

  void describeModel(Manifest &manifest, const Plan &firstPlan, const std::vector<Plan> &plans) const {
    const Model &model = models.front();
    manifest.producer = fmt::format("ditc {}", kVersion);
    manifest.modelName = fs::path(model.archive.path()).stem().string();
    manifest.sourceHash = model.archive.contentHash();
    manifest.torchVersion = model.program.torchVersion;
    describePorts(manifest, model.program, firstPlan, plans);
    for (const auto &[name, tensor] : pinned)
      manifest.pinned.push_back(name);
    describePadding(paddingProofs, manifest);
  }

  //===-- Package ---------------------------------------------------------------------------------===//

  /// Before anything is written: --fail-if leaves no package behind.
  void readReport(const CorePackage &core) {
    for (const auto &[name, bytes] : core.members)
      if (name == "report.json")
        result.report = nlohmann::json::parse(bytes.begin(), bytes.end());
    checkFailIf(result.report, options.failIf);
  }

  void writePackage(CorePackage &core, const WeightSource &weights) {
    if (weights.hasAnyBytes() && options.weightsMode != WeightsMode::None)
      weights.checkComplete(core.weightNames);
    progress.step("write " + options.output);
    PackageWriter writer(options.output);
    for (const auto &[name, bytes] : core.members)
      writer.add(name, bytes);
    weights.store(core.weightNames, options.weightsMode, options.output, writer, core.manifest);
    writer.finish(core.manifest);
    result.path = options.output;
  }

  const CompileOptions &options;
  Progress &progress;
  MLIRContext context;
  std::vector<Model> models;
  std::map<std::string, HostTensor> pinned;
  PaddingClaims paddingClaims;
  std::vector<std::map<std::string, PaddingProof>> paddingProofs; ///< by bucket
  tuning::Database tuning; ///< measured tiles
  std::string tuningGpu;   ///< whose are used; empty: the latest
  std::string tuningKey;   ///< hashes of the user's databases in the order given, which their choice depends on
  CompileResult result;
};

} // namespace

CompileResult compile(const CompileOptions &options, Progress &progress) { return Compilation(options, progress).run(); }

} // namespace ditc
