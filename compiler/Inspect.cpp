// SPDX-License-Identifier: Apache-2.0
#include "compiler/Inspect.h"

#include "compiler/import/Buckets.h"
#include "compiler/import/Importer.h"
#include "runtime/Error.h"

#include "mlir/IR/MLIRContext.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ditc {

using nlohmann::json;

namespace {

std::string sizeText(const SymInt &size) { return size.isConstant() ? std::to_string(size.value) : toString(*size.expr); }

json describePort(const ExportedProgram &program, const std::string &userName, const std::string &valueName) {
  auto meta = program.graph.tensorValues.find(valueName);
  if (meta == program.graph.tensorValues.end())
    return {{"name", userName}};
  std::vector<std::string> shape;
  for (const SymInt &size : meta->second.sizes)
    shape.push_back(sizeText(size));
  return {{"name", userName}, {"dtype", nameOf(meta->second.dtype)}, {"shape", shape}};
}

json describeConstant(const InputSpec &spec) {
  switch (spec.constant.kind) {
  case Argument::Kind::Bool: return {{"name", spec.userName}, {"value", spec.constant.flag}};
  case Argument::Kind::Int: return {{"name", spec.userName}, {"value", spec.constant.integer}};
  case Argument::Kind::Float: return {{"name", spec.userName}, {"value", spec.constant.number}};
  case Argument::Kind::String: return {{"name", spec.userName}, {"value", spec.constant.text}};
  default: return {{"name", spec.userName}, {"value", nullptr}};
  }
}

void countOps(const Graph &graph, std::map<std::string, int64_t> &ops) {
  for (const Node &node : graph.nodes) {
    ++ops[node.target];
    for (const NamedArgument &argument : node.inputs)
      if (argument.value.graph)
        countOps(*argument.value.graph, ops);
  }
}

json describeWeights(const Pt2Archive &archive) {
  uint64_t elements = 0, bytes = 0, stored = 0;
  for (const auto &[name, tensor] : archive.weights()) {
    elements += tensor.elementCount();
    bytes += tensor.elementCount() * byteSize(tensor.dtype);
    stored += tensor.hasBytes();
  }
  return {{"tensors", archive.weights().size()}, {"with_bytes", stored}, {"elements", elements}, {"bytes", bytes}, {"constants", archive.constants().size()}};
}

/// What shows only when the graph is built: a loop whose condition depends on data, a result that is no tensor. Empty for
/// exports with symbols, whose sizes a bucket would have to bind.
std::string refusalOf(const ExportedProgram &program, const Pt2Archive &archive) {
  if (!describeSymbols(program).empty())
    return "";
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  try {
    importProgram(context, program, archive, {});
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

} // namespace

json inspect(const std::string &path) {
  Pt2Archive archive = Pt2Archive::open(path);
  ExportedProgram program = parseExportedProgram(archive.programJson(), path);
  json result = {{"file", path}, {"layout", std::string(1, archive.layout())}, {"torch_version", program.torchVersion},
                 {"schema", fmt::format("{}.{}", program.schemaMajor, program.schemaMinor)}, {"verifier", program.verifier},
                 {"nodes", program.graph.nodes.size()}, {"inputs", json::array()}, {"constant_inputs", json::array()}, {"outputs", json::array()},
                 {"weights", describeWeights(archive)}, {"symbols", describeSymbols(program)}, {"unsupported", json::array()}, {"warnings", archive.warnings()}};
  for (const InputSpec &spec : program.inputSpecs) {
    if (spec.kind == InputSpec::Kind::UserInput)
      result["inputs"].push_back(describePort(program, spec.userName, spec.valueName));
    if (spec.kind == InputSpec::Kind::ConstantInput)
      result["constant_inputs"].push_back(describeConstant(spec));
  }
  for (const OutputSpec &spec : program.outputSpecs)
    if (spec.kind == OutputSpec::Kind::UserOutput)
      result["outputs"].push_back(describePort(program, spec.userName, spec.value.text));
  std::map<std::string, int64_t> ops;
  countOps(program.graph, ops);
  result["ops"] = ops;
  for (const UnsupportedNode &node : findUnsupported(program, archive))
    result["unsupported"].push_back({{"target", node.target}, {"module", node.modulePath}, {"node", node.nodeName}, {"reason", node.reason}});
  if (result["unsupported"].empty())
    if (std::string reason = refusalOf(program, archive); !reason.empty())
      result["unsupported"].push_back({{"target", nullptr}, {"module", nullptr}, {"node", nullptr}, {"reason", reason}});
  return result;
}

static std::string portLines(const json &ports) {
  std::string text;
  for (const json &port : ports)
    text += port.contains("shape") ? fmt::format("  {:<28} {} [{}]\n", port["name"].get<std::string>(), port["dtype"].get<std::string>(),
                                                 fmt::join(port["shape"].get<std::vector<std::string>>(), ", "))
                                   : fmt::format("  {}\n", port["name"].get<std::string>());
  return text;
}

std::string describe(const json &inspection) {
  const json &weights = inspection["weights"];
  std::string text = fmt::format("{}: torch {} export, layout {}, schema {}, {} nodes\n", inspection["file"].get<std::string>(), inspection["torch_version"].get<std::string>(),
                                 inspection["layout"].get<std::string>(), inspection["schema"].get<std::string>(), inspection["nodes"].get<size_t>());
  text += "inputs\n" + portLines(inspection["inputs"]);
  for (const json &constant : inspection["constant_inputs"])
    text += fmt::format("  {:<28} fixed to {}\n", constant["name"].get<std::string>(), constant["value"].dump());
  text += "outputs\n" + portLines(inspection["outputs"]);
  text += fmt::format("weights\n  {} tensors, {:.1f} million elements, {:.1f} MB{}\n", weights["tensors"].get<size_t>(), weights["elements"].get<double>() / 1e6,
                      weights["bytes"].get<double>() / 1e6, weights["with_bytes"] == weights["tensors"] ? "" : fmt::format(" ({} with bytes in the file)", weights["with_bytes"].get<size_t>()));
  if (!inspection["symbols"].empty()) {
    text += "symbolic sizes (bind them with --bucket NAME:SYMBOL=VALUE,...)\n";
    for (const json &line : inspection["symbols"])
      text += "  " + line.get<std::string>() + "\n";
  }
  text += "ops\n";
  for (const auto &[op, count] : inspection["ops"].items())
    text += fmt::format("  {:>5} {}\n", count.get<int64_t>(), op);
  if (inspection["unsupported"].empty())
    return text + "every op is supported\n";
  text += fmt::format("not supported ({})\n", inspection["unsupported"].size());
  for (const json &node : inspection["unsupported"])
    text += node["target"].is_null() ? fmt::format("  {}\n", node["reason"].get<std::string>())
                                     : fmt::format("  {} at '{}' ({}): {}\n", node["target"].get<std::string>(), node["module"].get<std::string>(), node["node"].get<std::string>(), node["reason"].get<std::string>());
  return text;
}

} // namespace ditc
