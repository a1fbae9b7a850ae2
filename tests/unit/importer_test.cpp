// SPDX-License-Identifier: Apache-2.0
//
// The frame of an imported function: inputs, weights, outputs, names, nested graphs, refusals.
#include "tests/unit/ImportFixture.h"

#include "runtime/Error.h"

#include <gmock/gmock.h>

using namespace ditc;
using namespace ditc::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

using Importing = ImportTest;

/// y = x + x.
static ProgramBuilder twice() {
  ProgramBuilder b;
  b.userInput("x", DType::f32, {2, 3});
  b.op("add_1", "aten.add.Tensor", {{"self", tensor("x")}, {"other", tensor("x")}}, DType::f32, {2, 3});
  b.output("sample", tensor("add_1"));
  return b;
}

TEST_F(Importing, NamesArgumentsResultsAndNodes) {
  ProgramBuilder b = twice();
  options.bucket = "small";
  std::string text = print(b);
  EXPECT_THAT(text, HasSubstr("func.func @small(%x: tensor<2x3xf32> {dit.name = \"x\"}"));
  EXPECT_THAT(text, HasSubstr("-> (tensor<2x3xf32> {dit.name = \"sample\"})"));
  EXPECT_THAT(text, HasSubstr("%add_1 = dit.map"));
  EXPECT_THAT(text, HasSubstr("\"add_1\"(#loc")); // named after the node, then the module
  EXPECT_THAT(text, HasSubstr("= \"blocks.0\""));
}

TEST_F(Importing, ComputesWhatTheGraphSays) {
  ProgramBuilder b = twice();
  EXPECT_THAT(run(b), ElementsAre(2, 4, 6, 8, 10, 12));
}

TEST_F(Importing, BindsSymbols) {
  ProgramBuilder b;
  b.userInput("x", DType::f32, {symbolic("Symbol('s0', positive=True, integer=True)", 2), symbolic("Integer(3)", 3)});
  b.value("y", DType::f32, {symbolic("Mul(Integer(3), Symbol('s0', positive=True, integer=True))", 6)});
  b.op("y", "aten.flatten.using_ints", {{"self", tensor("x")}}, {tensor("y")});
  b.output("output", tensor("y"));
  options.symbols = {{"s0", int64_t{5}}};
  EXPECT_THAT(print(b), HasSubstr("tensor<5x3xf32> -> tensor<15xf32>"));
}

TEST_F(Importing, ReadsSizesFromSymbolicValues) {
  ProgramBuilder b;
  b.userInput("x", DType::f32, {symbolic("Symbol('s0', positive=True, integer=True)", 2), symbolic("Integer(2)", 2)});
  b.graph.symValues["n"] = {int64_t{2}, parseSymExpr("Symbol('s0', positive=True, integer=True)")};
  b.op("n", "aten.sym_size.int", {{"self", tensor("x")}, {"dim", integer(0)}}, {symInt("n")});
  b.value("y", DType::f32, {symbolic("Symbol('s0', positive=True, integer=True)", 2), symbolic("Integer(2)", 2)});
  b.op("y", "aten.mul.Tensor", {{"self", tensor("x")}, {"other", symInt("n")}}, {tensor("y")});
  b.output("output", tensor("y"));
  options.symbols = {{"s0", int64_t{3}}};
  EXPECT_THAT(run(b), ElementsAre(3, 6, 9, 12, 15, 18));
}

TEST_F(Importing, WeightsAreNamedAndOnlyThoseThatAreUsedAppear) {
  ProgramBuilder b = twice();
  b.leaf(InputSpec::Kind::Parameter, "p_w", "blocks.0.w", DType::f32, {3});
  b.leaf(InputSpec::Kind::Parameter, "p_unused", "blocks.0.unused", DType::f32, {3});
  b.op("mul_1", "aten.mul.Tensor", {{"self", tensor("add_1")}, {"other", tensor("p_w")}}, DType::f32, {2, 3});
  b.output("second", tensor("mul_1"));
  std::string text = print(b);
  EXPECT_THAT(text, HasSubstr("dit.weight \"blocks.0.w\" : tensor<3xf32>"));
  EXPECT_THAT(text, Not(HasSubstr("unused")));
  EXPECT_THAT(runAll(b)[1], ElementsAre(4, 8, 12, 16, 20, 24));
}

TEST_F(Importing, OutputsMayBeInputsRepeatedNumbersOrNone) {
  ProgramBuilder b = twice();
  b.output("input", tensor("x"));
  b.output("again", tensor("add_1"));
  b.output("nothing", none());
  b.output("count", integer(7));
  b.output("scale", number(0.5));
  std::vector<std::vector<double>> results = runAll(b);
  ASSERT_EQ(results.size(), 5u);
  EXPECT_THAT(results[1], ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(results[2], results[0]);
  EXPECT_THAT(results[3], ElementsAre(7));
  EXPECT_THAT(results[4], ElementsAre(0.5));
}

TEST_F(Importing, AnOutputMustBeATensorOrANumber) {
  ProgramBuilder b = twice();
  b.output("label", text("cat"));
  EXPECT_THAT(error(b), HasSubstr("output 'label': is neither a tensor nor a number"));
}

TEST_F(Importing, ComplexResultsAreMarked) {
  ProgramBuilder b;
  b.userInput("z", DType::c64, {3});
  b.output("output", tensor("z"));
  EXPECT_THAT(print(b), HasSubstr("tensor<3x2xf32> {dit.complex, dit.name = \"z\"}"));
}

//===-- Constants ---------------------------------------------------------------------------------===//

static HostTensor hostFloats(std::vector<float> values) {
  HostTensor tensor{DType::f32, {static_cast<int64_t>(values.size())}, std::vector<uint8_t>(values.size() * 4)};
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

static ProgramBuilder scaled() {
  ProgramBuilder b;
  b.userInput("x", DType::f32, {2});
  b.userInput("scale", DType::f32, {2});
  b.op("mul", "aten.mul.Tensor", {{"self", tensor("x")}, {"other", tensor("scale")}}, DType::f32, {2});
  b.output("output", tensor("mul"));
  return b;
}

TEST_F(Importing, PinnedInputsBecomeConstants) {
  ProgramBuilder b = scaled();
  options.pinned["scale"] = hostFloats({10, 100});
  EXPECT_THAT(run(b), ElementsAre(10, 200));
  EXPECT_THAT(print(b), Not(HasSubstr("dit.name = \"scale\"")));
}

TEST_F(Importing, PinnedInputsMustFit) {
  ProgramBuilder b = scaled();
  options.pinned["scale"] = hostFloats({10, 100, 1000});
  EXPECT_THAT(error(b), HasSubstr("pinned input 'scale' is f32 [3], expected f32 [2]"));
}

TEST_F(Importing, PinnedNamesMustExist) {
  ProgramBuilder b = scaled();
  options.pinned["scales"] = hostFloats({10, 100});
  EXPECT_THAT(error(b), HasSubstr("'scales' is pinned but is not a tensor input of the program"));
}

TEST_F(Importing, ConstantsWithoutBytesComeWithTheWeights) {
  ProgramBuilder b = twice();
  b.leaf(InputSpec::Kind::TensorConstant, "c_table", "table", DType::f32, {3});
  b.op("mul_1", "aten.mul.Tensor", {{"self", tensor("add_1")}, {"other", tensor("c_table")}}, DType::f32, {2, 3});
  b.output("second", tensor("mul_1"));
  EXPECT_THAT(print(b), HasSubstr("dit.weight \"table\" : tensor<3xf32>"));
}

TEST_F(Importing, ElementsOfConstantsBecomeNumbers) {
  ProgramBuilder b;
  b.userInput("x", DType::f32, {2});
  b.userInput("length", DType::i64, std::vector<int64_t>{});
  b.op("double", "aten.add.Tensor", {{"self", tensor("length")}, {"other", tensor("length")}}, DType::i64, {});
  b.graph.symValues["item"] = {int64_t{0}, parseSymExpr("Symbol('u0', integer=True)")};
  b.op("item", "aten.item.default", {{"self", tensor("double")}}, {symInt("item")});
  b.value("ones", DType::f32, {symbolic("Symbol('u0', integer=True)", 0)});
  b.op("ones", "aten.ones.default", {{"size", symInt("item")}}, {tensor("ones")});
  b.output("output", tensor("ones"));
  EXPECT_THAT(error(b),
              HasSubstr("node 'item' (aten.item.default): a number of the program depends on data; pin the input"));
  HostTensor three{DType::i64, {}, {3, 0, 0, 0, 0, 0, 0, 0}};
  options.pinned["length"] = three;
  EXPECT_THAT(run(b), ElementsAre(1, 1, 1, 1, 1, 1));
}

//===-- Nested graphs -----------------------------------------------------------------------------===//

/// y = x + x as a nested graph.
static Graph twiceGraph() {
  GraphBuilder inner;
  inner.input("a", DType::f32, {2});
  inner.op("add", "aten.add.Tensor", {{"self", tensor("a")}, {"other", tensor("a")}}, DType::f32, {2});
  inner.graph.outputs = {tensor("add")};
  return inner.graph;
}

TEST_F(Importing, GradModeRegionsAreInlined) {
  ProgramBuilder b;
  b.userInput("x", DType::f32, {2});
  b.op("region", "higher_order.wrap_with_set_grad_enabled",
       {{"", flag(false)}, {"", graph(twiceGraph())}, {"", tensor("x")}}, DType::f32, {2});
  b.output("output", tensor("region"));
  EXPECT_THAT(run(b), ElementsAre(2, 4));
}

TEST_F(Importing, WritesInsideRegionsAreSeenOutside) {
  GraphBuilder inner;
  inner.input("a", DType::f32, {2});
  inner.op("mul_", "aten.mul_.Tensor", {{"self", tensor("a")}, {"other", integer(10)}}, DType::f32, {2});
  inner.graph.outputs = {tensor("mul_")};
  ProgramBuilder b;
  b.userInput("x", DType::f32, {2});
  b.op("copy", "aten.clone.default", {{"self", tensor("x")}}, DType::f32, {2});
  b.op("region", "higher_order.wrap_with_set_grad_enabled",
       {{"", flag(false)}, {"", graph(inner.graph)}, {"", tensor("copy")}}, DType::f32, {2});
  b.output("output", tensor("copy"));
  EXPECT_THAT(run(b), ElementsAre(10, 20));
}

TEST_F(Importing, AutocastCastsProducts) {
  GraphBuilder inner;
  inner.input("a", DType::f32, {1, 2});
  inner.input("w", DType::f32, {3, 2});
  inner.op("linear", "aten.linear.default", {{"input", tensor("a")}, {"weight", tensor("w")}}, DType::bf16, {1, 3});
  inner.graph.outputs = {tensor("linear")};
  ProgramBuilder b;
  b.userInput("x", DType::f32, {1, 2});
  b.userInput("weight", DType::f32, {3, 2});
  b.op("region", "higher_order.wrap_with_autocast",
       {{"", text("cpu")},
        {"", type(DType::bf16)},
        {"", flag(true)},
        {"", none()},
        {"", graph(inner.graph)},
        {"", tensor("x")},
        {"", tensor("weight")}},
       DType::bf16, {1, 3});
  b.output("output", tensor("region"));
  EXPECT_THAT(print(b), HasSubstr("(tensor<1x2xbf16>, tensor<3x2xbf16>) -> tensor<1x3xbf16>"));
}

TEST_F(Importing, CondTakesAKnownBranch) {
  ProgramBuilder b;
  b.userInput("x", DType::f32, {2});
  GraphBuilder other;
  other.input("a", DType::f32, {2});
  other.graph.outputs = {tensor("a")};
  b.op("cond", "higher_order.cond",
       {{"", flag(true)}, {"", graph(twiceGraph())}, {"", graph(other.graph)}, {"", tensors({"x"})}}, DType::f32, {2});
  b.output("output", tensor("cond"));
  EXPECT_THAT(run(b), ElementsAre(2, 4));
}

//===-- Refusals ----------------------------------------------------------------------------------===//

TEST_F(Importing, ListsEverythingThatIsNotSupported) {
  ProgramBuilder b = twice();
  b.leaf(InputSpec::Kind::Buffer, "b_cache", "cache", DType::f32, {3});
  b.op("odd", "aten.frobnicate.default", {{"self", tensor("x")}}, DType::f32, {2, 3});
  b.op("steps", "aten.gru.input", {{"input", tensor("x")}}, DType::f32, {2, 3});
  b.op("parts", "aten.linalg_svd.default", {{"A", tensor("x")}}, DType::f32, {2, 2});
  b.op("power", "aten.linalg_matrix_power.default", {{"self", tensor("x")}, {"n", integer(3)}}, DType::f32, {2, 2});
  b.op("waves", "aten.relu.default", {{"self", tensor("x")}}, DType::c64, {2, 3});
  b.op("noise", "aten.randn.default", {{"size", integers({2})}}, DType::f32, {2});
  b.op("drop", "aten.dropout.default", {{"input", tensor("x")}, {"p", number(0.1)}, {"train", flag(true)}}, DType::f32,
       {2, 3});
  b.op("mine", "mylib.scale.default", {{"x", tensor("x")}}, DType::f32, {2, 3});
  b.op("flex", "higher_order.flex_attention", {{"", tensor("x")}}, DType::f32, {2, 3});
  b.op("scan", "higher_order.scan", {{"", tensor("x")}}, DType::f32, {2, 3});
  b.op("write", "aten.add_.Tensor", {{"self", tensor("b_cache")}, {"other", integer(1)}}, DType::f32, {3});
  b.op("where", "aten.nonzero.default", {{"self", tensor("x")}}, DType::i64, {1, 2});
  b.op("small", "aten.to.dtype", {{"self", tensor("x")}, {"dtype", type(DType::f8e5m2)}}, DType::f8e5m2, {2, 3});
  std::string text = error(b);
  EXPECT_THAT(text, HasSubstr("13 nodes cannot be imported:"));
  EXPECT_THAT(text, HasSubstr("\n  'blocks.0', node 'odd' (aten.frobnicate.default): this ATen op is not supported; ep.run_decompositions() before"));
  EXPECT_THAT(text, HasSubstr("node 'steps' (aten.gru.input): recurrent layers are not supported; call ep.run_decompositions()"));
  EXPECT_THAT(text, HasSubstr("node 'parts' (aten.linalg_svd.default): this ATen op is not supported; pass its result as an input"));
  EXPECT_THAT(text, HasSubstr("node 'power' (aten.linalg_matrix_power.default): this ATen op is not supported; ep.run_decompositions() before"));
  EXPECT_THAT(text, HasSubstr("node 'waves' (aten.relu.default): not supported on complex tensors; write it with their parts"));
  EXPECT_THAT(
      text,
      HasSubstr("node 'noise' (aten.randn.default): random numbers are not supported; pass the noise as an input"));
  EXPECT_THAT(
      text,
      HasSubstr("node 'drop' (aten.dropout.default): dropout is switched on; call model.eval() before exporting"));
  EXPECT_THAT(text, HasSubstr("node 'mine' (mylib.scale.default): custom ops are not supported"));
  EXPECT_THAT(text, HasSubstr("node 'flex' (higher_order.flex_attention): this higher-order op is not supported"));
  EXPECT_THAT(text, HasSubstr("node 'scan' (higher_order.scan): has an operand that is neither a graph nor a list of tensors"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "node 'write' (aten.add_.Tensor): it writes to 'cache'; weights and constants are read-only in a package"));
  EXPECT_THAT(text, HasSubstr("node 'where' (aten.nonzero.default): the size of its result depends on data"));
  EXPECT_THAT(text, HasSubstr("node 'small' (aten.to.dtype): element type f8e5m2 is not supported"));
}

TEST_F(Importing, BufferMutationsAreRefused) {
  ProgramBuilder b = twice();
  b.output("", tensor("add_1"));
  b.program.outputSpecs.back().kind = OutputSpec::Kind::BufferMutation;
  EXPECT_THAT(error(b), HasSubstr("the program updates a buffer or parameter"));
}

TEST_F(Importing, UserInputMutationsStayLocal) {
  ProgramBuilder b = twice();
  b.output("", tensor("add_1"));
  b.program.outputSpecs.back().kind = OutputSpec::Kind::UserInputMutation;
  EXPECT_EQ(runAll(b).size(), 1u);
}

TEST_F(Importing, ErrorsOfRowsSayWhere) {
  ProgramBuilder b;
  b.userInput("x", DType::f32, {2, 3});
  b.op("pick", "aten.select.int", {{"self", tensor("x")}, {"dim", integer(0)}, {"index", integer(4)}}, DType::f32, {3});
  b.output("output", tensor("pick"));
  EXPECT_EQ(error(b), "'blocks.0', node 'pick' (aten.select.int): index 4 is outside dimension 0 of size 2");
}

TEST_F(Importing, MissingArgumentsAreNamed) {
  ProgramBuilder b;
  b.userInput("x", DType::f32, {2, 3});
  b.op("pick", "aten.select.int", {{"self", tensor("x")}, {"dim", text("rows")}}, DType::f32, {3});
  b.output("output", tensor("pick"));
  EXPECT_THAT(error(b), HasSubstr("argument 'dim' is text, expected an integer"));
  b.graph.nodes[0].inputs.pop_back();
  EXPECT_THAT(error(b), HasSubstr("argument 'index' is missing"));
}

TEST_F(Importing, SupportedTargetsAreSortedAndUnique) {
  std::vector<std::string> targets = supportedTargets();
  EXPECT_TRUE(std::is_sorted(targets.begin(), targets.end()));
  EXPECT_EQ(std::adjacent_find(targets.begin(), targets.end()), targets.end());
  EXPECT_THAT(targets, testing::Contains("aten.view_as_complex.default"));
}

TEST_F(Importing, TensorsMustBePossible) {
  ProgramBuilder b;
  b.userInput("x", DType::f32, {int64_t{1} << 40, int64_t{1} << 40});
  b.output("output", tensor("x"));
  EXPECT_THAT(error(b), HasSubstr("a tensor of shape [1099511627776, 1099511627776] is impossible"));
}

TEST_F(Importing, TablesMustFitTheCompiler) {
  ProgramBuilder b;
  b.op("table", "aten.arange.default", {{"end", integer(int64_t{1} << 40)}}, DType::i64, {int64_t{1} << 40});
  b.output("output", tensor("table"));
  EXPECT_THAT(error(b), HasSubstr("node 'table' (aten.arange.default): needs a table of 1099511627776 elements"));
}
