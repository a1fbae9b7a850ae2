// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/OpContext.h"

#include "compiler/import/ImporterState.h"
#include "runtime/Error.h"

using namespace mlir;

namespace ditc {

using Kind = Argument::Kind;

OpContext::OpContext(Importer &importer, const Node &node, Emit &emit) : emit(emit), node(node), importer(importer) {}

std::string OpContext::where() const { return describe(node); }

std::string describe(const Node &node) {
  std::string text = fmt::format("node '{}' ({})", node.name, shortTarget(node.target));
  return node.modulePath.empty() ? text : fmt::format("'{}', {}", node.modulePath, text);
}

//===-- Arguments ---------------------------------------------------------------------------------===//

static const char *kindName(Kind kind) {
  switch (kind) {
  case Kind::None: return "none";
  case Kind::Tensor: return "a tensor";
  case Kind::Tensors: return "a list of tensors";
  case Kind::Int:
  case Kind::SymInt: return "an integer";
  case Kind::Float:
  case Kind::SymFloat: return "a float";
  case Kind::Bool:
  case Kind::SymBool: return "a bool";
  case Kind::String: return "text";
  case Kind::Complex: return "a complex number";
  case Kind::List: return "a list";
  case Kind::ScalarType: return "a type";
  default: return "of an unexpected kind";
  }
}

[[noreturn]] static void wrongKind(std::string_view name, const Argument &value, const char *expected) {
  fail("argument '{}' is {}, expected {}", name, kindName(value.kind), expected);
}

/// The argument, or null when it is absent or None.
static const Argument *present(const Node &node, std::string_view name) {
  const Argument *value = node.find(name);
  return value && value->kind != Kind::None ? value : nullptr;
}

static const Argument &required(const Node &node, std::string_view name) {
  const Argument *value = present(node, name);
  if (!value)
    fail("argument '{}' is missing", name);
  return *value;
}

static std::optional<Scalar> asScalar(const Importer &importer, const Argument &value) {
  switch (value.kind) {
  case Kind::Int: return Scalar::of(value.integer);
  case Kind::Float: return Scalar::of(value.number);
  case Kind::Bool: return Scalar::of(value.flag);
  case Kind::SymInt:
  case Kind::SymFloat:
  case Kind::SymBool:
    return std::visit([](auto number) { return Scalar::of(number); }, importer.symbolValue(value.text));
  default: return std::nullopt;
  }
}

static int64_t asInteger(const Importer &importer, std::string_view name, const Argument &value) {
  std::optional<Scalar> scalar = asScalar(importer, value);
  if (!scalar || scalar->kind == Scalar::Kind::Float)
    wrongKind(name, value, "an integer");
  return scalar->integer;
}

bool OpContext::has(std::string_view name) const { return present(node, name); }

bool OpContext::isTensor(std::string_view name) const {
  const Argument *value = present(node, name);
  return value && value->kind == Kind::Tensor;
}

Value OpContext::tensor(std::string_view name) const {
  const Argument &value = required(node, name);
  if (value.kind != Kind::Tensor)
    wrongKind(name, value, "a tensor");
  return importer.readOperand(node, value.text);
}

Value OpContext::optionalTensor(std::string_view name) const { return has(name) ? tensor(name) : Value(); }

std::vector<Value> OpContext::optionalTensors(std::string_view name) const {
  const Argument &list = required(node, name);
  if (list.kind != Kind::Tensors && !(list.kind == Kind::List && list.items.empty()))
    wrongKind(name, list, "a list of tensors");
  std::vector<Value> result;
  for (const Argument &item : list.items)
    result.push_back(item.kind == Kind::Tensor ? importer.readOperand(node, item.text) : Value());
  return result;
}

std::vector<Value> OpContext::tensors(std::string_view name) const {
  std::vector<Value> result = optionalTensors(name);
  for (Value value : result)
    if (!value)
      fail("argument '{}' holds none, expected tensors", name);
  return result;
}

Value OpContext::indexFromData(std::string_view name) const {
  const Argument *value = node.find(name);
  return value && value->kind == Kind::SymInt ? importer.indexFromData(value->text) : Value();
}

int64_t OpContext::integer(std::string_view name) const { return asInteger(importer, name, required(node, name)); }

int64_t OpContext::integer(std::string_view name, int64_t otherwise) const {
  return has(name) ? integer(name) : otherwise;
}

std::optional<int64_t> OpContext::optionalInteger(std::string_view name) const {
  return has(name) ? std::optional(integer(name)) : std::nullopt;
}

std::vector<int64_t> OpContext::integers(std::string_view name) const {
  const Argument &value = required(node, name);
  if (value.kind != Kind::List)
    return {asInteger(importer, name, value)};
  std::vector<int64_t> result;
  for (const Argument &item : value.items)
    result.push_back(asInteger(importer, name, item));
  return result;
}

std::vector<int64_t> OpContext::integers(std::string_view name, std::vector<int64_t> otherwise) const {
  return has(name) ? integers(name) : std::move(otherwise);
}

std::optional<std::vector<int64_t>> OpContext::optionalIntegers(std::string_view name) const {
  return has(name) ? std::optional(integers(name)) : std::nullopt;
}

std::optional<std::vector<double>> OpContext::optionalNumbers(std::string_view name) const {
  if (!has(name))
    return std::nullopt;
  const Argument &value = required(node, name);
  if (value.kind != Kind::List)
    return std::vector<double>{number(name, 0)};
  std::vector<double> result;
  for (const Argument &item : value.items) {
    std::optional<Scalar> scalar = asScalar(importer, item);
    if (!scalar)
      wrongKind(name, item, "a number");
    result.push_back(scalar->number);
  }
  return result;
}

double OpContext::number(std::string_view name, double otherwise) const {
  return optionalNumber(name).value_or(otherwise);
}

std::optional<double> OpContext::optionalNumber(std::string_view name) const {
  return has(name) ? std::optional(scalar(name).number) : std::nullopt;
}

bool OpContext::flag(std::string_view name, bool otherwise) const {
  return has(name) ? scalar(name).number != 0 : otherwise;
}

std::string OpContext::text(std::string_view name, std::string otherwise) const {
  const Argument *value = present(node, name);
  if (!value)
    return otherwise;
  if (value->kind != Kind::String)
    wrongKind(name, *value, "text");
  return value->text;
}

Scalar OpContext::scalar(std::string_view name) const {
  const Argument &value = required(node, name);
  std::optional<Scalar> scalar = asScalar(importer, value);
  if (!scalar)
    wrongKind(name, value, "a number");
  return *scalar;
}

Scalar OpContext::scalar(std::string_view name, Scalar otherwise) const { return has(name) ? scalar(name) : otherwise; }

std::optional<Scalar> OpContext::optionalScalar(std::string_view name) const {
  return has(name) ? std::optional(scalar(name)) : std::nullopt;
}

std::optional<std::complex<double>> OpContext::complexNumber(std::string_view name) const {
  const Argument *value = present(node, name);
  if (!value || value->kind != Kind::Complex)
    return std::nullopt;
  return std::complex<double>(value->number, value->imaginary);
}

Value OpContext::tensorOrScalar(std::string_view name) const {
  const Argument &value = required(node, name);
  if (value.kind == Kind::Tensor)
    return tensor(name);
  return emit.number(scalar(name));
}

std::optional<dit::TensorValue> OpContext::constantValue(Value value) const { return importer.constantValue(value); }

std::optional<dit::TensorValue> OpContext::constantTensor(std::string_view name) const {
  return importer.constantValue(tensor(name));
}

bool OpContext::isWrittenBack() const { return importer.isWrittenBack(node); }

bool OpContext::isDense(std::string_view name) const {
  const TensorMeta &meta = importer.metaOf(required(node, name).text);
  int64_t expected = 1;
  for (size_t i = meta.sizes.size(); i-- > 0;) {
    int64_t size = importer.evaluate(meta.sizes[i]);
    if (size != 1 && i < meta.strides.size() && importer.evaluate(meta.strides[i]) != expected)
      return false;
    expected *= size;
  }
  return importer.evaluate(meta.storageOffset) == 0;
}

//===-- Results -----------------------------------------------------------------------------------===//

std::vector<const Argument *> flatOutputs(const Node &node) {
  std::vector<const Argument *> result;
  for (const Argument &output : node.outputs) {
    if (output.kind == Kind::Tensors)
      for (const Argument &item : output.items)
        result.push_back(&item);
    else
      result.push_back(&output);
  }
  return result;
}

static const Argument &resultArgument(const Node &node, size_t i) {
  std::vector<const Argument *> outputs = flatOutputs(node);
  if (i >= outputs.size() || outputs[i]->kind != Kind::Tensor)
    fail("result {} is not a tensor", i);
  return *outputs[i];
}

bool OpContext::isComplex(std::string_view name) const {
  const Argument *value = present(node, name);
  if (value && value->kind == Kind::Tensors)
    return std::any_of(value->items.begin(), value->items.end(), [&](const Argument &item) {
      return item.kind == Kind::Tensor && ditc::isComplex(importer.metaOf(item.text).dtype);
    });
  return value && value->kind == Kind::Tensor && ditc::isComplex(importer.metaOf(value->text).dtype);
}

bool OpContext::resultIsComplex(size_t i) const {
  return ditc::isComplex(importer.metaOf(resultArgument(node, i).text).dtype);
}

RankedTensorType OpContext::resultType(size_t i) const {
  return importer.typeOf(importer.metaOf(resultArgument(node, i).text));
}

Type OpContext::resultElement(size_t i) const {
  return emit.elementType(importer.metaOf(resultArgument(node, i).text).dtype);
}

size_t OpContext::resultCount() const { return flatOutputs(node).size(); }

const std::string &OpContext::torchVersion() const { return importer.exportedProgram().torchVersion; }

} // namespace ditc
