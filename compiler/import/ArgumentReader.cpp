// SPDX-License-Identifier: Apache-2.0
//
// The argument union: twenty-odd variants of JSON, reduced to the kinds that a graph needs. Variants that no
// supported op takes become Kind::Unsupported and are refused where they are used.
#include "compiler/import/GraphReader.h"

namespace ditc {

using Kind = Argument::Kind;

namespace {

Argument ofKind(Kind kind) {
  Argument argument;
  argument.kind = kind;
  return argument;
}

} // namespace

Argument GraphReader::tensor(const Json &value) {
  Argument argument = ofKind(Kind::Tensor);
  argument.text = reader.text(value, "name");
  return argument;
}

/// {"as_name": n}, or a constant, which then is what it is: {"as_int": 3}.
Argument GraphReader::readSymArgument(const Json &value, Kind symbolic) {
  auto [kind, content] = reader.variant(value, "symbolic argument");
  Argument argument = ofKind(symbolic);
  if (kind == "as_name")
    argument.text = reader.asText(content, "as_name");
  else if (!readScalarArgument(kind, content, argument))
    reader.damaged("a symbolic argument is '{}', expected a name or a number", printable(kind));
  return argument;
}

bool GraphReader::readScalarArgument(const std::string &kind, const Json &value, Argument &out) {
  if (kind == "as_none") {
    out = ofKind(Kind::None);
  } else if (kind == "as_int") {
    out = ofKind(Kind::Int);
    out.integer = reader.asSaturated(value, "as_int");
  } else if (kind == "as_float") {
    out = ofKind(Kind::Float);
    out.number = reader.asReal(value, "as_float");
  } else if (kind == "as_bool") {
    out = ofKind(Kind::Bool);
    out.flag = reader.asFlag(value, "as_bool");
  } else if (kind == "as_string") {
    out = ofKind(Kind::String);
    out.text = reader.asText(value, "as_string");
  } else if (kind == "as_complex") {
    out = ofKind(Kind::Complex);
    out.number = reader.asReal(reader.at(value, "real"), "real");
    out.imaginary = reader.asReal(reader.at(value, "imag"), "imag");
  } else if (kind == "as_sym_int") {
    out = readSymArgument(value, Kind::SymInt);
  } else if (kind == "as_sym_float") {
    out = readSymArgument(value, Kind::SymFloat);
  } else if (kind == "as_sym_bool") {
    out = readSymArgument(value, Kind::SymBool);
  } else {
    return false;
  }
  return true;
}

bool GraphReader::readListArgument(const std::string &kind, const Json &value, Argument &out) {
  struct Row {
    const char *list, *element;
  };
  static constexpr Row kLists[] = {{"as_ints", "as_int"},          {"as_floats", "as_float"},
                                   {"as_bools", "as_bool"},        {"as_strings", "as_string"},
                                   {"as_sym_ints", "as_sym_int"},  {"as_sym_floats", "as_sym_float"},
                                   {"as_sym_bools", "as_sym_bool"}};
  for (const Row &row : kLists) {
    if (kind != row.list)
      continue;
    out = ofKind(Kind::List);
    out.items.reserve(reader.asList(value, row.list).size());
    for (const Json &element : value)
      readScalarArgument(row.element, element, out.items.emplace_back());
    return true;
  }
  return false;
}

bool GraphReader::readTensorArgument(const std::string &kind, const Json &value, Argument &out) {
  if (kind == "as_tensor") {
    out = tensor(value);
  } else if (kind == "as_tensors") {
    out = ofKind(Kind::Tensors);
    out.items.reserve(reader.asList(value, "as_tensors").size());
    for (const Json &element : value)
      out.items.push_back(tensor(element));
  } else if (kind == "as_optional_tensors") {
    out = ofKind(Kind::Tensors);
    for (const Json &element : reader.asList(value, "as_optional_tensors"))
      if (!readTensorArgument("as_optional_tensor", element, out.items.emplace_back()))
        return false;
  } else if (kind == "as_optional_tensor") {
    auto [inner, content] = reader.variant(value, "optional tensor");
    if (inner != "as_none" && inner != "as_tensor")
      reader.damaged("an optional tensor is '{}', expected 'as_tensor' or 'as_none'", printable(inner));
    out = inner == "as_none" ? ofKind(Kind::None) : tensor(content);
  } else {
    return false;
  }
  return true;
}

bool GraphReader::readTypeArgument(const std::string &kind, const Json &value, Argument &out) {
  if (kind == "as_scalar_type") {
    out = ofKind(Kind::ScalarType);
    out.dtype = reader.scalarType(value);
    out.text = JsonReader::scalarTypeText(value);
  } else if (kind == "as_memory_format") {
    out = ofKind(Kind::MemoryFormat);
    out.integer = reader.enumeration(
        value, {"contiguous_format", "channels_last", "channels_last_3d", "preserve_format"}, "as_memory_format");
  } else if (kind == "as_layout") {
    out = ofKind(Kind::Layout);
    out.integer = reader.enumeration(
        value, {"sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "_mkldnn", "strided"},
        "as_layout");
  } else if (kind == "as_device") {
    out = ofKind(Kind::Device);
    out.text = reader.text(value, "type");
  } else {
    return false;
  }
  return true;
}

Argument GraphReader::readArgument(const Json &argument) {
  Argument out;
  auto [kind, value] = reader.variant(argument, "argument");
  if (readTensorArgument(kind, value, out) || readScalarArgument(kind, value, out) ||
      readListArgument(kind, value, out) || readTypeArgument(kind, value, out))
    return out;
  if (kind == "as_graph") {
    out = ofKind(Kind::Graph);
    out.text = reader.text(value, "name");
    out.graph = std::make_shared<Graph>(readGraph(reader.object(value, "graph")));
    return out;
  }
  out = ofKind(Kind::Unsupported);
  out.text = kind;
  return out;
}

} // namespace ditc
