// SPDX-License-Identifier: Apache-2.0
//
// Higher-order ops whose graph is imported in place: grad mode, autocast, checkpointing, and cond with a
// known predicate.
#include "compiler/import/ImporterState.h"

#include "runtime/Error.h"

using namespace mlir;

namespace ditc {

using Kind = Argument::Kind;

bool isInlinedRegion(std::string_view target) {
  static constexpr std::string_view kNames[] = {"higher_order.wrap_with_set_grad_enabled",
                                                "higher_order.wrap_with_autocast",
                                                "higher_order.tag_activation_checkpoint",
                                                "higher_order.wrap_activation_checkpoint",
                                                "higher_order.invoke_subgraph",
                                                "higher_order.wrap",
                                                "higher_order.cond"};
  return llvm::is_contained(kNames, shortTarget(target));
}

RegionCall regionCall(const Node &node) {
  RegionCall call;
  for (const NamedArgument &input : node.inputs) {
    const Argument &value = input.value;
    if (value.kind == Kind::Graph)
      call.graphs.push_back(value.graph.get());
    else if (call.graphs.empty())
      call.settings.push_back(value);
    else if (value.kind == Kind::Tensors)
      call.operands.insert(call.operands.end(), value.items.begin(), value.items.end());
    else if (value.kind != Kind::String && input.name.empty()) // invoke_subgraph has a label, checkpoints have options
      call.operands.push_back(value);
  }
  if (call.graphs.empty())
    fail("has no graph");
  return call;
}

/// The type of an enabled wrap_with_autocast(device, dtype, enabled, cache, ...), or `outer`'s.
static std::optional<DType> autocastOf(const Node &node, const RegionCall &call, std::optional<DType> outer) {
  if (shortTarget(node.target) != "higher_order.wrap_with_autocast")
    return outer;
  bool enabled = call.settings.size() > 2 && call.settings[2].kind == Kind::Bool && call.settings[2].flag;
  if (!enabled)
    return std::nullopt;
  // Without a type: the device's default, bf16 on the CPU and f16 on CUDA.
  if (call.settings[1].dtype)
    return call.settings[1].dtype;
  return call.settings[0].text == "cuda" ? DType::f16 : DType::bf16;
}

bool Importer::importRegion(const Node &node) {
  if (isUnrolledLoop(node.target)) {
    importLoop(node);
    return true;
  }
  if (!isInlinedRegion(node.target))
    return false;
  RegionCall call = regionCall(node);
  const Graph *graph = call.graphs[0];
  if (shortTarget(node.target) == "higher_order.cond") {
    std::optional<bool> taken = call.settings.empty() ? std::nullopt : predicateOf(call.settings[0]);
    if (!taken || call.graphs.size() != 2)
      fail("its predicate depends on data");
    graph = call.graphs[*taken ? 0 : 1];
  }
  inlineGraph(node, *graph, call.operands, autocastOf(node, call, scope().autocast));
  return true;
}

std::optional<bool> Importer::predicateOf(const Argument &value) {
  if (value.kind == Kind::Bool)
    return value.flag;
  if (value.kind == Kind::SymBool)
    return std::visit([](auto number) { return number != 0; }, symbolValue(value.text));
  if (value.kind != Kind::Tensor)
    return std::nullopt;
  std::optional<dit::TensorValue> known = constantValue(read(value.text));
  return known ? std::optional(known->at(0) != 0) : std::nullopt;
}

std::vector<std::optional<Values::Id>> Importer::importScope(Scope inner) {
  const Graph &graph = *inner.graph;
  scopes.push_back(std::move(inner));
  importNodes();
  std::vector<std::optional<Values::Id>> results;
  for (const Argument &output : graph.outputs)
    for (const Argument &item : output.kind == Kind::Tensors ? output.items : std::vector<Argument>{output})
      results.push_back(item.kind == Kind::Tensor ? std::optional(idOf(item.text)) : std::nullopt);
  scopes.pop_back();
  return results;
}

void Importer::inlineGraph(const Node &node, const Graph &graph, ArrayRef<Argument> operands,
                           std::optional<DType> autocast) {
  if (operands.size() != graph.inputs.size())
    fail("passes {} operands to a graph of {} inputs", operands.size(), graph.inputs.size());
  Scope inner{&graph, {}, autocast};
  for (auto [input, operand] : llvm::zip(graph.inputs, operands))
    if (input.kind == Kind::Tensor && operand.kind == Kind::Tensor)
      inner.ids[input.text] = idOf(operand.text);
  std::vector<std::optional<Values::Id>> results = importScope(std::move(inner));
  for (auto [output, id] : llvm::zip(flatOutputs(node), results))
    if (id && output->kind == Kind::Tensor)
      scope().ids[output->text] = *id;
}

} // namespace ditc
