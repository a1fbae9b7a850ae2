// SPDX-License-Identifier: Apache-2.0
//
// ditc-run: the program that goes to the machine where packages run. It needs the runtime only. This file
// is the main function; options and subcommands are in tools/run/.
#include "tools/Completion.h"
#include "tools/run/Commands.h"

#include "runtime/Error.h"
#include "runtime/JsonText.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

using namespace ditc;
using namespace ditc::run;

namespace {

constexpr const char *kVersion = "0.1.0";

/// Runs the subcommand; failures become a message (and JSON when asked for) and an exit status.
int guarded(bool json, const std::function<int()> &command) {
  auto failed = [&](ErrorKind kind, const std::string &text) {
    fmt::print(stderr, "ditc-run: error: {}\n", text);
    if (json)
      fmt::print("{}\n", jsonText(nlohmann::json({{"error", text}, {"status", static_cast<int>(kind)}})));
    return static_cast<int>(kind);
  };
  try {
    int status = command();
    if (std::fflush(stdout) != 0)
      fail("cannot write to standard output: {}", std::strerror(errno));
    return status;
  } catch (const Error &error) {
    return failed(error.kind(), error.what());
  } catch (const std::bad_alloc &) {
    return failed(ErrorKind::Input, "out of memory; free memory or use a smaller bucket");
  } catch (const std::system_error &error) { // a full disk under standard output, a folder that cannot be read
    return failed(ErrorKind::Input, error.what());
  } catch (const std::exception &error) {
    return failed(ErrorKind::Internal, fmt::format("{}; this is a fault of ditc, please report it", error.what()));
  }
}

/// What to say of a first word that is no subcommand: on machines that serve, most likely one of the compiler's. "" when it
/// is one.
std::string misusedWord(const CLI::App &app, const std::string &word) {
  std::vector<std::string> names;
  for (const CLI::App *command : app.get_subcommands({}))
    names.push_back(command->get_name());
  if (word.empty() || word.front() == '-' || std::find(names.begin(), names.end(), word) != names.end())
    return "";
  return fmt::format("'{}' is no command of ditc-run, which has {}; the program `ditc` has others", word, fmt::join(names, ", "));
}

} // namespace

int main(int argc, char **argv) {
  std::signal(SIGXFSZ, SIG_IGN); // a file over the size limit is a failed write, with a message
  CLI::App app("Runs, measures and inspects packages that ditc compiled.", "ditc-run");
  app.set_version_flag("--version", fmt::format("ditc-run {}", kVersion));
  CommandLine line;
  addCommands(app, line);
  bool json = std::any_of(argv + 1, argv + argc, [](const char *word) { return std::string_view(word) == "--json"; });
  auto misused = [&](const std::string &text) { return guarded(json, [&]() -> int { throw Error(ErrorKind::Usage, text); }); };
  if (std::string text = misusedWord(app, argc > 1 ? argv[1] : ""); !text.empty())
    return misused(text);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() != 0 && json)
      return misused(error.what());
    return app.exit(error) == 0 ? 0 : static_cast<int>(ErrorKind::Usage);
  }
  if (app.got_subcommand("run"))
    return guarded(line.run.json, [&] { return runCommand(line.run); });
  if (app.got_subcommand("bench"))
    return guarded(line.bench.json, [&] { return benchCommand(line.bench); });
  if (app.got_subcommand("info"))
    return guarded(line.info.json, [&] { return infoCommand(line.info); });
  if (app.got_subcommand("tune"))
    return guarded(line.tune.json, [&] { return tuneCommand(line.tune); });
  if (app.got_subcommand("cache"))
    return guarded(line.cache.json, [&] { return cacheCommand(line.cache); });
  return guarded(false, [&] {
    fmt::print("{}", completionScript(completionOf(app), line.shell));
    return 0;
  });
}
