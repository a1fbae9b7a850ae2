// SPDX-License-Identifier: Apache-2.0
//
// The root of a program's JSON: versions, ranges, guards, and the order in which the parts are read.
#include "compiler/import/ExportedProgram.h"

#include "compiler/import/GraphReader.h"
#include "compiler/import/JsonReader.h"
#include "compiler/import/SignatureReader.h"

#include <cctype>

namespace ditc {

namespace {

constexpr int64_t kSchemaMajor = 8;

bool isBareSymbol(std::string_view text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text.front())))
    return false;
  for (char c : text)
    if (c != '_' && !std::isalnum(static_cast<unsigned char>(c)))
      return false;
  return true;
}

void readVersions(const Json &root, const JsonReader &reader, ExportedProgram &program) {
  const Json *torchVersion = reader.find(root, "torch_version");
  program.torchVersion = torchVersion ? reader.asText(*torchVersion, "torch_version") : "<=2.4";
  const Json &version = reader.at(root, "schema_version"); // early files have a bare number
  program.schemaMajor =
      version.is_object() ? reader.integer(version, "major") : reader.asInteger(version, "schema_version");
  const Json *minor = version.is_object() ? reader.find(version, "minor") : nullptr;
  program.schemaMinor = minor ? reader.asInteger(*minor, "minor") : 0;
  if (program.schemaMajor != kSchemaMajor)
    reader.refuse("the program was written by torch {} with schema {}.{}; ditc reads schema {} (torch 2.6 and newer), "
                  "export the model again with such a torch",
                  printable(program.torchVersion), program.schemaMajor, program.schemaMinor, kSchemaMajor);
}

void readVerifier(const Json &root, const JsonReader &reader, ExportedProgram &program) {
  const Json &verifiers = reader.list(root, "verifiers");
  bool isOne = verifiers.size() == 1 && verifiers[0].is_string();
  program.verifier = isOne ? verifiers[0].get<std::string>() : "";
  if (program.verifier != "TRAINING" && program.verifier != "ATEN")
    reader.refuse("the program is in the dialect {}; ditc reads TRAINING and ATEN programs, save what "
                  "torch.export.export returned without lowering it to a back end",
                  printable(verifiers.dump()));
}

void readRanges(const Json &root, const JsonReader &reader, ExportedProgram &program) {
  if (!reader.find(root, "range_constraints"))
    return;
  for (const auto &[symbol, range] : reader.object(root, "range_constraints").items()) {
    if (!isBareSymbol(symbol)) // "2*s85": follows from the range of s85
      continue;
    auto bound = [&](const char *key) -> std::optional<int64_t> {
      const Json *value = reader.find(range, key);
      // The ranges of float symbols are of no use to sizes.
      std::optional<int64_t> number = value && value->is_number_integer() ? std::optional(reader.asSaturated(*value, key)) : std::nullopt;
      return number == INT64_MAX ? std::nullopt : number; // no size is as large
    };
    program.ranges[symbol] = {bound("min_val"), bound("max_val")};
  }
}

} // namespace

const Argument *Node::find(std::string_view argName) const {
  for (const NamedArgument &input : inputs)
    if (input.name == argName)
      return &input.value;
  return nullptr;
}

int64_t evaluateSize(const SymInt &size, const SymBindings &bindings) {
  return size.isConstant() ? size.value : evaluateInt(*size.expr, bindings);
}

ExportedProgram parseExportedProgram(std::string_view json, const std::string &fileName) {
  Json root = parseProgramTree(json, fileName);
  JsonReader reader(fileName);
  if (!root.is_object() || !root.contains("graph_module"))
    reader.refuse("the JSON is not an exported program, it has no 'graph_module'; save the model with "
                  "torch.export.save");
  ExportedProgram program;
  readVersions(root, reader, program);
  readVerifier(root, reader, program);
  readRanges(root, reader, program);
  if (reader.find(root, "guards_code"))
    for (const Json &guard : reader.list(root, "guards_code"))
      program.guards.push_back(reader.asText(guard, "guards_code"));
  const Json &graphModule = reader.object(root, "graph_module");
  GraphReader graphs(reader);
  program.graph = graphs.readGraph(reader.object(graphModule, "graph"));
  SignatureReader(reader, graphs).read(graphModule, program);
  reader.place = "graph";
  checkNames(program.graph, reader);
  return program;
}

} // namespace ditc
