// SPDX-License-Identifier: Apache-2.0
#include "compiler/report/Fold.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>

namespace ditc {

namespace {

/// An element of a list with fewer launches is a layer, not a block.
constexpr size_t kMinBlockKernels = 3;
/// A kernel that touches more elements of one list than this belongs to none of them.
constexpr size_t kMaxTouched = 2;

std::optional<BlockPosition> positionOf(const OpRecord &op) { return op.names.empty() ? std::nullopt : blockOf(op.names.back().path); }

std::optional<BlockPosition> homeOf(const KernelRecord &kernel) {
  std::map<std::string, std::set<int64_t>> touched;
  for (const OpRecord &op : kernel.ops)
    if (auto position = positionOf(op))
      touched[position->list].insert(position->index);
  std::optional<BlockPosition> home = kernel.ops.empty() ? std::nullopt : positionOf(kernel.ops[kernel.anchor]);
  return home && touched[home->list].size() <= kMaxTouched ? home : std::nullopt;
}

} // namespace

void assignHomes(GraphRecord &graph) {
  std::map<std::pair<std::string, int64_t>, size_t> sizes;
  for (KernelRecord &kernel : graph.kernels) {
    kernel.home = homeOf(kernel);
    if (kernel.home)
      ++sizes[{kernel.home->list, kernel.home->index}];
  }
  for (KernelRecord &kernel : graph.kernels)
    if (kernel.home && sizes[{kernel.home->list, kernel.home->index}] < kMinBlockKernels)
      kernel.home.reset();
}

std::string signatureOf(const KernelRecord &kernel) {
  std::string text = kernel.family + (kernel.prepare ? " prepare" : "");
  for (const OpRecord &op : kernel.ops) {
    text += fmt::format("\n{} {}", op.op, fmt::join(op.args, ","));
    for (const NodeName &name : op.names)
      text += " " + generalise(name.path, kernel.home);
  }
  for (const ValueRecord &value : kernel.inputs)
    text += "\nin " + value.type;
  for (const ValueRecord &value : kernel.results)
    text += "\nout " + value.type;
  return text;
}

namespace {

using Element = std::pair<std::string, int64_t>; // a list and an index

class Folder {
public:
  explicit Folder(const GraphRecord &graph) : graph(graph) {
    for (size_t i = 0; i < graph.kernels.size(); ++i)
      if (const auto &home = graph.kernels[i].home)
        elements[{home->list, home->index}].push_back(i);
    groupElements();
  }

  Folded fold() {
    folded.entryOf.assign(graph.kernels.size(), 0);
    for (size_t i = 0; i < graph.kernels.size(); ++i)
      folded.entryOf[i] = graph.kernels[i].home ? addToBlock(i) : addAlone(i);
    return std::move(folded);
  }

private:
  /// Elements of a list with equal sequences of kernels are one block of the report.
  void groupElements() {
    std::map<std::pair<std::string, std::string>, std::vector<int64_t>> equal; // list, code -> indices
    for (const auto &[element, kernels] : elements) {
      std::string code;
      for (size_t kernel : kernels)
        code += signatureOf(graph.kernels[kernel]) + "\n\n";
      equal[{element.first, code}].push_back(element.second);
    }
    std::map<size_t, FoldedBlock> byLaunch;
    for (const auto &[key, indices] : equal)
      byLaunch[elements.at({key.first, indices.front()}).front()] = {key.first, indices, {}};
    for (auto &[launch, block] : byLaunch) {
      for (int64_t index : block.indices)
        blockOfElement[{block.list, index}] = folded.blocks.size();
      folded.blocks.push_back(std::move(block));
    }
  }

  size_t addAlone(size_t kernel) {
    folded.kernels.push_back({{kernel}, -1});
    return folded.kernels.size() - 1;
  }

  size_t addToBlock(size_t kernel) {
    const BlockPosition &home = *graph.kernels[kernel].home;
    Element element{home.list, home.index};
    size_t block = blockOfElement.at(element);
    const std::vector<size_t> &own = elements.at(element);
    size_t place = std::ranges::find(own, kernel) - own.begin();
    std::vector<size_t> &entries = folded.blocks[block].kernels;
    if (place == entries.size()) { // the first element that gets here makes the entry
      entries.push_back(folded.kernels.size());
      folded.kernels.push_back({{}, static_cast<int>(block)});
    }
    folded.kernels[entries[place]].members.push_back(kernel);
    return entries[place];
  }

  const GraphRecord &graph;
  std::map<Element, std::vector<size_t>> elements; // kernels in order
  std::map<Element, size_t> blockOfElement;
  Folded folded;
};

} // namespace

Folded foldBlocks(const GraphRecord &graph) { return Folder(graph).fold(); }

} // namespace ditc
