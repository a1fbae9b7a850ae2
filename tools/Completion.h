// SPDX-License-Identifier: Apache-2.0
//
// Shell completion: scripts for bash, zsh and fish, made from what a program's command line declares, so that they
// cannot fall behind it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace ditc {

struct CompletedOption {
  std::vector<std::string> names;  ///< "--output", "-o"
  std::vector<std::string> values; ///< what it takes, when these are few words
  bool takesValue = false;
  std::string description;
};

/// A program or a subcommand.
struct CompletedCommand {
  std::string name, description;
  std::vector<CompletedOption> options;
  std::vector<std::string> values; ///< of its positional arguments, when these are few words; else they are files
  std::vector<CompletedCommand> commands;
};

CompletedCommand completionOf(const CLI::App &app);

/// `shell`: bash, zsh or fish.
std::string completionScript(const CompletedCommand &program, std::string_view shell);

} // namespace ditc
