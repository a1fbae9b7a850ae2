// SPDX-License-Identifier: Apache-2.0
//
// Looks through a program for everything that the importer would refuse, so that one message lists it all.
#include "compiler/import/ImporterState.h"

#include "runtime/Error.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cctype>

using namespace mlir;

namespace ditc {

using Kind = Argument::Kind;

namespace {

/// What is known of a name without importing.
struct Known {
  const InputSpec *leaf = nullptr; ///< the leaf whose storage the name shares
  bool constant = false;           ///< depends on constants only
};

class Scan {
public:
  Scan(const ExportedProgram &program, const Pt2Archive &archive, const ImportOptions &options)
      : program(program), archive(archive), options(options) {}

  std::vector<UnsupportedNode> run();

private:
  using Names = std::unordered_map<std::string, Known>;

  void scanGraph(const Graph &graph, Names &names);
  void scanNode(const Node &node, const Graph &graph, Names &names);
  void scanRegion(const Node &node, Names &names);
  void scanLoop(const Node &node, Names &names);
  std::string reasonAgainst(const Node &node, const Graph &graph, const ResolvedTarget &target,
                            const Names &names) const;
  std::string reasonAgainstItem(const Node &node, const Graph &graph, const Names &names) const;
  std::string reasonAgainstOperands(const Node &node, const Names &names) const;
  std::string reasonAgainstLeaf(const InputSpec &spec) const;
  bool readsByUnknownMask(const Node &node, const Graph &graph, const Names &names) const;
  bool allConstant(const Node &node, const Names &names) const;
  void report(const Node &node, std::string reason) {
    found.push_back({std::string(shortTarget(node.target)), node.modulePath, node.name, std::move(reason)});
  }

  const ExportedProgram &program;
  const Pt2Archive &archive;
  const ImportOptions &options;
  AtenTable table;
  std::vector<UnsupportedNode> found;
};

/// Calls `visit` with the name of each tensor operand.
void forEachOperand(const Node &node, llvm::function_ref<void(const std::string &)> visit) {
  for (const NamedArgument &input : node.inputs) {
    if (input.value.kind == Kind::Tensor)
      visit(input.value.text);
    if (input.value.kind == Kind::Tensors)
      for (const Argument &item : input.value.items)
        if (item.kind == Kind::Tensor)
          visit(item.text);
  }
}

std::vector<UnsupportedNode> Scan::run() {
  Names names;
  for (auto [argument, spec] : llvm::zip_equal(program.graph.inputs, program.inputSpecs)) {
    if (argument.kind != Kind::Tensor)
      continue;
    bool isConstant = spec.kind == InputSpec::Kind::TensorConstant ||
                      (spec.kind == InputSpec::Kind::Buffer && !spec.persistent) ||
                      (spec.kind == InputSpec::Kind::UserInput && options.pinned.count(spec.userName));
    names[argument.text] = {&spec, isConstant};
  }
  scanGraph(program.graph, names);
  for (const OutputSpec &spec : program.outputSpecs) {
    if (spec.kind == OutputSpec::Kind::BufferMutation || spec.kind == OutputSpec::Kind::ParameterMutation)
      found.push_back({"output", "", spec.value.text,
                       "the program updates a buffer or parameter; weights are read-only in a package"});
    if (spec.kind == OutputSpec::Kind::Other)
      found.push_back({"output", "", spec.value.text, "only values that the user's code returns can be outputs"});
  }
  return std::move(found);
}

void Scan::scanGraph(const Graph &graph, Names &names) {
  for (const Node &node : graph.nodes)
    scanNode(node, graph, names);
}

void Scan::scanNode(const Node &node, const Graph &graph, Names &names) {
  if (isCheck(node.target) || isSymbolic(node))
    return;
  if (isInlinedRegion(node.target))
    return scanRegion(node, names);
  if (isUnrolledLoop(node.target))
    return scanLoop(node, names);
  ResolvedTarget target = table.resolve(node.target, involvesComplex(node, graph));
  std::string reason =
      isItem(node.target) ? reasonAgainstItem(node, graph, names) : reasonAgainst(node, graph, target, names);
  if (!reason.empty())
    report(node, reason);
  const Argument *self = firstTensor(node);
  bool shares = target.row && (target.writes || target.row->aliasing != Aliasing::Fresh);
  Known known;
  known.constant = allConstant(node, names);
  if (shares && self) {
    auto source = names.find(self->text);
    known.leaf = source == names.end() ? nullptr : source->second.leaf;
    // `to` and `reshape` may copy; a write to the copy is no write to the leaf.
    if (target.row->aliasing == Aliasing::IfStrides)
      known.leaf = nullptr;
    if (target.writes && source != names.end())
      source->second.constant &= known.constant;
  }
  for (const Argument *output : flatOutputs(node))
    if (output->kind == Kind::Tensor)
      names[output->text] = known;
}

/// What a step gets is constant where all operands of the loop are, and a counter, which only the importer can follow.
void Scan::scanLoop(const Node &node, Names &names) {
  Known known{nullptr, allConstant(node, names)};
  LoopCall call;
  try {
    call = loopCall(node);
  } catch (const Error &error) {
    return report(node, error.what());
  }
  for (const Graph *graph : call.graphs) {
    Names inner;
    for (const Argument &input : graph->inputs)
      inner[input.text] = known;
    scanGraph(*graph, inner);
  }
  for (const Argument *output : flatOutputs(node))
    if (output->kind == Kind::Tensor)
      names[output->text] = known;
}

void Scan::scanRegion(const Node &node, Names &names) {
  RegionCall call = regionCall(node);
  if (shortTarget(node.target) == "higher_order.cond") {
    const Argument &predicate = call.settings.empty() ? call.operands.front() : call.settings[0];
    if (predicate.kind == Kind::Tensor && !names[predicate.text].constant)
      report(node, "its predicate depends on data; export the branch that is taken");
  }
  for (const Graph *graph : call.graphs) {
    Names inner;
    for (auto [input, operand] : llvm::zip(graph->inputs, call.operands))
      if (operand.kind == Kind::Tensor)
        inner[input.text] = names[operand.text];
    scanGraph(*graph, inner);
    std::vector<const Argument *> outputs = flatOutputs(node);
    for (auto [output, value] : llvm::zip(outputs, graph->outputs))
      if (output->kind == Kind::Tensor && value.kind == Kind::Tensor)
        names[output->text] = inner[value.text];
  }
}

bool Scan::allConstant(const Node &node, const Names &names) const {
  bool constant = true;
  forEachOperand(node, [&](const std::string &name) {
    auto known = names.find(name);
    constant &= known != names.end() && known->second.constant;
  });
  return constant;
}

static bool isUnbacked(const std::string &symbol) {
  std::string_view text = symbol;
  for (std::string_view prefix : {"zuf", "u"})
    if (text.starts_with(prefix) && text.size() > prefix.size())
      return std::all_of(text.begin() + prefix.size(), text.end(), [](unsigned char c) { return std::isdigit(c); });
  return false;
}

std::string Scan::reasonAgainstItem(const Node &node, const Graph &graph, const Names &names) const {
  if (allConstant(node, names) || node.outputs.empty())
    return "";
  auto symbol = graph.symValues.find(node.outputs[0].text);
  if (symbol == graph.symValues.end() || !symbol->second.expr)
    return "";
  std::set<std::string> symbols;
  collectSymbols(*symbol->second.expr, symbols);
  if (llvm::none_of(symbols, isUnbacked) || isOnlyIndex(node, graph))
    return "";
  return "a number of the program depends on data; pin the input that it comes from, or pass it as a Python number";
}

/// Dropout that is not switched off.
static bool isTrainingDropout(const Node &node) {
  std::string_view target = shortTarget(node.target);
  if (target.find("dropout") == std::string_view::npos)
    return false;
  const Argument *train = node.find("train"), *p = node.find("p");
  return train && train->kind == Kind::Bool && train->flag && p && p->number != 0;
}

/// x[mask] as a value has as many elements as the mask has ones, which is unknown unless the mask is constant.
bool Scan::readsByUnknownMask(const Node &node, const Graph &graph, const Names &names) const {
  std::string_view target = shortTarget(node.target);
  const Argument *indices = node.find("indices");
  if (!indices || (target != "aten.index.Tensor" && target != "aten._unsafe_index.Tensor"))
    return false;
  return llvm::any_of(indices->items, [&](const Argument &index) {
    auto meta = index.kind == Kind::Tensor ? graph.tensorValues.find(index.text) : graph.tensorValues.end();
    auto known = names.find(index.text);
    bool isMask =
        meta != graph.tensorValues.end() && (meta->second.dtype == DType::b1 || meta->second.dtype == DType::u8);
    return isMask && (known == names.end() || !known->second.constant);
  });
}

static std::string typeReason(const Node &node, const Graph &graph) {
  for (const Argument *output : flatOutputs(node)) {
    auto meta = output->kind == Kind::Tensor ? graph.tensorValues.find(output->text) : graph.tensorValues.end();
    if (meta == graph.tensorValues.end())
      continue;
    switch (meta->second.dtype) {
    case DType::u16:
    case DType::u32:
    case DType::u64:
    case DType::f8e5m2: return fmt::format("element type {} is not supported", nameOf(meta->second.dtype));
    default: break;
    }
  }
  return "";
}

std::string Scan::reasonAgainst(const Node &node, const Graph &graph, const ResolvedTarget &target,
                                const Names &names) const {
  std::string refusal = refusalOf(node.target);
  if (!refusal.empty() && !(target.row && allConstant(node, names)))
    return refusal;
  if (!target.row)
    return table.resolve(node.target, false).row ? "not supported on complex tensors; write it with their parts (torch.view_as_real)"
                                                 : adviceOn(node.target);
  if (isTrainingDropout(node))
    return "dropout is switched on; call model.eval() before exporting";
  if (readsByUnknownMask(node, graph, names) && !isWrittenBack(node, graph, table))
    return "a boolean index makes a size depend on data; use where or a multiplication by the mask, or pin the input "
           "that it comes from";
  if (std::string reason = typeReason(node, graph); !reason.empty())
    return reason;
  const Argument *self = firstTensor(node);
  auto written =
      target.writes && self && target.row->aliasing == Aliasing::Fresh ? names.find(self->text) : names.end();
  if (written != names.end() && written->second.leaf && written->second.leaf->kind != InputSpec::Kind::UserInput)
    return fmt::format("it writes to '{}'; weights and constants are read-only in a package",
                       written->second.leaf->fqn);
  return reasonAgainstOperands(node, names);
}

std::string Scan::reasonAgainstOperands(const Node &node, const Names &names) const {
  std::string reason;
  forEachOperand(node, [&](const std::string &name) {
    auto known = names.find(name);
    if (reason.empty() && known != names.end() && known->second.leaf && known->second.leaf->valueName == name)
      reason = reasonAgainstLeaf(*known->second.leaf);
  });
  return reason;
}

std::string Scan::reasonAgainstLeaf(const InputSpec &spec) const {
  if (auto reason = archive.unreadable().find(spec.fqn); reason != archive.unreadable().end())
    return fmt::format("'{}' cannot be read: {}", spec.fqn, reason->second);
  return "";
}

} // namespace

std::vector<UnsupportedNode> findUnsupported(const ExportedProgram &program, const Pt2Archive &archive,
                                             const ImportOptions &options) {
  return Scan(program, archive, options).run();
}

std::vector<UnsupportedNode> findUnsupported(const ExportedProgram &program, const Pt2Archive &archive) {
  return findUnsupported(program, archive, ImportOptions());
}

std::string toString(const UnsupportedNode &node) {
  std::string place = node.modulePath.empty() ? "" : fmt::format("'{}', ", node.modulePath);
  return fmt::format("{}node '{}' ({}): {}", place, node.nodeName, node.target, node.reason);
}

std::string typeText(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

std::vector<std::string> supportedTargets() { return AtenTable().targets(); }

} // namespace ditc
