// SPDX-License-Identifier: Apache-2.0
//
// One walk over a graph for one mask: each node keeps the chosen rows apart, writes them back, or is in the way.
#include "compiler/import/MaskedRows.h"

#include "llvm/ADT/StringSet.h"

namespace ditc {

using Kind = Argument::Kind;

namespace {

/// Follows the rows that one mask chooses through a graph.
class MaskedRows {
public:
  MaskedRows(const Graph &graph, const AtenTable &table, std::string mask)
      : graph(graph), table(table), mask(std::move(mask)) {}

  bool stayRows();

private:
  bool accept(const Node &node);
  bool readsRows(const Node &node) const;
  bool computesRowByRow(const Node &node) const;
  bool isBroadcast(const std::string &operand, size_t rank) const;
  bool isRow(const Argument &value) const { return value.kind == Kind::Tensor && rows.contains(value.text); }
  bool isRowOrNumber(const Argument &value) const {
    return isRow(value) || numbers.contains(value.text) ||
           llvm::any_of(value.items, [&](const Argument &item) { return isRowOrNumber(item); });
  }
  size_t rankOf(const std::string &name) const {
    auto meta = graph.tensorValues.find(name);
    return meta == graph.tensorValues.end() ? 0 : meta->second.sizes.size();
  }

  const Graph &graph;
  const AtenTable &table;
  const std::string mask;
  llvm::StringSet<> rows;    ///< values with one row for each one of the mask
  llvm::StringSet<> numbers; ///< what is computed from how many there are
};

} // namespace

/// The mask, when it is the only index of a node.
static const std::string *onlyIndex(const Node &node) {
  const Argument *indices = node.find("indices");
  bool isOne = indices && indices->items.size() == 1 && indices->items[0].kind == Kind::Tensor;
  return isOne ? &indices->items[0].text : nullptr;
}

static bool isIndexPut(std::string_view target) {
  return target == "aten.index_put.default" || target == "aten.index_put_.default";
}

bool MaskedRows::readsRows(const Node &node) const {
  const std::string *index = onlyIndex(node);
  return shortTarget(node.target) == "aten.index.Tensor" && index && *index == mask;
}

/// An operand that is the same for all rows.
bool MaskedRows::isBroadcast(const std::string &operand, size_t rank) const {
  auto meta = graph.tensorValues.find(operand);
  if (meta == graph.tensorValues.end())
    return false;
  const std::vector<SymInt> &sizes = meta->second.sizes;
  return sizes.size() < rank || (sizes.size() == rank && sizes[0].isConstant() && sizes[0].value == 1);
}

bool MaskedRows::computesRowByRow(const Node &node) const {
  static const llvm::StringSet<> kElementwise = [] {
    llvm::StringSet<> names;
    for (const OpRow &row : atenPointwise())
      names.insert(row.target);
    for (std::string_view cast : {"aten.to.dtype", "aten._to_copy.default", "aten.type_as.default", "aten.clone.default"})
      names.insert(cast);
    return names;
  }();
  ResolvedTarget target = table.resolve(node.target, false);
  if (!target.row || !kElementwise.contains(target.row->target) || node.outputs.size() != 1)
    return false;
  // In place, only rows may be written: the mask, say, must stay what it is.
  const Argument *self = node.inputs.empty() ? nullptr : &node.inputs[0].value;
  if (target.writes && !(self && isRow(*self)))
    return false;
  return llvm::all_of(node.inputs, [&](const NamedArgument &input) {
    bool isTensor = input.value.kind == Kind::Tensor;
    return input.value.items.empty() && !numbers.contains(input.value.text) &&
           (!isTensor || isRow(input.value) || isBroadcast(input.value.text, rankOf(node.outputs[0].text)));
  });
}

/// False when `node` does something to the rows that depends on their number or order.
bool MaskedRows::accept(const Node &node) {
  if (readsRows(node)) {
    rows.insert(node.outputs[0].text);
    return llvm::none_of(node.inputs, [&](const NamedArgument &input) { return isRow(input.value); });
  }
  bool touches = llvm::any_of(node.inputs, [&](const NamedArgument &input) { return isRowOrNumber(input.value); });
  ResolvedTarget target = table.resolve(node.target, false);
  const Argument *self = node.inputs.empty() ? nullptr : &node.inputs[0].value;
  if (!touches)
    return !(target.writes && self && self->text == mask);
  if (isCheck(node.target))
    return true;
  if (isSymbolic(node)) { // may end in a check
    for (const Argument &output : node.outputs)
      numbers.insert(output.text);
    return true;
  }
  if (isIndexPut(shortTarget(node.target))) {
    const std::string *index = onlyIndex(node);
    const Argument *accumulate = node.find("accumulate");
    return index && *index == mask && self && !isRow(*self) && self->text != mask && !(accumulate && accumulate->flag);
  }
  if (!computesRowByRow(node))
    return false;
  rows.insert(node.outputs[0].text);
  return true;
}

bool MaskedRows::stayRows() {
  return llvm::all_of(graph.nodes, [&](const Node &node) { return accept(node); }) &&
         llvm::none_of(graph.outputs, [&](const Argument &output) { return isRowOrNumber(output); });
}

bool isWrittenBack(const Node &read, const Graph &graph, const AtenTable &table) {
  const std::string *mask = onlyIndex(read);
  return mask && MaskedRows(graph, table, *mask).stayRows();
}

} // namespace ditc
