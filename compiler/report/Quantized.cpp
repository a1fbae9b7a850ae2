// SPDX-License-Identifier: Apache-2.0
#include "compiler/report/Quantized.h"

#include "compiler/report/Names.h"
#include "compiler/report/Text.h"
#include "dialects/fusion/QuantizeReason.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>

namespace ditc {

using nlohmann::json;

namespace {

/// Modules that the text lists; the page has all.
constexpr size_t kListedModules = 24;

/// What an option quantises, where it is in the JSON, and how the text calls it.
struct Section {
  std::string_view fact, key, counted, type; ///< the remark's name of one; the bucket's key; its number there; the numbers
  std::string_view noun, numbers;
};

constexpr std::array<Section, 2> kSections{{
    {"Product", "quantization", "products", "fp8", "products", "fp8"},
    {"Attention", "attention_quantization", "attentions", "int8", "attention", "int8 scores and fp8 values"},
}};

/// Products, or attentions, by module; those of blocks that differ in nothing but their index are one entry.
class ModuleFolder {
public:
  void add(const FusionRemark &remark, std::string_view fact) {
    NodeName name = parseNodeName(remark.fact(std::string(fact)));
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

/// Null when nothing of this kind was to be quantised.
json sectionJson(const Section &section, const std::vector<FusionRemark> &remarks, double matrixFlops) {
  ModuleFolder folder;
  int64_t count = 0, quantized = 0;
  double flops = 0;
  for (const FusionRemark &remark : remarks) {
    if (remark.fact(std::string(section.fact)).empty())
      continue;
    folder.add(remark, section.fact);
    ++count;
    quantized += remark.passed;
    flops += remark.passed ? remark.number("Flops") : 0;
  }
  if (count == 0)
    return nullptr;
  return {{"type", section.type}, {section.counted, count}, {"quantized", quantized}, {"flops", flops}, {"share", matrixFlops > 0 ? flops / matrixFlops : 0}, {"modules", folder.take()}};
}

std::string sectionText(const Section &section, const json &found) {
  std::string text = fmt::format("{} quantised to {}: {} of {}, {:.1f}% of the matrix arithmetic of a step\n", section.noun, section.numbers, found["quantized"].get<int64_t>(),
                                 found[std::string(section.counted)].get<int64_t>(), 100 * found["share"].get<double>());
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

} // namespace

void addQuantization(json &bucket, const std::vector<FusionRemark> &remarks, const GraphRecord &graph) {
  double matrixFlops = matrixFlopsOfStep(graph);
  for (const Section &section : kSections)
    if (json found = sectionJson(section, remarks, matrixFlops); !found.is_null())
      bucket[std::string(section.key)] = std::move(found);
}

std::string quantizationText(const json &bucket) {
  std::string text;
  for (const Section &section : kSections)
    if (auto found = bucket.find(section.key); found != bucket.end())
      text += sectionText(section, *found);
  return text;
}

std::string quantizationOf(const json &bucket, const std::string &node) {
  for (const Section &section : kSections) {
    auto found = bucket.find(section.key);
    if (found == bucket.end())
      continue;
    for (const json &entry : (*found)["modules"])
      if (std::ranges::any_of(entry["nodes"], [&](const json &own) { return own == node; }))
        return entry["quantized"].get<bool>() ? fmt::format("quantised to {}", section.numbers)
                                              : fmt::format("not quantised\n    {}: {}", entry["reason"].get<std::string>(), entry["sentence"].get<std::string>());
  }
  return "";
}

} // namespace ditc
