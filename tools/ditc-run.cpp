// SPDX-License-Identifier: Apache-2.0
//
// ditc-run: the program that goes to the machine where packages run. It needs the runtime only. This file
// is the command line; the subcommands are in tools/run/.
#include "tools/run/Commands.h"

#include "runtime/Error.h"
#include "runtime/JsonText.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fmt/format.h>
#include <functional>
#include <nlohmann/json.hpp>

using namespace ditc;
using namespace ditc::run;

namespace {

constexpr const char *kVersion = "0.1.0";

constexpr const char *kFooter = R"(Examples:
  ditc-run info model.dita
  ditc-run run model.dita --inputs in.safetensors --outputs out.safetensors
  ditc-run run model.dita --inputs in.safetensors --check reference.safetensors --tolerance 1e-3
  ditc-run bench model.dita --bucket 1024px --repeat 20
  ditc-run cache prune --max-bytes 1000000000

Exit status: 0 done, 1 the input or the environment is at fault or a check failed, 2 wrong usage,
3 a fault of ditc.
Environment: DITC_BLAS (library for matrix products on the host), DITC_CACHE_DIR, DITC_CACHE_MAX_BYTES.)";

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
  ditc-run bench model.dita --inputs in.safetensors --top 10 --json)";

void addSessionOptions(CLI::App &command, SessionArgs &args) {
  command.add_option("package", args.package, "the package (.dita)")->required();
  command.add_option("--bucket", args.bucket, "bucket to run (ditc-run info lists them)");
  command.add_option("--device", args.device, "where kernels run")->capture_default_str();
  command.add_option("--weights", args.weights,
                     "safetensors file or *.safetensors.index.json whose tensors take the place of the package's "
                     "weights; may be repeated");
  command.add_option("--threads", args.threads, "threads of matrix products on the host; 0: all")
      ->capture_default_str();
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
      ->add_option("--max-bytes", args.maxBytes, "the limit; default: DITC_CACHE_MAX_BYTES, else 10 GiB");
  add("clear", "remove all entries", CacheAction::Clear);
}

/// Runs the subcommand; failures become a message (and JSON when asked for) and an exit status.
int guarded(bool json, const std::function<int()> &command) {
  auto failed = [&](ErrorKind kind, const std::string &text) {
    fmt::print(stderr, "ditc-run: error: {}\n", text);
    if (json)
      fmt::print("{}\n", jsonText(nlohmann::json({{"error", text}, {"status", static_cast<int>(kind)}})));
    return static_cast<int>(kind);
  };
  try {
    return command();
  } catch (const Error &error) {
    return failed(error.kind(), error.what());
  } catch (const std::bad_alloc &) {
    return failed(ErrorKind::Input, "out of memory; free memory or use a smaller bucket");
  } catch (const std::exception &error) {
    return failed(ErrorKind::Internal, fmt::format("{}; this is a fault of ditc, please report it", error.what()));
  }
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Runs, measures and inspects packages that ditc compiled.", "ditc-run");
  app.set_version_flag("--version", fmt::format("ditc-run {}", kVersion));
  app.require_subcommand(1);
  app.footer(kFooter);
  RunArgs run;
  BenchArgs bench;
  InfoArgs info;
  CacheArgs cache;
  addRun(app, run);
  addBench(app, bench);
  addInfo(app, info);
  addCache(app, cache);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ErrorKind::Usage);
  }
  if (app.got_subcommand("run"))
    return guarded(run.json, [&] { return runCommand(run); });
  if (app.got_subcommand("bench"))
    return guarded(bench.json, [&] { return benchCommand(bench); });
  if (app.got_subcommand("info"))
    return guarded(info.json, [&] { return infoCommand(info); });
  return guarded(cache.json, [&] { return cacheCommand(cache); });
}
