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
  ditc-run tune model.tune -o tuning.json
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

constexpr const char *kTuneFooter = R"(The bundle is made where there need not be a GPU, by
  ditc compile model.pt2 --target sm_90a --tuning-bundle model.tune
and the results are taken into a database there, by
  ditc tune --merge tuning.json --database mine.json
Results are written after every kernel: an interrupted run goes on when it is called again.)";

/// Turns "20GB" or "1.5GB" into a number of bytes, units being powers of 1024. CLI11's own reader takes -1 for 2^64 - 1.
std::string readSize(std::string &text) {
  size_t split = text.find_first_not_of("0123456789.");
  std::string digits = text.substr(0, split);
  std::string unit = CLI::detail::to_lower(CLI::detail::trim_copy(split == std::string::npos ? "" : text.substr(split)));
  if (unit.ends_with("b"))
    unit.resize(unit.size() - (unit.ends_with("ib") ? 2 : 1));
  size_t power = unit.empty() ? 0 : std::string_view(" kmgt").find(unit);
  uint64_t whole = 0;
  double fraction = 0;
  const char *end = digits.data() + digits.size();
  auto [stopped, error] = std::from_chars(digits.data(), end, whole);
  bool wellFormed = error == std::errc() && power <= 4;
  if (wellFormed && stopped != end) { // a part of a unit; of bytes there are none
    auto [rest, fractionError] = std::from_chars(stopped, end, fraction);
    wellFormed = power > 0 && *stopped == '.' && fractionError == std::errc() && rest == end;
  }
  if (!wellFormed || whole >= std::numeric_limits<uint64_t>::max() >> (10 * power))
    return fmt::format("'{}' is no size; expected a number of bytes such as 5000000000, 1.5GB or 20GB", text);
  text = std::to_string((whole << (10 * power)) + static_cast<uint64_t>(fraction * static_cast<double>(1ULL << (10 * power))));
  return "";
}

/// A whole number from `least` on; CLI11's own checks speak of the range of a double.
CLI::Validator countFrom(unsigned least) {
  auto check = [least](std::string &text) {
    unsigned value = 0;
    auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    bool fits = error == std::errc() && stopped == text.data() + text.size() && value >= least;
    return fits ? std::string() : fmt::format("'{}' is no count; expected a whole number from {} on", text, least);
  };
  return CLI::Validator(check, "COUNT");
}

/// Not negative, not NaN.
CLI::Validator tolerance() {
  auto check = [](std::string &text) {
    double value = -1;
    return CLI::detail::lexical_cast(text, value) && value >= 0
               ? std::string()
               : fmt::format("'{}' is no tolerance; expected a number that is not negative, such as 1e-3", text);
  };
  return CLI::Validator(check, "TOLERANCE");
}

/// Not NaN, which compares with nothing.
CLI::Validator secondsUpTo(double most) {
  auto check = [most](std::string &text) {
    double value = -1;
    return CLI::detail::lexical_cast(text, value) && value >= 0 && value <= most
               ? std::string()
               : fmt::format("'{}' is no time; expected seconds from 0 to {}", text, most);
  };
  return CLI::Validator(check, "SECONDS");
}

void addSessionOptions(CLI::App &command, SessionArgs &args) {
  command.add_option("package", args.package, "the package (.dita)")->required();
  command.add_option("--bucket", args.bucket, "bucket to run (ditc-run info lists them)");
  command.add_option("--device", args.device, "where kernels run: host, cuda or cuda:N")->capture_default_str();
  command.add_option("--weights", args.weights,
                     "safetensors file or *.safetensors.index.json whose tensors take the place of the package's "
                     "weights; may be repeated");
  command.add_option("--threads", args.threads, "threads of matrix products on the host; 0: all")
      ->capture_default_str()
      ->check(countFrom(0));
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
      ->check(tolerance());
  command->add_option("--repeat", args.repeat, "runs; the median time is printed")
      ->capture_default_str()
      ->check(countFrom(1));
  command->add_flag("--pad", args.pad,
                    "run inputs that no bucket has in the smallest bucket that holds them, where the package allows it");
  command->add_flag("--poison", args.poison,
                    "fill scratch and outputs with NaN before each run, which shows reads of memory that no op wrote");
  command->footer(kRunFooter);
}

void addBench(CLI::App &app, BenchArgs &args) {
  CLI::App *command = app.add_subcommand("bench", "time every op of a bucket");
  addSessionOptions(*command, args);
  command->add_option("--inputs", args.inputs, "safetensors file with the inputs; made up when not given");
  command->add_option("--repeat", args.repeat, "measured runs")->capture_default_str()->check(countFrom(1));
  command->add_option("--warmup", args.warmup, "runs before them")->capture_default_str()->check(countFrom(0));
  command->add_option("--top", args.top, "slowest ops to print; 0: all")->capture_default_str()->check(countFrom(0));
  command->add_flag("--by-kernel", args.byKernel, "one row for all launches of a kernel");
  command->add_flag("--random-weights", args.randomWeights, "make up weights that the package has no bytes for");
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

void addTune(CLI::App &app, TuneArgs &args) {
  CLI::App *command = app.add_subcommand("tune", "measure the kernels of a tuning bundle on this GPU");
  command->add_option("bundle", args.bundle, "the bundle that `ditc compile --tuning-bundle` wrote")->required();
  command->add_option("-o,--output", args.output, "file for the results; kernels that it has are not measured again")
      ->capture_default_str();
  command->add_option("--device", args.device, "GPU: cuda or cuda:N")->capture_default_str();
  command->add_option("--rounds", args.rounds, "bursts of each candidate, in turns; the median counts")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  command->add_option("--steady", args.steady, "seconds that each of the best runs before it is timed, so that the GPU is "
                                               "at its power limit; 0: bursts only")
      ->capture_default_str()
      ->check(secondsUpTo(60));
  command->add_option("--finalists", args.finalists, "how many of the best are timed that way")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  command->add_option("--budget", args.budget, "seconds after which no further kernel is begun; 0: none")
      ->capture_default_str()
      ->check(secondsUpTo(1e9));
  command->add_option("--memory-budget", args.memoryBudget, "bytes of GPU memory that may be taken (such as 20GB); "
                                                            "default: what is free")
      ->transform(CLI::Validator(readSize, "BYTES"));
  command->add_flag("--again", args.again, "measure kernels that the results have already");
  command->add_flag("--no-library", args.noLibrary, "do not time cuBLASLt");
  command->add_flag("--json", args.json, "print the results as JSON");
  command->footer(kTuneFooter);
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
  addTune(app, line.tune);
  addCache(app, line.cache);
  addCompletion(app, line.shell);
}

} // namespace ditc::run
