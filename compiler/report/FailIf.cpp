// SPDX-License-Identifier: Apache-2.0
#include "compiler/report/FailIf.h"

#include "dialects/fusion/Reason.h"
#include "runtime/Error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>

namespace ditc {

using nlohmann::json;
using Comparison = Condition::Comparison;

namespace {

struct Spelling {
  std::string_view text;
  Comparison comparison;
};

/// Two characters before one, so that "<=" is not read as "<".
constexpr std::array<Spelling, 6> kComparisons{{{"<=", Comparison::LessEqual}, {">=", Comparison::GreaterEqual}, {"==", Comparison::Equal},
                                                {"!=", Comparison::NotEqual}, {"<", Comparison::Less}, {">", Comparison::Greater}}};

std::string trim(std::string_view text) {
  size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == std::string_view::npos ? "" : std::string(text.substr(begin, end - begin + 1));
}

std::optional<double> parseNumber(const std::string &text) {
  char *end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !std::isfinite(value))
    return std::nullopt;
  std::string_view suffix(end), known = "KMGT";
  if (suffix.empty())
    return value;
  size_t power = known.find(suffix[0]);
  if (suffix.size() != 1 || power == std::string_view::npos)
    return std::nullopt;
  for (size_t i = 0; i <= power; ++i)
    value *= 1000;
  return value;
}

std::string numberText(double value) { return value == static_cast<int64_t>(value) ? std::to_string(static_cast<int64_t>(value)) : fmt::format("{}", value); }

} // namespace

bool Condition::holds(double value) const {
  switch (comparison) {
  case Comparison::Less: return value < bound;
  case Comparison::LessEqual: return value <= bound;
  case Comparison::Greater: return value > bound;
  case Comparison::GreaterEqual: return value >= bound;
  case Comparison::Equal: return value == bound;
  case Comparison::NotEqual: return value != bound;
  }
  return false;
}

Condition parseCondition(std::string_view text) {
  for (const Spelling &spelling : kComparisons) {
    size_t at = text.find(spelling.text);
    if (at == std::string_view::npos)
      continue;
    std::string name = trim(text.substr(0, at)), number = trim(text.substr(at + spelling.text.size()));
    std::optional<double> bound = parseNumber(number);
    if (name.empty() || !bound)
      break;
    return {name, spelling.comparison, *bound};
  }
  throw Error(ErrorKind::Usage, fmt::format("--fail-if '{}': expected TOTAL, one of < <= > >= == !=, and a number, as in 'launches>310'", text));
}

double totalOf(const json &bucket, const std::string &name) {
  const json &totals = bucket["totals"];
  if (name.starts_with("reason.")) {
    std::string reason = name.substr(7);
    std::vector<Reason> reasons = allReasons();
    if (std::ranges::any_of(reasons, [&](Reason known) { return nameOf(known) == reason; }))
      return totals["reasons"].value(reason, 0.0);
  } else if (auto total = totals.find(name); total != totals.end() && total->is_number()) {
    return *total;
  }
  std::string known;
  for (const auto &[key, value] : totals.items())
    if (value.is_number())
      known += key + ", ";
  for (Reason reason : allReasons())
    known += "reason." + std::string(nameOf(reason)) + ", ";
  throw Error(ErrorKind::Usage, fmt::format("--fail-if: no total is called '{}'; there are {}", name, known.substr(0, known.size() - 2)));
}

void checkFailIf(const json &report, const std::vector<std::string> &conditions) {
  std::string failures;
  for (const std::string &text : conditions) {
    Condition condition = parseCondition(text);
    for (const json &bucket : report["buckets"])
      if (double value = totalOf(bucket, condition.total); condition.holds(value))
        failures += fmt::format("\n  bucket '{}': {} is {}, and --fail-if says '{}'", bucket["name"].get<std::string>(), condition.total, numberText(value), text);
  }
  if (!failures.empty())
    fail("no package was written:{}", failures);
}

} // namespace ditc
