// SPDX-License-Identifier: Apache-2.0
//
// What the importer says of loops, whole layers, Fourier transforms and others that it cannot take: one message each, which
// no export of PyTorch's needs to have, as files are hostile.
#include "tests/unit/AtenFixture.h"

using namespace ditc;
using namespace ditc::test;
using testing::HasSubstr;

namespace {

/// A graph of `operands` inputs [2] that returns the first of them `results` times.
Argument body(int operands, int results) {
  GraphBuilder b;
  for (int i = 0; i < operands; ++i)
    b.input("a" + std::to_string(i), DType::f32, {2});
  b.graph.outputs.assign(results, tensor("a0"));
  return graph(b.graph);
}

class ImportRefusals : public AtenTest {
protected:
  /// A loop of inputs "carried" [2] and "rows" [steps, 2], whose results are of type [2].
  std::string loop(const std::string &name, GraphBuilder::Inputs arguments, int64_t steps = 3, std::vector<std::string> results = {"y"}) {
    ProgramBuilder b;
    b.userInput("carried", DType::f32, {2});
    b.userInput("rows", DType::f32, {steps, 2});
    for (const std::string &result : results)
      b.value(result, DType::f32, std::vector<int64_t>{2});
    b.op("loop", "higher_order." + name, std::move(arguments), {tensors(results)});
    b.output("output", tensor(results[0]));
    return refusal(b);
  }

  std::string scan(const Argument &graph, int64_t steps = 3, const Argument &carried = tensors({"carried"}), std::vector<std::string> results = {"y"}) {
    return loop("scan", {{"", graph}, {"", carried}, {"", tensors({"rows"})}, {"", tensors({})}}, steps, std::move(results));
  }

  static constexpr const char *kLayer = "aten._native_multi_head_attention.default";

  std::string attention(std::vector<int64_t> tokens, int64_t heads, GraphBuilder::Inputs more = {}, const char *key = "query", std::vector<int64_t> mask = {}) {
    ProgramBuilder b;
    int64_t width = tokens.back();
    b.userInput("query", DType::f32, tokens);
    b.userInput("other", DType::f32, tokens);
    b.userInput("qkv_weight", DType::f32, {3 * width, width});
    b.userInput("qkv_bias", DType::f32, {3 * width});
    b.userInput("proj_weight", DType::f32, {width, width});
    b.userInput("proj_bias", DType::f32, {width});
    GraphBuilder::Inputs arguments{{"query", tensor("query")}, {"key", tensor(key)}, {"value", tensor("query")}, {"embed_dim", integer(width)}, {"num_head", integer(heads)}};
    for (const char *weight : {"qkv_weight", "qkv_bias", "proj_weight", "proj_bias"})
      arguments.push_back({weight, tensor(weight)});
    if (!mask.empty()) {
      b.userInput("mask", DType::b1, mask);
      arguments.push_back({"mask", tensor("mask")});
    }
    arguments.push_back({"need_weights", flag(false)});
    arguments.insert(arguments.end(), more.begin(), more.end());
    b.value("y", DType::f32, tokens);
    b.op("layer", kLayer, arguments, {tensor("y"), none()});
    b.output("output", tensor("y"));
    return refusal(b);
  }
};

} // namespace

TEST_F(ImportRefusals, Loops) {
  EXPECT_THAT(scan(body(2, 1), 0), HasSubstr("node 'loop' (higher_order.scan): has no steps"));
  EXPECT_THAT(scan(body(3, 1)), HasSubstr("passes 2 operands to a graph of 3 inputs"));
  EXPECT_THAT(scan(body(2, 0)), HasSubstr("has 0 results for 1 carried tensors"));
  EXPECT_THAT(scan(body(2, 1), 3, tensors({"carried"}), {"y", "z"}), HasSubstr("has 2 results, but its graph makes 1"));
  EXPECT_THAT(scan(body(2, 1), 3, tensors({""})), HasSubstr("has an operand that is no tensor"));
  EXPECT_THAT(scan(body(2, 1), 1025), HasSubstr("has 1025 steps of 0 nodes, and a package holds each: 1024 steps and 100000 nodes at most; write the loop with tensors of all steps"));
  EXPECT_THAT(loop("map_impl", {{"", body(1, 1)}, {"", body(1, 1)}, {"", tensors({"rows"})}, {"", tensors({})}}),
              HasSubstr("has 2 graphs and 2 lists of tensors, which is no loop that is known"));
  EXPECT_THAT(loop("while_loop", {{"", body(1, 1)}, {"", body(1, 1)}, {"", tensors({"carried"})}, {"", tensors({})}}), HasSubstr("its condition depends on data"));
}

TEST_F(ImportRefusals, ResultsOfStepsThatAreNoTensors) {
  GraphBuilder b;
  b.input("a", DType::f32, {2});
  b.input("row", DType::f32, {2});
  b.graph.outputs = {none()};
  EXPECT_THAT(scan(graph(b.graph)), HasSubstr("has a result that is no tensor"));
}

TEST_F(ImportRefusals, Layers) {
  EXPECT_THAT(attention({2, 3, 8}, 2), "");
  EXPECT_THAT(attention({3, 8}, 2), HasSubstr("attends tokens of rank 2, expected [batch, tokens, width]"));
  EXPECT_THAT(attention({2, 3, 8}, 3), HasSubstr("8 channels do not divide among 3 heads"));
  EXPECT_THAT(attention({2, 3, 8}, 0), HasSubstr("8 channels do not divide among 0 heads"));
  EXPECT_THAT(attention({2, 3, 8}, 2, {}, "other"), HasSubstr("attends keys that are not its queries"));
  EXPECT_THAT(attention({2, 3, 8}, 2, {{"mask_type", integer(2)}}, "query", {2, 3}), HasSubstr("has a mask of rank 2 and type 2"));
  EXPECT_THAT(attention({2, 3, 8}, 2, {{"mask_type", integer(1)}}, "query", {2, 3}), "");
}

TEST_F(ImportRefusals, FourierTransforms) {
  EXPECT_THAT(refusal(single("aten.fft_fft.default", {{"self", {4}}}, {{"n", integer(1 << 20)}}, {1 << 20}, DType::c64)), HasSubstr("transforms 1048576 elements; Fourier transforms of 1 to "));
  EXPECT_THAT(refusal(single("aten.fft_fft.default", {{"self", {4}}}, {{"norm", text("loud")}}, {4}, DType::c64)), HasSubstr("norm 'loud' is not supported"));
  EXPECT_THAT(refusal(single("aten.stft.default", {{"self", {8}}}, {{"n_fft", integer(4)}, {"align_to_window", flag(true)}}, {3, 5}, DType::c64)),
              HasSubstr("stft with align_to_window is not supported; cut the signal before it"));
  EXPECT_THAT(refusal(single("aten.stft.default", {{"self", {8}}, {"window", {4}, DType::c64}}, {{"n_fft", integer(4)}}, {4, 5}, DType::c64)),
              HasSubstr("stft with a complex window is not supported; multiply frames by it and call fft"));
}

TEST_F(ImportRefusals, OneOpEach) {
  EXPECT_THAT(refusal(single("aten.rrelu.default", {{"self", {4}}}, {{"training", flag(true)}}, {4})), HasSubstr("draws random slopes; call model.eval() before exporting"));
  EXPECT_THAT(refusal(single("aten.quantile.default", {{"self", {4}}, {"q", {1}}}, {}, {1})), HasSubstr("takes fractions that are data; make them constants"));
  EXPECT_THAT(refusal(single("aten.quantile.scalar", {{"self", {0}}}, {{"q", number(0.5)}, {"dim", integer(0)}}, {})), HasSubstr("has no elements along dimension 0"));
  ProgramBuilder b;
  b.userInput("a", DType::c64, std::vector<int64_t>{2});
  b.op("y", "aten.einsum.default", {{"equation", text("i,i,i->i")}, {"tensors", tensors({"a", "a", "a"})}}, DType::c64, {2});
  b.op("parts", "aten.view_as_real.default", {{"self", tensor("y")}}, DType::f32, {2, 2});
  b.output("output", tensor("parts"));
  EXPECT_THAT(refusal(b), HasSubstr("einsum of 3 tensors, some of them complex, is not supported, only of two; multiply them pair by pair"));
}
