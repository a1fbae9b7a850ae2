// SPDX-License-Identifier: Apache-2.0
#include "compiler/report/Quantized.h"

#include "compiler/report/Names.h"
#include "compiler/report/Text.h"
#include "dialects/fusion/QuantizeReason.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace ditc {

using nlohmann::json;

namespace {

/// Modules that the text lists; the page has all.
constexpr size_t kListedModules = 24;

/// Products by module; those of blocks that differ in nothing but their index are one entry.
class ProductFolder {
public:
  void add(const FusionRemark &remark) {
    NodeName name = parseNodeName(remark.fact("Product"));
    std::optional<BlockPosition> home = blockOf(name.path);
    std::string reason = remark.fact("Reason");
    json entry{{"path", generalise(name.path, home)}, {"quantized", remark.passed}, {"reason", reason}, {"sentence", explainQuantizeReason(reason)}, {"flops", remark.number("Flops")}};
    auto [place, isNew] = places.try_emplace(entry.dump(), list.size());
    if (isNew)
      list.push_back(std::move(entry));
    json &target = list[place->second];
    target["count"] = target.value("count", 0) + 1;
    target["nodes"].push_back(name.node);
    target["indices"].push_back(home ? home->index : -1);
  }

  json take() { return std::move(list); }

private:
  std::map<std::string, size_t> places;
  json list = json::array();
};

double matrixFlopsOfStep(const GraphRecord &graph) {
  double flops = 0;
  for (const KernelRecord &kernel : graph.kernels)
    flops += kernel.prepare ? 0 : kernel.work.matrixFlops;
  return flops;
}

/// "transformer_blocks.{0-18}.attn.to_q", or the node of a product outside of modules.
std::string moduleText(const json &entry) {
  std::string path = entry["path"];
  size_t mark = path.find("{i}");
  if (mark != std::string::npos)
    path.replace(mark, 3, "{" + rangesText(entry["indices"]) + "}");
  return path.empty() ? entry["nodes"].at(0).get<std::string>() : path;
}

} // namespace

json quantizationJson(const std::vector<FusionRemark> &remarks, const GraphRecord &graph) {
  ProductFolder folder;
  int64_t products = 0, quantized = 0;
  double flops = 0, all = matrixFlopsOfStep(graph);
  for (const FusionRemark &remark : remarks) {
    if (remark.fact("Product").empty())
      continue;
    folder.add(remark);
    ++products;
    quantized += remark.passed;
    flops += remark.passed ? remark.number("Flops") : 0;
  }
  if (products == 0)
    return nullptr;
  return {{"type", "fp8"}, {"products", products}, {"quantized", quantized}, {"flops", flops}, {"share", all > 0 ? flops / all : 0}, {"modules", folder.take()}};
}

std::string quantizationText(const json &bucket) {
  json found = bucket.value("quantization", json());
  if (found.is_null())
    return "";
  std::string text = fmt::format("products quantised to {}: {} of {}, {:.1f}% of the matrix arithmetic of a step\n", found["type"].get<std::string>(), found["quantized"].get<int64_t>(),
                                 found["products"].get<int64_t>(), 100 * found["share"].get<double>());
  std::vector<json> rest;
  std::ranges::copy_if(found["modules"], std::back_inserter(rest), [](const json &entry) { return !entry["quantized"].get<bool>(); });
  auto work = [](const json &entry) { return entry["flops"].get<double>() * entry["count"].get<double>(); };
  std::ranges::stable_sort(rest, [&](const json &a, const json &b) { return work(a) > work(b); });
  text += rest.empty() ? "" : "  those that are not, by their work\n";
  std::map<std::string, std::string> sentences;
  for (size_t i = 0; i < rest.size(); ++i) {
    sentences[rest[i]["reason"]] = rest[i]["sentence"];
    if (i < kListedModules)
      text += fmt::format("  {:>5}  {:<50}{:>11}  {}\n", rest[i]["count"].get<int64_t>(), moduleText(rest[i]), flopsText(work(rest[i])), rest[i]["reason"].get<std::string>());
  }
  if (rest.size() > kListedModules)
    text += fmt::format("         and {} more modules\n", rest.size() - kListedModules);
  for (const auto &[reason, sentence] : sentences)
    text += fmt::format("  {}: {}\n", reason, sentence);
  return text + "\n";
}

std::string quantizationOf(const json &bucket, const std::string &node) {
  json found = bucket.value("quantization", json());
  if (found.is_null())
    return "";
  for (const json &entry : found["modules"])
    if (std::ranges::any_of(entry["nodes"], [&](const json &own) { return own == node; }))
      return entry["quantized"].get<bool>() ? fmt::format("quantised to {}", found["type"].get<std::string>())
                                            : fmt::format("not quantised\n    {}: {}", entry["reason"].get<std::string>(), entry["sentence"].get<std::string>());
  return "";
}

} // namespace ditc
