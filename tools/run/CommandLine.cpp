// SPDX-License-Identifier: Apache-2.0
//
// The options of ditc-run. They stand apart from its main function because `ditc completion` needs them too.
#include "tools/run/Commands.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <charconv>
#include <fmt/format.h>
#include <limits>

namespace ditc::run {
namespace {

constexpr const char *kFooter = R"(Examples:
  ditc-run info model.dita
  ditc-run run model.dita --inputs in.safetensors --outputs out.safetensors
  ditc-run run model.dita --inputs in.safetensors --check reference.safetensors --tolerance 1e-3
  ditc-run bench model.dita --bucket 1024px --repeat 20
  ditc-run cache prune --max-bytes 1000000000

Exit status: 0 done, 1 the input or the environment is at fault or a check failed, 2 wrong usage,
3 a fault of ditc.
Environment: DITC_BLAS (library for matrix products on the host), DITC_CUBLASLT (the same on a GPU),
DITC_CUDA_DRIVER (in place of libcuda.so.1), DITC_CACHE_DIR, DITC_CACHE_MAX_BYTES.)";

constexpr const char *kRunFooter = R"(Examples:
  ditc-run run model.dita --inputs in.safetensors --outputs out.safetensors
      the bucket is the one whose shapes the inputs have
  ditc-run run model.dita --bucket 512px --inputs in.safetensors --check ref.safetensors
      exit status 1 when the relative L2 error of an output is above the tolerance, or it has a NaN
  ditc-run run model.dita --inputs in.safetensors --weights tuned.safetensors
      weights by name in place of the package's)";

constexpr const char *kBenchFooter = R"(Examples:
  ditc-run bench model.dita
      all buckets, with made-up inputs
  ditc-run bench model.dita --inputs in.safetensors --top 10 --json
  ditc-run bench model.dita --device cuda
      the time of each op by CUDA events, and of whole runs, one queued behind the other)";

/// Turns "20GB" into a number of bytes, units being powers of 1024. CLI11's own reader takes -1 for 2^64 - 1.
std::string readSize(std::string &text) {
  uint64_t value = 0;
  const char *end = text.data() + text.size();
  auto [stopped, error] = std::from_chars(text.data(), end, value);
  std::string unit = CLI::detail::to_lower(CLI::detail::trim_copy(std::string(stopped, end)));
  if (unit.ends_with("b"))
    unit.resize(unit.size() - (unit.ends_with("ib") ? 2 : 1));
  size_t power = unit.empty() ? 0 : std::string_view(" kmgt").find(unit);
  if (error != std::errc() || power > 4 || value > std::numeric_limits<uint64_t>::max() >> (10 * power))
    return fmt::format("'{}' is no size; expected a number of bytes such as 5000000000 or 20GB", text);
  text = std::to_string(value << (10 * power));
  return "";
}

void addSessionOptions(CLI::App &command, SessionArgs &args) {
  command.add_option("package", args.package, "the package (.dita)")->required();
  command.add_option("--bucket", args.bucket, "bucket to run (ditc-run info lists them)");
  command.add_option("--device", args.device, "where kernels run: host, cuda or cuda:N")->capture_default_str();
  command.add_option("--weights", args.weights,
                     "safetensors file or *.safetensors.index.json whose tensors take the place of the package's "
                     "weights; may be repeated");
  command.add_option("--threads", args.threads, "threads of matrix products on the host; 0: all")
      ->capture_default_str();
  command.add_option("--memory-budget", args.memoryBudget, "bytes that the package may take on a GPU (such as 20GB); "
                                                           "default: what is free")
      ->transform(CLI::Validator(readSize, "BYTES"));
  command.add_flag("--no-graphs", args.noGraphs, "launch kernels one by one instead of by a CUDA graph");
  command.add_flag("--no-jit", args.noJit, "refuse code that the CUDA driver would have to compile");
  command.add_flag("--skip-weight-check", args.skipWeightCheck, "do not check the hashes of weights");
  command.add_flag("--json", args.json, "print JSON");
}

void addRun(CLI::App &app, RunArgs &args) {
  CLI::App *command = app.add_subcommand("run", "run a bucket once and compare with a reference");
  addSessionOptions(*command, args);
  command->add_option("--inputs", args.inputs, "safetensors file with the inputs by name")->required();
  command->add_option("--outputs", args.outputs, "safetensors file to write");
  command->add_option("--check", args.check, "safetensors file with the expected outputs, in any type");
  command->add_option("--tolerance", args.tolerance, "largest relative L2 error that passes")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command->add_option("--repeat", args.repeat, "runs; the median time is printed")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_flag("--poison", args.poison,
                    "fill scratch and outputs with NaN before each run, which shows reads of memory that no op wrote");
  command->footer(kRunFooter);
}

void addBench(CLI::App &app, BenchArgs &args) {
  CLI::App *command = app.add_subcommand("bench", "time every op of a bucket");
  addSessionOptions(*command, args);
  command->add_option("--inputs", args.inputs, "safetensors file with the inputs; made up when not given");
  command->add_option("--repeat", args.repeat, "measured runs")->capture_default_str()->check(CLI::PositiveNumber);
  command->add_option("--warmup", args.warmup, "runs before them")->capture_default_str();
  command->add_option("--top", args.top, "slowest ops to print; 0: all")->capture_default_str();
  command->footer(kBenchFooter);
}

void addInfo(CLI::App &app, InfoArgs &args) {
  CLI::App *command = app.add_subcommand("info", "what a package holds");
  command->add_option("package", args.package, "the package (.dita)")->required();
  command->add_flag("--verify", args.verify, "check the hash of every member");
  command->add_flag("--list-weights", args.listWeights, "list all weights with type, shape and place");
  command->add_flag("--json", args.json, "print JSON");
}

void addCache(CLI::App &app, CacheArgs &args) {
  CLI::App *command = app.add_subcommand("cache", "list and tidy the persistent cache");
  command->require_subcommand(1);
  auto add = [&](const char *name, const char *text, CacheAction action) {
    CLI::App *sub = command->add_subcommand(name, text);
    sub->add_flag("--json", args.json, "print JSON");
    sub->callback([&args, action] { args.action = action; });
    return sub;
  };
  add("ls", "entries, least recently used first", CacheAction::List);
  add("verify", "read every entry and remove damaged ones", CacheAction::Verify);
  add("prune", "remove the least recently used entries over the limit", CacheAction::Prune)
      ->add_option("--max-bytes", args.maxBytes, "the limit, such as 5GB; default: DITC_CACHE_MAX_BYTES, else 10 GiB")
      ->transform(CLI::Validator(readSize, "BYTES"));
  add("clear", "remove all entries", CacheAction::Clear);
}

void addCompletion(CLI::App &app, std::string &shell) {
  app.add_subcommand("completion", "print a script that completes commands and options in a shell")
      ->add_option("shell", shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
}

} // namespace

void addCommands(CLI::App &app, CommandLine &line) {
  app.require_subcommand(1);
  app.footer(kFooter);
  addRun(app, line.run);
  addBench(app, line.bench);
  addInfo(app, line.info);
  addCache(app, line.cache);
  addCompletion(app, line.shell);
}

} // namespace ditc::run
