// SPDX-License-Identifier: Apache-2.0
#include "tools/ditc/Commands.h"

#include "compiler/Compile.h"
#include "compiler/report/FailIf.h"
#include "compiler/report/Text.h"
#include "runtime/AtomicFile.h"
#include "runtime/Error.h"
#include "runtime/JsonText.h"
#include "runtime/Text.h"
#include "runtime/cuda/Target.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <unistd.h>

namespace ditc::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char *kCompileHelp = R"(Compiles one or more exports of one model into a package.

Sizes: a symbolic export takes one --bucket for each set of sizes, by symbol (see `ditc inspect`) or by input
dimension; several static exports are one bucket each, named NAME=MODEL.pt2 or after their files.

  ditc compile dit.pt2 --bucket b1:s0=1 --bucket b2:hidden_states.0=2 -o dit.dita
  ditc compile 512px=a.pt2 1024px=b.pt2 -o model.dita
  ditc compile graph-only.pt2 --weights diffusion_pytorch_model.safetensors.index.json)";

/// The command line before it is checked.
struct CompileArguments {
  std::vector<std::string> models, buckets, weights, pins, failIf, invariant, padding, quantizeSkip, quantizeOnly, targets = {"host"};
  std::vector<std::string> tuning;
  std::string output, numerics = "fast", quantize = "none", quantizeAttention = "none", weightsIn = "package", stopAfter, dump, hostCpu, tuningGpu, tuningBundle;
  unsigned tuningCandidates = 16;
  bool noTuning = false, tuningMissingOnly = false;
  bool noCache = false, json = false, verbose = false, quiet = false;
};

ModelPath parseModel(const std::string &text) {
  size_t equals = text.find('=');
  if (equals == std::string::npos || fs::exists(text))
    return {"", text};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::vector<std::string> everyTarget() {
  std::vector<std::string> targets{"host"};
  targets.insert(targets.end(), std::begin(cuda::kTargets), std::end(cuda::kTargets));
  return targets;
}

/// A package names its buckets and where they come from, in JSON.
void checkNames(const CompileArguments &arguments) {
  for (const auto *list : {&arguments.models, &arguments.buckets, &arguments.weights, &arguments.pins, &arguments.invariant, &arguments.padding})
    for (const std::string &text : *list)
      if (!isUtf8(text))
        fail("'{}' is not UTF-8, as names in a package are; rename the file, or link to it by another name", printable(text));
}

/// Wants the folder before anything is compiled.
void checkDumpFolder(const std::string &folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    fail("--dump cannot create '{}': {}; choose another folder", folder, error.message());
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    fail("--dump cannot write to '{}': {}; choose another folder", folder, std::strerror(errno));
}

/// No file that is read is written over.
void checkOutput(const CompileOptions &options) {
  if (options.stopAfter)
    return;
  const std::string &output = options.tuningBundle.empty() ? options.output : options.tuningBundle;
  for (const ModelPath &model : options.models)
    refuseToReplace(output, model.path);
  for (const auto *list : {&options.weights, &options.tuning})
    for (const std::string &path : *list)
      refuseToReplace(output, path);
  for (const auto &[name, path] : options.pins)
    refuseToReplace(output, path);
}

CompileOptions toOptions(const CompileArguments &arguments) {
  checkNames(arguments);
  if (!arguments.dump.empty())
    checkDumpFolder(arguments.dump);
  CompileOptions options;
  options.targets.clear();
  for (const std::string &model : arguments.models)
    options.models.push_back(parseModel(model));
  options.buckets = arguments.buckets;
  options.weights = arguments.weights;
  options.invariant = arguments.invariant;
  options.padding = arguments.padding;
  for (const std::string &target : arguments.targets) // each once, in the order given
    if (std::find(options.targets.begin(), options.targets.end(), target) == options.targets.end())
      options.targets.push_back(target);
  options.hostCpu = arguments.hostCpu;
  options.numerics = arguments.numerics == "eager" ? Numerics::Eager : Numerics::Fast;
  options.quantize = arguments.quantize == "fp8" ? Quantize::Fp8 : Quantize::None;
  options.quantizeAttention = arguments.quantizeAttention == "int8" ? QuantizeAttention::Int8 : QuantizeAttention::None;
  options.quantizeSkip = arguments.quantizeSkip;
  options.quantizeOnly = arguments.quantizeOnly;
  options.weightsMode = arguments.weightsIn == "package" ? WeightsMode::Embed : arguments.weightsIn == "reference" ? WeightsMode::Reference : WeightsMode::None;
  options.dumpDirectory = arguments.dump;
  options.useCache = !arguments.noCache;
  options.failIf = arguments.failIf;
  options.tuning = arguments.tuning;
  options.useTuning = !arguments.noTuning;
  options.tuningGpu = arguments.tuningGpu;
  options.tuningBundle = arguments.tuningBundle;
  options.tuningCandidates = arguments.tuningCandidates;
  options.tuningMissingOnly = arguments.tuningMissingOnly;
  for (const std::string &condition : options.failIf)
    parseCondition(condition); // wrong usage is said before work is done
  options.output = arguments.output.empty() ? fs::path(options.models.front().path).stem().string() + ".dita" : arguments.output;
  if (!arguments.stopAfter.empty())
    options.stopAfter = parsePhase(arguments.stopAfter);
  for (const std::string &pin : arguments.pins) {
    size_t equals = pin.find('=');
    if (equals == std::string::npos || equals == 0)
      throw Error(ErrorKind::Usage, fmt::format("--pin {}: expected NAME=FILE.safetensors", pin));
    options.pins[pin.substr(0, equals)] = pin.substr(equals + 1);
  }
  checkOutput(options);
  return options;
}

void printResult(const CompileResult &result, const CompileArguments &arguments) {
  for (const std::string &warning : result.warnings)
    fmt::print(stderr, "ditc: warning: {}\n", warning);
  if (arguments.verbose)
    for (const std::string &note : result.notes)
      fmt::print(stderr, "ditc: note: {}\n", note);
  if (!result.ir.empty()) {
    fmt::print("{}", result.ir);
    return;
  }
  if (!arguments.tuningBundle.empty()) {
    if (arguments.json)
      fmt::print("{}\n", jsonText(nlohmann::json({{"bundle", result.path}, {"bytes", fs::file_size(result.path)}, {"summary", result.summary}, {"notes", result.notes}}), 1));
    else if (!arguments.quiet)
      fmt::print("{}; wrote {} ({:.2f} MB); measure it by `ditc-run tune {}` on a machine with the GPU\n", result.summary, result.path, fs::file_size(result.path) / 1e6, result.path);
    return;
  }
  if (arguments.json) {
    nlohmann::json json = {{"package", result.path}, {"bytes", fs::file_size(result.path)}, {"from_cache", result.fromCache}, {"warnings", result.warnings}, {"notes", result.notes}, {"report", result.report}};
    fmt::print("{}\n", jsonText(json, 1));
  } else if (!arguments.quiet) {
    fmt::print("{}wrote {} ({:.2f} MB{})\n", summarise(result.report), result.path, fs::file_size(result.path) / 1e6, result.fromCache ? ", kernels from the cache" : "");
  }
}

int runCompile(const CompileArguments &arguments) {
  CompileOptions options = toOptions(arguments);
  Progress progress(arguments.verbose ? Progress::Mode::Verbose : arguments.quiet ? Progress::Mode::Quiet : Progress::Mode::Auto);
  printResult(compile(options, progress), arguments);
  return 0;
}

} // namespace

void addCompile(CLI::App &app, std::function<int()> &action) {
  auto arguments = std::make_shared<CompileArguments>();
  CLI::App *command = app.add_subcommand("compile", kCompileHelp);
  command->add_option("models", arguments->models, "[NAME=]MODEL.pt2 ...")->required();
  command->add_option("-o,--output", arguments->output, "package to write (default: MODEL.dita in the current folder)")->check(refuseEmpty);
  command->add_option("--bucket", arguments->buckets, "NAME:SYM=VAL,... or NAME:INPUT.DIM=VAL,... (repeatable)");
  command->add_option("--weights", arguments->weights, "safetensors file, or index of shards, with weights by parameter name (repeatable)");
  command->add_option("--pin", arguments->pins, "NAME=FILE.safetensors: the input's value belongs to the bucket (repeatable)");
  command->add_option("--invariant", arguments->invariant, "an input that is the same in every denoising step; positions (*_ids) and rotary tables are taken to be (repeatable)")->check(refuseEmpty);
  command->add_option("--pad", arguments->padding, "SYM=batch or SYM=mask:INPUT: refuse to compile unless runs with fewer rows can be padded so (repeatable; what can be shown without it is used anyway)");
  command->add_option("--weights-in", arguments->weightsIn, "package: embed; reference: point into the source file; none: handed over at run time")
      ->check(CLI::IsMember({"package", "reference", "none"}))->capture_default_str();
  command->add_option("--target", arguments->targets, "what to compile for: host, sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_120a, or for other GPUs ptx (from 8.0 on) and ptx89 (from 8.9 on, for fp8 products) (repeatable)")
      ->check(CLI::IsMember(everyTarget()))->capture_default_str();
  command->add_option("--host-cpu", arguments->hostCpu, "processor of the host target, LLVM's name or 'native' (default: x86-64-v3 on x86-64)");
  command->add_option("--numerics", arguments->numerics, "fast: fp32 inside kernels; eager: every rounding of the source graph")
      ->check(CLI::IsMember({"fast", "eager"}))->capture_default_str();
  command->add_option("--quantize", arguments->quantize, "fp8: products with weights multiply e4m3 numbers scaled by rows, for host, sm_89, sm_90a, sm_120a and ptx89 (docs/quantization.md)")
      ->check(CLI::IsMember({"none", "fp8"}))->capture_default_str();
  command->add_option("--quantize-attention", arguments->quantizeAttention, "int8: attention multiplies i8 queries and keys, e4m3 weights and values, for host and sm_90a (docs/quantization.md)")
      ->check(CLI::IsMember({"none", "int8"}))->capture_default_str();
  command->add_option("--quantize-skip", arguments->quantizeSkip, "modules whose products and attention stay in the graph's type, by a pattern of their paths: '*.proj_out' (repeatable)");
  command->add_option("--quantize-only", arguments->quantizeOnly, "the only modules that are quantised, and those whatever it saves, by a pattern of their paths (repeatable)");
  CLI::Option *stopAfter = command->add_option("--stop-after", arguments->stopAfter, "print the IR at a contract instead of writing a package")
      ->check(CLI::IsMember({"imported", "specialised", "fused", "planned"}));
  command->add_option("--dump", arguments->dump, "folder for the IR after every pass and for each kernel");
  command->add_option("--fail-if", arguments->failIf, "write nothing and exit with 1 when it holds for a bucket: 'launches>310', 'reason.no_slot>=20' (repeatable)");
  command->add_option("--tuning", arguments->tuning, "tuning database that goes before the shipped one (repeatable; see `ditc tune`)");
  command->add_flag("--no-tuning", arguments->noTuning, "use no measured tiles, only the analytic model's")->excludes("--tuning");
  command->add_option("--tuning-gpu", arguments->tuningGpu, "GPU whose measurements are used, by its name or a part of it, such as h200 (default: those made last)");
  command->add_option("--tuning-bundle", arguments->tuningBundle, "instead of a package, write a bundle for `ditc-run tune`: all candidates of every gemm kernel")
      ->check(refuseEmpty)->excludes("--output", "--stop-after", "--fail-if");
  stopAfter->excludes("--output", "--fail-if");
  command->add_option("--tuning-candidates", arguments->tuningCandidates, "candidates of each kernel in the bundle")->check(CLI::Range(1, 64))->capture_default_str()->needs("--tuning-bundle");
  command->add_flag("--tuning-missing-only", arguments->tuningMissingOnly, "leave kernels with measured tiles out of the bundle")->needs("--tuning-bundle");
  command->add_flag("--no-cache", arguments->noCache, "neither read nor fill the cache");
  command->add_flag("--json", arguments->json, "print the result as JSON");
  command->add_flag("-v,--verbose", arguments->verbose, "print each step with its time");
  command->add_flag("-q,--quiet", arguments->quiet, "print nothing but warnings and errors");
  command->callback([arguments, &action] { action = [arguments] { return runCompile(*arguments); }; });
}

} // namespace ditc::cli
