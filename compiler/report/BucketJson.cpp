// SPDX-License-Identifier: Apache-2.0
#include "compiler/report/BucketJson.h"

#include "dialects/fusion/Reason.h"

#include <map>

namespace ditc {

using nlohmann::json;

namespace {

/// Tensors alive at the peak that are listed; the rest is counted.
constexpr size_t kListedTensors = 24;

std::string launchName(size_t position) { return "k" + std::to_string(position + 1); }

/// "kernel 12#0" -> "k12#0"; inputs, weights and constants stay as they are.
json sourcesJson(const std::vector<std::string> &sources) {
  json list = json::array();
  for (const std::string &source : sources)
    list.push_back(source.starts_with("kernel ") ? "k" + source.substr(7) : source);
  return list;
}

json valueJson(const ValueRecord &value, const std::optional<BlockPosition> &home, bool isResult) {
  json entry{{"type", value.type}, {"bytes", value.bytes}};
  if (isResult) {
    entry["op"] = value.op;
    return entry;
  }
  json from = sourcesJson(value.from);
  for (json &source : from)
    if (std::string text = source; text.starts_with("weight "))
      source = "weight " + generalise(text.substr(7), home);
  entry["from"] = from;
  if (value.stable)
    entry["stable"] = true;
  return entry;
}

/// One operation of a folded kernel: paths with the block's index left open, one node per launch.
json opJson(const GraphRecord &graph, const FoldedKernel &entry, size_t op) {
  const KernelRecord &first = graph.kernels[entry.members.front()];
  json parts = json::array();
  for (size_t part = 0; part < first.ops[op].names.size(); ++part) {
    json nodes = json::array();
    for (size_t member : entry.members) {
      const auto &names = graph.kernels[member].ops[op].names;
      nodes.push_back(part < names.size() ? names[part].node : "");
    }
    parts.push_back({{"path", generalise(first.ops[op].names[part].path, first.home)}, {"nodes", nodes}});
  }
  return {{"op", first.ops[op].op}, {"parts", parts}, {"args", first.ops[op].args}};
}

json kernelJson(const GraphRecord &graph, const FoldedKernel &entry) {
  const KernelRecord &first = graph.kernels[entry.members.front()];
  json launches = json::array(), ops = json::array(), inputs = json::array(), results = json::array();
  for (size_t member : entry.members)
    launches.push_back(launchName(member));
  for (size_t op = 0; op < first.ops.size(); ++op)
    ops.push_back(opJson(graph, entry, op));
  for (const ValueRecord &value : first.inputs)
    inputs.push_back(valueJson(value, first.home, false));
  for (const ValueRecord &value : first.results)
    results.push_back(valueJson(value, first.home, true));
  json kernel{{"id", launches.front()}, {"launches", launches}, {"count", launches.size()}, {"block", entry.block}, {"family", first.family},
          {"prepare", first.prepare}, {"anchor", first.anchor}, {"ops", ops}, {"inputs", inputs}, {"results", results},
          {"read", first.work.bytesRead}, {"written", first.work.bytesWritten}, {"weight_bytes", first.weightBytes}, {"saved", first.savedBytes},
          {"matrix_flops", first.work.matrixFlops}, {"scalar_flops", first.work.scalarFlops}, {"flops", first.work.flops()}, {"intensity", first.work.intensity()}, {"ir", first.ir}};
  if (first.work.fp8Flops > 0)
    kernel["fp8_flops"] = first.work.fp8Flops;
  return kernel;
}

} // namespace

json kernelsJson(const GraphRecord &graph, const Folded &folded) {
  json list = json::array();
  for (const FoldedKernel &entry : folded.kernels)
    list.push_back(kernelJson(graph, entry));
  return list;
}

json blocksJson(const GraphRecord &graph, const Folded &folded) {
  json list = json::array();
  for (const FoldedBlock &block : folded.blocks) {
    json kernels = json::array();
    double bytes = 0, weights = 0, flops = 0;
    int64_t launches = 0;
    for (size_t entry : block.kernels) {
      const KernelRecord &kernel = graph.kernels[folded.kernels[entry].members.front()];
      kernels.push_back(launchName(folded.kernels[entry].members.front()));
      if (kernel.prepare)
        continue;
      ++launches;
      bytes += kernel.work.bytes();
      weights += kernel.weightBytes;
      flops += kernel.work.flops();
    }
    list.push_back({{"list", block.list}, {"indices", block.indices}, {"count", block.indices.size()}, {"launches_per_block", launches}, {"kernels", kernels},
                    {"bytes_per_block", bytes}, {"weight_bytes_per_block", weights}, {"flops_per_block", flops}});
  }
  return list;
}

json freeJson(const GraphRecord &graph) {
  std::map<std::pair<std::string, std::string>, json> entries; // op, open path -> nodes by module path
  for (const FreeRecord &free : graph.free)
    for (const NodeName &name : free.op.names) {
      std::optional<BlockPosition> home = blockOf(name.path);
      json &entry = entries[{free.op.op, generalise(name.path, home)}];
      entry["op"] = free.op.op;
      entry["path"] = generalise(name.path, home);
      entry["nodes"].push_back(home ? json{name.node, home->index} : json{name.node});
    }
  json list = json::array();
  for (auto &[key, entry] : entries)
    list.push_back(std::move(entry));
  return list;
}

namespace {

/// Finds the launch that an operation named in a remark ended up in.
class KernelIndex {
public:
  explicit KernelIndex(const GraphRecord &graph) : graph(graph) {
    for (size_t i = 0; i < graph.kernels.size(); ++i)
      for (const OpRecord &op : graph.kernels[i].ops)
        if (!op.names.empty())
          byName[key(op.names.back())].push_back(i);
  }

  /// Operations of one node may lie in several kernels; the family decides.
  std::optional<size_t> find(const NodeName &name, const std::string &family) const {
    auto found = byName.find(key(name));
    if (found == byName.end())
      return std::nullopt;
    for (size_t kernel : found->second)
      if (graph.kernels[kernel].family == family)
        return kernel;
    return found->second.front();
  }

private:
  static std::string key(const NodeName &name) { return name.path + ":" + name.node; }

  const GraphRecord &graph;
  std::map<std::string, std::vector<size_t>> byName;
};

/// One end of a missed fusion.
struct End {
  NodeName name;
  std::optional<size_t> kernel;
  std::string family;

  json toJson(const Folded &folded, const std::optional<BlockPosition> &home) const {
    json entry{{"path", generalise(name.path, home)}, {"family", family}};
    if (kernel)
      entry["kernel"] = launchName(folded.kernels[folded.entryOf[*kernel]].members.front());
    return entry;
  }
};

/// Remarks as entries; those of repeated blocks are one, which lists the nodes.
class RemarkFolder {
public:
  RemarkFolder(const GraphRecord &graph, const Folded &folded) : graph(graph), folded(folded), index(graph) {}

  void addMissed(const FusionRemark &remark) {
    End producer = end(remark.fact("Producer"), remark.fact("Kernel")), reader = end(remark.fact("Reader"), remark.fact("ReaderKernel"));
    std::optional<BlockPosition> home = homeOf(reader, producer);
    NodeName operand = parseNodeName(remark.fact("Operand"));
    json entry{{"reason", remark.fact("Reason")}, {"sentence", sentenceOf(remark.fact("Reason"))}, {"producer", producer.toJson(folded, home)},
               {"reader", reader.toJson(folded, home)}, {"operand", {{"path", generalise(operand.path, home)}}}, {"bytes", remark.number("Bytes")},
               {"beside", remark.fact("Relation") == "beside"}};
    json &target = fold(std::move(entry), home);
    target["producer"]["nodes"].push_back(producer.name.node);
    target["reader"]["nodes"].push_back(reader.name.node);
    target["operand"]["nodes"].push_back(operand.node);
    target["launches"].push_back({producer.kernel ? launchName(*producer.kernel) : "", reader.kernel ? launchName(*reader.kernel) : ""});
  }

  void addDeviation(const FusionRemark &remark) {
    End anchor = end(remark.fact("Anchor"), remark.fact("Kernel"));
    std::optional<BlockPosition> home = homeOf(anchor, anchor);
    NodeName operand = parseNodeName(remark.fact("Operand"));
    json &target = fold({{"deviation", remark.fact("Deviation")}, {"reason", remark.fact("Reason")}, {"sentence", sentenceOf(remark.fact("Reason"))},
                         {"kernel", anchor.toJson(folded, home)}, {"operand", {{"path", generalise(operand.path, home)}}}}, home);
    target["kernel"]["nodes"].push_back(anchor.name.node);
    target["operand"]["nodes"].push_back(operand.node);
    target["launches"].push_back(anchor.kernel ? launchName(*anchor.kernel) : "");
  }

  json take() { return std::move(list); }

private:
  /// The entry that is equal to this one but for its nodes, one longer.
  json &fold(json entry, const std::optional<BlockPosition> &home) {
    auto [place, isNew] = places.try_emplace(entry.dump(), list.size());
    if (isNew)
      list.push_back(std::move(entry));
    json &target = list[place->second];
    target["count"] = target.value("count", 0) + 1;
    target["indices"].push_back(home ? home->index : -1);
    return target;
  }

  End end(const std::string &text, const std::string &family) const {
    NodeName name = parseNodeName(text);
    return {name, index.find(name, family), family};
  }

  std::optional<BlockPosition> homeOf(const End &first, const End &second) const {
    for (const End *end : {&first, &second})
      if (end->kernel && graph.kernels[*end->kernel].home)
        return graph.kernels[*end->kernel].home;
    return std::nullopt;
  }

  static std::string sentenceOf(const std::string &name) {
    for (Reason reason : allReasons())
      if (nameOf(reason) == name)
        return std::string(explain(reason));
    return "";
  }

  const GraphRecord &graph;
  const Folded &folded;
  KernelIndex index;
  std::map<std::string, size_t> places;
  json list = json::array();
};

} // namespace

json notFusedJson(const std::vector<FusionRemark> &remarks, const GraphRecord &graph, const Folded &folded) {
  RemarkFolder folder(graph, folded);
  for (const FusionRemark &remark : remarks)
    if (!remark.fact("Reader").empty() && !remark.fact("Reason").empty())
      folder.addMissed(remark);
  return folder.take();
}

json deviationsJson(const std::vector<FusionRemark> &remarks, const GraphRecord &graph, const Folded &folded) {
  RemarkFolder folder(graph, folded);
  for (const FusionRemark &remark : remarks)
    if (!remark.fact("Deviation").empty())
      folder.addDeviation(remark);
  return folder.take();
}

json totalsJson(const GraphRecord &graph, const UnfusedRecord &unfused) {
  int64_t launches = 0, prepare = 0;
  double bytes = 0, weights = 0, saved = 0;
  Work work;
  for (const KernelRecord &kernel : graph.kernels) {
    (kernel.prepare ? prepare : launches) += 1;
    if (kernel.prepare)
      continue;
    work += kernel.work;
    weights += kernel.weightBytes;
    saved += kernel.savedBytes;
  }
  bytes = work.bytes();
  return {{"launches", launches}, {"prepare_launches", prepare}, {"launches_unfused", unfused.launches}, {"flops", work.flops()}, {"matrix_flops", work.matrixFlops},
          {"bytes", bytes}, {"weight_bytes", weights}, {"activation_bytes", bytes - weights}, {"saved_bytes", saved},
          {"bytes_unfused", unfused.bytes}, {"activation_bytes_unfused", unfused.bytes - unfused.weightBytes},
          {"bytes_minimum", graph.minimumBytes}, {"activation_bytes_minimum", graph.minimumActivationBytes}};
}

json memoryJson(const MemoryRecord &memory) {
  json alive = json::array();
  int64_t rest = 0;
  for (const LiveTensor &tensor : memory.alive) {
    if (alive.size() == kListedTensors)
      rest += tensor.bytes;
    else
      alive.push_back({{"path", tensor.name.path}, {"node", tensor.name.node}, {"type", tensor.type}, {"bytes", tensor.bytes}, {"offset", tensor.offset}});
  }
  return {{"arena_bytes", memory.arenaBytes}, {"peak_bytes", memory.peakBytes}, {"operations", memory.operations},
          {"at", {{"path", memory.at.path}, {"node", memory.at.node}, {"position", memory.position}}}, {"alive", alive}, {"alive_count", memory.alive.size()}, {"other_bytes", rest}};
}

} // namespace ditc
