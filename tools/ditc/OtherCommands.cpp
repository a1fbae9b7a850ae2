// SPDX-License-Identifier: Apache-2.0
//
// The short subcommands: inspect, passes, and the hand-over to ditc-run.
#include "tools/ditc/Commands.h"

#include "compiler/Inspect.h"
#include "compiler/Pipeline.h"
#include "runtime/Error.h"
#include "runtime/JsonText.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <unistd.h>
#include <vector>

namespace ditc::cli {

namespace fs = std::filesystem;

void addInspect(CLI::App &app, std::function<int()> &action) {
  auto path = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App *command = app.add_subcommand("inspect", "Says what an export is: inputs, symbolic sizes, ops, weights, and what is not supported and where.");
  command->add_option("model", *path, "MODEL.pt2")->required();
  command->add_flag("--json", *json, "print JSON");
  command->callback([=, &action] {
    action = [=] {
      nlohmann::json inspection = inspect(*path);
      fmt::print("{}", *json ? jsonText(inspection, 1) + "\n" : describe(inspection));
      return inspection["unsupported"].empty() ? 0 : 1;
    };
  });
}

void addPasses(CLI::App &app, std::function<int()> &action) {
  CLI::App *command = app.add_subcommand("passes", "Lists the phases and passes of the compiler in order.");
  command->callback([&action] {
    action = [] {
      fmt::print("{}", describePipeline());
      return 0;
    };
  });
}

bool wantsJson(int argc, char **argv) {
  std::vector<std::string_view> words(argv + 1, argv + argc);
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i] == "--json" || words[i] == "--format=json" || (words[i] == "--format" && i + 1 < words.size() && words[i + 1] == "json"))
      return true;
  return false;
}

std::string refuseEmpty(const std::string &text) { return text.empty() ? "is empty" : ""; }

//===-- Hand-over to ditc-run ---------------------------------------------------------------------===//

struct RuntimeCommand {
  const char *name, *summary;
};

static constexpr std::array<RuntimeCommand, 4> kRuntimeCommands{{
    {"run", "Runs a package on inputs from a safetensors file, and compares with a reference."},
    {"bench", "Times a package, op by op."},
    {"info", "Says what a package holds."},
    {"cache", "ls | verify | prune | clear: the cache of compiled packages."},
}};

bool isRuntimeCommand(std::string_view name) {
  return std::any_of(kRuntimeCommands.begin(), kRuntimeCommands.end(), [&](const RuntimeCommand &command) { return name == command.name; });
}

void addRuntimeCommands(CLI::App &app) {
  for (const RuntimeCommand &command : kRuntimeCommands)
    app.add_subcommand(command.name, fmt::format("{} (ditc-run {})", command.summary, command.name));
}

int handOverToRuntime(int argc, char **argv) {
  std::error_code error;
  fs::path self = fs::read_symlink("/proc/self/exe", error);
  fs::path runtime = self.parent_path() / "ditc-run";
  if (error || !fs::exists(runtime))
    fail("'{}' is a command of ditc-run, which must stand beside ditc; expected {}", argv[1], runtime.string());
  std::vector<char *> arguments(argv, argv + argc);
  std::string name = runtime.string();
  arguments[0] = name.data();
  arguments.push_back(nullptr);
  execv(name.c_str(), arguments.data());
  fail("cannot start {}: {}", name, std::strerror(errno));
}

} // namespace ditc::cli
