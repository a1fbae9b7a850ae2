// SPDX-License-Identifier: Apache-2.0
//
// Rows of the ATen table for matrix products, attention, convolution, pooling and resizing, the forms that
// only decompositions leave among them.
#include "tests/unit/AtenFixture.h"

using namespace ditc;
using namespace ditc::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

using AtenProducts = AtenTest;

//===-- Products ----------------------------------------------------------------------------------===//

TEST_F(AtenProducts, LinearReadsItsWeightAsItLies) {
  std::string text = ir(single("aten.linear.default", {{"input", {2, 3, 4}}, {"weight", {5, 4}}, {"bias", {5}}}, {}, {2, 3, 5}));
  EXPECT_THAT(text, HasSubstr("dit.matmul %arg0, %arg1 bias %arg2"));
  EXPECT_THAT(text, HasSubstr("transpose_rhs : (tensor<2x3x4xf32>, tensor<5x4xf32>, tensor<5xf32>) -> tensor<2x3x5xf32>"));
  EXPECT_THAT(refusal(single("aten.linear.default", {{"input", {2, 4}}, {"weight", {4}}}, {}, {2})), HasSubstr("weight of rank 1"));
}

TEST_F(AtenProducts, TransposedFactorsAreReadAsTheyLie) {
  ProgramBuilder b;
  b.userInput("x", DType::f32, std::vector<int64_t>{2, 4});
  b.userInput("w", DType::f32, std::vector<int64_t>{5, 4});
  b.userInput("c", DType::f32, std::vector<int64_t>{5});
  b.op("t", "aten.t.default", {{"self", tensor("w")}}, DType::f32, {4, 5});
  b.op("y", "aten.addmm.default", {{"self", tensor("c")}, {"mat1", tensor("x")}, {"mat2", tensor("t")}}, DType::f32, {2, 5});
  b.output("output", tensor("y"));
  EXPECT_THAT(ir(b), HasSubstr("dit.matmul %arg0, %arg1 bias %arg2 transpose_rhs"));
}

TEST_F(AtenProducts, ScaledSumsOfProducts) {
  GraphBuilder::Inputs factors{{"beta", number(0.5)}, {"alpha", integer(2)}};
  EXPECT_THAT(values(single("aten.addmm.default", {{"self", {2, 2}}, {"mat1", {2, 1}}, {"mat2", {1, 2}}}, factors, {2, 2})),
              ElementsAre(2.5, 5, 5.5, 10));
  std::string text = ir(single("aten.baddbmm.default", {{"self", {1, 2, 2}}, {"batch1", {1, 2, 3}}, {"batch2", {1, 3, 2}}},
                               {{"beta", integer(0)}}, {1, 2, 2}));
  EXPECT_THAT(text, Not(HasSubstr("arith.addf"))); // self may be anything, NaN too
}

TEST_F(AtenProducts, ProductsOfEachRank) {
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

TEST_F(AtenProducts, ProductsOfBytesGiveIntegers) {
  std::vector<Input> bytes{{"self", {2, 10}, DType::i8}, {"mat2", {10, 1}, DType::i8}};
  EXPECT_THAT(values(single("aten._int_mm.default", bytes, {}, {2, 1}, DType::i32)), ElementsAre(385, 935));
  EXPECT_THAT(refusal(single("aten._scaled_mm.default", {{"self", {2, 2}}}, {}, {2, 2})), HasSubstr("fp8"));
}

TEST_F(AtenProducts, Einsums) {
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

TEST_F(AtenProducts, CrossProducts) {
  EXPECT_THAT(values(single("aten.linalg_cross.default", {{"self", {1, 3}}, {"other", {2, 3}}}, {}, {2, 3})),
              ElementsAre(0, 0, 0, -3, 6, -3));
  EXPECT_THAT(refusal(single("aten.cross.default", {{"self", {2}}, {"other", {2}}}, {}, {2})), HasSubstr("needs a dimension of size 3"));
}

TEST_F(AtenProducts, ProductsThatDoNotFit) {
  EXPECT_THAT(refusal(single("aten.mm.default", {{"self", {2, 3}}, {"mat2", {2, 3}}}, {}, {2, 3})),
              HasSubstr("contracts 3 with 2 elements"));
  EXPECT_THAT(refusal(single("aten.matmul.default", {{"self", {}}, {"other", {2}}}, {}, {2})),
              HasSubstr("a 0-dim tensor has no matrix product"));
  EXPECT_THAT(refusal(single("aten.tensordot.default", {{"self", {2, 3}}, {"other", {2, 3}}},
                             {{"dims_self", integers({0, 1})}, {"dims_other", integers({0})}}, {})),
              HasSubstr("contracts 2 with 1 dimensions"));
}

//===-- Attention ---------------------------------------------------------------------------------===//

TEST_F(AtenProducts, AttentionScaleMaskAndHeads) {
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

TEST_F(AtenProducts, AttentionOfOtherRanks) {
  std::vector<Input> three{{"query", {4, 2, 16}}, {"key", {4, 3, 16}}, {"value", {4, 3, 16}}, {"attn_mask", {2, 3}, DType::b1}};
  EXPECT_THAT(ir(single("aten.scaled_dot_product_attention.default", three, {{"scale", number(1)}}, {4, 2, 16})),
              HasSubstr("(tensor<1x4x2x16xf32>, tensor<1x4x3x16xf32>, tensor<1x4x3x16xf32>, tensor<1x1x2x3xi1>) -> tensor<1x4x2x16xf32>"));
  std::vector<Input> five{
      {"query", {2, 3, 4, 2, 16}}, {"key", {2, 1, 4, 3, 16}}, {"value", {1, 1, 4, 3, 16}}, {"attn_mask", {2, 1, 1, 2, 3}}};
  EXPECT_THAT(ir(single("aten.scaled_dot_product_attention.default", five, {}, {2, 3, 4, 2, 16})),
              HasSubstr("(tensor<6x4x2x16xf32>, tensor<6x4x3x16xf32>, tensor<6x4x3x16xf32>, tensor<6x1x2x3xf32>) -> tensor<6x4x2x16xf32>"));
}

TEST_F(AtenProducts, AttentionOfEachBackEnd) {
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

TEST_F(AtenProducts, ConvolutionPaddings) {
  auto conv = [&](Argument padding, int64_t length) {
    return ir(single("aten.conv1d.padding", {{"input", {1, 1, 6}}, {"weight", {1, 1, 4}}}, {{"padding", padding}}, {1, 1, length}));
  };
  EXPECT_THAT(conv(text("same"), 6), HasSubstr("padding_high = array<i64: 2>, padding_low = array<i64: 1>"));
  EXPECT_THAT(conv(text("valid"), 3), HasSubstr("padding_high = array<i64: 0>, padding_low = array<i64: 0>"));
  EXPECT_THAT(refusal(single("aten.conv1d.padding", {{"input", {1, 1, 6}}, {"weight", {1, 1, 4}}}, {{"padding", text("full")}}, {1, 1, 9})),
              HasSubstr("padding 'full' is not known"));
}

TEST_F(AtenProducts, ConvolutionsThatDoNotFit) {
  EXPECT_THAT(refusal(single("aten.convolution.default", {{"input", {1, 2}}, {"weight", {2, 2}}}, {}, {1, 2})),
              HasSubstr("has 0 spatial dimensions"));
  std::vector<Input> image{{"input", {1, 1, 4, 4}}, {"weight", {1, 1, 1, 1}}};
  EXPECT_THAT(refusal(single("aten.conv2d.default", image, {{"stride", integers({1, 1, 1})}}, {1, 1, 4, 4})),
              HasSubstr("'stride' has 3 numbers for 2 spatial dimensions"));
}

TEST_F(AtenProducts, TransposedConvolution) {
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

TEST_F(AtenProducts, AveragesCountPaddingOnDemand) {
  GraphBuilder::Inputs arguments{{"kernel_size", integers({2})}, {"stride", integers({2})}, {"padding", integers({1})}};
  EXPECT_THAT(values(single("aten.avg_pool1d.default", {{"self", {1, 1, 4}}}, arguments, {1, 1, 3})), ElementsAre(0.5, 2.5, 2));
  arguments.push_back({"count_include_pad", flag(false)});
  EXPECT_THAT(values(single("aten.avg_pool1d.default", {{"self", {1, 1, 4}}}, arguments, {1, 1, 3})), ElementsAre(1, 2.5, 4));
}

TEST_F(AtenProducts, MaximaAndTheirPlaces) {
  ProgramBuilder b = single("aten.max_pool2d_with_indices.default", {{"self", {1, 3, 4}}},
                            {{"kernel_size", integers({2})}, {"padding", integers({1, 0})}}, {1, 2, 2});
  b.value("places", DType::i64, std::vector<int64_t>{1, 2, 2});
  b.graph.nodes.back().outputs.push_back(tensor("places"));
  b.output("places", tensor("places"));
  EXPECT_THAT(runAll(b), ElementsAre(ElementsAre(2, 4, 10, 12), ElementsAre(1, 3, 9, 11)));
}

TEST_F(AtenProducts, NearestByWholeFactorsIsAView) {
  std::string text = ir(single("aten.upsample_nearest2d.vec", {{"input", {1, 1, 2, 2}}},
                               {{"output_size", integers({4, 6})}, {"scale_factors", none()}}, {1, 1, 4, 6}));
  EXPECT_THAT(text, Not(HasSubstr("dit.gather")));
  text = ir(single("aten.upsample_nearest1d.vec", {{"input", {1, 1, 4}}}, {{"output_size", integers({6})}, {"scale_factors", none()}},
                   {1, 1, 6}));
  EXPECT_THAT(text, HasSubstr("dit.gather"));
}

TEST_F(AtenProducts, LinearResizingUsesTheGivenFactor) {
  // 3 elements by 1.5 are 4; positions come from the factor 1.5, not from 4 / 3.
  Argument factors = integers({});
  factors.items.push_back(number(1.5));
  ProgramBuilder b = single("aten.upsample_linear1d.vec", {{"input", {1, 1, 3}}},
                            {{"output_size", none()}, {"align_corners", flag(false)}, {"scale_factors", factors}}, {1, 1, 4});
  EXPECT_THAT(values(b), near({1, 1.5, 13.0 / 6, 17.0 / 6}));
}
