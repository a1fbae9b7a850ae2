// SPDX-License-Identifier: Apache-2.0
//
// Rows of the ATen table that compute: which dit operations they become, arguments that decide it, forms
// that only decompositions leave, and refusals. Values against PyTorch are in import_models_test.cpp.
#include "tests/unit/ImportFixture.h"

#include "compiler/import/AtenTable.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/raw_ostream.h"

#include <gmock/gmock.h>

#include <cmath>

using namespace ditc;
using namespace ditc::test;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pointwise;

namespace {

struct Input {
  std::string name;
  std::vector<int64_t> sizes;
  DType dtype = DType::f32;
};

/// A program of one node called "y".
ProgramBuilder single(const std::string &target, std::vector<Input> inputs, GraphBuilder::Inputs more, std::vector<int64_t> sizes,
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

} // namespace

class AtenOps : public ImportTest {
protected:
  /// The IR without locations.
  std::string ir(ProgramBuilder builder) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    import(builder)->print(stream);
    return text;
  }
  std::vector<double> values(ProgramBuilder builder) { return run(builder); }
  std::string refusal(ProgramBuilder builder) { return error(builder); }
};

static auto near(std::vector<double> expected, double tolerance = 1e-5) { return Pointwise(DoubleNear(tolerance), expected); }

//===-- Element-wise ------------------------------------------------------------------------------===//

TEST_F(AtenOps, ElementwiseComputesInF32AndRoundsOnce) {
  std::string text = ir(single("aten.silu.default", {{"self", {2, 3}, DType::bf16}}, {}, {2, 3}, DType::bf16));
  EXPECT_THAT(text, HasSubstr("(tensor<2x3xbf16>) -> tensor<2x3xbf16>"));
  EXPECT_THAT(text, HasSubstr("^bb0(%arg1: f32)"));
  EXPECT_THAT(text, HasSubstr("math.exp"));
}

TEST_F(AtenOps, NumbersAreExactInSumsAndRoundedInComparisons) {
  // Half of bf16's step above 1 is 0.00390625, which is what 0.0039065 would be rounded to.
  EXPECT_THAT(values(single("aten.add.Tensor", {{"self", {1}, DType::bf16}}, {{"other", number(0.0039065)}}, {1}, DType::bf16)),
              ElementsAre(1.0078125));
  EXPECT_THAT(values(single("aten.le.Scalar", {{"self", {1}, DType::bf16}}, {{"other", number(0.999)}}, {1}, DType::b1)), ElementsAre(1));
}

TEST_F(AtenOps, IntegersOfLargeValueMeet16BitFloatsRounded) {
  // 257 is not a bf16 number: torch casts the integers before it multiplies.
  ProgramBuilder b = single("aten.mul.Tensor", {{"self", {257}, DType::i64}, {"other", {1}, DType::bf16}}, {}, {257}, DType::bf16);
  EXPECT_EQ(values(b).back(), 256);
}

TEST_F(AtenOps, AlphaScalesTheSecondOperand) {
  EXPECT_THAT(values(single("aten.sub.Tensor", {{"self", {2}}, {"other", {2}}}, {{"alpha", integer(3)}}, {2})), ElementsAre(-2, -4));
  EXPECT_THAT(values(single("aten.rsub.Scalar", {{"self", {2}}}, {{"other", integer(10)}, {"alpha", integer(2)}}, {2})), ElementsAre(8, 6));
}

TEST_F(AtenOps, DivisionByMode) {
  auto divide = [&](const char *mode) {
    return values(single("aten.div.Scalar_mode", {{"self", {3}, DType::i64}}, {{"other", integer(-2)}, {"rounding_mode", text(mode)}}, {3},
                         DType::i64));
  };
  EXPECT_THAT(divide("floor"), ElementsAre(-1, -1, -2));
  EXPECT_THAT(divide("trunc"), ElementsAre(0, -1, -1));
  EXPECT_THAT(values(single("aten.div.Tensor", {{"self", {2}, DType::i64}}, {{"other", integer(4)}}, {2})), ElementsAre(0.25, 0.5));
  EXPECT_THAT(refusal(single("aten.div.Tensor_mode", {{"self", {1}}}, {{"other", integer(1)}, {"rounding_mode", text("up")}}, {1})),
              HasSubstr("no rounding mode 'up'"));
}

TEST_F(AtenOps, FloorDivisionIsExact) {
  // 1 / 0.1 rounds to 10, but 10 times 0.1f is more than 1.
  EXPECT_THAT(values(single("aten.floor_divide.Scalar", {{"self", {1}}}, {{"other", number(0.1)}}, {1})), ElementsAre(9));
}

TEST_F(AtenOps, PowersOfWholeNumbers) {
  EXPECT_THAT(values(single("aten.pow.Tensor_Scalar", {{"self", {4}, DType::i64}}, {{"exponent", integer(5)}}, {4}, DType::i64)),
              ElementsAre(1, 32, 243, 1024));
  EXPECT_THAT(ir(single("aten.pow.Tensor_Scalar", {{"self", {4}}}, {{"exponent", integer(2)}}, {4})), Not(HasSubstr("math.powf")));
  EXPECT_THAT(refusal(single("aten.pow.Tensor_Scalar", {{"self", {4}, DType::i64}}, {{"exponent", integer(-1)}}, {4}, DType::i64)),
              HasSubstr("negative powers"));
}

TEST_F(AtenOps, GeluForms) {
  EXPECT_THAT(ir(single("aten.gelu.default", {{"self", {4}}}, {}, {4})), HasSubstr("math.erf"));
  EXPECT_THAT(ir(single("aten.gelu.default", {{"self", {4}}}, {{"approximate", text("tanh")}}, {4})), HasSubstr("math.tanh"));
  EXPECT_THAT(refusal(single("aten.gelu.default", {{"self", {4}}}, {{"approximate", text("fast")}}, {4})),
              HasSubstr("no approximation 'fast'"));
}

TEST_F(AtenOps, MaskedFillTakesInfinity) {
  std::vector<double> filled =
      values(single("aten.masked_fill.Scalar", {{"self", {2}}, {"mask", {2}, DType::b1}}, {{"value", number(-INFINITY)}}, {2}));
  EXPECT_THAT(filled, ElementsAre(-INFINITY, -INFINITY));
}

TEST_F(AtenOps, GluNeedsAnEvenSize) {
  EXPECT_THAT(refusal(single("aten.glu.default", {{"self", {2, 3}}}, {{"dim", integer(-1)}}, {2, 1})), HasSubstr("whose size 3 is odd"));
}

//===-- Reductions and norms ----------------------------------------------------------------------===//

TEST_F(AtenOps, SumsOf16BitsAccumulateWide) {
  // 300 ones are no sum of bf16 steps: adding 1 to 256 in bf16 changes nothing.
  ProgramBuilder b;
  b.userInput("x", DType::bf16, std::vector<int64_t>{1});
  b.op("e", "aten.expand.default", {{"self", tensor("x")}, {"size", integers({300})}}, DType::bf16, {300});
  b.op("y", "aten.sum.default", {{"self", tensor("e")}}, DType::bf16, {});
  b.output("output", tensor("y"));
  EXPECT_THAT(run(b), ElementsAre(300));
}

TEST_F(AtenOps, VarianceCorrections) {
  auto variance = [&](const char *target, GraphBuilder::Inputs more) { return values(single(target, {{"self", {4}}}, more, {})).front(); };
  EXPECT_NEAR(variance("aten.var.default", {}), 5.0 / 3, 1e-6);
  EXPECT_NEAR(variance("aten.var.default", {{"unbiased", flag(false)}}), 1.25, 1e-6);
  EXPECT_NEAR(variance("aten.var.correction", {{"correction", none()}}), 5.0 / 3, 1e-6);
  EXPECT_NEAR(variance("aten.var.correction", {{"correction", integer(0)}}), 1.25, 1e-6);
  EXPECT_TRUE(std::isinf(variance("aten.std.correction", {{"correction", integer(4)}})));
}

TEST_F(AtenOps, NormsBecomeDitNorm) {
  ProgramBuilder b = single("aten.layer_norm.default", {{"input", {2, 3, 4}, DType::bf16}}, {{"normalized_shape", integers({3, 4})}},
                            {2, 3, 4}, DType::bf16);
  EXPECT_THAT(ir(b), HasSubstr("layer %arg0 axes 2 eps 1.000000e-05 : (tensor<2x3x4xbf16>) -> tensor<2x3x4xbf16>"));
}

TEST_F(AtenOps, GroupNormStaysWideUntilTheWeights) {
  ProgramBuilder b = single("aten.group_norm.default", {{"input", {1, 4, 2}, DType::bf16}, {"weight", {4}, DType::bf16}},
                            {{"num_groups", integer(2)}}, {1, 4, 2}, DType::bf16);
  EXPECT_THAT(ir(b), HasSubstr("(tensor<1x2x4xbf16>) -> tensor<1x2x4xf32>"));
  EXPECT_THAT(refusal(single("aten.group_norm.default", {{"input", {1, 4, 2}}}, {{"num_groups", integer(3)}}, {1, 4, 2})),
              HasSubstr("3 groups do not divide"));
}

TEST_F(AtenOps, EpsilonOfRmsNormDependsOnTheVersion) {
  auto epsilon = [&](const char *version, DType dtype) {
    ProgramBuilder b =
        single("aten.rms_norm.default", {{"input", {2, 4}, dtype}}, {{"normalized_shape", integers({4})}, {"eps", none()}}, {2, 4}, dtype);
    ExportedProgram program = b.finish();
    program.torchVersion = version;
    std::string text;
    llvm::raw_string_ostream stream(text);
    importProgram(context, program, archive, options)->print(stream);
    return text;
  };
  EXPECT_THAT(epsilon("2.6.0+cu124", DType::bf16), HasSubstr("eps 7.812500e-03"));
  EXPECT_THAT(epsilon("2.6.0", DType::f16), HasSubstr("eps 9.765625E-4"));
  EXPECT_THAT(epsilon("2.14.1", DType::bf16), HasSubstr("eps 1.1920928955078125E-7"));
  EXPECT_THAT(epsilon("2.6.0", DType::f64), HasSubstr("eps 2.2204460492503131E-16"));
}

TEST_F(AtenOps, NormsOfVectorsAndMatrices) {
  auto norm = [&](GraphBuilder::Inputs more, std::vector<int64_t> sizes) {
    return single("aten.linalg_norm.default", {{"self", {2, 2}}}, more, sizes);
  };
  EXPECT_THAT(values(norm({}, {})), near({std::sqrt(30.0)}));
  EXPECT_THAT(values(norm({{"ord", integer(1)}, {"dim", integers({0})}}, {2})), ElementsAre(4, 6));
  EXPECT_THAT(values(norm({{"ord", number(INFINITY)}, {"dim", integers({-1})}, {"keepdim", flag(true)}}, {2, 1})), ElementsAre(2, 4));
  EXPECT_THAT(refusal(norm({{"ord", integer(2)}}, {})), HasSubstr("matrix norms other than 'fro'"));
  EXPECT_THAT(values(single("aten.cdist.default", {{"x1", {2, 1}}, {"x2", {3, 1}}}, {{"p", number(1)}}, {2, 3})),
              ElementsAre(0, 1, 2, 1, 0, 1));
}

TEST_F(AtenOps, RunningExtremesAndWhereTheyAre) {
  ProgramBuilder b = single("aten.cummin.default", {{"self", {3}}}, {{"dim", integer(0)}}, {3});
  b.value("places", DType::i64, std::vector<int64_t>{3});
  b.graph.nodes.back().outputs.push_back(tensor("places"));
  b.output("places", tensor("places"));
  EXPECT_THAT(runAll(b), ElementsAre(ElementsAre(1, 1, 1), ElementsAre(0, 0, 0)));
}

TEST_F(AtenOps, BatchNormInTrainingIsRefused) {
  ProgramBuilder b = single("aten.batch_norm.default", {{"input", {2, 3, 4}}, {"running_mean", {3}}, {"running_var", {3}}},
                            {{"training", flag(true)}, {"eps", number(1e-5)}}, {2, 3, 4});
  EXPECT_THAT(refusal(b), HasSubstr("call model.eval() before exporting"));
}

//===-- Products ----------------------------------------------------------------------------------===//

TEST_F(AtenOps, LinearReadsItsWeightAsItLies) {
  std::string text = ir(single("aten.linear.default", {{"input", {2, 3, 4}}, {"weight", {5, 4}}, {"bias", {5}}}, {}, {2, 3, 5}));
  EXPECT_THAT(text, HasSubstr("dit.matmul %arg0, %arg1 bias %arg2"));
  EXPECT_THAT(text, HasSubstr("transpose_rhs : (tensor<2x3x4xf32>, tensor<5x4xf32>, tensor<5xf32>) -> tensor<2x3x5xf32>"));
  EXPECT_THAT(refusal(single("aten.linear.default", {{"input", {2, 4}}, {"weight", {4}}}, {}, {2})), HasSubstr("weight of rank 1"));
}

TEST_F(AtenOps, TransposedFactorsAreReadAsTheyLie) {
  ProgramBuilder b;
  b.userInput("x", DType::f32, std::vector<int64_t>{2, 4});
  b.userInput("w", DType::f32, std::vector<int64_t>{5, 4});
  b.userInput("c", DType::f32, std::vector<int64_t>{5});
  b.op("t", "aten.t.default", {{"self", tensor("w")}}, DType::f32, {4, 5});
  b.op("y", "aten.addmm.default", {{"self", tensor("c")}, {"mat1", tensor("x")}, {"mat2", tensor("t")}}, DType::f32, {2, 5});
  b.output("output", tensor("y"));
  EXPECT_THAT(ir(b), HasSubstr("dit.matmul %arg0, %arg1 bias %arg2 transpose_rhs"));
}

TEST_F(AtenOps, ScaledSumsOfProducts) {
  GraphBuilder::Inputs factors{{"beta", number(0.5)}, {"alpha", integer(2)}};
  EXPECT_THAT(values(single("aten.addmm.default", {{"self", {2, 2}}, {"mat1", {2, 1}}, {"mat2", {1, 2}}}, factors, {2, 2})),
              ElementsAre(2.5, 5, 5.5, 10));
  std::string text = ir(single("aten.baddbmm.default", {{"self", {1, 2, 2}}, {"batch1", {1, 2, 3}}, {"batch2", {1, 3, 2}}},
                               {{"beta", integer(0)}}, {1, 2, 2}));
  EXPECT_THAT(text, Not(HasSubstr("arith.addf"))); // self may be anything, NaN too
}

TEST_F(AtenOps, ProductsOfEachRank) {
  using Sizes = std::vector<int64_t>;
  auto matmul = [&](Sizes a, Sizes b, Sizes result) {
    return values(single("aten.matmul.default", {{"self", a}, {"other", b}}, {}, result));
  };
  EXPECT_THAT(matmul({2}, {2}, {}), ElementsAre(5));
  EXPECT_THAT(matmul({2, 2}, {2}, {2}), ElementsAre(5, 11));
  EXPECT_THAT(matmul({2}, {2, 1}, {1}), ElementsAre(5));
  EXPECT_THAT(matmul({2}, {2, 2, 1}, {2, 1}), ElementsAre(5, 11));
  EXPECT_THAT(matmul({1, 2}, {2, 2, 1}, {2, 1, 1}), ElementsAre(5, 11));
  EXPECT_THAT(matmul({2, 1, 2}, {2}, {2, 1}), ElementsAre(5, 11));
  EXPECT_THAT(matmul({2, 1, 1, 1}, {2, 1, 1}, {2, 2, 1, 1}), ElementsAre(1, 2, 2, 4));
}

TEST_F(AtenOps, ProductsOfBytesGiveIntegers) {
  std::vector<Input> bytes{{"self", {2, 10}, DType::i8}, {"mat2", {10, 1}, DType::i8}};
  EXPECT_THAT(values(single("aten._int_mm.default", bytes, {}, {2, 1}, DType::i32)), ElementsAre(385, 935));
  EXPECT_THAT(refusal(single("aten._scaled_mm.default", {{"self", {2, 2}}}, {}, {2, 2})), HasSubstr("fp8"));
}

TEST_F(AtenOps, Einsums) {
  auto einsum = [&](const std::string &equation, std::vector<std::vector<int64_t>> operands, std::vector<int64_t> sizes) {
    ProgramBuilder b;
    std::vector<std::string> names;
    for (auto &operand : operands) {
      names.push_back("x" + std::to_string(names.size()));
      b.userInput(names.back(), DType::f32, operand);
    }
    b.op("y", "aten.einsum.default", {{"equation", text(equation)}, {"tensors", tensors(names)}}, DType::f32, sizes);
    b.output("output", tensor("y"));
    return b;
  };
  EXPECT_THAT(values(einsum("ij , jk", {{1, 2}, {2, 1}}, {1, 1})), ElementsAre(5));
  EXPECT_THAT(values(einsum("ba", {{2, 2}}, {2, 2})), ElementsAre(1, 3, 2, 4)); // implicit results are alphabetical
  EXPECT_THAT(values(einsum("ii", {{2, 2}}, {})), ElementsAre(5));
  EXPECT_THAT(values(einsum("i,j,k->ki", {{2}, {2}, {1}}, {1, 2})), ElementsAre(3, 6));
  EXPECT_THAT(values(einsum("...i,i...->...", {{1, 2}, {2, 2}}, {2})), ElementsAre(7, 10));
  EXPECT_THAT(ir(einsum("bqhd,bkhd->bhqk", {{1, 2, 3, 4}, {1, 2, 3, 4}}, {1, 3, 2, 2})), HasSubstr("transpose_rhs"));
  EXPECT_THAT(refusal(einsum("ij,jk->ik", {{1, 2}}, {1, 1})), HasSubstr("names 2 operands, got 1"));
  EXPECT_THAT(refusal(einsum("ijk->i", {{1, 2}}, {1})), HasSubstr("names 3 dimensions of an operand of rank 2"));
  EXPECT_THAT(refusal(einsum("ij->iz", {{1, 2}}, {1, 1})), HasSubstr("a dimension that no operand has"));
  EXPECT_THAT(refusal(einsum("ii->i", {{2, 3}}, {2})), HasSubstr("the diagonal of 2 by 3 elements"));
  EXPECT_THAT(refusal(einsum("i+j->i", {{1, 2, 3}}, {1})), HasSubstr("does not know '+'"));
}

TEST_F(AtenOps, CrossProducts) {
  EXPECT_THAT(values(single("aten.linalg_cross.default", {{"self", {1, 3}}, {"other", {2, 3}}}, {}, {2, 3})),
              ElementsAre(0, 0, 0, -3, 6, -3));
  EXPECT_THAT(refusal(single("aten.cross.default", {{"self", {2}}, {"other", {2}}}, {}, {2})), HasSubstr("needs a dimension of size 3"));
}

TEST_F(AtenOps, ProductsThatDoNotFit) {
  EXPECT_THAT(refusal(single("aten.mm.default", {{"self", {2, 3}}, {"mat2", {2, 3}}}, {}, {2, 3})),
              HasSubstr("contracts 3 with 2 elements"));
  EXPECT_THAT(refusal(single("aten.matmul.default", {{"self", {}}, {"other", {2}}}, {}, {2})),
              HasSubstr("a 0-dim tensor has no matrix product"));
  EXPECT_THAT(refusal(single("aten.tensordot.default", {{"self", {2, 3}}, {"other", {2, 3}}},
                             {{"dims_self", integers({0, 1})}, {"dims_other", integers({0})}}, {})),
              HasSubstr("contracts 2 with 1 dimensions"));
}

//===-- Attention ---------------------------------------------------------------------------------===//

TEST_F(AtenOps, AttentionScaleMaskAndHeads) {
  std::vector<Input> qkv{{"query", {1, 4, 2, 16}}, {"key", {1, 2, 3, 16}}, {"value", {1, 2, 3, 8}}};
  std::string text =
      ir(single("aten.scaled_dot_product_attention.default", qkv, {{"enable_gqa", flag(true)}, {"is_causal", flag(true)}}, {1, 4, 2, 8}));
  EXPECT_THAT(
      text,
      HasSubstr("causal scale 2.500000e-01 : (tensor<1x4x2x16xf32>, tensor<1x2x3x16xf32>, tensor<1x2x3x8xf32>) -> tensor<1x4x2x8xf32>"));
  EXPECT_THAT(refusal(single("aten.scaled_dot_product_attention.default", qkv, {}, {1, 4, 2, 8})), HasSubstr("4 query heads do not fit 2"));
  EXPECT_THAT(refusal(single("aten.scaled_dot_product_attention.default", {{"query", {2}}, {"key", {2}}, {"value", {2}}}, {}, {2})),
              HasSubstr("rank 2 or more"));
  std::vector<Input> masked{{"query", {2, 16}}, {"key", {3, 16}}, {"value", {3, 16}}, {"attn_mask", {1, 2, 3}}};
  EXPECT_THAT(refusal(single("aten.scaled_dot_product_attention.default", masked, {}, {2, 16})), HasSubstr("mask has rank 3"));
  EXPECT_THAT(refusal(single("aten.scaled_dot_product_attention.default", qkv, {{"dropout_p", number(0.1)}}, {1, 4, 2, 8})),
              HasSubstr("model.eval()"));
}

TEST_F(AtenOps, AttentionOfOtherRanks) {
  std::vector<Input> three{{"query", {4, 2, 16}}, {"key", {4, 3, 16}}, {"value", {4, 3, 16}}, {"attn_mask", {2, 3}, DType::b1}};
  EXPECT_THAT(ir(single("aten.scaled_dot_product_attention.default", three, {{"scale", number(1)}}, {4, 2, 16})),
              HasSubstr("(tensor<1x4x2x16xf32>, tensor<1x4x3x16xf32>, tensor<1x4x3x16xf32>, tensor<1x1x2x3xi1>) -> tensor<1x4x2x16xf32>"));
  std::vector<Input> five{
      {"query", {2, 3, 4, 2, 16}}, {"key", {2, 1, 4, 3, 16}}, {"value", {1, 1, 4, 3, 16}}, {"attn_mask", {2, 1, 1, 2, 3}}};
  EXPECT_THAT(ir(single("aten.scaled_dot_product_attention.default", five, {}, {2, 3, 4, 2, 16})),
              HasSubstr("(tensor<6x4x2x16xf32>, tensor<6x4x3x16xf32>, tensor<6x4x3x16xf32>, tensor<6x1x2x3xf32>) -> tensor<6x4x2x16xf32>"));
}

TEST_F(AtenOps, AttentionOfEachBackEnd) {
  for (auto [target, mask] : {std::pair{"flash_attention", ""},
                              {"flash_attention_for_cpu", "attn_mask"},
                              {"efficient_attention", "attn_bias"},
                              {"cudnn_attention", "attn_bias"}}) {
    std::vector<Input> inputs{{"query", {1, 2, 2, 16}}, {"key", {1, 2, 3, 16}}, {"value", {1, 2, 3, 16}}};
    if (*mask)
      inputs.push_back({mask, {1, 1, 2, 3}});
    ProgramBuilder b = single(std::string("aten._scaled_dot_product_") + target + ".default", inputs, {{"compute_log_sumexp", flag(false)}},
                              {1, 2, 2, 16});
    b.value("lse", DType::f32, std::vector<int64_t>{1, 2, 2});
    b.graph.nodes.back().outputs.push_back(tensor("lse"));
    EXPECT_THAT(ir(b), HasSubstr("dit.attention")) << target;
    EXPECT_EQ(ir(b).find("mask") != std::string::npos, *mask != 0) << target;
  }
}

//===-- Convolution, pooling, resizing ------------------------------------------------------------===//

TEST_F(AtenOps, ConvolutionPaddings) {
  auto conv = [&](Argument padding, int64_t length) {
    return ir(single("aten.conv1d.padding", {{"input", {1, 1, 6}}, {"weight", {1, 1, 4}}}, {{"padding", padding}}, {1, 1, length}));
  };
  EXPECT_THAT(conv(text("same"), 6), HasSubstr("padding_high = array<i64: 2>, padding_low = array<i64: 1>"));
  EXPECT_THAT(conv(text("valid"), 3), HasSubstr("padding_high = array<i64: 0>, padding_low = array<i64: 0>"));
  EXPECT_THAT(refusal(single("aten.conv1d.padding", {{"input", {1, 1, 6}}, {"weight", {1, 1, 4}}}, {{"padding", text("full")}}, {1, 1, 9})),
              HasSubstr("padding 'full' is not known"));
}

TEST_F(AtenOps, ConvolutionsThatDoNotFit) {
  EXPECT_THAT(refusal(single("aten.convolution.default", {{"input", {1, 2}}, {"weight", {2, 2}}}, {}, {1, 2})),
              HasSubstr("has 0 spatial dimensions"));
  std::vector<Input> image{{"input", {1, 1, 4, 4}}, {"weight", {1, 1, 1, 1}}};
  EXPECT_THAT(refusal(single("aten.conv2d.default", image, {{"stride", integers({1, 1, 1})}}, {1, 1, 4, 4})),
              HasSubstr("'stride' has 3 numbers for 2 spatial dimensions"));
}

TEST_F(AtenOps, TransposedConvolution) {
  // [1, 2] spread out by 2 and smeared by [1, 2, 3]; padding 1 takes both ends away, output_padding adds one.
  GraphBuilder::Inputs arguments{{"stride", integers({2})}, {"padding", integers({1})}, {"output_padding", integers({1})}};
  EXPECT_THAT(values(single("aten.conv_transpose1d.default", {{"input", {1, 1, 2}}, {"weight", {1, 1, 3}}}, arguments, {1, 1, 4})),
              ElementsAre(2, 5, 4, 6));
  arguments = {{"stride", integers({1})},
               {"padding", integers({2})},
               {"transposed", flag(true)},
               {"output_padding", integers({0})},
               {"dilation", integers({1})}};
  EXPECT_THAT(values(single("aten.convolution.default", {{"input", {1, 1, 4}}, {"weight", {1, 1, 2}}}, arguments, {1, 1, 1})),
              ElementsAre(7));
}

TEST_F(AtenOps, AveragesCountPaddingOnDemand) {
  GraphBuilder::Inputs arguments{{"kernel_size", integers({2})}, {"stride", integers({2})}, {"padding", integers({1})}};
  EXPECT_THAT(values(single("aten.avg_pool1d.default", {{"self", {1, 1, 4}}}, arguments, {1, 1, 3})), ElementsAre(0.5, 2.5, 2));
  arguments.push_back({"count_include_pad", flag(false)});
  EXPECT_THAT(values(single("aten.avg_pool1d.default", {{"self", {1, 1, 4}}}, arguments, {1, 1, 3})), ElementsAre(1, 2.5, 4));
}

TEST_F(AtenOps, MaximaAndTheirPlaces) {
  ProgramBuilder b = single("aten.max_pool2d_with_indices.default", {{"self", {1, 3, 4}}},
                            {{"kernel_size", integers({2})}, {"padding", integers({1, 0})}}, {1, 2, 2});
  b.value("places", DType::i64, std::vector<int64_t>{1, 2, 2});
  b.graph.nodes.back().outputs.push_back(tensor("places"));
  b.output("places", tensor("places"));
  EXPECT_THAT(runAll(b), ElementsAre(ElementsAre(2, 4, 10, 12), ElementsAre(1, 3, 9, 11)));
}

TEST_F(AtenOps, NearestByWholeFactorsIsAView) {
  std::string text = ir(single("aten.upsample_nearest2d.vec", {{"input", {1, 1, 2, 2}}},
                               {{"output_size", integers({4, 6})}, {"scale_factors", none()}}, {1, 1, 4, 6}));
  EXPECT_THAT(text, Not(HasSubstr("dit.gather")));
  text = ir(single("aten.upsample_nearest1d.vec", {{"input", {1, 1, 4}}}, {{"output_size", integers({6})}, {"scale_factors", none()}},
                   {1, 1, 6}));
  EXPECT_THAT(text, HasSubstr("dit.gather"));
}

TEST_F(AtenOps, LinearResizingUsesTheGivenFactor) {
  // 3 elements by 1.5 are 4; positions come from the factor 1.5, not from 4 / 3.
  Argument factors = integers({});
  factors.items.push_back(number(1.5));
  ProgramBuilder b = single("aten.upsample_linear1d.vec", {{"input", {1, 1, 3}}},
                            {{"output_size", none()}, {"align_corners", flag(false)}, {"scale_factors", factors}}, {1, 1, 4});
  EXPECT_THAT(values(b), near({1, 1.5, 13.0 / 6, 17.0 / 6}));
}

TEST_F(AtenOps, EveryRowHasOneTarget) { EXPECT_GT(AtenTable().targets().size(), 500u); } // the table refuses doubles
