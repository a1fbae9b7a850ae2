// SPDX-License-Identifier: Apache-2.0
//
// Each script finds the subcommand among the words so far and offers its options behind a dash, the words that an option
// takes, subcommands, and files everywhere else.
#include "tools/Completion.h"

#include "runtime/Error.h"

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>
#include <functional>

namespace ditc {
namespace {

/// The words of "TEXT:{fast,eager}".
std::vector<std::string> wordsOf(const std::string &type) {
  size_t open = type.find('{'), close = type.find('}');
  return open == std::string::npos || close < open ? std::vector<std::string>() : CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

/// The first clause, on one line.
std::string shortened(std::string text) {
  size_t sentence = text.find(". ");
  if (sentence != std::string::npos && sentence > 0 && text[sentence - 1] == '.') // "NAME,... or NAME"
    sentence = std::string::npos;
  text = text.substr(0, std::min({text.find('\n'), sentence, text.find(';')}));
  return text.ends_with('.') || text.ends_with(':') ? text.substr(0, text.size() - 1) : text;
}

/// `text` with a backslash before each of `special`.
std::string escaped(const std::string &text, std::string_view special) {
  std::string out;
  for (char c : text) {
    if (special.find(c) != std::string_view::npos)
      out += '\\';
    out += c;
  }
  return out;
}

/// For shells whose single quotes know no escapes.
std::string quoted(std::string text) {
  for (size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4)
    text.replace(at, 1, "'\\''");
  return "'" + text + "'";
}

/// Calls visit(command, "cache prune") for the program ("") and all below it.
void forEachCommand(const CompletedCommand &command, const std::string &path, const std::function<void(const CompletedCommand &, const std::string &)> &visit) {
  visit(command, path);
  for (const CompletedCommand &below : command.commands)
    forEachCommand(below, path.empty() ? below.name : path + " " + below.name, visit);
}

std::vector<std::string> namesOf(const std::vector<CompletedCommand> &commands) {
  std::vector<std::string> names;
  for (const CompletedCommand &command : commands)
    names.push_back(command.name);
  return names;
}

std::string functionOf(const CompletedCommand &program) {
  std::string name = "_" + program.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// Lines of a `case "$command $word"` that follow the words down to the subcommand; the same in bash and zsh.
std::string walk(const CompletedCommand &program) {
  std::vector<std::string> paths;
  forEachCommand(program, "", [&](const CompletedCommand &, const std::string &path) {
    if (!path.empty())
      paths.push_back("'" + (path.find(' ') == std::string::npos ? " " + path : path) + "'");
  });
  return fmt::format("    case \"$command $word\" in\n      {}) command=\"${{command:+$command }}$word\" ;;\n    esac\n", fmt::join(paths, "|"));
}

/// "compile:--numerics|compile:-n" of one option.
std::string casesOf(const std::string &path, const CompletedOption &option) {
  std::vector<std::string> cases;
  for (const std::string &name : option.names)
    cases.push_back("'" + path + ":" + name + "'");
  return fmt::format("{}", fmt::join(cases, "|"));
}

std::string bashScript(const CompletedCommand &program) {
  std::string values, words;
  std::vector<std::string> free; // options that take a file, or anything: bash offers files by itself
  forEachCommand(program, "", [&](const CompletedCommand &command, const std::string &path) {
    std::vector<std::string> options;
    for (const CompletedOption &option : command.options) {
      options.insert(options.end(), option.names.begin(), option.names.end());
      if (!option.values.empty())
        values += fmt::format("    {}) offer='{}' ;;\n", casesOf(path, option), fmt::join(option.values, " "));
      else if (option.takesValue)
        free.push_back(casesOf(path, option));
    }
    std::vector<std::string> plain = command.commands.empty() ? command.values : namesOf(command.commands);
    words += fmt::format("    '{}:-') offer='{}' ;;\n", path, fmt::join(options, " "));
    if (!plain.empty())
      words += fmt::format("    '{}:') offer='{}' ;;\n", path, fmt::join(plain, " "));
  });
  if (!free.empty())
    values += fmt::format("    {}) return ;;\n", fmt::join(free, "|"));
  return fmt::format(R"(# Completion of {0} in bash:  source <({0} completion bash)
{1}() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" command="" word offer="" dash=""
  COMPREPLY=()
  if [[ $current == "=" ]]; then current=""
  elif [[ $previous == "=" ]]; then previous="${{COMP_WORDS[COMP_CWORD-2]}}"; fi
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
{2}  done
  case "$command:$previous" in
{3}  esac
  if [[ -z $offer ]]; then
    [[ $current == -* ]] && dash="-"
    case "$command:$dash" in
{4}    esac
  fi
  COMPREPLY=($(compgen -W "$offer" -- "$current"))
}}
complete -o default -F {1} {0}
)",
                     program.name, functionOf(program), walk(program), values, words);
}

/// The entries of _describe: 'name:what it is'.
std::string described(const std::string &name, const std::string &description) { return quoted(escaped(name, ":") + ":" + escaped(description, ":")); }

std::string zshScript(const CompletedCommand &program) {
  std::string values, words;
  std::vector<std::string> free; // options that take a file, or anything
  forEachCommand(program, "", [&](const CompletedCommand &command, const std::string &path) {
    std::vector<std::string> options, plain;
    for (const CompletedOption &option : command.options) {
      for (const std::string &name : option.names)
        options.push_back(described(name, option.description));
      if (!option.values.empty())
        values += fmt::format("    {}) compadd -- {}; return ;;\n", casesOf(path, option), fmt::join(option.values, " "));
      else if (option.takesValue)
        free.push_back(casesOf(path, option));
    }
    for (const CompletedCommand &below : command.commands)
      plain.push_back(described(below.name, below.description));
    for (const std::string &value : command.values)
      plain.push_back(quoted(value));
    words += fmt::format("    '{}:-') offer=({}) ;;\n", path, fmt::join(options, " "));
    if (!plain.empty())
      words += fmt::format("    '{}:') offer=({}) ;;\n", path, fmt::join(plain, " "));
  });
  if (!free.empty())
    values += fmt::format("    {}) _files; return ;;\n", fmt::join(free, "|"));
  return fmt::format(R"(#compdef {0}
# Completion of {0} in zsh:  source <({0} completion zsh), or as a file '_{0}' in a folder of $fpath
{1}() {{
  local command="" word dash=""
  local -a offer
  for word in "${{(@)words[2,CURRENT-1]}}"; do
{2}  done
  case "$command:${{words[CURRENT-1]}}" in
{3}  esac
  [[ ${{words[CURRENT]}} == -* ]] && dash="-"
  case "$command:$dash" in
{4}  esac
  if (( $#offer )); then _describe -o {0} offer; else _files; fi
}}
if [[ ${{funcstack[1]}} == '_{0}' ]]; then {1} "$@"; else compdef {1} {0}; fi
)",
                     program.name, functionOf(program), walk(program), values, words);
}

/// The condition of `complete -n` under which the command at `path` is the one.
std::string fishCondition(const CompletedCommand &command, const std::string &path) {
  if (path.empty())
    return "__fish_use_subcommand";
  std::string condition;
  for (const std::string &word : CLI::detail::split(path, ' '))
    condition += (condition.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + word);
  if (!command.commands.empty())
    condition += fmt::format("; and not __fish_seen_subcommand_from {}", fmt::join(namesOf(command.commands), " "));
  return condition;
}

std::string fishScript(const CompletedCommand &program) {
  std::string out = fmt::format("# Completion of {0} in fish:  {0} completion fish | source\n", program.name);
  auto quote = [](const std::string &text) { return "'" + escaped(text, "'\\") + "'"; };
  forEachCommand(program, "", [&](const CompletedCommand &command, const std::string &path) {
    std::string start = fmt::format("complete -c {} -n {}", program.name, quote(fishCondition(command, path)));
    for (const CompletedCommand &below : command.commands)
      out += fmt::format("{} -f -a {} -d {}\n", start, below.name, quote(below.description));
    for (const std::string &value : command.values)
      out += fmt::format("{} -f -a {}\n", start, value);
    for (const CompletedOption &option : command.options) {
      out += start;
      for (const std::string &name : option.names)
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!option.values.empty())
        out += fmt::format(" -x -a {}", quote(fmt::format("{}", fmt::join(option.values, " "))));
      else if (option.takesValue)
        out += " -r";
      out += fmt::format(" -d {}\n", quote(option.description));
    }
  });
  return out;
}

} // namespace

CompletedCommand completionOf(const CLI::App &app) {
  CompletedCommand command{.name = app.get_name(), .description = shortened(app.get_description()), .options = {}, .values = {}, .commands = {}};
  for (const CLI::Option *option : app.get_options()) {
    if (option->get_positional()) {
      command.values = wordsOf(option->get_type_name());
      continue;
    }
    CompletedOption &completed = command.options.emplace_back();
    for (const std::string &name : option->get_lnames())
      completed.names.push_back("--" + name);
    for (const std::string &name : option->get_snames())
      completed.names.push_back("-" + name);
    completed.values = wordsOf(option->get_type_name());
    completed.takesValue = option->get_items_expected_max() > 0;
    completed.description = shortened(option->get_description());
  }
  for (const CLI::App *below : app.get_subcommands([](const CLI::App *) { return true; }))
    command.commands.push_back(completionOf(*below));
  return command;
}

std::string completionScript(const CompletedCommand &program, std::string_view shell) {
  if (shell == "bash")
    return bashScript(program);
  if (shell == "zsh")
    return zshScript(program);
  if (shell == "fish")
    return fishScript(program);
  throw Error(ErrorKind::Usage, fmt::format("'{}' is no shell that has completions; there are bash, zsh and fish", shell));
}

} // namespace ditc
