// SPDX-License-Identifier: Apache-2.0
//
// ditc completion: the program's own commands from its command line, and those of ditc-run from that one's.
#include "tools/Completion.h"
#include "tools/ditc/Commands.h"
#include "tools/run/Commands.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fmt/format.h>
#include <memory>

namespace ditc::cli {

/// `ditc tune` has options of its own, and hands over to ditc-run's when it is to measure.
static void addOptions(CompletedCommand &command, const CompletedCommand &other) {
  for (const CompletedOption &option : other.options)
    if (std::none_of(command.options.begin(), command.options.end(), [&](const CompletedOption &known) { return known.names == option.names; }))
      command.options.push_back(option);
}

static CompletedCommand completionWithRuntime(const CLI::App &app) {
  CLI::App runner("", "ditc-run");
  run::CommandLine line;
  run::addCommands(runner, line);
  CompletedCommand program = completionOf(app);
  for (const CompletedCommand &ofRunner : completionOf(runner).commands)
    for (CompletedCommand &command : program.commands)
      if (command.name == ofRunner.name && isRuntimeCommand(command.name))
        command = ofRunner;
      else if (command.name == ofRunner.name && command.name == "tune")
        addOptions(command, ofRunner);
  return program;
}

void addCompletion(CLI::App &app, std::function<int()> &action) {
  auto shell = std::make_shared<std::string>();
  CLI::App *command = app.add_subcommand("completion", "Prints a script that completes commands and options in a shell: source <(ditc completion bash)");
  command->add_option("shell", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([shell, &app, &action] {
    action = [shell, &app] {
      fmt::print("{}", completionScript(completionWithRuntime(app), *shell));
      return 0;
    };
  });
}

} // namespace ditc::cli
