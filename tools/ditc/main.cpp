// SPDX-License-Identifier: Apache-2.0
//
// ditc: the command line of the compiler. Subcommands that need only the runtime are handed over to
// ditc-run, which stands beside this program.
#include "tools/ditc/Commands.h"

#include "compiler/Version.h"
#include "runtime/Error.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace {

constexpr const char *kIntroduction = R"(ditc compiles exported diffusion transformers ahead of time.

  ditc inspect model.pt2                         what it is, and what stands in the way
  ditc compile model.pt2 -o model.dita           one bucket with the export's sizes
  ditc compile model.pt2 --bucket small:s0=1 --bucket big:s0=4 -o model.dita
  ditc report model.dita --format html -o model.html
  ditc explain model.dita blocks.0.attn.to_q     which kernel it is in, and what stayed apart and why
  ditc run model.dita --inputs in.safetensors --check out.safetensors

Exit status: 0 done, 1 the input or environment is at fault, 2 wrong usage, 3 a fault of ditc.)";

/// Runs `body`, turning errors into a message and an exit status.
int guarded(const std::function<int()> &body) {
  try {
    return body();
  } catch (const ditc::Error &error) {
    fmt::print(stderr, "ditc: {}: {}\n", error.kind() == ditc::ErrorKind::Internal ? "internal error" : "error", error.what());
    return static_cast<int>(error.kind());
  } catch (const std::bad_alloc &) {
    fmt::print(stderr, "ditc: error: out of memory\n");
    return 1;
  } catch (const std::exception &error) {
    fmt::print(stderr, "ditc: internal error: {}\n", error.what());
    return 3;
  }
}

} // namespace

int main(int argc, char **argv) {
  using namespace ditc::cli;
  if (argc > 1 && isRuntimeCommand(argv[1]))
    return guarded([&] { return handOverToRuntime(argc, argv); });

  CLI::App app{kIntroduction, "ditc"};
  app.set_version_flag("--version", fmt::format("ditc {}", ditc::kVersion));
  app.require_subcommand(1);
  std::function<int()> action;
  addInspect(app, action);
  addCompile(app, action);
  addReport(app, action);
  addExplain(app, action);
  addDiff(app, action);
  addPasses(app, action);
  addRuntimeCommands(app); // for --help only
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return guarded(action);
}
