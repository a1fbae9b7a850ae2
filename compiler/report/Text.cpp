// SPDX-License-Identifier: Apache-2.0
#include "compiler/report/Text.h"

#include "compiler/report/Names.h"
#include "compiler/report/Quantized.h"
#include "runtime/Error.h"

#include <algorithm>
#include <array>
#include <fmt/ranges.h>
#include <map>

namespace ditc {

using nlohmann::json;

namespace {

/// Of what was not fused, the text lists the costliest; the page has all of it.
constexpr size_t kListedMissed = 12;

std::string scaled(double value, double step, std::initializer_list<const char *> units) {
  const char *unit = *units.begin();
  for (const char *next : units) {
    unit = next;
    if (value < 1000)
      break;
    if (next != *(units.end() - 1))
      value /= step;
  }
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, unit);
}

std::string clip(const std::string &text, size_t width) { return text.size() <= width ? text : text.substr(0, width - 2) + ".."; }

const json *kernelOf(const json &bucket, const std::string &id) {
  for (const json &kernel : bucket["kernels"])
    if (kernel["id"] == id)
      return &kernel;
  return nullptr;
}

} // namespace

std::string bytesText(double bytes) { return scaled(bytes, 1000, {"B", "KB", "MB", "GB", "TB"}); }
std::string flopsText(double flops) { return scaled(flops, 1000, {"FLOP", "KFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"}); }
std::string timeText(double microseconds) { return scaled(microseconds, 1000, {"us", "ms", "s"}); }

std::string deviationText(const json &entry) { return entry["deviation"] == "taken_apart" ? "taken apart" : "by a slower kernel"; }

std::string rangesText(const std::vector<int64_t> &numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1)
      ++last;
    text += (text.empty() ? "" : ", ") + (last == i ? std::to_string(numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[last]));
    i = last + 1;
  }
  return text;
}

std::string shortPath(const std::string &path) {
  size_t mark = path.find("{i}");
  if (mark == std::string::npos)
    return path;
  return path.size() > mark + 4 ? path.substr(mark + 4) : "(block)";
}

namespace {

/// "to_q, to_k, to_v, norm_q": the modules that a kernel computes, each once.
std::string modulesText(const json &kernel, size_t width) {
  std::vector<std::string> modules;
  for (const json &op : kernel["ops"]) {
    if (op["parts"].empty())
      continue;
    std::string path = shortPath(op["parts"].back()["path"]);
    if (std::ranges::find(modules, path) == modules.end())
      modules.push_back(path);
  }
  std::erase_if(modules, [&](const std::string &module) { return modules.size() > 1 && (module.empty() || module == "(block)"); });
  std::string text;
  if (modules.size() == 1 && modules.front().empty()) // a function of no module: by its node
    modules.front() = kernel["ops"].back()["op"].get<std::string>() + " " + kernel["ops"].back()["parts"].back()["nodes"].at(0).get<std::string>();
  for (const std::string &module : modules)
    text += (text.empty() ? "" : ", ") + module;
  return clip(text, width);
}

std::string kernelLine(const json &kernel) {
  return fmt::format("  {:<6}{:<10}{:<26}{:>8}{:>11}{:>9} {:<6}\n", kernel["id"].get<std::string>() + (kernel["prepare"].get<bool>() ? "*" : ""), kernel["family"].get<std::string>(), modulesText(kernel, 25),
                     bytesText(kernel["read"].get<double>() + kernel["written"].get<double>()), flopsText(kernel["flops"]), timeText(kernel["roofline_us"]),
                     kernel["bound_by"].get<std::string>());
}

/// Made of weights alone: numbers of 8 bits and their scales, or another type.
bool preparesWeights(const json &kernel) {
  return kernel["prepare"].get<bool>() && std::ranges::all_of(kernel["inputs"], [](const json &input) {
    return std::ranges::all_of(input["from"], [](const json &from) { return from.get<std::string>().starts_with("weight "); });
  });
}

/// A line for each kernel of a step; what is made of weights, once, is one line.
std::string kernelLines(const std::vector<const json *> &kernels) {
  std::string text;
  int64_t prepared = 0;
  double bytes = 0;
  for (const json *kernel : kernels) {
    if (!preparesWeights(*kernel)) {
      text += kernelLine(*kernel);
      continue;
    }
    ++prepared;
    bytes += (*kernel)["read"].get<double>() + (*kernel)["written"].get<double>();
  }
  return text + (prepared == 0 ? "" : fmt::format("  {:<6}{:<36}{:>8}\n", "*", fmt::format("and {} of weights alone", prepared), bytesText(bytes)));
}

std::string kernelHeader() { return fmt::format("  {:<6}{:<10}{:<26}{:>8}{:>11}{:>9} {:<6}\n", "", "kernel", "modules", "moved", "work", "at least", "bound"); }

std::string endText(const json &end) {
  std::string path = shortPath(end["path"]);
  return fmt::format("{} {}", end["family"].get<std::string>(), path.empty() ? end["nodes"].at(0).get<std::string>() : path);
}

/// Missed fusions whose reader or producer is among `kernels`, one line each, equal ones together.
std::string missedText(const json &bucket, const std::vector<std::string> &kernels, size_t most) {
  std::map<std::array<std::string, 3>, std::pair<double, int64_t>> lines;
  for (const json &entry : bucket["not_fused"]) {
    auto isOurs = [&](const json &end) { return std::ranges::find(kernels, end.value("kernel", "")) != kernels.end(); };
    if (!isOurs(entry["producer"]) && !isOurs(entry["reader"]))
      continue;
    auto &[bytes, count] = lines[{endText(entry["producer"]) + (entry.value("beside", false) ? " | " : " -> "), endText(entry["reader"]), entry["reason"]}];
    bytes = std::max(bytes, entry["bytes"].get<double>());
    ++count;
  }
  std::vector<std::pair<std::array<std::string, 3>, std::pair<double, int64_t>>> sorted(lines.begin(), lines.end());
  std::ranges::sort(sorted, [](const auto &a, const auto &b) { return a.second.first > b.second.first; });
  std::string text;
  for (size_t i = 0; i < std::min(sorted.size(), most); ++i) {
    const auto &[names, numbers] = sorted[i];
    text += fmt::format("    {:<48}{:>8} {}\n", clip(names[0] + names[1], 47), bytesText(numbers.first), names[2]);
  }
  if (sorted.size() > most)
    text += fmt::format("    and {} more\n", sorted.size() - most);
  return text;
}

std::string blockText(const json &bucket, const json &block) {
  std::vector<std::string> kernels = block["kernels"];
  int64_t count = block["count"];
  std::string ranges = rangesText(block["indices"]), name = block["list"].get<std::string>() + (count > 1 ? fmt::format(".{{{}}}: {} equal blocks", ranges, count) : fmt::format(".{}: one block", ranges));
  std::string text = fmt::format("{}, {} launches each\n  moves {} ({} without weights), {}, at least {}\n\n", name, block["launches_per_block"].get<int64_t>(),
                                 bytesText(block["bytes_per_block"]), bytesText(block["bytes_per_block"].get<double>() - block["weight_bytes_per_block"].get<double>()),
                                 flopsText(block["flops_per_block"]), timeText(block["roofline_us_per_block"]));
  std::vector<const json *> lines;
  for (const std::string &id : kernels)
    if (const json *kernel = kernelOf(bucket, id))
      lines.push_back(kernel);
  text += kernelHeader() + kernelLines(lines);
  std::string missed = missedText(bucket, kernels, kListedMissed);
  return text + (missed.empty() ? "" : "\n  kept apart, and why (ditc explain says more)\n" + missed) + "\n";
}

std::string totalsText(const json &report, const json &bucket) {
  const json &totals = bucket["totals"];
  auto bytes = [&](const char *name) { return bytesText(totals[name]); };
  std::string text = fmt::format("bucket {}\n", bucket["name"].get<std::string>());
  text += fmt::format("  launches planned with the {} catalogue  {} a step, {} once per generation (*)\n", report["catalogue"].get<std::string>(), totals["launches"].get<int64_t>(),
                      totals["prepare_launches"].get<int64_t>());
  for (const auto &[target, plan] : bucket["targets"].items()) {
    const json &step = plan["step"];
    text += fmt::format("  {:<40}{}\n", "launches today for " + target, step["launches"].get<int64_t>() + step["gemms"].get<int64_t>() + step["copies"].get<int64_t>());
  }
  text += fmt::format("  one kernel per operation                {}\n", totals["launches_unfused"].get<int64_t>());
  text += fmt::format("  work    {}, at least {} on {}\n", flopsText(totals["flops"]), timeText(totals["roofline_us"]), report["gpu"]["name"].get<std::string>());
  text += fmt::format("  moved   {:>8}  without weights {:>8}\n", bytes("bytes"), bytes("activation_bytes"));
  text += fmt::format("  unfused {:>8}  without weights {:>8}\n", bytes("bytes_unfused"), bytes("activation_bytes_unfused"));
  text += fmt::format("  minimum {:>8}  without weights {:>8}   (each value written and read once)\n", bytes("bytes_minimum"), bytes("activation_bytes_minimum"));
  text += fmt::format("  memory  arena {}, parameters {}, tables {}\n\n", bytes("arena_bytes"), bytes("parameter_bytes"), bytes("constant_bytes"));
  for (const auto &[name, family] : bucket["families"].items())
    text += fmt::format("  {:<10}{:>5} launches {:>9}{:>12}{:>9} {:>4.0f}%  {}\n", name, family["launches"].get<double>(), bytesText(family["bytes"]), flopsText(family["flops"]),
                        timeText(family["roofline_us"]), 100 * family["share"].get<double>(), std::string(static_cast<size_t>(25 * family["share"].get<double>() + 0.5), '#'));
  return text + "\n";
}

std::string othersText(const json &bucket) {
  std::vector<const json *> kernels;
  for (const json &kernel : bucket["kernels"])
    if (kernel["block"].get<int>() < 0)
      kernels.push_back(&kernel);
  return kernels.empty() ? "" : "outside of blocks\n" + kernelHeader() + kernelLines(kernels) + "\n";
}

std::string reasonsText(const json &bucket) {
  std::map<std::string, std::string> sentences;
  for (const json &entry : bucket["not_fused"])
    sentences[entry["reason"]] = entry["sentence"];
  std::string text = sentences.empty() ? "" : "not fused\n";
  for (const auto &[reason, count] : bucket["totals"]["reasons"].items())
    text += fmt::format("  {:>5}  {}: {}\n", count.get<int64_t>(), reason, sentences[reason]);
  return text + (text.empty() ? "" : "\n");
}

/// Kernels that a target launches otherwise than the catalogue planned them, those with one reason together.
std::string deviationsText(const json &bucket) {
  std::string text;
  for (const auto &[target, plan] : bucket["targets"].items()) {
    std::map<std::string, std::pair<int64_t, std::vector<std::string>>> lines; // count and names by what they have in common
    for (const json &entry : plan.value("deviations", json::array())) {
      const json &kernel = entry["kernel"];
      auto &[count, names] = lines[fmt::format("{}, {}\n         {}: {}", kernel["family"].get<std::string>(), deviationText(entry), entry["reason"].get<std::string>(), entry["sentence"].get<std::string>())];
      count += entry["count"].get<int64_t>();
      std::string path = shortPath(kernel["path"]), name = path.empty() ? kernel["nodes"].at(0).get<std::string>() : path;
      if (std::ranges::find(names, name) == names.end())
        names.push_back(name);
    }
    text += lines.empty() ? "" : fmt::format("planned, but not launched by {}\n", target);
    for (const auto &[line, kernels] : lines)
      text += fmt::format("  {:>5}  {}\n         {}\n", kernels.first, line, clip(fmt::format("{}", fmt::join(kernels.second, ", ")), 70));
  }
  return text + (text.empty() ? "" : "\n");
}

std::string memoryText(const json &totals, const json &memory) {
  const json &at = memory["at"];
  std::string text = fmt::format("memory of {}: arena {}, prepared weights {}; most in use at once {}\n  at operation {} of {}, {} ({}), with {} tensors:\n", totals["today_target"].get<std::string>(),
                                 bytesText(memory["arena_bytes"]), bytesText(totals["prepared_bytes"]), bytesText(memory["peak_bytes"]), at["position"].get<int64_t>(),
                                 memory["operations"].get<int64_t>(), at["path"].get<std::string>(), at["node"].get<std::string>(), memory["alive_count"].get<int64_t>());
  size_t listed = 0;
  for (const json &tensor : memory["alive"])
    if (listed++ < 8)
      text += fmt::format("  {:>8}  {:<22} {}\n", bytesText(tensor["bytes"]), tensor["type"].get<std::string>(),
                          clip(fmt::format("{} ({})", tensor["path"].get<std::string>(), tensor["node"].get<std::string>()), 44));
  return text;
}

} // namespace

/// "12 measured on NVIDIA H200, 2 by the model": where the tiles of a target's gemm kernels come from. Empty without any.
static std::string tilesText(const json &kernels) {
  json tuning = kernels.value("tuning", json::object());
  int64_t measured = tuning.value("measured", 0), model = tuning.value("by_model", 0);
  std::string gpus;
  for (const json &gpu : tuning.value("gpus", json::array()))
    gpus += (gpus.empty() ? " on " : ", ") + gpu.get<std::string>();
  return measured + model == 0 ? "" : fmt::format("{} measured{}, {} by the model", measured, gpus, model);
}

/// "; the model expects 886 us, roofline 640 us"
static std::string tilesTimeText(const json &tiles) {
  return tiles.contains("model_us") ? fmt::format("; the model expects {:.0f} us, roofline {:.0f} us", tiles["model_us"].get<double>(), tiles["roofline_us"].get<double>()) : "";
}

/// The gemm kernels of every target with their tiles.
static std::string tuningText(const json &report) {
  std::string text;
  json targets = report.value("target_kernels", json::object());
  for (const auto &[target, kernels] : targets.items()) {
    std::string sum = tilesText(kernels);
    if (sum.empty())
      continue;
    text += fmt::format("\ntiles of the gemm kernels for {}: {}\n", target, sum);
    for (const json &kernel : kernels.at("resources"))
      if (kernel.contains("tiles"))
        text += fmt::format("  {:<9}{:<26}{}\n           {}{}\n", kernel.at("tiles").at("from").get<std::string>(), clip(kernel.at("name"), 25), kernel.at("tiles").at("text").get<std::string>(),
                            kernel.at("tiles").at("key").get<std::string>(), tilesTimeText(kernel.at("tiles")));
    for (const json &note : kernels.at("tuning").at("notes"))
      text += fmt::format("  note: {}\n", note.get<std::string>());
  }
  return text;
}

std::string summarise(const json &report) {
  std::string text;
  for (const json &bucket : report["buckets"]) {
    const json &totals = bucket["totals"];
    text += fmt::format("bucket {:<12} {} launches planned with the {} catalogue; {}, arena {}, weights {}, tables {}\n", bucket["name"].get<std::string>(),
                        totals["launches"].get<int64_t>(), report["catalogue"].get<std::string>(), flopsText(totals["flops"]), bytesText(totals["arena_bytes"]),
                        bytesText(totals["parameter_bytes"]), bytesText(totals["constant_bytes"]));
    for (const auto &[target, plan] : bucket["targets"].items()) {
      const json &step = plan["step"];
      int64_t launches = step["launches"], products = step["gemms"], copies = step["copies"];
      text += fmt::format("  {:<17} {} launches today: {} of kernels, {} library products, {} copies; {} distinct kernels, with those that run once\n", target,
                          launches + products + copies, launches, products, copies, plan["distinct_kernels"].get<int64_t>());
    }
  }
  json targets = report.value("target_kernels", json::object());
  for (const auto &[target, kernels] : targets.items())
    if (std::string sum = tilesText(kernels); !sum.empty())
      text += fmt::format("  {:<17} tiles of gemm kernels: {}\n", target, sum);
  return text;
}

std::string reportText(const json &report, const json &bucket, const std::string &block) {
  std::string blocks, known;
  std::optional<BlockPosition> element = blockOf(block);
  for (const json &entry : bucket["blocks"]) {
    std::vector<int64_t> indices = entry["indices"];
    std::string list = entry["list"];
    bool isMeant = block.empty() || list == block || (element && element->list == list && std::ranges::find(indices, element->index) != indices.end());
    if (isMeant)
      blocks += blockText(bucket, entry);
    known += (known.empty() ? "" : ", ") + list;
  }
  if (block.empty())
    return totalsText(report, bucket) + blocks + othersText(bucket) + quantizationText(bucket) + reasonsText(bucket) + deviationsText(bucket) + memoryText(bucket["totals"], bucket["memory"]) + tuningText(report);
  if (blocks.empty())
    fail("bucket '{}' has no block '{}'; it has {}", bucket["name"].get<std::string>(), block, known.empty() ? "none" : known);
  return blocks;
}

} // namespace ditc
