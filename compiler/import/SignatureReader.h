// SPDX-License-Identifier: Apache-2.0
//
// What the graph's inputs and outputs are: parameters, buffers, what the user passes and gets, and what the
// user calls them. Private to the reader of exported programs.
#pragma once

#include "compiler/import/ExportedProgram.h"
#include "compiler/import/GraphReader.h"
#include "compiler/import/JsonReader.h"

#include <string>
#include <vector>

namespace ditc {

class SignatureReader {
public:
  SignatureReader(JsonReader &reader, GraphReader &graphs) : reader(reader), graphs(graphs) {}

  /// Fills the specs and trees of `program`, whose graph must have been read.
  void read(const Json &graphModule, ExportedProgram &program);

private:
  InputSpec readInputSpec(const Json &spec, const Argument &graphInput);
  OutputSpec readOutputSpec(const Json &spec, const Argument &graphOutput);
  /// The signature of the root module, or null.
  const Json *findRootSignature(const Json &graphModule);
  void readTrees(const Json &graphModule, const Json &signature, ExportedProgram &program);
  void nameInputs(const Json *signature, ExportedProgram &program);
  void nameOutputs(const Json *signature, ExportedProgram &program);
  std::vector<std::string> inputPaths(const Json &signature, const TreeSpec &inSpec);

  JsonReader &reader;
  GraphReader &graphs;
};

} // namespace ditc
