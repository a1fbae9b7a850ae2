// SPDX-License-Identifier: Apache-2.0
//
// ditc tune: databases of measured tiles, joined and listed. Measuring is done by ditc-run, which goes to the machine with
// the GPU.
#include "tools/ditc/Commands.h"

#include "codegen/cuda/tuning/TunedTiles.h"
#include "runtime/AtomicFile.h"
#include "runtime/Error.h"
#include "runtime/JsonText.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <memory>

namespace ditc::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char *kTuneHelp = R"(Measured tiles: measure a bundle, join results into a database, or list one.

  ditc compile model.pt2 --target sm_90a --tuning-bundle model.tune    here; needs no GPU
  ditc tune model.tune -o tuning.json                                  on the GPU's machine; the same as ditc-run tune
  ditc tune --merge tuning.json --database mine.json                   here again
  ditc compile model.pt2 --target sm_90a --tuning mine.json
  ditc tune --list                                                     what is known without any file)";

struct TuneArguments {
  std::vector<std::string> merge;
  std::string database, bundle;
  bool list = false, json = false;
};

/// "412.3 us -> 398.1 us": what an entry was and is.
std::string changeText(const tuning::Entry *old, const tuning::Entry &entry) {
  std::string text = fmt::format("{:.1f} us with {}", entry.best.microseconds, tuning::textOf(entry.best.tiles));
  return old ? fmt::format("{:.1f} us with {} -> {}", old->best.microseconds, tuning::textOf(old->best.tiles), text) : text;
}

int merge(const TuneArguments &arguments) {
  if (arguments.database.empty())
    throw Error(ErrorKind::Usage, "--merge wants --database FILE, which the results are taken into");
  tuning::Database all = fs::exists(arguments.database) ? tuning::Database::open(arguments.database) : tuning::Database();
  std::map<tuning::Change, size_t> counts;
  nlohmann::json changes = nlohmann::json::array();
  for (const std::string &path : arguments.merge) {
    tuning::Database results = tuning::Database::open(path);
    for (const auto &[place, entry] : results.entries()) {
      auto known = all.entries().find(place);
      std::string text = changeText(known == all.entries().end() ? nullptr : &known->second, entry);
      tuning::Change change = all.merge(entry);
      ++counts[change];
      if (change == tuning::Change::Kept)
        continue;
      const char *word = change == tuning::Change::Added ? "added" : "replaced";
      changes.push_back({{"change", word}, {"key", entry.key.text()}, {"gpu", entry.gpu}, {"text", text}});
      if (!arguments.json)
        fmt::print("{:<8}  {} on {}\n          {}\n", word, entry.key.text(), entry.gpu, text);
    }
  }
  AtomicFile out(arguments.database);
  out.write(all.write());
  out.commit();
  if (arguments.json)
    fmt::print("{}\n", jsonText(nlohmann::json({{"database", arguments.database}, {"changes", changes}, {"kept", counts[tuning::Change::Kept]}, {"entries", all.entries().size()}}), 1));
  else
    fmt::print("{}: {} added, {} replaced, {} kept, {} entries\n", arguments.database, counts[tuning::Change::Added], counts[tuning::Change::Replaced], counts[tuning::Change::Kept], all.entries().size());
  return 0;
}

int list(const TuneArguments &arguments) {
  tuning::Database database = arguments.database.empty() ? shippedTuning() : tuning::Database::open(arguments.database);
  if (arguments.json) {
    fmt::print("{}", database.write());
    return 0;
  }
  auto times = [](const std::optional<double> &time, double best) { return time ? fmt::format("{:.2f}x", *time / best) : std::string("-"); };
  for (const auto &[place, entry] : database.entries())
    fmt::print("{}\n  {:>9.1f} us  {}; {} by the model's tiles, {} by cuBLASLt alone; {} candidates, {}, {}\n", entry.key.text(), entry.best.microseconds, tuning::textOf(entry.best.tiles),
               times(entry.model, entry.best.microseconds), times(entry.library, entry.best.microseconds), entry.candidates, entry.gpu, entry.date.substr(0, 10));
  fmt::print("{}: {} entries\n", arguments.database.empty() ? "shipped database" : arguments.database, database.entries().size());
  return 0;
}

} // namespace

bool measuresBundle(int argc, char **argv) {
  std::vector<std::string_view> words(argv + 1, argv + argc);
  if (words.size() < 2 || words.front() != "tune")
    return false;
  return std::none_of(words.begin(), words.end(), [](std::string_view word) {
    return word == "--list" || word == "-h" || word == "--help" || word.starts_with("--merge") || word.starts_with("--database");
  });
}

void addTune(CLI::App &app, std::function<int()> &action) {
  auto arguments = std::make_shared<TuneArguments>();
  CLI::App *command = app.add_subcommand("tune", kTuneHelp);
  command->add_option("bundle", arguments->bundle, "bundle to measure on this machine's GPU; its options are those of ditc-run tune");
  command->add_option("--merge", arguments->merge, "results to take into the database (repeatable); of one kernel and GPU the later measurement stays");
  command->add_option("--database", arguments->database, "database to merge into, which need not be there, or to list; default for --list: the shipped one");
  command->add_flag("--list", arguments->list, "print the database");
  command->add_flag("--json", arguments->json, "print JSON");
  command->callback([arguments, &action] {
    action = [arguments] {
      if (!arguments->bundle.empty() || arguments->list == !arguments->merge.empty())
        throw Error(ErrorKind::Usage, "tune wants a bundle to measure, or one of --merge FILE and --list");
      return arguments->list ? list(*arguments) : merge(*arguments);
    };
  });
}

} // namespace ditc::cli
