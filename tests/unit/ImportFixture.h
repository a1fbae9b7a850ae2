// SPDX-License-Identifier: Apache-2.0
//
// For tests of the importer: programs written by hand, imported and evaluated.
#pragma once

#include "compiler/import/Importer.h"
#include "dialects/reference/Evaluate.h"

#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ditc::test {

Argument none();
Argument tensor(std::string name);
Argument tensors(std::vector<std::string> names); ///< an empty name is None
Argument integer(int64_t value);
Argument number(double value);
Argument flag(bool value);
Argument text(std::string value);
Argument type(DType dtype);
Argument integers(std::vector<int64_t> values);
Argument symInt(std::string name);
Argument graph(Graph value);

/// "s0" or "2*s0"-like sizes come from parseSymExpr.
SymInt symbolic(const std::string &expression, int64_t hint);

/// A graph that is written node by node; tensors are dense.
class GraphBuilder {
public:
  using Inputs = std::vector<NamedArgument>;

  Graph graph;
  std::string modulePath = "blocks.0";

  void value(const std::string &name, DType dtype, const std::vector<SymInt> &sizes);
  void value(const std::string &name, DType dtype, const std::vector<int64_t> &sizes);
  void input(const std::string &name, DType dtype, const std::vector<int64_t> &sizes);
  /// A node `target` ("aten.add.Tensor") called `name` with one result of that name.
  Node &op(const std::string &name, const std::string &target, Inputs inputs, DType dtype,
           const std::vector<int64_t> &sizes);
  /// A node with several results, or other kinds of results.
  Node &op(const std::string &name, const std::string &target, Inputs inputs, std::vector<Argument> outputs);
};

class ProgramBuilder : public GraphBuilder {
public:
  ExportedProgram program; ///< complete after finish()

  void userInput(const std::string &name, DType dtype, const std::vector<int64_t> &sizes);
  void userInput(const std::string &name, DType dtype, const std::vector<SymInt> &sizes);
  void leaf(InputSpec::Kind kind, const std::string &name, const std::string &fqn, DType dtype,
            const std::vector<int64_t> &sizes);
  void output(const std::string &userName, Argument value);
  const ExportedProgram &finish();

private:
  void placeholder(InputSpec spec);
};

class ImportTest : public testing::Test {
protected:
  ImportTest();

  /// Imports what `builder` holds.
  mlir::OwningOpRef<mlir::ModuleOp> import(ProgramBuilder &builder);
  std::string print(ProgramBuilder &builder);
  /// The elements of the first result when the arguments count up from 1 in row-major order. Weights are 2.
  std::vector<double> run(ProgramBuilder &builder);
  /// All results.
  std::vector<std::vector<double>> runAll(ProgramBuilder &builder);
  /// The text of the Error that importing throws; empty when it does not.
  std::string error(ProgramBuilder &builder);

  mlir::MLIRContext context;
  Pt2Archive archive; ///< holds none of the tensors that the tests name
  ImportOptions options;
};

} // namespace ditc::test
