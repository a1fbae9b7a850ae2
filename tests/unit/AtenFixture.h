// SPDX-License-Identifier: Apache-2.0
//
// For tests of rows of the ATen table: programs of one node.
#pragma once

#include "tests/unit/ImportFixture.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/raw_ostream.h"

#include <gmock/gmock.h>

namespace ditc::test {

struct Input {
  std::string name;
  std::vector<int64_t> sizes;
  DType dtype = DType::f32;
};

/// A program of one node called "y", whose tensor arguments are inputs of the program.
inline ProgramBuilder single(const std::string &target, std::vector<Input> inputs, GraphBuilder::Inputs more, std::vector<int64_t> sizes,
                             DType dtype = DType::f32) {
  ProgramBuilder b;
  GraphBuilder::Inputs arguments;
  for (const Input &input : inputs) {
    b.userInput(input.name, input.dtype, input.sizes);
    arguments.push_back({input.name, tensor(input.name)});
  }
  arguments.insert(arguments.end(), more.begin(), more.end());
  b.op("y", target, arguments, dtype, sizes);
  b.output("output", tensor("y"));
  return b;
}

class AtenTest : public ImportTest {
protected:
  /// The IR without locations.
  std::string ir(ProgramBuilder builder) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    import(builder)->print(stream);
    return text;
  }
  /// Elements of the result when the inputs count up from 1.
  std::vector<double> values(ProgramBuilder builder) { return run(builder); }
  /// The text of the error.
  std::string refusal(ProgramBuilder builder) { return error(builder); }
};

/// Matches numbers that are about these.
inline auto near(std::vector<double> expected, double tolerance = 1e-5) {
  return testing::Pointwise(testing::DoubleNear(tolerance), expected);
}

} // namespace ditc::test
