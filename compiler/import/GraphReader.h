// SPDX-License-Identifier: Apache-2.0
//
// JSON -> Graph: nodes, arguments and the types of all values, subgraphs included. Private to the reader of
// exported programs.
#pragma once

#include "compiler/import/ExportedProgram.h"
#include "compiler/import/JsonReader.h"

#include <string>
#include <unordered_map>

namespace ditc {

class GraphReader {
public:
  explicit GraphReader(JsonReader &reader) : reader(reader) {}

  Graph readGraph(const Json &graph);
  Argument readArgument(const Json &argument);

private:
  Node readNode(const Json &node);
  TensorMeta readTensorMeta(const Json &meta);
  std::vector<SymInt> readSizes(const Json &meta, const char *key);
  SymInt readSymInt(const Json &value, const char *what);
  SymScalar readSymScalar(const Json &value);
  SymExprPtr readExpr(const Json &asExpr);

  bool readScalarArgument(const std::string &kind, const Json &value, Argument &out);
  bool readListArgument(const std::string &kind, const Json &value, Argument &out);
  bool readTensorArgument(const std::string &kind, const Json &value, Argument &out);
  bool readTypeArgument(const std::string &kind, const Json &value, Argument &out);
  Argument readSymArgument(const Json &value, Argument::Kind symbolic);
  Argument tensor(const Json &value);

  JsonReader &reader;
  std::unordered_map<std::string, SymExprPtr> exprs; ///< a program repeats few expressions very often
};

/// Checks that every name is defined before it is used and once, and that every value has a type.
void checkNames(const Graph &graph, const JsonReader &reader);

} // namespace ditc
