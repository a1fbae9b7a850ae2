// SPDX-License-Identifier: Apache-2.0
//
// Convolutions on tensor cores (conv_mma.cuh), the kernel that lays out their operands (channels_last.cuh), and depthwise ones
// (conv_depthwise.cuh), on the emulator against the reference evaluator; and which convolutions go there.
#include "codegen/cuda/conv/MmaConv.h"
#include "codegen/cuda/families/Depthwise.h"
#include "codegen/cuda/families/Families.h"
#include "tests/unit/ConvCases.h"

#include <gtest/gtest.h>

using namespace ditc;
using namespace ditc::test;

namespace {

void check(const std::vector<Conv> &convolutions) {
  CudaFamilies families(emitBestConv);
  int number = 0;
  for (const Conv &conv : convolutions) {
    families.check(caseOf(conv, number++ % 2 ? "f16" : "bf16"));
    EXPECT_NE(families.unit.text.find("conv_mma.cuh"), std::string::npos) << families.unit.text;
  }
}

TEST(CudaMmaConv, TwoDimensions) {
  check({
      {{2, 16, 9, 11}, {70, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, true},              // odd sizes
      {{1, 40, 8, 16}, {24, 40, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, false},             // taps end inside of steps
      {{3, 8, 10, 8}, {16, 8, 5, 3}, {2, 1}, {2, 0}, {2, 0}, {1, 2}, 1, true},                // a step holds several taps
      {{1, 16, 12, 12}, {8, 16, 3, 3}, {2, 2}, {0, 0}, {1, 1}, {1, 1}, 1, true},              // padding behind alone, as diffusers' downsampling
      {{2, 48, 7, 8}, {48, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 3, true},               // groups
      {{1, 16, 6, 20}, {64, 16, 2, 7}, {3, 2}, {4, 3}, {0, 5}, {1, 1}, 1, false},             // windows that lie in the padding alone
      {{1, 128, 6, 8}, {16, 128, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, true},             // whole steps of channels, all taps of each
      {{1, 128, 5, 7}, {32, 64, 2, 3}, {2, 1}, {0, 1}, {1, 1}, {1, 2}, 2, false},             // the same in groups
      {{1, 80, 5, 5}, {9, 80, 1, 3}, {1, 1}, {0, 1}, {0, 1}, {1, 1}, 1, false},
  });
}

TEST(CudaMmaConv, OneAndThreeDimensions) {
  check({
      {{2, 32, 50}, {24, 32, 5}, {2}, {2}, {2}, {1}, 1, true},
      {{1, 8, 33}, {8, 8, 3}, {1}, {4}, {4}, {4}, 1, false},
      {{1, 16, 4, 6, 7}, {24, 16, 3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 1, true},
      {{1, 64, 4, 4, 4}, {16, 64, 2, 1, 3}, {1, 1, 1}, {1, 0, 1}, {0, 0, 1}, {1, 1, 1}, 1, false},
      {{2, 24, 5, 4, 6}, {16, 24, 3, 1, 1}, {1, 1, 1}, {2, 0, 0}, {0, 0, 0}, {1, 1, 1}, 1, true}, // causal in time
      {{1, 16, 6, 8, 8}, {32, 8, 2, 3, 2}, {2, 2, 1}, {0, 1, 0}, {0, 1, 0}, {1, 1, 3}, 2, false},
  });
}

TEST(CudaMmaConv, OutputsWithChannelsInnermost) {
  check({
      {{2, 16, 9, 11}, {72, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, true, true},
      {{1, 32, 30}, {20, 32, 3}, {1}, {1}, {1}, {1}, 1, true, true},
      {{1, 16, 5, 5}, {18, 8, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2, false, true},
  });
}

TEST(CudaMmaConv, LargeTiles) {
  CudaFamilies families(emitBestConv);
  families.check(caseOf({{1, 16, 150, 152}, {128, 16, 1, 2}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 1, true}, "bf16"));
  EXPECT_NE(families.unit.text.find("BLOCK_M = 128;"), std::string::npos) << families.unit.text;
}

TEST(CudaMmaConv, RowsThatLieApart) {
  CudaFamilies families(emitBestConv);
  CudaCase c = caseOf({{2, 16, 6, 9}, {16, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, "bf16");
  c.args[0].strides = {2000, 1, 320, 32};  // a part of wider pixels, with gaps behind rows
  c.args[2].strides = {2048, 120, 20, 1};  // rows of the result, too
  families.check(c);
  EXPECT_NE(families.unit.text.find("conv_mma.cuh"), std::string::npos);
}

TEST(CudaMmaConv, WhatStaysScalar) {
  CudaFamilies families(emitBestConv);
  Conv conv{{1, 16, 8, 8}, {16, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  auto isScalar = [&](const CudaCase &c) { return families.emit(c) && families.unit.text.find("\"conv.cuh\"") != std::string::npos; };
  EXPECT_FALSE(isScalar(caseOf(conv, "bf16")));
  EXPECT_TRUE(isScalar(caseOf(conv, "f32")));
  CudaCase planar = caseOf(conv, "bf16");
  planar.args[0].strides.clear();
  EXPECT_TRUE(isScalar(planar)); // before PlanConvolutions
  CudaCase unaligned = caseOf(conv, "bf16");
  unaligned.aligned = false;
  EXPECT_TRUE(isScalar(unaligned));
  EXPECT_TRUE(isScalar(caseOf({{1, 16, 8, 8}, {4, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, "bf16")));
  EXPECT_TRUE(isScalar(caseOf({{1, 24, 8, 8}, {16, 12, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2}, "bf16"))); // groups of 12
}

/// Of one channel a group, stride and dilation 1.
Conv depthwise(const Sizes &input, const Sizes &window, const Sizes &low, const Sizes &high, bool bias = true) {
  Sizes filter{input[1], 1}, ones(window.size(), 1);
  filter.insert(filter.end(), window.begin(), window.end());
  return {.input = input, .filter = filter, .strides = ones, .low = low, .high = high, .dilations = ones, .groups = input[1], .bias = bias};
}

Conv depthwise(const Sizes &input, const Sizes &window, bool bias = true) {
  Sizes half;
  for (int64_t w : window)
    half.push_back(w / 2);
  return depthwise(input, window, half, half, bias);
}

enum Layout { kPlanar, kLast, kLastToPlanar, kPlanarToLast };

/// The depthwise kernel with three rows a thread, which small images do not have by themselves.
mlir::FailureOr<CudaUnit> emitThreeRows(plan::KernelOp kernel, const CudaArch &) {
  FamilyUnit unit(kernel);
  ConvProblem p = ConvProblem::read(unit.read());
  std::optional<DepthwiseConv> conv = depthwiseConv(p, unit.alignmentOf(0), unit.alignmentOf(p.outputArg()));
  if (!conv)
    return mlir::failure();
  conv->rows = 3;
  return emitDepthwiseConv(kernel, unit, p, *conv);
}

/// As the reference says, and the same bits as by conv.cuh.
void checkDepthwise(const CudaCase &c, const std::string &expected = "") {
  CudaFamilies families(emitBestConv), tall(emitThreeRows), direct(emitConv);
  families.check(c);
  EXPECT_NE(families.unit.text.find("conv_depthwise.cuh"), std::string::npos) << families.unit.text;
  EXPECT_NE(families.unit.text.find(expected), std::string::npos) << families.unit.text;
  direct.run(c);
  EXPECT_EQ(families.result(), direct.result()) << families.unit.text;
  tall.run(c);
  EXPECT_EQ(tall.result(), direct.result()) << tall.unit.text;
}

CudaCase depthwiseCase(const Conv &conv, const std::string &element, Layout layout) {
  Conv laid = conv;
  laid.outputLast = layout == kLast || layout == kPlanarToLast;
  CudaCase c = caseOf(laid, element);
  c.args[1].strides.clear();
  if (layout == kPlanar || layout == kPlanarToLast)
    c.args[0].strides.clear();
  c.tolerance = element == "bf16" ? 4e-3 : element == "f16" ? 5e-4 : 2e-6;
  return c;
}

void checkDepthwise(const Conv &conv, const std::string &element, Layout layout, const std::string &expected = "") {
  checkDepthwise(depthwiseCase(conv, element, layout), expected);
}

TEST(CudaDepthwiseConv, RowsOfAnyWidth) {
  int number = 0;
  for (int64_t width : {1, 7, 8, 9, 20, 31, 32, 33, 64})
    checkDepthwise(depthwise({2, 3, 6, width}, {3, 3}, number % 2), number % 3 ? "bf16" : "f16", kPlanar), ++number;
  for (int64_t width : {1, 6, 7, 32, 33})
    checkDepthwise(depthwise({1, 5, 7, width}, {3, 3}), "f32", kPlanar);
}

TEST(CudaDepthwiseConv, RowsOfManyImages) {
  checkDepthwise(depthwise({2, 150, 32, 32}, {3, 3}), "bf16", kPlanar, "READ = 8;");   // Sana's layers, with fewer channels
  checkDepthwise(depthwise({1, 1100, 9, 96}, {3, 3}), "bf16", kPlanar, "ROWS = 3;");  // enough threads for several rows
  checkDepthwise(depthwise({1, 1400, 13, 36}, {3, 3}), "f32", kPlanar, "ROWS = 4;");
  checkDepthwise(depthwise({2, 2000, 5, 33}, {3, 5}), "f16", kPlanar, "ROWS = 3;");
}

TEST(CudaDepthwiseConv, WindowsOfRows) {
  checkDepthwise(depthwise({2, 3, 9, 16}, {1, 1}), "bf16", kPlanar);
  checkDepthwise(depthwise({1, 4, 10, 16}, {5, 5}), "bf16", kPlanar);
  checkDepthwise(depthwise({1, 4, 10, 17}, {7, 7}, false), "f16", kPlanar);
  checkDepthwise(depthwise({1, 4, 6, 24}, {1, 3}), "f16", kPlanar);
  checkDepthwise(depthwise({1, 4, 9, 24}, {2, 3}, {1, 2}, {0, 0}), "bf16", kPlanar);       // causal
  checkDepthwise(depthwise({1, 4, 9, 24}, {3, 3}, {0, 0}, {1, 1}), "bf16", kPlanar);
  checkDepthwise(depthwise({1, 4, 9, 26}, {3, 3}, {0, 0}, {0, 0}), "f32", kPlanar);        // narrower than the input
  checkDepthwise(depthwise({1, 4, 5, 12}, {3, 3}, {4, 5}, {3, 6}), "bf16", kPlanar);       // windows that lie in the padding alone
  checkDepthwise(depthwise({1, 4, 5, 16}, {2, 12}, {0, 10}, {1, 1}, false), "bf16", kPlanar); // sees more than its neighbours have
}

TEST(CudaDepthwiseConv, RowsInOneAndThreeDimensions) {
  checkDepthwise(depthwise({2, 6, 50}, {3}), "bf16", kPlanar);
  checkDepthwise(depthwise({2, 6, 64}, {31}), "f32", kPlanar);
  checkDepthwise(depthwise({1, 6, 33}, {4}, {3}, {0}, false), "f16", kPlanar);
  checkDepthwise(depthwise({2, 3, 5, 6, 16}, {3, 3, 3}), "bf16", kPlanar);
  checkDepthwise(depthwise({1, 3, 4, 5, 9}, {3, 1, 3}, {2, 0, 1}, {0, 0, 1}), "f32", kPlanar);
  checkDepthwise(depthwise({2, 3, 9, 3, 8}, {3, 1, 1}), "bf16", kPlanar, "Dims<2, 3, 1, 9, 24>"); // pixels are one row
  checkDepthwise(depthwise({1, 3, 9, 2, 5}, {3, 1, 1}, {2, 0, 0}, {0, 0, 0}), "f16", kPlanar);
  checkDepthwise(depthwise({1, 3, 40, 1}, {3, 1}), "bf16", kPlanar, "Dims<1, 3, 1, 1, 40>");
}

TEST(CudaDepthwiseConv, RowsThatLieApart) {
  CudaCase c = depthwiseCase(depthwise({2, 4, 6, 24}, {3, 3}), "bf16", kPlanar);
  c.args[0].strides = {1024, 256, 32, 1};
  c.args[3].strides = {2001, 300, 28, 1};
  checkDepthwise(c, "STORE_X = 1;");
  c.args[0].strides = {1025, 250, 34, 1};
  c.args[3].strides = {2000, 300, 28, 1};
  checkDepthwise(c, "STORE_X = 4;");
  CudaCase unaligned = depthwiseCase(depthwise({2, 4, 6, 32}, {3, 3}), "bf16", kPlanar);
  unaligned.aligned = false;
  checkDepthwise(unaligned, "READ = 1;");
  CudaCase turned = depthwiseCase(depthwise({1, 4, 6, 8}, {3, 3}), "f32", kPlanar);
  turned.args[3].strides = {192, 48, 1, 6}; // columns of the result are neighbours
  checkDepthwise(turned, "STORE_X = 1;");
}

TEST(CudaDepthwiseConv, Channels) {
  checkDepthwise(depthwise({2, 72, 9, 11}, {3, 3}), "bf16", kLast, "STORE_C = 4;");
  checkDepthwise(depthwise({1, 1104, 9, 160}, {3, 3}, false), "f16", kLast, "ROWS = 3;"); // enough threads
  checkDepthwise(depthwise({2, 70, 5, 1}, {3, 3}), "bf16", kLast, "CHANNELS = 2;");
  checkDepthwise(depthwise({1, 13, 6, 33}, {3, 3}), "f16", kLast, "CHANNELS = 1;");
  checkDepthwise(depthwise({2, 34, 7, 8}, {3, 3}), "f32", kLast, "CHANNELS = 2;");
  checkDepthwise(depthwise({1, 64, 9, 7}, {5, 5}), "bf16", kLast);
  checkDepthwise(depthwise({1, 64, 8, 8}, {7, 7}), "f32", kLast);
  checkDepthwise(depthwise({1, 64, 8, 31}, {1, 3}), "bf16", kLast);
  checkDepthwise(depthwise({1, 64, 8, 9}, {3, 2}, {0, 2}, {2, 0}), "bf16", kLast);
}

TEST(CudaDepthwiseConv, ChannelsInOneAndThreeDimensions) {
  checkDepthwise(depthwise({2, 48, 33}, {4}, {3}, {0}), "bf16", kLast, "STRIP = 1;"); // along y
  checkDepthwise(depthwise({1, 32, 4, 5, 7}, {3, 3, 3}), "f16", kLast);
  checkDepthwise(depthwise({2, 32, 9, 3, 5}, {3, 1, 1}, false), "bf16", kLast);
  checkDepthwise(depthwise({1, 32, 5, 3, 9}, {3, 1, 3}, {2, 0, 1}, {0, 0, 1}), "f32", kLast);
}

TEST(CudaDepthwiseConv, ChannelsThatLieApart) {
  CudaCase c = depthwiseCase(depthwise({2, 16, 6, 9}, {3, 3}), "bf16", kLast);
  c.args[0].strides = {2000, 1, 320, 32}; // a part of wider pixels, with gaps behind rows
  c.args[3].strides = {1503, 1, 250, 18};
  checkDepthwise(c, "STORE_C = 1;");
  c.aligned = false;
  checkDepthwise(c, "CHANNELS = 1;");
}

TEST(CudaDepthwiseConv, FromOneLayoutToTheOther) {
  checkDepthwise(depthwise({2, 72, 9, 16}, {3, 3}), "bf16", kLastToPlanar, "STORE_X = 8;");
  checkDepthwise(depthwise({1, 33, 5, 17}, {3, 3}), "f32", kLastToPlanar);
  checkDepthwise(depthwise({1, 24, 50}, {3}), "f16", kLastToPlanar);
  checkDepthwise(depthwise({2, 16, 5, 3, 4}, {3, 1, 1}), "bf16", kLastToPlanar);
  checkDepthwise(depthwise({2, 40, 6, 16}, {3, 3}), "bf16", kPlanarToLast); // before PlanConvolutions
}

TEST(CudaDepthwiseConv, WhatOtherKernelsTake) {
  CudaFamilies families(emitBestConv);
  auto isDirect = [&](const Conv &conv, const std::string &element) { return families.emit(depthwiseCase(conv, element, kPlanar)) && families.unit.text.find("\"conv.cuh\"") != std::string::npos; };
  Conv conv = depthwise({1, 16, 9, 9}, {3, 3});
  EXPECT_FALSE(isDirect(conv, "bf16"));
  EXPECT_TRUE(isDirect(conv, "f64"));
  EXPECT_TRUE(isDirect(depthwise({1, 16, 20, 20}, {9, 9}), "bf16"));
  Conv strided = conv, dilated = conv, many = conv;
  strided.strides = {2, 1}, dilated.dilations = {1, 2}, many.filter[0] = 32;
  EXPECT_TRUE(isDirect(strided, "bf16"));
  EXPECT_TRUE(isDirect(dilated, "bf16"));
  EXPECT_TRUE(isDirect(many, "bf16")); // two filters of each channel
}

/// `input` [N, C, spatial...] to [N, spatial..., channels].
void checkLayout(CudaFamilies &families, const CudaArg &input, int64_t channels, bool aligned = true) {
  Sizes spatial(input.shape.begin() + 2, input.shape.end()), last{input.shape[0]}, order{0}, low(input.shape.size(), 0), high = low;
  for (size_t dim = 2; dim < input.shape.size(); ++dim)
    last.push_back(input.shape[dim]), order.push_back(static_cast<int64_t>(dim));
  Sizes padded = last;
  last.push_back(input.shape[1]), padded.push_back(channels), order.push_back(1);
  high.back() = channels - input.shape[1];
  auto type = [&](const Sizes &shape) { return fmt::format("tensor<{}x{}>", fmt::join(shape, "x"), input.element); };
  CudaCase c{.family = "channels_last", .config = "", .args = {input, {input.element, padded}},
             .reference = fmt::format("  %p = dit.permute %0 [{0}] : {1} -> {2}\n  %r0 = dit.pad %p low [{3}] high [{4}] value 0.000000e+00 : {6} : {2} -> {5}\n", fmt::join(order, ", "),
                                      type(input.shape), type(last), fmt::join(low, ", "), fmt::join(high, ", "), type(padded), input.element),
             .aligned = aligned};
  families.check(c);
}

TEST(CudaChannelsLast, AnyShapesAndStrides) {
  CudaFamilies families(emitChannelsLast);
  checkLayout(families, {"bf16", {2, 72, 9, 16}}, 72);                       // 8 positions a load
  EXPECT_NE(families.unit.text.find("READ = 8;"), std::string::npos) << families.unit.text;
  checkLayout(families, {"f16", {1, 13, 5, 7}}, 16);                         // none; zeros behind the channels
  checkLayout(families, {"bf16", {3, 8, 130}}, 8);                           // 2
  checkLayout(families, {"f16", {70, 24, 3, 3}}, 24);                        // a filter
  checkLayout(families, {"bf16", {1, 20, 3, 4, 5}, {2000, 1, 400, 100, 20}}, 24); // channels innermost, yet no multiple of 8
  checkLayout(families, {"bf16", {2, 16, 8, 12}, {4096, 256, 16, 1}}, 16);   // rows apart: 4
  EXPECT_NE(families.unit.text.find("READ = 4;"), std::string::npos) << families.unit.text;
  checkLayout(families, {"bf16", {1, 16, 8, 8}}, 16, false);
}

} // namespace
