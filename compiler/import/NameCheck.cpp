// SPDX-License-Identifier: Apache-2.0
//
// A graph is in static single assignment form, or it is refused here: whoever walks a Graph may look up
// every name without asking.
#include "compiler/import/GraphReader.h"

#include <unordered_set>

namespace ditc {

using Kind = Argument::Kind;

namespace {

class NameChecker {
public:
  NameChecker(const Graph &graph, const JsonReader &reader) : graph(graph), reader(reader) {}

  void check() {
    for (const Argument &input : graph.inputs)
      define(input, "graph input");
    for (const Node &node : graph.nodes) {
      for (const NamedArgument &input : node.inputs)
        use(input.value, node.name);
      for (const Argument &output : node.outputs)
        define(output, node.name);
    }
    for (const Argument &output : graph.outputs)
      use(output, "graph output");
  }

private:
  void use(const Argument &argument, const std::string &user) {
    if (isName(argument.kind) && !defined.count(argument.text))
      reader.damaged("'{}' uses the value '{}', which nothing before it defines", printable(user),
                     printable(argument.text));
    for (const Argument &item : argument.items)
      use(item, user);
    if (argument.graph)
      checkNames(*argument.graph, reader);
  }

  void define(const Argument &argument, const std::string &definer) {
    for (const Argument &item : argument.items)
      define(item, definer);
    if (!isName(argument.kind))
      return;
    if (!defined.insert(argument.text).second)
      reader.damaged("the value '{}' is defined twice", printable(argument.text));
    bool hasType =
        argument.kind == Kind::Tensor ? graph.tensorValues.count(argument.text) : graph.symValues.count(argument.text);
    if (!hasType)
      reader.damaged("the value '{}' of '{}' has no type", printable(argument.text), printable(definer));
  }

  static bool isName(Kind kind) {
    return kind == Kind::Tensor || kind == Kind::SymInt || kind == Kind::SymFloat || kind == Kind::SymBool;
  }

  const Graph &graph;
  const JsonReader &reader;
  std::unordered_set<std::string_view> defined;
};

} // namespace

void checkNames(const Graph &graph, const JsonReader &reader) { NameChecker(graph, reader).check(); }

} // namespace ditc
