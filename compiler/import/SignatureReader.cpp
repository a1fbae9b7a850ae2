// SPDX-License-Identifier: Apache-2.0
//
// Specs run parallel to the graph's inputs and outputs. User names come from the tree specs and not from
// placeholders: torch 2.6 gives placeholders wrong names when keyword arguments are passed in another order
// than the signature's (leaf `return_dict` called `encoder_hidden_states`, and the reverse).
#include "compiler/import/SignatureReader.h"

#include "compiler/import/TreeSpec.h"

#include <set>

namespace ditc {

using Kind = Argument::Kind;

namespace {

bool isUserGiven(const InputSpec &spec) {
  return spec.kind == InputSpec::Kind::UserInput || spec.kind == InputSpec::Kind::ConstantInput;
}

NamedTupleFields readNamedTuples(const Json &graphModule, const JsonReader &reader) {
  NamedTupleFields fields;
  const Json *types = reader.find(graphModule, "treespec_namedtuple_fields");
  if (!types)
    return fields;
  for (const auto &[type, value] : reader.object(graphModule, "treespec_namedtuple_fields").items())
    for (const Json &name : reader.list(value, "field_names"))
      fields[type].push_back(reader.asText(name, "field_names"));
  return fields;
}

size_t countUserInputs(const ExportedProgram &program) {
  size_t count = 0;
  for (const InputSpec &spec : program.inputSpecs)
    count += isUserGiven(spec);
  return count;
}

size_t countUserOutputs(const ExportedProgram &program) {
  size_t count = 0;
  for (const OutputSpec &spec : program.outputSpecs)
    count += spec.kind == OutputSpec::Kind::UserOutput;
  return count;
}

} // namespace

InputSpec SignatureReader::readInputSpec(const Json &spec, const Argument &graphInput) {
  auto [kind, fields] = reader.variant(spec, "input spec");
  InputSpec out;
  auto tensorOf = [&](InputSpec::Kind specKind, const char *fqnField) {
    out.kind = specKind;
    out.valueName = reader.text(reader.at(fields, "arg"), "name");
    out.fqn = reader.text(fields, fqnField);
    if (graphInput.kind != Kind::Tensor || graphInput.text != out.valueName)
      reader.damaged("the signature calls the input of '{}' '{}', the graph does not", printable(out.fqn),
                     printable(out.valueName));
  };
  if (kind == "parameter") {
    tensorOf(InputSpec::Kind::Parameter, "parameter_name");
  } else if (kind == "buffer") {
    tensorOf(InputSpec::Kind::Buffer, "buffer_name");
    const Json *persistent = reader.find(fields, "persistent");
    out.persistent = !persistent || reader.asFlag(*persistent, "persistent");
  } else if (kind == "tensor_constant") {
    tensorOf(InputSpec::Kind::TensorConstant, "tensor_constant_name");
  } else if (kind == "user_input") {
    out.constant = graphs.readArgument(reader.at(fields, "arg"));
    out.valueName = out.constant.text;
    bool isValue = out.constant.kind == Kind::Tensor || out.constant.kind == Kind::SymInt ||
                   out.constant.kind == Kind::SymFloat || out.constant.kind == Kind::SymBool;
    if (!isValue)
      reader.refuse("a user input is neither a tensor nor a symbolic number; pass it as a tensor or as a constant");
    if (graphInput.kind != out.constant.kind || graphInput.text != out.valueName)
      reader.damaged("the signature has the user input '{}', the graph does not", printable(out.valueName));
    out.constant = Argument();
  } else if (kind == "constant_input") {
    out.kind = InputSpec::Kind::ConstantInput;
    out.valueName = reader.text(fields, "name");
    out.constant = graphs.readArgument(reader.at(fields, "value"));
  } else {
    reader.refuse("an input of the model is a '{}'; ditc takes tensors, numbers and constants, remove script objects "
                  "and tokens from the model before the export",
                  printable(kind));
  }
  return out;
}

OutputSpec SignatureReader::readOutputSpec(const Json &spec, const Argument &graphOutput) {
  auto [kind, fields] = reader.variant(spec, "output spec");
  OutputSpec out;
  out.value = graphOutput;
  if (kind == "user_output") {
    Argument declared = graphs.readArgument(reader.at(fields, "arg"));
    if (declared.kind != graphOutput.kind || declared.text != graphOutput.text)
      reader.damaged("the signature and the graph disagree on the output '{}'", printable(declared.text));
    return out;
  }
  struct Row {
    const char *variant;
    OutputSpec::Kind kind;
    const char *target;
  };
  static constexpr Row kMutations[] = {
      {"buffer_mutation", OutputSpec::Kind::BufferMutation, "buffer_name"},
      {"parameter_mutation", OutputSpec::Kind::ParameterMutation, "parameter_name"},
      {"user_input_mutation", OutputSpec::Kind::UserInputMutation, "user_input_name"},
  };
  out.kind = OutputSpec::Kind::Other;
  for (const Row &row : kMutations) {
    if (kind != row.variant)
      continue;
    out.kind = row.kind;
    out.target = reader.text(fields, row.target);
    if (graphOutput.kind != Kind::Tensor || graphOutput.text != reader.text(reader.at(fields, "arg"), "name"))
      reader.damaged("the signature and the graph disagree on the new value of '{}'", printable(out.target));
  }
  if (out.kind == OutputSpec::Kind::Other)
    out.target = kind; // "loss_output", "token", ...: whoever refuses it can say what it is
  return out;
}

const Json *SignatureReader::findRootSignature(const Json &graphModule) {
  const Json *entries = reader.find(graphModule, "module_call_graph");
  if (!entries)
    return nullptr;
  for (const Json &entry : reader.asList(*entries, "module_call_graph"))
    if (reader.text(entry, "fqn").empty())
      return reader.find(entry, "signature");
  return nullptr;
}

void SignatureReader::readTrees(const Json &graphModule, const Json &signature, ExportedProgram &program) {
  NamedTupleFields fields = readNamedTuples(graphModule, reader);
  program.inSpec = parseTreeSpec(reader.text(signature, "in_spec"), fields, reader);
  program.outSpec = parseTreeSpec(reader.text(signature, "out_spec"), fields, reader);
}

std::vector<std::string> SignatureReader::inputPaths(const Json &signature, const TreeSpec &inSpec) {
  bool isCall = inSpec.type == "builtins.tuple" && inSpec.children.size() == 2 && !inSpec.children[0].type.empty() &&
                !inSpec.children[1].type.empty();
  if (!isCall)
    reader.damaged("in_spec is not a pair of positional and keyword arguments");
  std::vector<std::string> argNames;
  if (const Json *names = reader.find(signature, "forward_arg_names"))
    for (const Json &name : reader.asList(*names, "forward_arg_names"))
      argNames.push_back(reader.asText(name, "forward_arg_names"));
  std::vector<std::string> paths;
  const TreeSpec &positional = inSpec.children[0];
  for (size_t i = 0; i < positional.children.size(); ++i) {
    bool isNamed = i < argNames.size(); // otherwise empty: the placeholder's name
    for (std::string &path : leafPaths(positional.children[i], isNamed ? argNames[i] : "x"))
      paths.push_back(isNamed ? std::move(path) : "");
  }
  for (std::string &path : leafPaths(inSpec.children[1], ""))
    paths.push_back(std::move(path));
  return paths;
}

void SignatureReader::nameInputs(const Json *signature, ExportedProgram &program) {
  size_t count = countUserInputs(program);
  std::vector<std::string> paths(count);
  if (signature)
    paths = inputPaths(*signature, program.inSpec);
  if (paths.size() != count)
    reader.damaged("the call has {} arguments, but the signature lists {} user inputs", paths.size(), count);
  std::set<std::string> taken;
  size_t next = 0;
  for (InputSpec &spec : program.inputSpecs) {
    if (!isUserGiven(spec))
      continue;
    spec.userName = paths[next].empty() ? spec.valueName : paths[next];
    ++next;
    if (!taken.insert(spec.userName).second) {
      spec.userName = spec.valueName; // the dict keys {"a.b": x, "a": {"b": y}} give one path twice
      if (!taken.insert(spec.userName).second)
        reader.refuse("two inputs are called '{}'; rename one and export the model again", printable(spec.userName));
    }
  }
}

void SignatureReader::nameOutputs(const Json *signature, ExportedProgram &program) {
  size_t count = countUserOutputs(program);
  std::vector<std::string> paths;
  if (signature)
    paths = leafPaths(program.outSpec, program.outSpec.keys.empty() ? "output" : "");
  else
    for (size_t i = 0; i < count; ++i)
      paths.push_back(count == 1 ? "output" : "output." + std::to_string(i));
  if (paths.size() != count)
    reader.damaged("the result has {} leaves, but the signature lists {} user outputs", paths.size(), count);
  size_t next = 0;
  for (OutputSpec &spec : program.outputSpecs)
    if (spec.kind == OutputSpec::Kind::UserOutput)
      spec.userName = paths[next++];
}

void SignatureReader::read(const Json &graphModule, ExportedProgram &program) {
  reader.place = "signature";
  const Json &signature = reader.object(graphModule, "signature");
  const Json &inputs = reader.list(signature, "input_specs"), &outputs = reader.list(signature, "output_specs");
  if (inputs.size() != program.graph.inputs.size())
    reader.damaged("the signature has {} inputs, the graph has {}", inputs.size(), program.graph.inputs.size());
  if (outputs.size() != program.graph.outputs.size())
    reader.damaged("the signature has {} outputs, the graph has {}", outputs.size(), program.graph.outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    program.inputSpecs.push_back(readInputSpec(inputs[i], program.graph.inputs[i]));
  for (size_t i = 0; i < outputs.size(); ++i)
    program.outputSpecs.push_back(readOutputSpec(outputs[i], program.graph.outputs[i]));
  reader.place = "calling convention";
  const Json *root = findRootSignature(graphModule);
  if (root)
    readTrees(graphModule, *root, program);
  nameInputs(root, program);
  nameOutputs(root, program);
}

} // namespace ditc
