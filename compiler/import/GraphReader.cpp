// SPDX-License-Identifier: Apache-2.0
//
// Graphs, nodes and value types. Arguments are in ArgumentReader.cpp.
#include "compiler/import/GraphReader.h"

namespace ditc {

namespace {

constexpr size_t kMaxRank = 64;

/// "L__self___blocks_0,blocks.0,pkg.Block" joined by ';', outermost first: the path of the innermost module.
/// The type may hold anything, the key has no comma, so the path is what lies between the outer commas.
std::string modulePathOf(const Json &node) {
  auto stack = node.find("nn_module_stack");
  if (stack == node.end() || !stack->is_string())
    return {};
  std::string_view entry = stack->get_ref<const std::string &>();
  if (size_t last = entry.rfind(';'); last != std::string_view::npos)
    entry.remove_prefix(last + 1);
  size_t first = entry.find(','), second = entry.rfind(',');
  if (first == std::string_view::npos || first == second)
    return {};
  return std::string(entry.substr(first + 1, second - first - 1));
}

/// "torch.ops.aten._assert_scalar.default" -> "_assert_scalar": a name for nodes that have none.
std::string shortTarget(std::string_view target) {
  if (target.starts_with("torch.ops."))
    target = target.substr(0, target.rfind('.')); // the overload
  return std::string(target.substr(target.rfind('.') + 1));
}

} // namespace

SymExprPtr GraphReader::readExpr(const Json &asExpr) {
  const std::string &text = reader.text(asExpr, "expr_str");
  SymExprPtr &expr = exprs[text];
  if (!expr)
    expr = parseSymExpr(text);
  return expr;
}

SymInt GraphReader::readSymInt(const Json &value, const char *what) {
  SymInt out;
  auto [kind, content] = reader.variant(value, what);
  if (kind == "as_int") {
    out.value = reader.asInteger(content, what);
    return out;
  }
  if (kind != "as_expr")
    reader.damaged("a size is '{}', expected 'as_int' or 'as_expr'", printable(kind));
  out.expr = readExpr(content);
  const Json *hint = reader.find(content, "hint");
  out.hasHint = hint != nullptr;
  if (hint)
    out.value = reader.integer(*hint, "as_int");
  return out;
}

SymScalar GraphReader::readSymScalar(const Json &value) {
  SymScalar out;
  auto [kind, content] = reader.variant(value, "symbolic value");
  auto constant = [&](const std::string &type, const Json &number) {
    if (type == "as_int")
      out.value = reader.asInteger(number, "as_int");
    else if (type == "as_float")
      out.value = reader.asReal(number, "as_float");
    else if (type == "as_bool")
      out.value = reader.asFlag(number, "as_bool");
    else
      reader.damaged("a symbolic value is '{}', expected a number or an expression", printable(type));
  };
  if (kind != "as_expr") {
    constant(kind, content);
    return out;
  }
  out.expr = readExpr(content);
  const Json *hint = reader.find(content, "hint");
  out.hasHint = hint != nullptr;
  if (hint) {
    auto [type, number] = reader.variant(*hint, "hint");
    constant(type, number);
  }
  return out;
}

std::vector<SymInt> GraphReader::readSizes(const Json &meta, const char *key) {
  const Json &list = reader.list(meta, key);
  if (list.size() > kMaxRank)
    reader.damaged("a tensor has {} dimensions, more than {}", list.size(), kMaxRank);
  std::vector<SymInt> sizes;
  sizes.reserve(list.size());
  for (const Json &size : list) {
    sizes.push_back(readSymInt(size, key));
    if (sizes.back().isConstant() && sizes.back().value < 0)
      reader.damaged("'{}' holds the negative number {}", key, sizes.back().value);
  }
  return sizes;
}

TensorMeta GraphReader::readTensorMeta(const Json &meta) {
  TensorMeta out;
  const Json &type = reader.at(meta, "dtype");
  std::optional<DType> dtype = reader.scalarType(type);
  if (!dtype)
    reader.refuse("its element type {} is not supported; convert the tensor to a supported type before the export",
                  JsonReader::scalarTypeText(type));
  out.dtype = *dtype;
  if (const Json *layout = reader.find(meta, "layout")) {
    int64_t number = reader.enumeration(
        *layout, {"sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "_mkldnn", "strided"},
        "layout");
    if (number != 7)
      reader.refuse("its layout {} is not dense; ditc takes strided tensors only, call to_dense() before the export",
                    number);
  }
  out.sizes = readSizes(meta, "sizes");
  out.strides = readSizes(meta, "strides");
  if (out.sizes.size() != out.strides.size())
    reader.damaged("a tensor has {} sizes and {} strides", out.sizes.size(), out.strides.size());
  if (const Json *offset = reader.find(meta, "storage_offset"))
    out.storageOffset = readSymInt(*offset, "storage_offset");
  if (const Json *device = reader.find(meta, "device"))
    out.device = reader.text(*device, "type");
  return out;
}

Node GraphReader::readNode(const Json &node) {
  Node out;
  out.target = reader.text(node, "target");
  const Json *name = reader.find(node, "name");
  if (name)
    out.name = reader.asText(*name, "name");
  reader.place = "node '" + (name ? out.name : out.target) + "'";
  out.modulePath = modulePathOf(node);
  const Json &outputs = reader.list(node, "outputs");
  out.outputs.reserve(outputs.size());
  for (const Json &output : outputs)
    out.outputs.push_back(readArgument(output));
  if (out.name.empty() && !out.outputs.empty()) {
    const Argument &first = out.outputs[0];
    out.name = first.kind == Argument::Kind::Tensors && !first.items.empty() ? first.items[0].text : first.text;
  }
  if (out.name.empty())
    out.name = shortTarget(out.target);
  std::string place = reader.place = "node '" + out.name + "' (" + out.target + ")";
  const Json &inputs = reader.list(node, "inputs");
  out.inputs.reserve(inputs.size());
  for (const Json &input : inputs) {
    const Json *argName = reader.find(input, "name");
    out.inputs.push_back({argName ? reader.asText(*argName, "name") : "", readArgument(reader.at(input, "arg"))});
    reader.place = place; // a subgraph among the arguments has moved it
  }
  return out;
}

Graph GraphReader::readGraph(const Json &graph) {
  Graph out;
  reader.place = "graph inputs";
  for (const Json &input : reader.list(graph, "inputs"))
    out.inputs.push_back(readArgument(input));
  reader.place = "graph outputs";
  for (const Json &output : reader.list(graph, "outputs"))
    out.outputs.push_back(readArgument(output));
  reader.place = "graph";
  const Json &tensors = reader.object(graph, "tensor_values");
  out.tensorValues.reserve(tensors.size());
  for (const auto &[name, meta] : tensors.items()) {
    reader.place = "value '" + name + "'";
    out.tensorValues.emplace(name, readTensorMeta(meta));
  }
  for (const char *key : {"sym_int_values", "sym_float_values", "sym_bool_values"}) {
    reader.place = "graph";
    const Json *values = reader.find(graph, key);
    if (!values)
      continue;
    for (const auto &[name, value] : reader.object(graph, key).items()) {
      reader.place = "value '" + name + "'";
      out.symValues.insert_or_assign(name, readSymScalar(value));
    }
  }
  reader.place = "graph";
  const Json &nodes = reader.list(graph, "nodes");
  out.nodes.reserve(nodes.size());
  for (const Json &node : nodes)
    out.nodes.push_back(readNode(node));
  reader.place = "graph";
  return out;
}

} // namespace ditc
