// SPDX-License-Identifier: Apache-2.0
#include "compiler/report/Explain.h"

#include "compiler/report/Find.h"
#include "compiler/report/Names.h"
#include "compiler/report/Quantized.h"
#include "compiler/report/Text.h"
#include "runtime/Error.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <map>
#include <set>

namespace ditc {

using nlohmann::json;

namespace {

/// Operations of one kernel that are listed, and kernels that are explained in full when a query means several.
constexpr size_t kListedOps = 24, kFullKernels = 2;
/// Missed fusions that are listed of a kernel.
constexpr size_t kListedMissed = 8;

std::string nameText(const std::string &path, const std::string &node) { return path.empty() ? node : fmt::format("{} ({})", path, node); }

class Explainer {
public:
  Explainer(const json &report, const json &bucket) : report(report), bucket(bucket) {}

  std::string explain(const std::string &query, const std::vector<Match> &matches) {
    std::map<std::pair<std::string, size_t>, std::vector<Match>> groups; // kernel and launch -> operations
    std::vector<std::pair<std::string, size_t>> order;
    std::vector<Match> free;
    for (const Match &match : matches) {
      if (!match.kernel) {
        free.push_back(match);
        continue;
      }
      std::pair<std::string, size_t> key{(*match.kernel)["id"], match.launch};
      if (!groups.contains(key))
        order.push_back(key);
      groups[key].push_back(match);
    }
    if (order.size() > kFullKernels)
      return listKernels(query, groups, order) + describeFree(free);
    for (const auto &key : order)
      describeKernel(groups[key]);
    return text + describeFree(free);
  }

private:
  static std::string pathOf(const json &end, int64_t blockIndex) {
    std::string path = end["path"];
    return blockIndex < 0 ? path : specialise(path, blockIndex);
  }

  /// "k56 gemm (attn.to_q, ...)"
  std::string listKernels(const std::string &query, const std::map<std::pair<std::string, size_t>, std::vector<Match>> &groups, const std::vector<std::pair<std::string, size_t>> &order) const {
    std::string list = fmt::format("{} is in {} launches; ask for one of them, or for a node:\n", query, order.size());
    size_t listed = 0;
    for (const auto &key : order) {
      if (++listed > kListedOps) {
        list += fmt::format("  and {} more\n", order.size() - kListedOps);
        break;
      }
      const Match &first = groups.at(key).front();
      const json &kernel = *first.kernel;
      list += fmt::format("  {:<6}{:<10}{}\n", kernel["launches"][first.launch].get<std::string>(), kernel["family"].get<std::string>(), nameText(first.path, first.node));
    }
    return list;
  }

  static std::string describeFree(const std::vector<Match> &free) {
    std::string list;
    for (size_t i = 0; i < std::min(free.size(), kListedOps); ++i)
      list += fmt::format("{}: a {} that costs no launch: {}\n", nameText(free[i].path, free[i].node), free[i].op,
                          free[i].op == "concat" ? "kernels write its parts in their places" : "its readers read the same memory with other strides");
    return list;
  }

  void describeKernel(const std::vector<Match> &ops) {
    const Match &first = ops.front();
    const json &kernel = *first.kernel;
    for (size_t i = 0; i < std::min(ops.size(), kListedOps); ++i)
      text += fmt::format("{}: {}\n", nameText(ops[i].path, ops[i].node), ops[i].op);
    if (ops.size() > kListedOps)
      text += fmt::format("and {} more\n", ops.size() - kListedOps);
    text += fmt::format("  computed by {}, a {} kernel{}\n", kernel["launches"][first.launch].get<std::string>(), kernel["family"].get<std::string>(), placeText(kernel));
    describeCompany(ops);
    text += fmt::format("  it reads {} and writes {}; as separate kernels its operations would move {} more\n", bytesText(kernel["read"]), bytesText(kernel["written"]), bytesText(kernel["saved"]));
    text += fmt::format("  {}, {:.3g} FLOP per byte: bound by {}, at least {} on {}\n", flopsText(kernel["flops"]), kernel["intensity"].get<double>(),
                        kernel["bound_by"] == "memory" ? "memory" : kernel["bound_by"] == "matrix" ? "the matrix units" : "scalar arithmetic", timeText(kernel["roofline_us"]),
                        report["gpu"]["name"].get<std::string>());
    describeQuantization(ops);
    describeDeviations(ops.front());
    describeMissed(ops);
    text += "\n";
  }

  /// Of a block, in a step.
  std::vector<std::string> launchesOf(const json &block) const {
    std::vector<std::string> launches;
    for (const json &kernel : bucket["kernels"])
      if (!kernel["prepare"].get<bool>() && std::ranges::any_of(block["kernels"], [&](const json &id) { return id == kernel["id"]; }))
        launches.push_back(kernel["id"]);
    return launches;
  }

  std::string placeText(const json &kernel) const {
    if (kernel["prepare"])
      return " that runs once, before the first step";
    int block = kernel["block"];
    if (block < 0)
      return "";
    const json &entry = bucket["blocks"][block];
    std::vector<std::string> kernels = launchesOf(entry);
    size_t place = std::ranges::find(kernels, kernel["id"].get<std::string>()) - kernels.begin();
    std::string list = entry["list"], indices = rangesText(entry["indices"]);
    int64_t count = entry["count"];
    return fmt::format(": launch {} of {} in ", place + 1, kernels.size()) + (count > 1 ? fmt::format("{} equal blocks ({} {})", count, list, indices) : fmt::format("block {}.{}", list, indices));
  }

  /// Operations in the same launch, but the ones that were asked for.
  void describeCompany(const std::vector<Match> &ops) {
    const json &kernel = *ops.front().kernel;
    std::set<std::string> asked;
    for (const Match &match : ops)
      asked.insert(match.path + ":" + match.node);
    std::vector<std::string> lines;
    size_t views = 0;
    for (const json &op : kernel["ops"]) {
      if (op["op"] == "view" || op["op"] == "permute" || op["op"] == "slice" || op["op"] == "expand") {
        ++views;
        continue;
      }
      if (op["parts"].empty())
        continue;
      const json &main = op["parts"].back();
      std::string path = pathOf(main, blockIndexOf(bucket, kernel, ops.front().launch)), node = main["nodes"].at(ops.front().launch);
      if (!asked.contains(path + ":" + node))
        lines.push_back(fmt::format("    {:<10}{}\n", op["op"].get<std::string>(), nameText(path, node)));
    }
    if (lines.empty())
      return void(text += asked.size() > 1 ? "" : "  alone in its launch\n");
    text += "  in one launch with\n";
    for (size_t i = 0; i < std::min(lines.size(), kListedOps); ++i)
      text += lines[i];
    if (lines.size() > kListedOps)
      text += fmt::format("    and {} more\n", lines.size() - kListedOps);
    if (views > 0)
      text += fmt::format("    and {} views\n", views);
  }

  /// Of the products and attentions that were asked for; of several with one answer once.
  void describeQuantization(const std::vector<Match> &ops) {
    std::set<std::string> told;
    for (const Match &match : ops)
      if (match.op == "matmul" || match.op == "attention")
        if (std::string answer = quantizationOf(bucket, match.node); !answer.empty() && told.insert(answer).second)
          text += "  " + answer + "\n";
  }

  /// What targets do instead of this launch.
  void describeDeviations(const Match &first) {
    std::string launch = (*first.kernel)["launches"][first.launch];
    for (const auto &[target, plan] : bucket["targets"].items())
      for (const json &entry : plan.value("deviations", json::array()))
        for (size_t i = 0; i < entry["launches"].size(); ++i)
          if (entry["launches"][i] == launch)
            text += fmt::format("  for {} it is {}\n    {}{}\n", target, deviationText(entry), reasonText(entry), operandText(entry, i));
  }

  /// "no_slot: the template has ..."
  static std::string reasonText(const json &entry) { return fmt::format("{}: {}", entry["reason"].get<std::string>(), entry["sentence"].get<std::string>()); }

  /// ", operand blocks.0.attn (to_5)", where the reason has one.
  static std::string operandText(const json &entry, size_t i) {
    std::string node = entry["operand"]["nodes"].at(i);
    return node.empty() ? "" : ", operand " + nameText(pathOf(entry["operand"], entry["indices"][i]), node);
  }

  /// Missed fusions of this launch; those of the operations that were asked for come first.
  void describeMissed(const std::vector<Match> &ops) {
    const Match &first = ops.front();
    std::string launch = (*first.kernel)["launches"][first.launch];
    std::vector<std::pair<double, std::string>> own, others; // bytes and text
    for (const json &entry : bucket["not_fused"])
      for (size_t i = 0; i < entry["launches"].size(); ++i) {
        bool reads = entry["launches"][i][1] == launch, makes = entry["launches"][i][0] == launch;
        if (!reads && !makes)
          continue;
        const json &mine = entry[reads ? "reader" : "producer"];
        bool isAsked = std::ranges::any_of(ops, [&](const Match &match) { return mine["nodes"].at(i) == match.node; });
        (isAsked ? own : others).emplace_back(entry["bytes"].get<double>(), missedLine(entry, i, reads));
      }
    if (own.empty() && others.empty())
      text += "  nothing beside it could have joined\n";
    listMissed("kept apart from it", own);
    listMissed("kept apart from others in its launch", others);
  }

  /// The costliest first.
  void listMissed(const std::string &title, std::vector<std::pair<double, std::string>> &lines) {
    if (lines.empty())
      return;
    std::ranges::sort(lines, [](const auto &a, const auto &b) { return a.first > b.first; });
    text += "  " + title + "\n";
    for (size_t i = 0; i < std::min(lines.size(), kListedMissed); ++i)
      text += lines[i].second;
    if (lines.size() > kListedMissed)
      text += fmt::format("    and {} more of at most {}\n", lines.size() - kListedMissed, bytesText(lines[kListedMissed].first));
  }

  static std::string missedLine(const json &entry, size_t i, bool reads) {
    const json &other = entry[reads ? "producer" : "reader"], &mine = entry[reads ? "reader" : "producer"];
    auto named = [&](const json &end) { return nameText(pathOf(end, entry["indices"][i]), end["nodes"].at(i)); };
    std::string id = entry["launches"][i][reads ? 0 : 1];
    std::string which = entry.value("beside", false) ? "does the same as" : reads ? "makes what is read by" : "reads";
    std::string moved = entry.value("beside", false) ? "" : fmt::format("; {} written and read again", bytesText(entry["bytes"]));
    return fmt::format("    {} {} {}, which {} {}\n      {}{}{}\n", id, other["family"].get<std::string>(), named(other), which, named(mine), reasonText(entry),
                       operandText(entry, i), moved);
  }

  const json &report, &bucket;
  std::string text;
};

} // namespace

std::string explainText(const json &report, const json &bucket, const std::string &query) {
  std::vector<Match> matches = findOps(bucket, query);
  if (matches.empty())
    fail("bucket '{}' has no operation, module or kernel '{}' (operations on constants were folded, and unused ones are gone); the nearest names are {}", bucket["name"].get<std::string>(), query,
         fmt::join(nearestNames(bucket, query), ", "));
  return Explainer(report, bucket).explain(query, matches);
}

} // namespace ditc
