// SPDX-License-Identifier: Apache-2.0
//
// The subcommands of ditc. Each `add` function declares its options and sets `action` when it is chosen.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace ditc::cli {

void addInspect(CLI::App &app, std::function<int()> &action);
void addCompile(CLI::App &app, std::function<int()> &action);
void addReport(CLI::App &app, std::function<int()> &action);
void addExplain(CLI::App &app, std::function<int()> &action);
void addDiff(CLI::App &app, std::function<int()> &action);
void addTune(CLI::App &app, std::function<int()> &action);
void addPasses(CLI::App &app, std::function<int()> &action);
void addDoctor(CLI::App &app, std::function<int()> &action);
/// `app` must outlive the action: the scripts say what it has.
void addCompletion(CLI::App &app, std::function<int()> &action);

/// True when the command line asks for JSON, in which case a failure is told as JSON as well.
bool wantsJson(int argc, char **argv);
/// A check of CLI11: the text is not empty.
std::string refuseEmpty(const std::string &text);

/// run, bench, info, cache: lines in the help; they are executed by ditc-run.
void addRuntimeCommands(CLI::App &app);
bool isRuntimeCommand(std::string_view name);
/// `ditc tune BUNDLE` is executed by ditc-run, too.
bool measuresBundle(int argc, char **argv);
/// Replaces this process by the ditc-run that stands beside it. Throws Error (Input) when there is none.
int handOverToRuntime(int argc, char **argv);

} // namespace ditc::cli
