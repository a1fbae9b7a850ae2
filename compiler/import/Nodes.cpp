// SPDX-License-Identifier: Apache-2.0
//
// The walk over the nodes of a graph: rows of the ATen table, results as new storages or views, writes,
// elements that become numbers, and the casts of an autocast region.
#include "compiler/import/ImporterState.h"

#include "runtime/Error.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;

namespace ditc {

using Kind = Argument::Kind;

void Importer::importNodes() {
  for (const Node &node : scope().graph->nodes) {
    Location before = builder.getLoc();
    try {
      importNode(node);
    } catch (const Error &error) {
      // Nodes of nested graphs have put their own place before the text.
      if (placed)
        throw;
      placed = true;
      throw Error(error.kind(), fmt::format("{}: {}", describe(node), error.what()));
    }
    builder.setLoc(before);
  }
}

Location Importer::locationOf(const Node &node) {
  StringAttr name = builder.getStringAttr(node.name);
  if (node.modulePath.empty())
    return NameLoc::get(name);
  return NameLoc::get(name, NameLoc::get(builder.getStringAttr(node.modulePath)));
}

bool involvesComplex(const Node &node, const Graph &graph) {
  auto isComplexValue = [&](const Argument &value) {
    auto meta = value.kind == Kind::Tensor ? graph.tensorValues.find(value.text) : graph.tensorValues.end();
    return meta != graph.tensorValues.end() && isComplex(meta->second.dtype);
  };
  for (const NamedArgument &input : node.inputs)
    if (isComplexValue(input.value) || llvm::any_of(input.value.items, isComplexValue))
      return true;
  return llvm::any_of(flatOutputs(node), [&](const Argument *output) { return isComplexValue(*output); });
}

void Importer::importNode(const Node &node) {
  if (isCheck(node.target) || isSymbolic(node))
    return;
  builder.setLoc(locationOf(node));
  if (isItem(node.target))
    return importItem(node);
  if (importRegion(node))
    return;
  ResolvedTarget target = table.resolve(node.target, involvesComplex(node, *scope().graph));
  if (!target.row)
    fail("is not supported");
  importRow(node, target);
}

const Argument *firstTensor(const Node &node) {
  for (const NamedArgument &input : node.inputs)
    if (input.value.kind == Kind::Tensor)
      return &input.value;
  return nullptr;
}

void Importer::importRow(const Node &node, const ResolvedTarget &target) {
  OpContext context(*this, node, emit);
  std::vector<Value> results = target.row->import(context);
  if (!target.writes)
    return bindResults(node, target, results);
  if (results.empty() || !results[0])
    failInternal("the row of '{}' gives no result to write", target.row->target);
  const Argument *self = firstTensor(node);
  if (!self)
    fail("writes to nothing");
  Values::Id id = idOf(self->text);
  if (target.row->aliasing == Aliasing::Fresh) {
    if (results[0].getType() != values.read(id).getType())
      fail("writes {} to a tensor that is {}", typeText(results[0].getType()), typeText(values.read(id).getType()));
    if (values.originOf(id) == Origin::UserInput)
      emitWarning(builder.getLoc()) << "writes to an input of the program; the caller's tensor stays as it is";
    values.write(id, results[0]);
  }
  // detach_, transpose_, squeeze_: the same elements seen in another way; nothing is written.
  for (const Argument *output : flatOutputs(node))
    if (output->kind == Kind::Tensor)
      scope().ids[output->text] = values.addView(id, results[0], output->text);
}

void Importer::bindResults(const Node &node, const ResolvedTarget &target, ArrayRef<Value> results) {
  std::vector<const Argument *> outputs = flatOutputs(node);
  const Argument *self = firstTensor(node);
  for (auto [output, value] : llvm::zip(outputs, results)) {
    if (!value || output->kind != Kind::Tensor)
      continue;
    const TensorMeta &meta = metaOf(output->text);
    bindDataSizes(meta, Emit::shapeOf(value));
    if (value.getType() != typeOf(meta))
      fail("'{}' is {} by its operands, but the file records {}; the file is damaged (export again), or ditc misreads this op (report it)", output->text, typeText(value.getType()),
                   typeText(typeOf(meta)));
    bool isView = target.row->aliasing == Aliasing::View ||
                  (target.row->aliasing == Aliasing::IfStrides && sharesStorage(node, meta));
    if (isView && self)
      scope().ids[output->text] = values.addView(idOf(self->text), value, output->text);
    else
      scope().ids[output->text] = values.addBase(value, Origin::Local, output->text);
  }
}

/// Sizes that the exporter could not know ("u0") and that a result of constants shows.
void Importer::bindDataSizes(const TensorMeta &meta, ArrayRef<int64_t> shape) {
  for (auto [size, value] : llvm::zip(meta.sizes, shape))
    if (size.expr && size.expr->function == "Symbol" && !symbols.count(size.expr->text))
      symbols[size.expr->text] = value;
}

//===-- Strides -----------------------------------------------------------------------------------===//

/// Strides of a view of shape `shape` on a tensor of the given sizes and strides, by torch's rule; nothing
/// when only a copy can have that shape. The number of elements is not 0.
static std::optional<std::vector<int64_t>> viewStrides(ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides,
                                                       ArrayRef<int64_t> shape) {
  std::vector<int64_t> result(shape.size(), 1);
  int64_t next = static_cast<int64_t>(shape.size()) - 1; // the dimension of the view to place
  int64_t chunk = 1, placed = 1;                         // elements of the run of dimensions that lie dense
  for (int64_t i = static_cast<int64_t>(sizes.size()) - 1, base = sizes.empty() ? 1 : strides.back(); i >= 0; --i) {
    chunk *= sizes[i];
    if (i > 0 && (sizes[i - 1] == 1 || strides[i - 1] == chunk * base))
      continue;
    while (next >= 0 && (placed < chunk || shape[next] == 1)) {
      result[next] = placed * base;
      placed *= shape[next--];
    }
    if (placed != chunk)
      return std::nullopt;
    if (i > 0)
      base = strides[i - 1];
    chunk = placed = 1;
  }
  return result;
}

bool Importer::sharesStorage(const Node &node, const TensorMeta &result) const {
  const Argument *self = firstTensor(node), *copy = node.find("copy");
  if (!self || (copy && copy->kind == Kind::Bool && copy->flag))
    return false;
  const TensorMeta &source = metaOf(self->text);
  if (source.dtype != result.dtype || source.device != result.device)
    return false;
  std::vector<int64_t> sizes = sizesOf(source), shape = sizesOf(result), strides, recorded;
  for (const SymInt &stride : source.strides)
    strides.push_back(evaluate(stride));
  for (const SymInt &stride : result.strides)
    recorded.push_back(evaluate(stride));
  if (llvm::is_contained(shape, 0) || strides.size() != sizes.size() || recorded.size() != shape.size())
    return true;
  std::optional<std::vector<int64_t>> expected = viewStrides(sizes, strides, shape);
  if (!expected)
    return false;
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != 1 && (*expected)[i] != recorded[i])
      return false;
  return true;
}

//===-- Elements that become numbers --------------------------------------------------------------===//

bool isOnlyIndex(const Node &item, const Graph &graph) {
  if (item.outputs.size() != 1 || item.outputs[0].kind != Kind::SymInt)
    return false;
  const std::string &name = item.outputs[0].text;
  auto isName = [&](const Argument &value) { return value.kind == Kind::SymInt && value.text == name; };
  auto reads = [&](const Argument &value) { return isName(value) || llvm::any_of(value.items, isName); };
  return llvm::none_of(graph.outputs, reads) && llvm::all_of(graph.nodes, [&](const Node &node) {
           bool selects = shortTarget(node.target) == "aten.select.int";
           return isCheck(node.target) || llvm::none_of(node.inputs, [&](const NamedArgument &input) { return reads(input.value) && !(selects && input.name == "index"); });
         });
}

Value Importer::indexFromData(const std::string &name) {
  auto found = dataIndices.find(name);
  return found == dataIndices.end() ? Value() : values.read(found->second);
}

void Importer::importItem(const Node &node) {
  const Argument *self = firstTensor(node);
  if (!self || node.outputs.size() != 1)
    fail("has no operand or no result");
  auto symbol = scope().graph->symValues.find(node.outputs[0].text);
  if (symbol == scope().graph->symValues.end() || !symbol->second.expr)
    return; // unused, or the exporter knew it
  std::set<std::string> names;
  collectSymbols(*symbol->second.expr, names);
  std::string unknown;
  for (const std::string &name : names)
    if (!symbols.count(name))
      unknown = name;
  if (unknown.empty())
    return;
  std::optional<dit::TensorValue> value = constantValue(read(self->text));
  if (!value && isOnlyIndex(node, *scope().graph)) {
    dataIndices[node.outputs[0].text] = idOf(self->text);
    return;
  }
  if (!value || value->type.getNumElements() != 1)
    fail("'{}' depends on data", self->text);
  // A bool appears as Equality(u0, 1), so the symbol is 0 or 1.
  if (isa<FloatType>(value->type.getElementType()))
    symbols[unknown] = value->at(0);
  else
    symbols[unknown] = static_cast<int64_t>(value->at(0));
}

//===-- Autocast ----------------------------------------------------------------------------------===//

/// Targets that an autocast region runs in its type.
static bool runsInAutocastType(std::string_view target) {
  static constexpr std::string_view kNames[] = {"linear",
                                                "matmul",
                                                "mm",
                                                "mv",
                                                "bmm",
                                                "baddbmm",
                                                "addmm",
                                                "addbmm",
                                                "addmv",
                                                "dot",
                                                "einsum",
                                                "conv1d",
                                                "conv2d",
                                                "conv3d",
                                                "convolution",
                                                "conv_transpose1d",
                                                "conv_transpose2d",
                                                "conv_transpose3d",
                                                "scaled_dot_product_attention"};
  target = shortTarget(target);
  target.remove_prefix(std::min<size_t>(target.size(), 5));
  return llvm::is_contained(kNames, target.substr(0, target.find('.')));
}

Value Importer::readOperand(const Node &node, const std::string &name) {
  Value value = read(name);
  std::vector<const Argument *> outputs = flatOutputs(node);
  if (!scope().autocast || outputs.empty() || outputs[0]->kind != Kind::Tensor ||
      !isa<FloatType>(Emit::elementOf(value)) || Emit::elementOf(value).isF64())
    return value;
  // The recorded result says whether the region's device and the op's class apply.
  Type result = emit.elementType(metaOf(outputs[0]->text).dtype);
  if (runsInAutocastType(node.target))
    return result == emit.elementType(*scope().autocast) ? emit.cast(value, result) : value;
  bool wantsWide = result.isF32() && table.resolve(node.target, false).row &&
                   table.resolve(node.target, false).row->aliasing == Aliasing::Fresh;
  return wantsWide ? emit.cast(value, result) : value;
}

} // namespace ditc
