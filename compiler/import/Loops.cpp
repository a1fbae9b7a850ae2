// SPDX-License-Identifier: Apache-2.0
//
// Higher-order ops that run a graph several times: scan, map, and while_loop whose condition depends on constants only
// (a counter). The steps are imported one behind the other; how many there are is known, as all sizes are.
#include "compiler/import/ImporterState.h"

#include "runtime/Error.h"

using namespace mlir;

namespace ditc {

using Kind = Argument::Kind;

/// More steps, or nodes in all of them, are a loop that a package should not hold step by step.
static constexpr int64_t kMaxSteps = 1024, kMaxNodes = 100'000;

bool isUnrolledLoop(std::string_view target) {
  std::string_view name = shortTarget(target);
  return name == "higher_order.scan" || name == "higher_order.map_impl" || name == "higher_order.while_loop";
}

LoopCall loopCall(const Node &node) {
  std::string_view name = shortTarget(node.target);
  LoopCall call;
  std::vector<std::vector<Argument> *> lists{&call.carried, &call.scanned, &call.rest};
  if (name == "higher_order.map_impl")
    lists.erase(lists.begin());
  else if (name == "higher_order.while_loop")
    lists.erase(lists.begin() + 1);
  size_t next = 0;
  for (const NamedArgument &input : node.inputs)
    if (input.value.kind == Kind::Graph)
      call.graphs.push_back(input.value.graph.get());
    else if (input.value.kind == Kind::Tensors && next < lists.size())
      *lists[next++] = input.value.items;
    else
      fail("has an operand that is neither a graph nor a list of tensors");
  if (call.graphs.size() != (name == "higher_order.while_loop" ? 2 : 1) || next != lists.size())
    fail("has {} graphs and {} lists of tensors, which is no loop that is known", call.graphs.size(), next);
  return call;
}

static void checkSize(int64_t steps, const Graph &graph) {
  if (steps > kMaxSteps || steps * static_cast<int64_t>(graph.nodes.size()) > kMaxNodes)
    fail("has {} steps of {} nodes, and a package holds each: {} steps and {} nodes at most; write the loop with tensors of all steps", steps, graph.nodes.size(),
         kMaxSteps, kMaxNodes);
}

std::vector<Values::Id> Importer::idsOf(ArrayRef<Argument> operands) {
  std::vector<Values::Id> ids;
  for (const Argument &operand : operands) {
    if (operand.kind != Kind::Tensor)
      fail("has an operand that is no tensor");
    ids.push_back(idOf(operand.text));
  }
  return ids;
}

std::vector<Values::Id> Importer::importStep(const Graph &graph, std::vector<Values::Id> inputs) {
  if (inputs.size() != graph.inputs.size())
    fail("passes {} operands to a graph of {} inputs", inputs.size(), graph.inputs.size());
  Scope inner{&graph, {}, scope().autocast};
  for (auto [input, id] : llvm::zip(graph.inputs, inputs))
    inner.ids[input.text] = id;
  std::vector<Values::Id> ids;
  for (std::optional<Values::Id> id : importScope(std::move(inner))) {
    if (!id)
      fail("has a result that is no tensor");
    ids.push_back(*id);
  }
  return ids;
}

/// scan and map: what is scanned is cut along its first dimension, results beside the carried ones are stacked along theirs.
std::vector<Values::Id> Importer::importSteps(const LoopCall &call) {
  std::vector<Values::Id> carried = idsOf(call.carried), scanned = idsOf(call.scanned), rest = idsOf(call.rest);
  if (scanned.empty() || Emit::rankOf(values.read(scanned[0])) == 0 || Emit::shapeOf(values.read(scanned[0]))[0] == 0)
    fail("has no steps");
  int64_t steps = Emit::shapeOf(values.read(scanned[0]))[0];
  checkSize(steps, *call.graphs[0]);
  std::vector<std::vector<Value>> stacked;
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<Values::Id> inputs = carried;
    for (Values::Id id : scanned) {
      Value row = emit.slice(values.read(id), 0, step, step + 1);
      inputs.push_back(values.addBase(emit.view(row, Emit::shapeOf(row).drop_front()), Origin::Local, "a step's operand"));
    }
    inputs.insert(inputs.end(), rest.begin(), rest.end());
    std::vector<Values::Id> results = importStep(*call.graphs[0], inputs);
    if (results.size() < carried.size())
      fail("has {} results for {} carried tensors", results.size(), carried.size());
    stacked.resize(results.size() - carried.size());
    for (auto [list, id] : llvm::zip(stacked, llvm::drop_begin(results, carried.size())))
      list.push_back(emit.unsqueeze(values.read(id), 0));
    carried.assign(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(carried.size()));
  }
  for (const std::vector<Value> &list : stacked)
    carried.push_back(values.addBase(emit.concat(list, 0), Origin::Local, "a loop's result"));
  return carried;
}

std::vector<Values::Id> Importer::importWhile(const LoopCall &call) {
  std::vector<Values::Id> carried = idsOf(call.carried), rest = idsOf(call.rest);
  for (int64_t step = 0;; ++step) {
    std::vector<Values::Id> inputs = carried;
    inputs.insert(inputs.end(), rest.begin(), rest.end());
    std::vector<Values::Id> condition = importStep(*call.graphs[0], inputs);
    std::optional<dit::TensorValue> known = condition.size() == 1 ? constantValue(values.read(condition[0])) : std::nullopt;
    if (!known)
      fail("its condition depends on data; loop a fixed number of times, or export two programs");
    if (known->at(0) == 0)
      return carried;
    checkSize(step + 1, *call.graphs[1]);
    carried = importStep(*call.graphs[1], inputs);
  }
}

void Importer::importLoop(const Node &node) {
  LoopCall call = loopCall(node);
  std::vector<Values::Id> results = call.graphs.size() == 2 ? importWhile(call) : importSteps(call);
  std::vector<const Argument *> outputs = flatOutputs(node);
  if (outputs.size() > results.size())
    fail("has {} results, but its graph makes {}", outputs.size(), results.size());
  for (auto [output, id] : llvm::zip(outputs, results))
    if (output->kind == Kind::Tensor)
      scope().ids[output->text] = id;
}

} // namespace ditc
