// SPDX-License-Identifier: Apache-2.0
//
// Units of the CUDA target through NVRTC for GPUs of several generations: they compile without warnings, fit the shared
// memory of the GPU, and do not spill. Skipped where NVRTC is absent.
#include "codegen/cuda/Nvrtc.h"
#include "codegen/cuda/Templates.h"
#include "codegen/cuda/conv/MmaConv.h"
#include "codegen/cuda/families/Families.h"
#include "runtime/Error.h"
#include "tests/unit/CudaFamilies.h"

#include <gtest/gtest.h>

using namespace ditc;
using namespace ditc::test;

namespace {

struct Unit {
  std::string name;
  CudaEmitter emitter;
  CudaCase kernel;
};

/// `mask`: its element; `rows`: of it, 1 where all queries share it. `more`: of the configuration.
CudaCase attention(const std::string &element, int64_t dim, const std::string &mask, int64_t queries = 1024, int64_t rows = 1024, const std::string &more = "causal = false") {
  CudaCase c{.family = "attention",
             .config = "scale = 0.125 : f64, " + more + ", has_mask = " + (mask.empty() ? "false" : "true"),
             .args = {},
             .reference = ""};
  c.args = {{element, {2, 16, queries, dim}}, {element, {2, 16, 1024, dim}}, {element, {2, 16, 1024, dim}}};
  if (!mask.empty())
    c.args.push_back({mask, {2, 1, std::min(queries, rows), 1024}});
  c.args.push_back({element, {2, 16, queries, dim}});
  return c;
}

/// `count` modulations of one input.
CudaCase modulations(int count, int64_t rows, bool transposed, int64_t depth = 3072) {
  std::string x = "tensor<" + std::to_string(rows) + "x" + std::to_string(depth) + "xbf16>", w = transposed ? "tensor<18432x" + std::to_string(depth) + "xbf16>" : "tensor<" + std::to_string(depth) + "x18432xbf16>",
              b = "tensor<18432xbf16>";
  std::string y = "tensor<" + std::to_string(rows) + "x18432xbf16>", lines, names, types, arguments = "%x: " + x;
  CudaCase c{.family = "gemv", .config = "", .args = {{"bf16", {rows, depth}}}, .reference = "", .outputs = count, .body = ""};
  for (int i = 0; i < count; ++i) {
    std::string n = std::to_string(i);
    arguments += ", %w" + n + ": " + w + ", %b" + n + ": " + b;
    lines +=
        "  %y" + n + " = dit.matmul %x, %w" + n + " bias %b" + n + (transposed ? " transpose_rhs" : "") + " : (" + x + ", " + w + ", " + b + ") -> " + y + "\n";
    names += (i ? ", %y" : "%y") + n, types += (i ? ", " : "") + y;
    c.args.push_back({"bf16", transposed ? std::vector<int64_t>{18432, depth} : std::vector<int64_t>{depth, 18432}});
    c.args.push_back({"bf16", {18432}});
  }
  for (int i = 0; i < count; ++i)
    c.args.push_back({"bf16", {rows, 18432}});
  c.body = "{\n^bb0(" + arguments + "):\n" + lines + "  dit.yield " + names + " : " + types + "\n}";
  return c;
}

CudaCase convolution(const std::string &element, int64_t channels, int64_t groups) {
  return {.family = "conv",
          .config = "strides = array<i64: 1, 1>, padding_low = array<i64: 1, 1>, padding_high = array<i64: 1, 1>, dilations = array<i64: 1, 1>, has_bias = "
                    "true, groups = " +
                    std::to_string(groups) + " : i64",
          .args = {{element, {1, channels, 64, 64}}, {element, {channels, channels / groups, 3, 3}}, {element, {channels}}, {element, {1, channels, 64, 64}}},
          .reference = ""};
}

/// On tensor cores: 3 x 3, the output with channels innermost or as torch has it.
CudaCase mmaConvolution(const std::string &element, int64_t channels, int64_t size, int64_t out, int64_t step, bool outputLast = false) {
  int64_t outSize = size / step;
  std::string steps = std::to_string(step);
  return {.family = "conv",
          .config = "strides = array<i64: " + steps + ", " + steps + ">, padding_low = array<i64: 1, 1>, padding_high = array<i64: 1, 1>, dilations = array<i64: 1, 1>, " +
                    "has_bias = true, groups = 1 : i64",
          .args = {{element, {2, channels, size, size}, {channels * size * size, 1, size * channels, channels}},
                   {element, {out, channels, 3, 3}, {channels * 9, 1, channels * 3, channels}},
                   {element, {out}},
                   {element, {2, out, outSize, outSize}, outputLast ? std::vector{out * outSize * outSize, int64_t(1), outSize * out, out} : std::vector<int64_t>()}},
          .reference = ""};
}

/// Two images of size x size, channels innermost in the input or the output, or as torch has them.
CudaCase depthwiseConvolution(const std::string &element, int64_t channels, int64_t size, int64_t window, bool inputLast, bool outputLast) {
  std::vector<int64_t> shape{2, channels, size, size}, last{channels * size * size, 1, size * channels, channels};
  std::string half = std::to_string(window / 2), halves = "array<i64: " + half + ", " + half + ">";
  return {.family = "conv",
          .config = "strides = array<i64: 1, 1>, padding_low = " + halves + ", padding_high = " + halves + ", dilations = array<i64: 1, 1>, has_bias = true, groups = " +
                    std::to_string(channels) + " : i64",
          .args = {{element, shape, inputLast ? last : std::vector<int64_t>()}, {element, {channels, 1, window, window}}, {element, {channels}},
                   {element, shape, outputLast ? last : std::vector<int64_t>()}},
          .reference = ""};
}

std::vector<Unit> units() {
  std::vector<Unit> all;
  for (int64_t dim : {40, 64, 72, 96, 128, 192, 256})
    all.push_back({"mma_" + std::to_string(dim), emitAttention, attention("bf16", dim, "")});
  for (const char *mask : {"i1", "f32"})
    for (int64_t dim : {64, 128})
      all.push_back({std::string("mma_mask_") + mask + std::to_string(dim), emitAttention, attention("f16", dim, mask)});
  for (int64_t dim : {48, 56, 72, 96, 112, 128})
    for (const char *mask : {"i1", "bf16"})
      all.push_back({std::string("mma_columns_") + mask + std::to_string(dim), emitAttention, attention("bf16", dim, mask, 1024, 1)});
  all.push_back({"mma_columns_f32", emitAttention, attention("bf16", 96, "f32", 1024, 1)});
  for (int64_t dim : {64, 96, 128}) {
    all.push_back({"mma_causal_" + std::to_string(dim), emitAttention, attention("f16", dim, "", 1024, 0, "causal = true")});
    all.push_back({"mma_cap_" + std::to_string(dim), emitAttention, attention("bf16", dim, "", 1024, 0, "soft_cap = 30.0 : f64")});
  }
  all.push_back({"mma_short", emitAttention, attention("bf16", 128, "", 64)});
  for (int64_t dim : {64, 72, 128, 256, 512})
    all.push_back({"simt_" + std::to_string(dim), emitAttention, attention("f32", dim, "i1")});
  all.push_back({"simt_f64", emitAttention, attention("f64", 64, "")});
  for (int64_t rows : {1, 2, 8, 16})
    all.push_back({"gemv_" + std::to_string(rows), emitGemv, modulations(95, rows, true)});
  for (int64_t rows : {2, 3, 4})
    all.push_back({"gemv_short_" + std::to_string(rows), emitGemv, modulations(95, rows, true, 1152)});
  all.push_back({"gemv_along_n", emitGemv, modulations(1, 2, false)});
  all.push_back({"conv", emitConv, convolution("bf16", 320, 1)});
  all.push_back({"conv_mma_320", emitBestConv, mmaConvolution("bf16", 320, 128, 320, 1)});
  all.push_back({"conv_mma_stride", emitBestConv, mmaConvolution("f16", 320, 128, 320, 2)});
  all.push_back({"conv_mma_1280", emitBestConv, mmaConvolution("bf16", 1280, 32, 1280, 1)});
  all.push_back({"conv_mma_small", emitBestConv, mmaConvolution("bf16", 1280, 8, 1280, 1)});
  all.push_back({"conv_mma_few", emitBestConv, mmaConvolution("f16", 16, 512, 128, 1)});
  all.push_back({"conv_mma_last", emitBestConv, mmaConvolution("bf16", 640, 64, 640, 1, true)});
  all.push_back({"conv_mma_narrow", emitBestConv, mmaConvolution("f16", 192, 250, 192, 2)}); // tiles of 192 and of 64 rows for Hopper
  all.push_back({"conv_mma_64", emitBestConv, mmaConvolution("bf16", 128, 200, 64, 1)});
  all.push_back({"channels_last", emitChannelsLast, {.family = "channels_last", .config = "", .args = {{"bf16", {2, 320, 128, 128}}, {"bf16", {2, 128, 128, 320}}}, .reference = ""}});
  all.push_back({"conv_direct", emitConv, convolution("f32", 256, 256)});
  for (const char *element : {"bf16", "f16", "f32"})
    for (bool last : {false, true})
      all.push_back({std::string("depthwise_") + element + (last ? "_last" : ""), emitBestConv, depthwiseConvolution(element, 11200, 32, 3, last, last)});
  for (int64_t window : {5, 7}) {
    all.push_back({"depthwise_" + std::to_string(window), emitBestConv, depthwiseConvolution("bf16", 384, 56, window, false, false)});
    all.push_back({"depthwise_last_" + std::to_string(window), emitBestConv, depthwiseConvolution("bf16", 384, 56, window, true, true)});
  }
  all.push_back({"depthwise_to_planar", emitBestConv, depthwiseConvolution("bf16", 2240, 32, 3, true, false)});
  all.push_back(
      {"matmul_i64", emitMatmul, {.family = "matmul", .config = "", .args = {{"i64", {70, 19}}, {"i64", {19, 67}}, {"i64", {70, 67}}}, .reference = ""}});
  all.push_back(
      {"matmul_f32", emitMatmul, {.family = "matmul", .config = "", .args = {{"f32", {512, 512}}, {"f32", {512, 512}}, {"f32", {512, 512}}}, .reference = ""}});
  all.push_back(
      {"sort",
       emitSort,
       {.family = "sort", .config = "axis = 1 : i64", .args = {{"f32", {2, 600}}, {"f32", {2, 600}}, {"i64", {2, 600}}}, .reference = "", .outputs = 2}});
  all.push_back({"sort_rank",
                 emitSort,
                 {.family = "sort", .config = "axis = 0 : i64", .args = {{"bf16", {9000}}, {"bf16", {9000}}, {"i64", {9000}}}, .reference = "", .outputs = 2}});
  all.push_back(
      {"scan", emitScan, {.family = "scan", .config = "axis = 0 : i64, kind = \"sum\"", .args = {{"i1", {90, 7}}, {"i64", {90, 7}}}, .reference = ""}});
  all.push_back({"linear_state",
                 emitLinearState,
                 {.family = "linear_state",
                  .config = "normaliser = true, relu = true",
                  .args = {{"bf16", {2, 70, 1024, 32}}, {"bf16", {2, 70, 1024, 32}}, {"f32", {4, 2, 70, 33, 32}}},
                  .reference = ""}});
  all.push_back({"linear_apply",
                 emitLinearApply,
                 {.family = "linear_apply",
                  .config = "epsilon = 1.0e-15 : f64, normaliser = true, relu = true",
                  .args = {{"bf16", {2, 70, 1024, 32}}, {"f32", {4, 2, 70, 33, 32}}, {"bf16", {2, 70, 1024, 32}, {2293760, 32, 2240, 1}}},
                  .reference = ""}});
  all.push_back({"linear_state_112",
                 emitLinearState,
                 {.family = "linear_state",
                  .config = "normaliser = true",
                  .args = {{"bf16", {1, 20, 32760, 112}}, {"bf16", {1, 20, 32760, 112}}, {"f32", {8, 1, 20, 113, 112}}},
                  .reference = ""}});
  all.push_back({"linear_apply_112",
                 emitLinearApply,
                 {.family = "linear_apply",
                  .config = "epsilon = 0.0 : f64, normaliser = true",
                  .args = {{"bf16", {1, 20, 32760, 112}}, {"f32", {8, 1, 20, 113, 112}}, {"f32", {1, 20, 32760, 112}, {73382400, 3669120, 1, 32760}}},
                  .reference = ""}});
  all.push_back({"linear_state_f32",
                 emitLinearState,
                 {.family = "linear_state",
                  .config = "",
                  .args = {{"f32", {1, 20, 700, 112}}, {"f32", {1, 20, 700, 112}}, {"f32", {1, 1, 20, 112, 112}}},
                  .reference = ""}});
  all.push_back({"linear_apply_f32",
                 emitLinearApply,
                 {.family = "linear_apply",
                  .config = "epsilon = 0.0 : f64",
                  .args = {{"f32", {1, 20, 700, 112}}, {"f32", {1, 1, 20, 112, 112}}, {"f32", {1, 20, 700, 112}}},
                  .reference = ""}});
  all.push_back({"arg_reduce",
                 emitArgReduce,
                 {.family = "arg_reduce", .config = "axis = 0 : i64, kind = \"max\"", .args = {{"f16", {90, 7}}, {"i64", {1, 7}}}, .reference = ""}});
  all.push_back(
      {"scatter",
       emitScatter,
       {.family = "scatter", .config = "add = true", .args = {{"bf16", {64, 640}}, {"i64", {77}}, {"bf16", {77, 640}}, {"bf16", {64, 640}}}, .reference = ""}});
  return all;
}

class CudaFamilyUnit : public testing::TestWithParam<std::string> {};

} // namespace

TEST_P(CudaFamilyUnit, CompilesWithoutSpills) {
  std::string whyNot, arch = GetParam();
  if (!Nvrtc::available(&whyNot))
    GTEST_SKIP() << whyNot;
  for (const Unit &u : units()) {
    CudaFamilies families(u.emitter, arch);
    ASSERT_TRUE(families.emit(u.kernel)) << families.messages;
    CudaBinary binary = Nvrtc::get().compile({u.name, families.unit.text, templatesIncludedBy(families.unit.text), arch, {"--ptxas-options=-v"}});
    EXPECT_EQ(binary.log.find("warning"), std::string::npos) << binary.log;
    EXPECT_EQ(binary.reported("bytes spill stores"), 0) << u.name << " for " << arch;
    EXPECT_LE(families.unit.launch.sharedBytes, arch == "sm_80" ? 163u << 10 : arch == "sm_90a" ? 227u << 10 : 99u << 10) << u.name;
    if (std::getenv("DITC_SHOW_REGISTERS"))
      std::printf("%-20s %-8s %4d registers %4d spilled %7u shared %5u threads\n", u.name.c_str(), arch.c_str(), binary.reported("registers").value_or(-1),
                  binary.reported("bytes spill stores").value_or(-1), families.unit.launch.sharedBytes, families.unit.launch.threads);
  }
}

INSTANTIATE_TEST_SUITE_P(Archs, CudaFamilyUnit, testing::Values("sm_80", "sm_90a", "sm_120a"));
