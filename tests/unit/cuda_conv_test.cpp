// SPDX-License-Identifier: Apache-2.0
//
// Convolutions on tensor cores (conv_mma.cuh) and the kernel that lays out their operands (channels_last.cuh), on the
// emulator against the reference evaluator; and which convolutions go there.
#include "codegen/cuda/conv/MmaConv.h"
#include "tests/unit/CudaFamilies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

using namespace ditc;
using namespace ditc::test;

namespace {

using Sizes = std::vector<int64_t>;

struct Conv {
  Sizes input, filter; ///< [N, C, spatial...], [O, C / groups, window...]
  Sizes strides, low, high, dilations;
  int64_t groups = 1;
  bool bias = false, outputLast = false;
};

Sizes outputOf(const Conv &c) {
  Sizes shape{c.input[0], c.filter[0]};
  for (size_t i = 0; i < c.strides.size(); ++i)
    shape.push_back((c.input[2 + i] + c.low[i] + c.high[i] - c.dilations[i] * (c.filter[2 + i] - 1) - 1) / c.strides[i] + 1);
  return shape;
}

/// Of [N, C, spatial...] with channels innermost.
Sizes channelsLast(const Sizes &shape) {
  Sizes strides(shape.size());
  int64_t step = shape[1];
  strides[1] = 1;
  for (size_t dim = shape.size(); dim-- > 2; step *= shape[dim])
    strides[dim] = step;
  strides[0] = step;
  return strides;
}

CudaCase caseOf(const Conv &conv, const std::string &element) {
  auto numbers = [](const Sizes &list) { return fmt::format("array<i64: {}>", fmt::join(list, ", ")); };
  std::string options = fmt::format("strides = {}, padding_low = {}, padding_high = {}, dilations = {}, groups = {} : i64", numbers(conv.strides), numbers(conv.low),
                                    numbers(conv.high), numbers(conv.dilations), conv.groups);
  CudaCase c{.family = "conv", .config = options + ", has_bias = " + (conv.bias ? "true" : "false"),
             .args = {{element, conv.input, channelsLast(conv.input)}, {element, conv.filter, channelsLast(conv.filter)}},
             .reference = std::string("dit.conv %0, %1") + (conv.bias ? " bias %2" : "") + " {" + options + "}",
             .tolerance = element == "bf16" ? 4e-3 : 5e-4};
  if (conv.bias)
    c.args.push_back({element, {conv.filter[0]}});
  Sizes output = outputOf(conv);
  c.args.push_back({element, output, conv.outputLast ? channelsLast(output) : Sizes()});
  return c;
}

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
  EXPECT_TRUE(isScalar(caseOf({{1, 16, 8, 8}, {16, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 16}, "bf16"))); // depthwise
  EXPECT_TRUE(isScalar(caseOf({{1, 24, 8, 8}, {16, 12, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2}, "bf16"))); // groups of 12
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
