// SPDX-License-Identifier: Apache-2.0
//
// ditc: the command line of the compiler. Subcommands that need only the runtime are handed over to
// ditc-run, which stands beside this program.
#include "tools/ditc/Commands.h"

#include "compiler/Version.h"
#include "runtime/Error.h"
#include "runtime/JsonText.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <system_error>

namespace {

constexpr const char *kIntroduction = R"(ditc compiles exported diffusion transformers ahead of time.

  ditc inspect model.pt2                         what it is, and what stands in the way
  ditc compile model.pt2 -o model.dita           one bucket with the export's sizes
  ditc compile model.pt2 --bucket small:s0=1 --bucket big:s0=4 -o model.dita
  ditc report model.dita --format html -o model.html
  ditc explain model.dita blocks.0.attn.to_q     which kernel it is in, and what stayed apart and why
  ditc run model.dita --inputs in.safetensors --check out.safetensors

Exit status: 0 done, 1 the input or environment is at fault, 2 wrong usage, 3 a fault of ditc.)";

using ditc::ErrorKind;

/// Tells a failure to people and, with `json`, to programs. Returns the exit status.
int failed(bool json, ErrorKind kind, const std::string &text) {
  fmt::print(stderr, "ditc: {}: {}\n", kind == ErrorKind::Internal ? "internal error" : "error", text);
  if (json)
    fmt::print("{}\n", ditc::jsonText(nlohmann::json({{"error", text}, {"status", static_cast<int>(kind)}})));
  return static_cast<int>(kind);
}

/// Runs `body`, turning errors into a message and an exit status.
int guarded(bool json, const std::function<int()> &body) {
  try {
    int status = body();
    if (std::fflush(stdout) != 0)
      ditc::fail("cannot write to standard output: {}", std::strerror(errno));
    return status;
  } catch (const ditc::Error &error) {
    return failed(json, error.kind(), error.what());
  } catch (const std::bad_alloc &) {
    return failed(json, ErrorKind::Input, "out of memory");
  } catch (const std::system_error &error) { // of the file system, which says which path, or of standard output
    return failed(json, ErrorKind::Input, error.what());
  } catch (const std::exception &error) {
    return failed(json, ErrorKind::Internal, error.what());
  }
}

bool isCommand(const CLI::App &app, const std::string &word) {
  auto commands = app.get_subcommands({});
  return std::any_of(commands.begin(), commands.end(), [&](const CLI::App *command) { return command->get_name() == word; });
}

/// "run, bench, ...": all commands.
std::string commandNames(const CLI::App &app) {
  std::string names;
  for (const CLI::App *command : app.get_subcommands({}))
    names += (names.empty() ? "" : ", ") + command->get_name();
  return names;
}

} // namespace

int main(int argc, char **argv) {
  using namespace ditc::cli;
  std::signal(SIGXFSZ, SIG_IGN); // a file over the size limit is a failed write, with a message
  bool json = wantsJson(argc, argv);
  if ((argc > 1 && isRuntimeCommand(argv[1])) || measuresBundle(argc, argv))
    return guarded(json, [&] { return handOverToRuntime(argc, argv); });

  CLI::App app{kIntroduction, "ditc"};
  app.set_version_flag("--version", fmt::format("ditc {}", ditc::kVersion));
  app.require_subcommand(1);
  std::function<int()> action;
  addInspect(app, action);
  addCompile(app, action);
  addReport(app, action);
  addExplain(app, action);
  addDiff(app, action);
  addTune(app, action);
  addPasses(app, action);
  addDoctor(app, action);
  addCompletion(app, action);
  addRuntimeCommands(app); // for --help only
  if (argc > 1 && argv[1][0] != '-' && !isCommand(app, argv[1]))
    return failed(json, ErrorKind::Usage, fmt::format("'{}' is no command; there are {}", argv[1], commandNames(app)));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0)
      return app.exit(error);
    return json ? failed(json, ErrorKind::Usage, error.what()) : (app.exit(error), 2);
  }
  return guarded(json, action);
}
