// SPDX-License-Identifier: Apache-2.0
//
// Units of attention on Hopper through NVRTC: they compile without warnings and do not spill more than the few bytes that
// were there when they were measured. Skipped where NVRTC is absent.
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

class HopperAttentionUnit : public testing::TestWithParam<UnitCase> {};

void compile(const std::string &name, const std::string &text, int spills) {
  std::string whyNot;
  if (!Nvrtc::available(&whyNot))
    GTEST_SKIP() << whyNot;
  CudaBinary binary = Nvrtc::get().compile({name, text, templatesIncludedBy(text), "sm_90a", {"--ptxas-options=-v"}});
  EXPECT_EQ(binary.log.find("warning"), std::string::npos) << binary.log;
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

INSTANTIATE_TEST_SUITE_P(Cases, HopperAttentionUnit, testing::ValuesIn(kCases), [](const auto &info) { return info.param.name; });

TEST(HopperMaskPack, Compiles) {
  AttentionKernels kernels;
  plan::KernelOp kernel = kernels.parse("mask_pack", {"memref<2x1x512x200xi1>", "memref<2x1x512x8xi32>", "memref<2x1x3x2xi8>"}, 2,
                                        "keys = 200 : i64, tile_keys = 128 : i64, tile_rows = 192 : i64");
  compile("mask_pack", emitMaskPack(kernel)->text, 0);
  plan::KernelOp judge = kernels.parse("mask_judge", {"memref<2x1x1x300xbf16>", "memref<2x1x1x5xi8>"}, 1, "tile_keys = 64 : i64");
  compile("mask_judge", emitMaskJudge(judge)->text, 0);
}
