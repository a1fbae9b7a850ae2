// SPDX-License-Identifier: Apache-2.0
//
// Rows of the ATen table for element-wise ops, reductions and norms: which dit operations they become,
// arguments that decide it, and refusals. Values against PyTorch are in import_models_test.cpp.
#include "tests/unit/AtenFixture.h"

#include "compiler/import/AtenTable.h"

#include <cmath>
#include <numbers>

using namespace ditc;
using namespace ditc::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

using AtenOps = AtenTest;

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

TEST_F(AtenOps, DegreesBecomeRadians) {
  EXPECT_THAT(values(single("aten.deg2rad.default", {{"self", {2}}}, {}, {2})), ElementsAre(testing::DoubleNear(0.0174533, 1e-6), testing::DoubleNear(0.0349066, 1e-6)));
}

TEST_F(AtenOps, AnglesOfRealNumbersAreThoseOfTheirSigns) {
  ProgramBuilder b;
  b.userInput("x", DType::f32, std::vector<int64_t>{2});
  b.op("d", "aten.sub.Tensor", {{"self", tensor("x")}, {"other", number(1.5)}}, DType::f32, {2});
  b.op("y", "aten.angle.default", {{"self", tensor("d")}}, DType::f32, {2});
  b.output("output", tensor("y"));
  EXPECT_THAT(run(b), ElementsAre(testing::DoubleNear(std::numbers::pi, 1e-6), 0)); // of -0.5 and 0.5
}

TEST_F(AtenOps, NegativePowersOfTheWholeNumber0Are0) {
  ProgramBuilder b;
  b.userInput("x", DType::i64, std::vector<int64_t>{3});
  b.op("base", "aten.sub.Tensor", {{"self", tensor("x")}, {"other", integer(2)}}, DType::i64, {3}); // -1, 0, 1
  b.op("exponent", "aten.neg.default", {{"self", tensor("x")}}, DType::i64, {3});
  b.op("y", "aten.pow.Tensor_Tensor", {{"self", tensor("base")}, {"exponent", tensor("exponent")}}, DType::i64, {3});
  b.output("output", tensor("y"));
  EXPECT_THAT(run(b), ElementsAre(-1, 0, 1));
}

TEST_F(AtenOps, HypotenuseOfInfinityAndNanIsInfinite) {
  ProgramBuilder b;
  b.userInput("x", DType::f32, std::vector<int64_t>{1});
  b.op("i", "aten.div.Tensor", {{"self", tensor("x")}, {"other", number(0)}}, DType::f32, {1});
  b.op("n", "aten.sub.Tensor", {{"self", tensor("i")}, {"other", tensor("i")}}, DType::f32, {1});
  b.op("y", "aten.hypot.default", {{"self", tensor("i")}, {"other", tensor("n")}}, DType::f32, {1});
  b.output("output", tensor("y"));
  EXPECT_THAT(run(b), ElementsAre(HUGE_VAL));
}

TEST_F(AtenOps, IntegersOfLargeValueMeet16BitFloatsRounded) {
  // 257 is not a bf16 number: torch casts the integers before it multiplies.
  ProgramBuilder b = single("aten.mul.Tensor", {{"self", {257}, DType::i64}, {"other", {1}, DType::bf16}}, {}, {257}, DType::bf16);
  EXPECT_EQ(values(b).back(), 256);
}

TEST_F(AtenOps, Float8IsCastToAndFrom) {
  ProgramBuilder b = single("aten.to.dtype", {{"self", {17}}}, {{"dtype", type(DType::f8e4m3)}}, {17}, DType::f8e4m3);
  EXPECT_EQ(values(b).back(), 16); // of 17
  EXPECT_THAT(ir(single("aten.to.dtype", {{"self", {2}, DType::f8e4m3}}, {{"dtype", type(DType::bf16)}}, {2}, DType::bf16)),
              HasSubstr("(tensor<2xf8E4M3FN>) -> tensor<2xbf16>"));
  EXPECT_THAT(values(single("aten.view.dtype", {{"self", {2}, DType::f8e4m3}}, {{"dtype", type(DType::u8)}}, {2}, DType::u8)), ElementsAre(0x38, 0x40));
  EXPECT_THAT(values(single("aten.view.dtype", {{"self", {2}, DType::i8}}, {{"dtype", type(DType::f8e4m3)}}, {2}, DType::f8e4m3)),
              ElementsAre(0x1p-9, 0x1p-8));
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

TEST_F(AtenOps, RandomSlopesAreTheirMeanInEvalMode) {
  auto op = [](const char *target, bool training) {
    return single(target, {{"self", {2}}, {"noise", {2}}}, {{"lower", number(0.25)}, {"upper", number(0.75)}, {"training", flag(training)}}, {2});
  };
  EXPECT_THAT(ir(op("aten.rrelu_with_noise_functional.default", false)), HasSubstr("5.000000e-01"));
  EXPECT_THAT(refusal(op("aten.rrelu_with_noise_functional.default", true)), HasSubstr("draws random slopes; call model.eval()"));
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

TEST_F(AtenOps, QuantilesTakeKnownInterpolations) {
  auto middle = [](const char *target, const char *interpolation) {
    return single(target, {{"self", {4}}}, {{"q", number(0.4)}, {"interpolation", text(interpolation)}}, {});
  };
  for (const char *target : {"aten.quantile.scalar", "aten.nanquantile.scalar"}) {
    EXPECT_THAT(values(middle(target, "linear")), near({2.2}));
    EXPECT_THAT(values(middle(target, "midpoint")), near({2.5}));
    EXPECT_THAT(values(middle(target, "nearest")), near({2}));
    EXPECT_THAT(values(middle(target, "higher")), near({3}));
    EXPECT_THAT(refusal(middle(target, "cubic")), HasSubstr("interpolation 'cubic' is not supported, only linear, midpoint, lower, higher and nearest"));
    EXPECT_THAT(refusal(single(target, {{"self", {4}}}, {{"q", number(1.5)}}, {})), HasSubstr("quantile 1.5 is outside of 0 to 1"));
  }
}

TEST_F(AtenOps, HistogramsCountTheEndInTheLastBin) {
  EXPECT_THAT(values(single("aten.histc.default", {{"self", {5}}}, {{"bins", integer(2)}, {"min", integer(2)}, {"max", integer(4)}}, {2})), ElementsAre(1, 2));
}

TEST_F(AtenOps, LinesOfBoundariesForLinesOfValues) {
  // 1 2 3 | 4 5 6 before 1 2 | 3 4
  EXPECT_THAT(values(single("aten.searchsorted.Tensor", {{"sorted_sequence", {2, 3}}, {"self", {2, 2}}}, {{"right", flag(true)}}, {2, 2}, DType::i64)),
              ElementsAre(1, 2, 0, 1));
}

TEST_F(AtenOps, BatchNormInTrainingIsRefused) {
  ProgramBuilder b = single("aten.batch_norm.default", {{"input", {2, 3, 4}}, {"running_mean", {3}}, {"running_var", {3}}},
                            {{"training", flag(true)}, {"eps", number(1e-5)}}, {2, 3, 4});
  EXPECT_THAT(refusal(b), HasSubstr("call model.eval() before exporting"));
}

TEST_F(AtenOps, StatisticsOfNormsAreNoResults) {
  ProgramBuilder b = single("aten.group_norm.default", {{"input", {2, 3, 4}}}, {{"num_groups", integer(3)}}, {2, 3, 4});
  b.output("scale", tensor("rstd"));
  EXPECT_THAT(refusal(b), HasSubstr("output 'scale': reads 'rstd', a result that ditc does not compute; compute it from what its node reads"));
}

TEST_F(AtenOps, EveryRowHasOneTarget) { EXPECT_GT(AtenTable().targets().size(), 500u); } // the table refuses doubles
