// SPDX-License-Identifier: Apache-2.0
//
// Units of attention on Hopper through NVRTC: they compile without warnings, their tensor-core products run on beside other
// work, and they do not spill more than the few bytes that were there when they were measured. Skipped where NVRTC is absent.
#include "codegen/cuda/Nvrtc.h"
#include "codegen/cuda/Templates.h"
#include "tests/unit/AttentionKernels.h"

#include <gtest/gtest.h>


using namespace mlir;
using namespace ditc;
using namespace ditc::test;

namespace {

struct UnitCase {
  std::string name;
  AttentionShape shape;
  int spills = 0; ///< bytes at most
};

const UnitCase kCases[] = {
    {"flux", {.heads = 24, .queries = 4608, .keys = 4608, .dim = 128, .extra = ", shared_tiles = true", .scratch = {"memref<6893568xf32>", "memref<144xi32>"}}},
    {"pixart_cross", {.batch = 2, .heads = 16, .queries = 4096, .keys = 300, .dim = 72, .mask = "memref<2x1x1x300xbf16>"}},
    {"judged", {.batch = 2, .heads = 16, .queries = 4096, .keys = 300, .dim = 72, .mask = "memref<2x1x1x300xbf16>", .extra = ", judged_mask = true", .scratch = {"memref<2x1x1x5xi8>"}}},
    {"judged_64", {.batch = 2, .heads = 16, .queries = 4096, .keys = 512, .dim = 64, .mask = "memref<2x1x1x512xbf16>", .extra = ", judged_mask = true", .scratch = {"memref<2x1x1x5xi8>"}}},
    {"judged_128", {.batch = 2, .heads = 16, .queries = 4096, .keys = 512, .dim = 128, .mask = "memref<2x1x1x512xf32>", .extra = ", judged_mask = true", .scratch = {"memref<2x1x1x4xi8>"}}},
    {"columns_f32", {.batch = 2, .heads = 16, .queries = 4096, .keys = 300, .dim = 72, .mask = "memref<2x1x1x300xf32>"}},
    {"columns_odd", {.batch = 2, .heads = 16, .queries = 4096, .keys = 299, .dim = 64, .element = "f16", .mask = "memref<2x1x1x299xf16>"}, 8},
    {"columns_causal", {.heads = 24, .queries = 4608, .keys = 4608, .dim = 64, .mask = "memref<1x1x1x4608xbf16>", .causal = true}},
    {"rows_f32", {.batch = 2, .heads = 16, .queries = 4096, .keys = 4096, .dim = 72, .mask = "memref<2x1x4096x4096xf32>"}, 8},
    {"bits_72", {.batch = 2, .heads = 16, .queries = 4096, .keys = 4096, .dim = 72, .mask = "memref<2x1x1x129xi32>", .extra = ", packed_mask = true", .scratch = {"memref<2x1x1x43xi8>"}}},
    {"bits_causal_128", {.heads = 24, .queries = 4608, .keys = 4608, .dim = 128, .mask = "memref<1x1x4608x144xi32>", .causal = true, .extra = ", packed_mask = true", .scratch = {"memref<1x1x36x36xi8>"}}},
    {"window", {.heads = 24, .queries = 4608, .keys = 4608, .dim = 128, .extra = ", window = array<i64: 512, 512>"}},
    {"soft_cap", {.heads = 24, .queries = 4608, .keys = 4608, .dim = 72, .extra = ", soft_cap = 50.0 : f64"}},
    {"soft_cap_bits", {.heads = 24, .queries = 4608, .keys = 4608, .dim = 64, .mask = "memref<1x1x1x144xi32>", .causal = true, .extra = ", packed_mask = true, soft_cap = 50.0 : f64", .scratch = {"memref<1x1x1x36xi8>"}}},
    {"log_sum_exp", {.heads = 24, .queries = 4608, .keys = 4608, .dim = 128, .extra = ", log_sum_exp = true", .scratch = {"memref<1x24x4608xf32>"}}},
    {"short_keys", {.batch = 2, .heads = 40, .queries = 4096, .keys = 33, .dim = 32}},
    {"frames", {.batch = 3840, .heads = 16, .queries = 16, .keys = 16, .dim = 72}},
    {"windows", {.batch = 1024, .heads = 16, .queries = 64, .keys = 64, .dim = 64}},
    {"windows_bias", {.batch = 1024, .heads = 16, .queries = 64, .keys = 64, .dim = 64, .mask = "memref<1x16x64x64xbf16>"}},
    {"small_causal_128", {.batch = 1024, .heads = 16, .queries = 32, .keys = 64, .dim = 128, .causal = true}},
};

/// Of 8-bit numbers. Self-attention as FLUX.1 has it where nothing else is said.
AttentionShape wide(int64_t dim, const std::function<void(AttentionShape &)> &change = [](AttentionShape &) {}) {
  AttentionShape shape{.heads = 24, .queries = 4608, .keys = 4608, .dim = dim};
  change(shape);
  return shape;
}
const UnitCase kQuantizedCases[] = {
    {"of_64", wide(64)},
    {"of_72", wide(72)},
    {"of_80", wide(80), 180},
    {"of_96", wide(96)},
    {"of_128", wide(128)},
    {"of_160", wide(160)},
    {"of_192", wide(192)},
    {"of_248", wide(248)},
    {"f16", wide(128, [](auto &s) { s.element = "f16"; })},
    {"bits", wide(128, [](auto &s) { s.mask = "memref<1x1x4608x4608xi1>"; })},
    {"causal", wide(128, [](auto &s) { s.causal = true; })},
    {"window", wide(128, [](auto &s) { s.extra = ", window = array<i64: 512, 512>"; })},
};

class HopperAttentionUnit : public testing::TestWithParam<UnitCase> {};
class QuantizedAttentionUnit : public testing::TestWithParam<UnitCase> {};

void compile(const std::string &name, const std::string &text, int spills) {
  std::string whyNot;
  if (!Nvrtc::available(&whyNot))
    GTEST_SKIP() << whyNot;
  CudaBinary binary = Nvrtc::get().compile({name, text, templatesIncludedBy(text), "sm_90a", {"--ptxas-options=-v"}});
  EXPECT_EQ(binary.log.find("warning"), std::string::npos) << binary.log;
  EXPECT_FALSE(binary.serializesProducts()) << binary.log;
  ASSERT_TRUE(binary.reported("bytes spill stores")) << binary.log;
  EXPECT_LE(*binary.reported("bytes spill stores"), spills) << text;
}

} // namespace

TEST_P(HopperAttentionUnit, Compiles) {
  AttentionKernels kernels;
  plan::KernelOp kernel = kernels.parse(GetParam().shape);
  ASSERT_TRUE(acceptsHopperAttention(kernel));
  compile(GetParam().name, emitHopperAttention(kernel)->text, GetParam().spills);
}

TEST_P(QuantizedAttentionUnit, Compiles) {
  AttentionKernels kernels;
  plan::KernelOp kernel = kernels.parseQuantized(GetParam().shape);
  ASSERT_TRUE(acceptsHopperAttention(kernel));
  compile(GetParam().name, emitHopperAttention(kernel)->text, GetParam().spills);
}

TEST(QuantizedOperandUnit, Compiles) {
  AttentionKernels kernels;
  const std::string k = "memref<1x24x4608x128xbf16>", means = "memref<1x24x22x128xf32>", config = "block_keys = 192 : i64, chunk_keys = 210 : i64";
  compile("attention_survey", emitAttentionSurvey(kernels.parse("attention_survey", {k, k, means, means}, 2, config))->text, 0);
  const std::string k8 = "memref<1x24x4608x128xi8>", v8 = "memref<1x24x128x4608xf8E4M3FN>";
  compile("attention_quantize", emitAttentionQuantize(kernels.parse("attention_quantize", {k, k, k, means, means, k8, k8, v8, "memref<1x24x4608xf32>", "memref<1x24x24x4xf32>", "memref<1x24x128xf32>"}, 6, config))->text, 0);
  const std::string q = "memref<1x2x300x248xf16>", tops = "memref<1x2x5x248xf32>", q8 = "memref<1x2x300x248xi8, strided<[153600, 76800, 256, 1]>>";
  compile("attention_quantize_248", emitAttentionQuantize(kernels.parse("attention_quantize", {q, q, q, tops, tops, q8, q8, "memref<1x2x248x384xf8E4M3FN>", "memref<1x2x300xf32>", "memref<1x2x5x4xf32>", "memref<1x2x248xf32>"}, 6, "block_keys = 64 : i64, chunk_keys = 64 : i64"))->text, 0);
}

INSTANTIATE_TEST_SUITE_P(Cases, QuantizedAttentionUnit, testing::ValuesIn(kQuantizedCases), [](const auto &info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Cases, HopperAttentionUnit, testing::ValuesIn(kCases), [](const auto &info) { return info.param.name; });

TEST(HopperMaskPack, Compiles) {
  AttentionKernels kernels;
  plan::KernelOp kernel = kernels.parse("mask_pack", {"memref<2x1x512x200xi1>", "memref<2x1x512x8xi32>", "memref<2x1x3x2xi8>"}, 2,
                                        "keys = 200 : i64, tile_keys = 128 : i64, tile_rows = 192 : i64");
  compile("mask_pack", emitMaskPack(kernel)->text, 0);
  plan::KernelOp judge = kernels.parse("mask_judge", {"memref<2x1x1x300xbf16>", "memref<2x1x1x5xi8>"}, 1, "tile_keys = 64 : i64");
  compile("mask_judge", emitMaskJudge(judge)->text, 0);
}
