// SPDX-License-Identifier: Apache-2.0
#include "compiler/ManifestPorts.h"

#include "runtime/Error.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/ranges.h>
#include <map>

namespace ditc {

/// A port of the first bucket, with the graph's name and symbolic sizes where the export has them.
static ManifestPort describePort(const PortDesc &port, const ExportedProgram &program, const std::string &graphName) {
  ManifestPort result{.name = port.name, .graphName = graphName == port.name ? "" : graphName, .dtype = port.dtype, .shape = {}};
  result.shape.assign(port.shape.begin(), port.shape.end());
  auto meta = program.graph.tensorValues.find(graphName);
  if (meta != program.graph.tensorValues.end() && meta->second.sizes.size() == port.shape.size())
    for (size_t i = 0; i < port.shape.size(); ++i)
      if (const SymInt &size = meta->second.sizes[i]; !size.isConstant())
        result.shape[i] = toString(*size.expr);
  return result;
}

/// Static exports of several sizes: a dimension that differs is told by its sizes.
static void joinSizes(std::vector<ManifestPort> &ports, const std::vector<PortDesc> &other) {
  for (size_t i = 0; i < ports.size(); ++i)
    for (size_t d = 0; d < ports[i].shape.size() && d < other[i].shape.size(); ++d) {
      ManifestDim &size = ports[i].shape[d];
      std::string here = std::to_string(other[i].shape[d]);
      if (const int64_t *number = std::get_if<int64_t>(&size)) {
        if (*number != other[i].shape[d])
          size = fmt::format("{}|{}", *number, here);
      } else if (std::string &text = std::get<std::string>(size); text.find('|') != std::string::npos && !llvm::is_contained(llvm::split(text, '|'), here)) {
        text += "|" + here;
      }
    }
}

static ConstantValue constantValue(const Argument &argument) {
  switch (argument.kind) {
  case Argument::Kind::Bool: return argument.flag;
  case Argument::Kind::Int: return argument.integer;
  case Argument::Kind::Float: return argument.number;
  case Argument::Kind::String: return argument.text;
  default: return std::monostate();
  }
}

ManifestBucket describeBucket(const Bucket &bucket) {
  ManifestBucket result{.name = bucket.name, .symbols = {}, .plans = {}};
  for (const auto &[name, value] : bucket.symbols)
    if (const int64_t *number = std::get_if<int64_t>(&value))
      result.symbols[name] = *number;
  return result;
}

void describePorts(Manifest &manifest, const ExportedProgram &program, const Plan &firstPlan, const std::vector<Plan> &plans) {
  std::map<std::string, std::string> inputNames, outputNames; // the user's -> the graph's
  for (const InputSpec &spec : program.inputSpecs) {
    if (spec.kind == InputSpec::Kind::ConstantInput)
      manifest.constantInputs[spec.userName] = constantValue(spec.constant);
    if (spec.kind == InputSpec::Kind::UserInput)
      inputNames[spec.userName] = spec.valueName;
  }
  for (const OutputSpec &spec : program.outputSpecs) {
    if (spec.kind != OutputSpec::Kind::UserOutput)
      continue;
    if (spec.value.kind == Argument::Kind::None)
      manifest.noneOutputs.push_back(spec.userName);
    else
      outputNames[spec.userName] = spec.value.text;
  }
  for (const PortDesc &port : firstPlan.inputs)
    manifest.inputs.push_back(describePort(port, program, inputNames[port.name]));
  for (const PortDesc &port : firstPlan.outputs)
    manifest.outputs.push_back(describePort(port, program, outputNames[port.name]));
  for (const Plan &plan : plans) {
    joinSizes(manifest.inputs, plan.inputs);
    joinSizes(manifest.outputs, plan.outputs);
  }
}

void checkSamePorts(std::string_view what, const std::string &bucket, const std::vector<PortDesc> &first, const std::vector<PortDesc> &other) {
  for (size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
    if (i >= first.size() || i >= other.size())
      fail("bucket '{}' has {} {}s, the first bucket {}; exports of one package must be of one model", bucket, other.size(), what, first.size());
    if (first[i].name != other[i].name || first[i].dtype != other[i].dtype)
      fail("bucket '{}' has {} '{}' ({}) where the first bucket has '{}' ({}); exports of one package must be of one model", bucket, what, other[i].name,
           nameOf(other[i].dtype), first[i].name, nameOf(first[i].dtype));
  }
}

/// Moves kernels that `target` does not have yet; equal names are equal kernels.
} // namespace ditc
