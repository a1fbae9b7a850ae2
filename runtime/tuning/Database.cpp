// SPDX-License-Identifier: Apache-2.0
#include "runtime/tuning/Database.h"

#include "runtime/FileKind.h"
#include "runtime/JsonText.h"
#include "runtime/MappedFile.h"
#include "runtime/Text.h"
#include "runtime/tuning/TuningJson.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <iterator>
#include <sstream>
#include <tuple>

namespace ditc::tuning {
namespace {

constexpr int kVersion = 1;
constexpr size_t kMaxText = 256, kMaxTiles = 32, kMaxOthers = 64;
constexpr int64_t kMaxTile = 4096;
constexpr std::string_view kAdvice = "mend or remove the entry, or measure again";

std::string textWithin(const JsonField &field) {
  std::string text = field.text();
  bool isPrintable = isUtf8(text) && std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < ' '; });
  if (text.empty() || text.size() > kMaxText || !isPrintable)
    field.misfit(fmt::format("a printable text of 1 to {} bytes", kMaxText));
  return text;
}

std::string lowerCase(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

/// Whether every word of `words` is in the text, in any case.
bool hasWords(std::string_view text, std::string_view words) {
  std::string in = lowerCase(text);
  std::istringstream parts(lowerCase(words));
  return std::all_of(std::istream_iterator<std::string>(parts), {}, [&](const std::string &word) { return in.find(word) != in.npos; });
}

double microseconds(const JsonField &field) {
  double value = field.number();
  if (value <= 0 || value > 1e9)
    field.misfit("microseconds above 0, at most 1e9");
  return value;
}

/// "2026-11-29T22:31:00Z": compared as text. The later measurement wins, so a slip far into the future would win for ever.
std::string readDate(const JsonField &field) {
  static constexpr std::string_view kShape = "0000-00-00T00:00:00Z";
  std::string text = field.text();
  bool fits = text.size() == kShape.size() && std::equal(text.begin(), text.end(), kShape.begin(), [](char c, char shape) {
                return shape == '0' ? c >= '0' && c <= '9' : c == shape;
              });
  auto number = [&](size_t at, size_t digits) {
    unsigned value = 0;
    std::from_chars(text.data() + at, text.data() + at + digits, value);
    return value;
  };
  if (fits) {
    namespace time = std::chrono;
    time::year_month_day day(time::year(int(number(0, 4))), time::month(number(5, 2)), time::day(number(8, 2)));
    fits = day.ok() && day.year() >= time::year(2020) && day.year() < time::year(2100) && number(11, 2) < 24 &&
           number(14, 2) < 60 && number(17, 2) <= 60; // 60: a leap second
  }
  if (!fits)
    field.misfit("a time of the years 2020 to 2099 in UTC, such as \"2026-11-29T22:31:00Z\"");
  return text;
}

Timed readTimed(const JsonField &field) { return {readTiles(field.at("tiles")), microseconds(field.at("us"))}; }

template <typename Read> auto readSome(const JsonField &field, const char *name, Read read) {
  decltype(field.list(read)) out;
  if (!field.has(name))
    return out;
  JsonField list = field.at(name);
  if (list.size() > kMaxOthers)
    list.misfit(fmt::format("at most {} elements", kMaxOthers));
  return list.list(read);
}

std::optional<double> readTime(const JsonField &field, const char *name) {
  return field.has(name) ? std::optional(microseconds(field.at(name))) : std::nullopt;
}

Excluded readExcluded(const JsonField &field) { return {readTiles(field.at("tiles")), textWithin(field.at("reason"))}; }

Failure readFailure(const JsonField &field) { return {readKey(field), textWithin(field.at("gpu")), readExcluded(field)}; }

Entry readEntry(const JsonField &field) {
  Entry out;
  out.key = readKey(field);
  JsonField named(*field.value, fmt::format("{} ({})", field.where, out.key.text()), field.advice);
  out.gpu = textWithin(named.at("gpu"));
  out.capability = textWithin(named.at("capability"));
  out.best = readTimed(named);
  out.others = readSome(named, "others", readTimed);
  out.model = readTime(named, "model_us");
  out.library = readTime(named, "library_us");
  out.steady = named.has("steady") && named.at("steady").boolean();
  out.candidates = named.at("candidates").index();
  out.excluded = readSome(named, "excluded", readExcluded);
  out.date = readDate(named.at("date"));
  out.driver = named.at("driver").index();
  return out;
}

OrderedJson toJson(const Entry &entry) {
  OrderedJson out = toJson(entry.key);
  out["gpu"] = entry.gpu;
  out["capability"] = entry.capability;
  out["tiles"] = entry.best.tiles;
  out["us"] = entry.best.microseconds;
  if (entry.model)
    out["model_us"] = *entry.model;
  if (entry.library)
    out["library_us"] = *entry.library;
  out["steady"] = entry.steady;
  out["candidates"] = entry.candidates;
  out["others"] = OrderedJson::array();
  for (const Timed &other : entry.others)
    out["others"].push_back({{"tiles", other.tiles}, {"us", other.microseconds}});
  if (!entry.excluded.empty()) {
    out["excluded"] = OrderedJson::array();
    for (const Excluded &each : entry.excluded)
      out["excluded"].push_back({{"tiles", each.tiles}, {"reason", each.reason}});
  }
  out["date"] = entry.date;
  out["driver"] = entry.driver;
  return out;
}

OrderedJson toJson(const Failure &failure) {
  OrderedJson out = toJson(failure.key);
  out["gpu"] = failure.gpu;
  out["tiles"] = failure.excluded.tiles;
  out["reason"] = failure.excluded.reason;
  return out;
}

/// Rounded to what a measurement can tell, so that files are readable.
void shorten(Entry &entry) {
  auto round = [](double &value) { value = std::max(0.01, std::round(value * 100) / 100); };
  round(entry.best.microseconds);
  for (Timed &other : entry.others)
    round(other.microseconds);
  for (std::optional<double> *time : {&entry.model, &entry.library})
    if (*time)
      round(**time);
}

} // namespace

//===-- keys and tiles --------------------------------------------------------------------------------===//

std::string textOf(const Tiles &tiles) {
  auto valueOf = [&](const char *name) {
    auto found = tiles.find(name);
    return found == tiles.end() ? int64_t{0} : found->second;
  };
  std::string text = fmt::format("{}x{}", valueOf("m"), valueOf("n"));
  for (const auto &[name, value] : tiles) {
    bool multiplies = name.starts_with("cluster") || name == "split";
    if (name != "m" && name != "n" && value != (multiplies ? 1 : 0))
      text += fmt::format(" {}={}", name, value);
  }
  return text;
}

std::string Key::text() const { return fmt::format("{} {} {} {} ({})", op, arch, dtype, sizes, epilogue); }

OrderedJson toJson(const Key &key) {
  return {{"op", key.op}, {"arch", key.arch}, {"dtype", key.dtype}, {"sizes", key.sizes}, {"epilogue", key.epilogue}};
}

Key readKey(const JsonField &field) {
  return {textWithin(field.at("op")), textWithin(field.at("arch")), textWithin(field.at("dtype")),
          textWithin(field.at("sizes")), textWithin(field.at("epilogue"))};
}

Tiles readTiles(const JsonField &field) {
  Tiles out;
  field.members([&](const std::string &name, const JsonField &value) {
    int64_t number = value.integer();
    if (number < 0 || number > kMaxTile)
      value.misfit(fmt::format("an integer from 0 to {}", kMaxTile));
    out[name] = number;
  });
  if (out.empty() || out.size() > kMaxTiles || !isUtf8(textOf(out)))
    field.misfit(fmt::format("1 to {} named numbers", kMaxTiles));
  return out;
}

//===-- database --------------------------------------------------------------------------------------===//

Database Database::parse(std::string_view text, std::string_view source) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const nlohmann::json::exception &error) {
    fail("'{}' is no tuning database: it is not JSON: {}; expected what ditc-run tune writes", source, error.what());
  }
  JsonField root(json, fmt::format("'{}'", source), kAdvice);
  if (int64_t version = root.at("ditc_tuning").integer(); version != kVersion)
    fail("'{}' has tuning database version {}, this program reads version {}; measure again", source, version, kVersion);
  Database out;
  JsonField entries = root.at("entries");
  for (size_t i = 0; i < entries.size(); ++i) {
    Entry entry = readEntry(entries.at(i));
    auto place = std::pair(entry.key, entry.gpu);
    if (out.list.contains(place))
      fail("{}: a second entry of {} on {}; {}", entries.at(i).where, entry.key.text(), entry.gpu, kAdvice);
    out.list[place] = std::move(entry);
  }
  if (root.has("failures"))
    out.failures = root.at("failures").list(readFailure);
  return out;
}

Database Database::open(const std::string &path) {
  std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  std::span<const uint8_t> bytes = file->bytes();
  return readAs(FileKind::TuningDatabase, path,
                [&] { return parse({reinterpret_cast<const char *>(bytes.data()), bytes.size()}, path); });
}

std::string Database::write() const {
  auto listed = [](const char *name, const std::vector<std::string> &lines) {
    std::string text = fmt::format("  \"{}\": [", name);
    for (size_t i = 0; i < lines.size(); ++i) // one a line: people compare such files
      text += (i ? ",\n    " : "\n    ") + lines[i];
    return text + (lines.empty() ? "]" : "\n  ]");
  };
  std::vector<std::string> entries, failed;
  for (const auto &[place, entry] : list) {
    Entry shortened = entry;
    shorten(shortened);
    entries.push_back(jsonText(toJson(shortened)));
  }
  for (const Failure &failure : failures)
    failed.push_back(jsonText(toJson(failure)));
  std::string out = fmt::format("{{\n  \"ditc_tuning\": {},\n{}", kVersion, listed("entries", entries));
  return out + (failed.empty() ? "" : ",\n" + listed("failures", failed)) + "\n}\n";
}

const Entry *Database::find(const Key &key, std::string_view gpu) const {
  const Entry *found = nullptr;
  unsigned foundRank = 0;
  for (auto it = list.lower_bound({key, ""}); it != list.end() && it->first.first == key; ++it) {
    if (!gpu.empty() && it->first.second != gpu)
      continue;
    auto known = ranks.find(it->first);
    unsigned rank = known == ranks.end() ? 0 : known->second;
    if (!found || std::tie(rank, it->second.date) > std::tie(foundRank, found->date))
      found = &it->second, foundRank = rank;
  }
  return found;
}

std::set<std::string> Database::gpusNamed(std::string_view text) const {
  std::set<std::string> named;
  for (const auto &[place, entry] : list) {
    if (lowerCase(place.second) == lowerCase(text))
      return {place.second};
    if (hasWords(place.second, text))
      named.insert(place.second);
  }
  return named;
}

Change Database::merge(Entry entry) {
  auto place = std::pair(entry.key, entry.gpu);
  auto known = list.find(place);
  if (known == list.end()) {
    list[place] = std::move(entry);
    return Change::Added;
  }
  const Entry &old = known->second;
  bool isBetter = entry.date != old.date ? entry.date > old.date : entry.best.microseconds < old.best.microseconds;
  if (!isBetter)
    return Change::Kept;
  known->second = std::move(entry);
  return Change::Replaced;
}

void Database::overrideBy(const Database &other) {
  ++overrides;
  for (const auto &[place, entry] : other.list) {
    list[place] = entry;
    ranks[place] = overrides; // another GPU's entry of the same key must not win by being newer
  }
}

} // namespace ditc::tuning
