// SPDX-License-Identifier: Apache-2.0
//
// Rowwise kernels: what the emitted units look like, and that they compute what the reference evaluator does.
#include "codegen/cuda/Nvrtc.h"
#include "codegen/cuda/Templates.h"
#include "tests/unit/RowwiseBodies.h"
#include "tests/unit/RowwiseHarness.h"

#include <gmock/gmock.h>

using namespace ditc::test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

size_t countOf(const std::string &text, const std::string &part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

//===-- The shape of the code -----------------------------------------------------------------------===//

TEST(RowwiseText, ElementwiseIsOneAccessAndOneFunction) {
  std::string text = emitRowwiseUnit(gelu("4096x12288xbf16")).text;
  EXPECT_THAT(text, HasSubstr("load<8, 8>(in0 + g * 8)"));
  EXPECT_THAT(text, HasSubstr("store<8>(out0 + g * 8, "));
  EXPECT_THAT(text, HasSubstr("a * 0.5f * (onePlusTanh("));
  EXPECT_THAT(text, Not(HasSubstr("if (g <"))); // the blocks cover the elements exactly
}

TEST(RowwiseText, ResidualAndNormReadTheirInputsOnce) {
  RowwiseOutcome outcome = emitRowwiseUnit(residualNormModulate("1x4096x3072xbf16", "1x1x3072xbf16"));
  for (const char *input : {"(in0 +", "(in1 +", "(in2 +", "(in3 +", "(in4 +"})
    EXPECT_EQ(countOf(outcome.text, input), 1u) << outcome.text;
  EXPECT_EQ(countOf(outcome.text, "momentsInBlock<128, 24>("), 1u); // one exchange for mean and variance
  EXPECT_EQ(outcome.blocks, 4096u);
  EXPECT_LE(countOf(outcome.text, "\n"), 60u);
}

TEST(RowwiseText, MomentsAreJoinedWhereThreadsShareEvenly) {
  EXPECT_THAT(emitRowwiseUnit(norm("layer", "5x8192xf32", "8192xf32")).text, HasSubstr("momentsInBlock<1024, 8>("));
  EXPECT_THAT(emitRowwiseUnit(norm("layer", "8192x1152xbf16", "1152xbf16")).text, HasSubstr("momentsInWarp<16, 72>("));
  EXPECT_THAT(emitRowwiseUnit(norm("layer", "8192x2432xbf16", "2432xbf16")).text, AllOf(HasSubstr("combineInBlock<Sum"), Not(HasSubstr("moments"))));
  EXPECT_THAT(emitRowwiseUnit(norm("rms", "8192x1152xbf16", "")).text, Not(HasSubstr("moments")));
}

TEST(RowwiseText, RowsOfShortLaunchesHaveAWarpAndSmallBlocks) {
  auto few = emitRowwiseUnit(norm("layer", "2048x1152xbf16", "1152xbf16")), many = emitRowwiseUnit(norm("layer", "8192x1152xbf16", "1152xbf16"));
  EXPECT_THAT(few.text, AllOf(HasSubstr("32 threads a row"), HasSubstr("__launch_bounds__(64, 4)")));
  EXPECT_THAT(many.text, AllOf(HasSubstr("16 threads a row"), HasSubstr("__launch_bounds__(128, ")));
}

TEST(RowwiseText, LongRowsStayAsTheyLieBetweenTheLoops) {
  std::string text = emitRowwiseUnit(norm("layer", "2048x2432xbf16", "2432xbf16")).text;
  EXPECT_EQ(countOf(text, "loadHeld<8>(in0 +"), 1u) << text;
  EXPECT_THAT(text, HasSubstr("Held<BF16, 8> "));
  for (const char *widening : {"widening.loop[0]", "widening.loop[1]", "widening.loop[2]"})
    EXPECT_EQ(countOf(text, widening), 1u) << text; // the assembler must not take two of them for one
  EXPECT_THAT(text, Not(HasSubstr("if (j <"))); // no load waits behind a branch
  EXPECT_THAT(emitRowwiseUnit(norm("layer", "4096x2432xf32", "2432xf32")).text, Not(HasSubstr("widening")));
  EXPECT_THAT(emitRowwiseUnit(norm("layer", "8192x2432xbf16", "2432xbf16")).text, AllOf(HasSubstr("loadHeldOnce<8>("), HasSubstr("storeOnce<8>(")));
  EXPECT_THAT(emitRowwiseUnit(norm("layer", "32760x1536xbf16", "1536xbf16")).text, Not(HasSubstr("Once<")));
}

TEST(RowwiseText, WhatIsMadeOfAStatisticLeavesTheKernelThatNeedsIt) {
  for (std::string columns : {"64x", "1152x", "3072x", "15360x", "1000x"}) {
    std::string text = emitRowwiseUnit(quantise("4608x" + columns + "bf16", "4608x1xf32", "4608x" + columns + "f8E4M3FN")).text;
    EXPECT_EQ(countOf(text, "(in0 +"), 1u) << text; // and what was combined stays in registers
    EXPECT_EQ(countOf(text, "store(out1 + "), 1u) << text;
  }
  EXPECT_EQ(runRowwise(quantise("197x640xbf16", "197x1xf32", "197x640xf8E4M3FN")).problem, "");
  EXPECT_EQ(runRowwise(quantise("3x1001xf16", "3x1xf32", "3x1001xf8E4M3FN")).problem, "");
}

TEST(RowwiseText, WhatOverlapsTheKernelBeforeReadsBehindItsEnd) {
  EXPECT_THAT(emitRowwiseUnit(norm("layer", "2048x1152xbf16", "1152xbf16")).text,
              HasSubstr("followPreviousKernel();\n  const int nothing = nothingYet();\n  in0 += nothing;\n  in1 += nothing;\n"));
  EXPECT_THAT(emitRowwiseUnit(gelu("4096x12288xbf16")).text, Not(HasSubstr("nothing"))); // which is long
}

TEST(RowwiseText, ShortRowsComeByFours) {
  std::string text = emitRowwiseUnit(normAndRotary("1", "4096", "24", /*interleaved=*/true)).text;
  EXPECT_THAT(text, HasSubstr("for (Index i = 0; i < 4; ++i) {")) << text;
  EXPECT_THAT(emitRowwiseUnit(normAndRotary("1", "16", "24", true)).text, Not(HasSubstr("i < 4"))); // threads are short, too
}

TEST(RowwiseText, HalvesOfAHeadMeetInRegisters) {
  std::string text = emitRowwiseUnit(normAndRotary("1", "4096", "24", /*interleaved=*/false)).text;
  EXPECT_EQ(countOf(text, "(in0 +"), 1u) << text;
  EXPECT_THAT(text, HasSubstr("[k + 1]"));
  EXPECT_THAT(text, HasSubstr("combineInWarp<Sum, 8>"));
}

TEST(RowwiseText, InterleavedPairsArePickedFromOneAccess) {
  std::string text = emitRowwiseUnit(normAndRotary("1", "4096", "24", /*interleaved=*/true)).text;
  EXPECT_EQ(countOf(text, "(in0 +"), 1u) << text;
  EXPECT_THAT(text, HasSubstr("pick<0, 0, 2, 2, 4, 4, 6, 6>"));
  EXPECT_THAT(text, HasSubstr("combineInWarp<Sum, 16>")); // one chunk of each of four rows
  EXPECT_THAT(text, HasSubstr("first / 6"));              // which share a token's angles
  EXPECT_THAT(text, HasSubstr("0xaa >> e & 1 ? "));
  EXPECT_THAT(text, Not(HasSubstr("loadAt")));
}

TEST(RowwiseText, OneAccessNeedsAKnownAlignment) {
  RowwiseOptions options;
  options.aligned = false;
  EXPECT_THAT(emitRowwiseUnit(gelu("64x64xf32"), options).text, Not(HasSubstr("load<")));
  options.aligned = true;
  options.strides = {{0, {66, 1}}}; // rows are 8 bytes apart from a multiple of 16
  EXPECT_THAT(emitRowwiseUnit(gelu("64x64xf32"), options).text, HasSubstr("load<4, 2>"));
}

TEST(RowwiseText, TwoStreamsShareALaunch) {
  std::string text = emitRowwiseUnit(twoStreams("1x4096x1152xf32", "1x77x1152xf32")).text;
  EXPECT_THAT(text, HasSubstr("if (blockIdx.x < "));
  EXPECT_EQ(countOf(text, "rows of 1152"), 2u);
}

TEST(RowwiseText, ManySmallOutputsSpreadOverBlocks) {
  RowwiseOutcome outcome = emitRowwiseUnit(tablesPlusOne("2x6912xbf16", "1x6912xbf16", 20));
  EXPECT_EQ(countOf(outcome.text, "blockIdx.x < "), 2u) << outcome.text; // eight, eight and four
  EXPECT_EQ(outcome.blocks, 3u * 7);
  EXPECT_EQ(countOf(emitRowwiseUnit(tablesPlusOne("64x6912xbf16", "1x6912xbf16", 20)).text, "blockIdx.x < "), 0u); // large ones read what they share once
}

TEST(RowwiseText, LargeTensorsHaveWideIndices) {
  EXPECT_THAT(emitRowwiseUnit(gelu("65536x32768xbf16")).text, HasSubstr("using Index = long long;"));
  EXPECT_THAT(emitRowwiseUnit(gelu("65535x32768xbf16")).text, HasSubstr("using Index = int;"));
}

TEST(RowwiseText, IsTheSameEveryTime) {
  std::string function = residualNormModulate("2x9x3072xbf16", "2x1x3072xbf16");
  EXPECT_EQ(emitRowwiseUnit(function).text, emitRowwiseUnit(function).text);
}

TEST(RowwiseText, NamesTheModules) {
  std::string function = R"(func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = dit.map(%a) : (tensor<8xf32>) -> tensor<8xf32> {
    ^bb0(%x: f32):
      %y = arith.negf %x : f32
      dit.yield %y : f32
    } loc("neg_7"("blocks.3.act"))
    return %0 : tensor<8xf32>
  })";
  std::string text = emitRowwiseUnit(function).text;
  EXPECT_THAT(text, HasSubstr("//   blocks.3.act:neg_7\n"));
  EXPECT_THAT(text, HasSubstr("__device__ inline float apply_neg_7(float a) { return -a; }"));
}

//===-- What is accepted ----------------------------------------------------------------------------===//

TEST(RowwiseVerdict, TakesWhatPullsWell) {
  EXPECT_EQ(rowwiseVerdict(gelu("8x8xf32")), "accepted");
  EXPECT_EQ(rowwiseVerdict(normAndRotary("1", "64", "4", true)), "accepted");
  EXPECT_EQ(rowwiseVerdict(softmax("64x128xf32", "64x1xf32")), "accepted");
}

TEST(RowwiseVerdict, RefusesProducts) {
  EXPECT_EQ(rowwiseVerdict("func.func @f(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<4x4xf32> {\n"
                           "  %0 = dit.matmul %a, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>\n  return %0 : tensor<4x4xf32>\n}"),
            "no_slot");
}

TEST(RowwiseVerdict, RefusesStatisticsThatEveryColumnNeedsAnew) {
  // The norm of a transposed norm: each column of the second is a row of the first.
  EXPECT_EQ(rowwiseVerdict("func.func @f(%a: tensor<256x256xf32>) -> tensor<256x256xf32> {\n"
                           "  %0 = dit.norm rms %a axes 1 eps 0.1 : (tensor<256x256xf32>) -> tensor<256x256xf32>\n"
                           "  %1 = dit.permute %0 [1, 0] : tensor<256x256xf32> -> tensor<256x256xf32>\n"
                           "  %2 = dit.norm rms %1 axes 1 eps 0.1 : (tensor<256x256xf32>) -> tensor<256x256xf32>\n"
                           "  return %2 : tensor<256x256xf32>\n}"),
            "crosses_rows");
}

TEST(RowwiseVerdict, RefusesStatisticsThatAnotherOneNeedsForEachOfItsElements) {
  // A sum over the tokens of something normalised: every element of a sum would need the norm of its own token.
  auto sumOfNorm = [](const std::string &tokens, const std::string &columns) {
    std::string shape = "tensor<" + tokens + "x" + columns + "xf32>", turned = "tensor<" + columns + "x" + tokens + "xf32>", sums = "tensor<" + columns + "x1xf32>";
    return "func.func @f(%a: " + shape + ") -> " + sums + " {\n  %0 = dit.norm rms %a axes 1 eps 0.1 : (" + shape + ") -> " + shape + "\n  %1 = dit.permute %0 [1, 0] : " + shape + " -> " +
           turned + "\n  %2 = dit.reduce sum %1 axes [1] : (" + turned + ") -> " + sums + "\n  return %2 : " + sums + "\n}";
  };
  EXPECT_EQ(rowwiseVerdict(sumOfNorm("512", "256")), "crosses_rows");
  EXPECT_EQ(rowwiseVerdict(sumOfNorm("512", "4")), "accepted"); // four values are as quick to norm as to store
}

TEST(RowwiseVerdict, EmittingWhatIsRefusedIsAnError) {
  RowwiseOutcome outcome = emitRowwiseUnit("func.func @f(%a: tensor<4xi64>) -> tensor<4xi64> {\n"
                                           "  %0, %1 = dit.sort %a axis 0 : (tensor<4xi64>) -> (tensor<4xi64>, tensor<4xi64>)\n  return %0 : tensor<4xi64>\n}");
  EXPECT_THAT(outcome.problem, HasSubstr("a rowwise kernel cannot compute"));
}

//===-- NVRTC ---------------------------------------------------------------------------------------===//

class RowwiseNvrtc : public testing::TestWithParam<std::string> {};

TEST_P(RowwiseNvrtc, CompilesWithoutLocalMemory) {
  if (std::string why; !ditc::Nvrtc::available(&why))
    GTEST_SKIP() << why;
  for (const std::string &function :
       {gelu("4096x12288xbf16"), residualNormModulate("1x4096x3072xbf16", "1x1x3072xbf16"), normAndRotary("1", "4096", "24", false),
        normAndRotary("1", "4096", "24", true), softmax("4096x1000xf32", "4096x1xf32"), reductionsOverAllAxes("f16"), transposesOfAllTypes()}) {
    std::string text = emitRowwiseUnit(function).text;
    ditc::CudaBinary binary = ditc::Nvrtc::get().compile({"rowwise.cu", text, ditc::templatesIncludedBy(text), GetParam(), {"--ptxas-options=-v"}});
    EXPECT_THAT(binary.log, Not(HasSubstr("warning"))) << text;
    if (binary.log.find("spill stores") != std::string::npos) { // a library in its place may report nothing
      EXPECT_THAT(binary.log, HasSubstr("0 bytes stack frame, 0 bytes spill stores")) << text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, RowwiseNvrtc, testing::Values("sm_80", "sm_90a", "sm_120a"));

} // namespace
