// SPDX-License-Identifier: Apache-2.0
#include "compiler/report/Diff.h"

#include "compiler/report/Text.h"

#include <fmt/format.h>
#include <map>
#include <set>

namespace ditc {

using nlohmann::json;

namespace {

/// Totals in the order in which people ask for them, and how their numbers are written.
struct Total {
  const char *name;
  std::string (*text)(double);
};

std::string countText(double count) { return std::to_string(static_cast<int64_t>(count)); }

constexpr Total kTotals[] = {{"launches", countText}, {"prepare_launches", countText}, {"today_launches", countText}, {"flops", flopsText},
                             {"bytes", bytesText}, {"activation_bytes", bytesText}, {"weight_bytes", bytesText}, {"roofline_us", timeText}, {"arena_bytes", bytesText}};

std::string totalsDiff(const json &before, const json &after) {
  std::string text;
  for (const Total &total : kTotals) {
    double a = before["totals"][total.name], b = after["totals"][total.name];
    if (a != b)
      text += fmt::format("  {:<18}{:>12} -> {:<12}{}\n", total.name, total.text(a), total.text(b), a > 0 ? fmt::format("{:+.1f}%", 100 * (b - a) / a) : "");
  }
  return text;
}

bool isView(const json &op) { return op["op"] == "view" || op["op"] == "permute" || op["op"] == "slice" || op["op"] == "expand"; }

/// What a kernel computes: family, block and operations by module path; views do not count.
std::string identityOf(const json &bucket, const json &kernel) {
  std::string where = kernel["block"].get<int>() < 0 ? "" : bucket["blocks"][kernel["block"].get<int>()]["list"].get<std::string>() + ": ";
  std::string text = kernel["family"].get<std::string>() + " " + where;
  for (const json &op : kernel["ops"])
    if (!op["parts"].empty() && !isView(op))
      text += op["op"].get<std::string>() + " " + shortPath(op["parts"].back()["path"]) + ", ";
  return text.substr(0, text.size() - 2);
}

std::map<std::string, int64_t> countKernels(const json &bucket) {
  std::map<std::string, int64_t> counts;
  for (const json &kernel : bucket["kernels"])
    counts[identityOf(bucket, kernel)] += kernel["count"].get<int64_t>();
  return counts;
}

std::string kernelsDiff(const json &before, const json &after) {
  std::map<std::string, int64_t> changes;
  for (const auto &[name, count] : countKernels(before))
    changes[name] -= count;
  for (const auto &[name, count] : countKernels(after))
    changes[name] += count;
  std::string text;
  for (const auto &[name, change] : changes)
    if (change)
      text += fmt::format("  {} {:>3}x {}\n", change < 0 ? '-' : '+', std::abs(change), name.size() <= 160 ? name : name.substr(0, 157) + "...");
  return text;
}

/// Reasons by the two operations that are apart.
std::map<std::string, std::set<std::string>> reasonsByPair(const json &bucket) {
  std::map<std::string, std::set<std::string>> reasons;
  for (const json &entry : bucket["not_fused"]) {
    auto end = [](const json &side) { return fmt::format("{} {}", side["family"].get<std::string>(), side["path"].get<std::string>()); };
    reasons[end(entry["producer"]) + " -> " + end(entry["reader"])].insert(entry["reason"].get<std::string>());
  }
  return reasons;
}

std::string reasonsDiff(const json &before, const json &after) {
  auto join = [](const std::set<std::string> &reasons) {
    std::string text;
    for (const std::string &reason : reasons)
      text += (text.empty() ? "" : ", ") + reason;
    return text.empty() ? "fused or gone" : text;
  };
  auto a = reasonsByPair(before), b = reasonsByPair(after);
  std::set<std::string> pairs;
  for (const auto *side : {&a, &b})
    for (const auto &[pair, reasons] : *side)
      pairs.insert(pair);
  std::string text;
  for (const std::string &pair : pairs)
    if (a[pair] != b[pair])
      text += fmt::format("  {}: {} => {}\n", pair, join(a[pair]), join(b[pair]));
  return text;
}

} // namespace

std::string diffText(const json &before, const json &after) {
  std::string totals = totalsDiff(before, after), kernels = kernelsDiff(before, after), reasons = reasonsDiff(before, after);
  if (totals.empty() && kernels.empty() && reasons.empty())
    return "no difference\n";
  return fmt::format("totals\n{}\nkernels\n{}\nkept apart\n{}", totals.empty() ? "  equal\n" : totals, kernels.empty() ? "  equal\n" : kernels, reasons.empty() ? "  for the same reasons\n" : reasons);
}

} // namespace ditc
