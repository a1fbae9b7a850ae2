// SPDX-License-Identifier: Apache-2.0
//
// Attention on Hopper: what the templates can read, the tiles of shapes that were measured, what the launch needs beside
// its tensors, and the bytes of the parameters.
#include "tests/unit/AttentionKernels.h"

#include "codegen/cuda/families/Families.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace mlir;
using namespace ditc;
using namespace ditc::test;

namespace {

const AttentionShape kFlux{.heads = 24, .queries = 4608, .keys = 4608, .dim = 128};
const AttentionShape kPixArt{.batch = 2, .heads = 16, .queries = 4096, .keys = 4096, .dim = 72};
const AttentionShape kPixArtCross{
    .batch = 2, .heads = 16, .queries = 4096, .keys = 300, .dim = 72, .mask = "memref<2x16x1x300xbf16, strided<[300, 0, 300, 1]>>"};

class HopperAttention : public testing::Test {
protected:
  AttentionKernels kernels;
  AttentionProblem problem(const AttentionShape &shape) { return AttentionProblem(kernels.parse(shape)); }
  AttentionProblem quantizedProblem(AttentionShape shape) {
    shape.extra = "";
    return AttentionProblem(kernels.parseQuantized(shape));
  }
  CudaUnit emit(const AttentionShape &shape) { return *emitHopperAttention(kernels.parse(shape)); }
};

AttentionShape with(AttentionShape shape, const std::function<void(AttentionShape &)> &change) {
  change(shape);
  return shape;
}

template <typename T> T at(const CudaUnit &unit, size_t offset) {
  T value;
  std::memcpy(&value, unit.parameters[0].bytes.data() + offset, sizeof value);
  return value;
}

std::map<uint32_t, cuda::ParameterPatch> patchesOf(const CudaUnit &unit) {
  std::map<uint32_t, cuda::ParameterPatch> patches;
  for (const cuda::ParameterPatch &patch : unit.parameters[0].patches)
    patches[patch.offset] = patch;
  return patches;
}

} // namespace

TEST_F(HopperAttention, FewBlocksOfKeysHaveABufferEach) {
  auto stages = [&](int64_t keys, int64_t dim) { return attentionTilesFor(problem({.batch = 2, .heads = 16, .queries = 256, .keys = keys, .dim = dim})).stages; };
  EXPECT_EQ(stages(256, 72), 4);
  EXPECT_EQ(stages(192, 72), 3);
  EXPECT_EQ(stages(64, 72), 2);
  EXPECT_EQ(stages(1024, 72), 2);
  EXPECT_EQ(stages(256, 256), 3); // what fits
}

TEST_F(HopperAttention, TilesOfMeasuredShapes) {
  struct Case {
    AttentionShape shape;
    int consumers, blockN, shared;
  };
  const Case cases[] = {
      {kFlux, 3, 80, 48},
      {kPixArt, 4, 64, 0},
      {kPixArtCross, 4, 48, 0},
      {{.batch = 2, .heads = 38, .queries = 4429, .keys = 4429, .dim = 64}, 3, 128, 0},
      {{.batch = 2, .heads = 16, .queries = 256, .keys = 256, .dim = 72}, 1, 64, 0},
      {{.heads = 40, .queries = 32760, .keys = 32760, .dim = 128}, 3, 80, 108},
      {{.heads = 40, .queries = 32760, .keys = 512, .dim = 128}, 3, 64, 0},
      {{.batch = 2, .heads = 12, .queries = 4360, .keys = 4360, .dim = 256}, 2, 80, 48},
      {{.batch = 2, .heads = 16, .queries = 1024, .keys = 1024, .dim = 72}, 4, 64, 0},
      {{.batch = 2, .heads = 8, .queries = 1024, .keys = 1024, .dim = 80}, 2, 128, 0},
      {{.batch = 2, .heads = 8, .queries = 4096, .keys = 4096, .dim = 40}, 3, 128, 88},
      {with(kPixArtCross, [](auto &s) { s.mask = "memref<2x1x1x300xf32>"; }), 3, 80, 0},
      {with(kPixArtCross, [](auto &s) { s.mask = "memref<2x1x1x300xi1>"; }), 4, 64, 0},
      {with(kPixArt, [](auto &s) { s.causal = true; }), 4, 64, 0},
  };
  for (const Case &c : cases) {
    AttentionProblem p = problem(c.shape);
    AttentionTiles tiles = attentionTilesFor(p);
    SCOPED_TRACE(fmt::format("{}x{}x{}x{}, {} keys", p.batch, p.heads, p.queries, p.headDim, p.keys));
    EXPECT_TRUE(p.fits());
    EXPECT_EQ(tiles.consumers, c.consumers);
    EXPECT_EQ(tiles.blockN, c.blockN);
    EXPECT_EQ(attentionSharedTiles(p, tiles), c.shared);
    EXPECT_LE(tiles.sharedBytes(p), 232448u);
  }
}

TEST_F(HopperAttention, EverySizeFitsSharedMemory) {
  for (int64_t dim = 8; dim <= 256; dim += 8)
    for (int64_t valueDim : {dim, int64_t(8), int64_t(256)})
      for (int64_t keys : {1, 33, 77, 300, 5000}) {
        AttentionProblem p = problem({.heads = 40, .queries = 4096, .keys = keys, .dim = dim, .valueDim = valueDim});
        AttentionTiles tiles = attentionTilesFor(p);
        EXPECT_LE(tiles.sharedBytes(p), 232448u) << dim << " " << valueDim;
        EXPECT_TRUE(tiles.blockN % 16 == 0 && tiles.blockN >= 32) << tiles.blockN;
      }
}

TEST_F(HopperAttention, PackedMasksComeInWholeWords) {
  for (int64_t dim = 8; dim <= 256; dim += 8)
    for (int64_t keys : {33, 300, 5000})
      for (std::string extra : {"", ", soft_cap = 20.0 : f64"}) {
        AttentionTiles tiles = attentionTilesFor(problem({.heads = 40, .queries = 4096, .keys = keys, .dim = dim, .mask = fmt::format("memref<1x1x1x{}xi1>", keys), .extra = extra}));
        EXPECT_TRUE(tiles.blockN % 32 == 0 && tiles.blockN > 0) << dim << " " << keys << extra << ": " << tiles.blockN;
      }
}

TEST_F(HopperAttention, WhatItCannotRead) {
  EXPECT_TRUE(acceptsHopperAttention(kernels.parse(kFlux)));
  EXPECT_TRUE(acceptsHopperAttention(kernels.parse({.heads = 6, .dim = 64, .keyHeads = 2, .valueDim = 128})));
  const AttentionShape refused[] = {
      {.dim = 20}, {.dim = 264}, {.element = "f32"}, {.scale = -0.125}, {.scale = 0}, {.keys = 0}, {.alignment = 8},
      {.key = "memref<1x2x256x64xbf16, strided<[16384, 0, 64, 1]>>"},      // heads repeat
      {.key = "memref<1x2x256x64xbf16, strided<[32768, 1, 128, 2]>>"},     // columns apart
      {.key = "memref<1x2x256x64xbf16, strided<[35000, 68, 136, 1]>>"},    // rows off 16 bytes
      {.mask = "memref<1x1x256x1xbf16>"},                                  // no keys
      {.mask = "memref<1x1x256x256xf64>"},
      {.mask = "memref<1x1x256x256xi1>"},                                  // not packed
      {.heads = 300, .mask = "memref<300x300x1x256xi1>"},
  };
  for (const AttentionShape &shape : refused)
    EXPECT_FALSE(acceptsHopperAttention(kernels.parse(shape))) << shape.key << shape.mask << shape.dim;
}

TEST_F(HopperAttention, SaysWhyItCannot) {
  auto reason = [&](const AttentionShape &shape) { return std::string(nameOf(hopperAttentionVerdict(kernels.parse(shape)).reason)); };
  EXPECT_EQ(reason(kFlux), "accepted");
  EXPECT_EQ(reason({.dim = 68}), "head_splits_tile");
  EXPECT_EQ(reason({.dim = 264}), "head_splits_tile");
  EXPECT_EQ(reason({.dim = 68, .element = "f32"}), "type_unsupported");
  EXPECT_EQ(reason({.alignment = 8}), "layout_unsupported");
  EXPECT_EQ(reason({.mask = "memref<1x1x256x256xi1>"}), "accepted"); // is packed before
  auto onTensorCores = [&](const AttentionShape &shape) { return std::string(nameOf(mmaAttentionVerdict(kernels.parse(shape)).reason)); };
  EXPECT_EQ(onTensorCores({.dim = 68}), "accepted");
  EXPECT_EQ(onTensorCores({.dim = 264}), "head_splits_tile");
  EXPECT_EQ(onTensorCores({.element = "f32"}), "type_unsupported");
}

TEST_F(HopperAttention, Needs) {
  auto needs = [&](const AttentionShape &shape) { return hopperAttentionNeeds(kernels.parse(shape)); };
  AttentionNeeds flux = needs(kFlux);
  EXPECT_EQ(flux.maskRows, 0);
  EXPECT_EQ(flux.parts, 2 * 132 * 3 * 128 * (64 + 4));
  EXPECT_EQ(flux.counters, 48 * 3);
  AttentionNeeds video = needs({.heads = 24, .queries = 119056, .keys = 119056, .dim = 128}); // HunyuanVideo, 720p
  EXPECT_LE(4 * (video.parts + video.counters), 64 << 20);
  EXPECT_GT(video.parts, 0);
  AttentionNeeds boolean = needs(with(kFlux, [](auto &s) { s.mask = "memref<1x1x4608x4608xi1>"; }));
  EXPECT_EQ(boolean.maskRows, 128);
  EXPECT_EQ(boolean.maskKeys, 128);
  EXPECT_EQ(boolean.parts, 0); // blocks may be skipped, so tiles are uneven
  EXPECT_EQ(needs(kPixArtCross).biasKeys, 48);
  EXPECT_EQ(needs(with(kPixArtCross, [](auto &s) { s.keys = 48, s.mask = "memref<2x1x1x48xbf16>"; })).biasKeys, 0); // one block
  EXPECT_GT(needs(with(kFlux, [](auto &s) { s.mask = "memref<1x1x4608x4608xbf16>"; })).parts, 0);
  for (const AttentionShape &shape : {with(kFlux, [](auto &s) { s.element = "f32"; }), with(kFlux, [](auto &s) { s.causal = true; }),
                                      AttentionShape{.queries = 64, .keys = 64}, AttentionShape{.mask = "memref<1x1x1x256xi1>", .scale = -1}})
    EXPECT_TRUE(needs(shape).parts == 0 && needs(shape).maskRows == 0);
}

/// The layout that tests/gpu/ditc_gpu/attention_device.py fills by hand, and that was measured.
TEST_F(HopperAttention, Parameters) {
  CudaUnit unit = emit(with(kFlux, [](auto &s) { s.scratch = {"memref<6893568xf32>", "memref<144xi32>"}, s.extra = ", shared_tiles = true"; }));
  ASSERT_EQ(unit.parameters.size(), 1u);
  EXPECT_EQ(unit.parameters[0].bytes.size(), 512u);
  EXPECT_EQ(at<int64_t>(unit, 392), 4608 * 3072); // the output's batch, head and row
  EXPECT_EQ(at<int64_t>(unit, 400), 128);
  EXPECT_EQ(at<int64_t>(unit, 408), 3072);
  const int32_t sizes[] = {1, 24, 1, 4608, 4608};
  for (size_t i = 0; i < 5; ++i)
    EXPECT_EQ(at<int32_t>(unit, 416 + 4 * i), sizes[i]);
  EXPECT_FLOAT_EQ(at<float>(unit, 436), 0.125f * 1.44269504f);
  EXPECT_EQ(at<int32_t>(unit, 456), 48);
  EXPECT_EQ(at<int64_t>(unit, 464), 0); // no log-sum-exp
  std::map<uint32_t, cuda::ParameterPatch> patches = patchesOf(unit);
  for (auto [offset, arg] : {std::pair{384u, 5u}, {440u, 3u}, {448u, 4u}})
    EXPECT_EQ(std::get<cuda::PointerPatch>(patches.at(offset).value).arg, arg);
  const auto &k = std::get<cuda::TensorMapPatch>(patches.at(128).value);
  EXPECT_EQ(k.sizes, (std::vector<uint64_t>{128, 4608, 24, 1}));
  EXPECT_EQ(k.strides[0], 6144u);
  EXPECT_EQ(k.strides[1], 256u);
  EXPECT_EQ(k.box, (std::vector<uint32_t>{64, 80, 1, 1}));
  EXPECT_EQ(std::get<cuda::TensorMapPatch>(patches.at(0).value).box, (std::vector<uint32_t>{64, 64, 1, 1}));
  EXPECT_EQ(unit.launch.grid[0], 132u);
  EXPECT_EQ(unit.launch.threads, 512u);
}

TEST_F(HopperAttention, MasksAsText) {
  EXPECT_NE(emit(kPixArtCross).text.find("ColumnBias<ditc::BF16, true>{{}, bias, 300, 0, 300, 8.0"), std::string::npos) << emit(kPixArtCross).text;
  CudaUnit judged = emit(with(kPixArtCross, [](auto &s) { s.scratch = {"memref<2x1x1x5xi8>"}, s.extra = ", judged_mask = true"; }));
  EXPECT_NE(judged.text.find("JudgedBias<ditc::BF16, true>{ColumnBias<ditc::BF16, true>{{}, bias, 300, 0, 300, 8.0"), std::string::npos) << judged.text;
  EXPECT_NE(judged.text.find("}, verdicts, 5, 0}"), std::string::npos) << judged.text;
  CudaUnit odd = emit(with(kPixArtCross, [](auto &s) { s.keys = 299, s.mask = "memref<2x1x1x299xf16>"; }));
  EXPECT_NE(odd.text.find("ColumnBias<ditc::F16, false>{{}, bias, 299, 0, 299"), std::string::npos) << odd.text;
  CudaUnit rows = emit({.mask = "memref<1x2x256x256xf32>"});
  EXPECT_NE(rows.text.find("AdditiveMask<float>{{}, bias, 0, 65536, 256, 256, 256"), std::string::npos) << rows.text;

  CudaUnit bits = emit({.batch = 2, .heads = 40, .queries = 512, .keys = 200, .mask = "memref<2x1x512x8xi32>", .causal = true, .extra = ", packed_mask = true", .scratch = {"memref<2x1x3x2xi8>"}});
  EXPECT_NE(bits.text.find("Both<BitMask, Causal>{BitMask{{}, words, verdicts, 4096, 0, 8, 6, 0, 2, 512}, Causal{{}, 0}}"), std::string::npos) << bits.text;
  ASSERT_EQ(bits.parameters.size(), 3u);
  EXPECT_EQ(std::get<cuda::PointerPatch>(bits.parameters[1].patches[0].value).arg, 3u);
  EXPECT_EQ(std::get<cuda::PointerPatch>(bits.parameters[2].patches[0].value).arg, 4u);
  CudaUnit keys = emit({.batch = 2, .keys = 200, .mask = "memref<2x1x1x8xi32>", .extra = ", packed_mask = true", .scratch = {"memref<2x1x1x4xi8>"}});
  EXPECT_NE(keys.text.find("BitMask{{}, words, verdicts, 8, 0, 0, 4, 0, 0, 1}"), std::string::npos) << keys.text;
}

TEST_F(HopperAttention, PlacesAndSoftCaps) {
  CudaUnit window = emit({.extra = ", window = array<i64: 100, 33>"});
  EXPECT_NE(window.text.find("run<Config>(p, Window{{}, 100, 33}, StorePlain{})"), std::string::npos) << window.text;
  CudaUnit both = emit({.causal = true, .extra = ", window = array<i64: 100, 33>"});
  EXPECT_NE(both.text.find("Window{{}, 100, 0}"), std::string::npos) << both.text;
  CudaUnit cap = emit({.mask = "memref<1x1x1x256xbf16>", .causal = true, .extra = ", soft_cap = 20.0 : f64"});
  EXPECT_NE(cap.text.find("Both<Both<SoftCap, ColumnBias<ditc::BF16, true>>, Causal>{Both<SoftCap, ColumnBias<ditc::BF16, true>>{SoftCap{{}, 0.018033"), std::string::npos) << cap.text;
  EXPECT_EQ(attentionSharedTiles(problem(with(kFlux, [](auto &s) { s.extra = ", window = array<i64: 64, 64>"; })), {2, 128, 64, 64, 2}), 0);
}

TEST_F(HopperAttention, LogSumExp) {
  AttentionShape shape = with(kFlux, [](auto &s) { s.extra = ", log_sum_exp = true", s.scratch = {"memref<1x24x4608xf32>"}; });
  CudaUnit unit = emit(shape);
  auto sumsOf = [](const CudaUnit &unit) {
    for (const cuda::ParameterPatch &patch : unit.parameters[0].patches)
      if (const auto *pointer = std::get_if<cuda::PointerPatch>(&patch.value); pointer && pointer->arg == 3)
        return patch.offset;
    return 0u;
  };
  EXPECT_EQ(sumsOf(unit), 464u);
  CudaUnit shared = emit(with(shape, [](auto &s) { s.scratch = {"memref<1x24x4608xf32>", "memref<6893568xf32>", "memref<144xi32>"}, s.extra += ", shared_tiles = true"; }));
  EXPECT_EQ(sumsOf(shared), 464u);
  EXPECT_EQ(sumsOf(emit({.queries = 64, .keys = 64, .extra = ", log_sum_exp = true", .scratch = {"memref<1x2x64xf32>"}})), 440u);
}

TEST_F(HopperAttention, SmallProblems) {
  struct Case {
    AttentionShape shape;
    int segment, packHeads, blockN, blocks;
    uint32_t grid;
  };
  const Case cases[] = {
      {{.batch = 3840, .heads = 16, .queries = 16, .keys = 16, .dim = 72}, 16, 4, 64, 4, 3840 * 4}, // Latte's frames
      {{.batch = 1024, .heads = 16, .queries = 64, .keys = 64, .dim = 64}, 64, 1, 64, 4, 1024 * 16},
      {{.batch = 33, .heads = 5, .queries = 16, .keys = 16, .dim = 72}, 16, 1, 64, 4, 9 * 5},
      {{.batch = 50, .heads = 6, .queries = 27, .keys = 31, .dim = 64}, 32, 2, 64, 4, 50 * 3},
      {{.batch = 8, .heads = 6, .queries = 10, .keys = 64, .dim = 64}, 32, 2, 128, 3, 8 * 3},
      {{.batch = 8, .heads = 6, .queries = 10, .keys = 10, .dim = 64, .keyHeads = 2}, 16, 1, 48, 4, 2 * 6},
      {{.batch = 8, .heads = 6, .queries = 10, .keys = 20, .dim = 64, .mask = "memref<1x6x10x20xbf16>"}, 64, 1, 32, 4, 8 * 6},
      {{.heads = 1, .queries = 10, .keys = 10, .dim = 256}, 64, 1, 16, 2, 1},
  };
  for (const Case &c : cases) {
    AttentionProblem p = problem(c.shape);
    std::optional<SmallAttentionTiles> tiles = smallAttentionTilesFor(p);
    ASSERT_TRUE(tiles);
    SCOPED_TRACE(fmt::format("{}x{}x{}x{}, {} keys", p.batch, p.heads, p.queries, p.headDim, p.keys));
    EXPECT_EQ(tiles->segment, c.segment);
    EXPECT_EQ(tiles->packHeads, c.packHeads);
    EXPECT_EQ(tiles->blockN, c.blockN);
    EXPECT_EQ(tiles->blocks, c.blocks);
    CudaUnit unit = emit(c.shape);
    EXPECT_EQ(unit.launch.grid[0], c.grid);
    EXPECT_EQ(unit.parameters[0].bytes.size(), 448u);
    auto k = std::get<cuda::TensorMapPatch>(unit.parameters[0].patches[1].value);
    EXPECT_EQ(k.box[1] * k.box[2] * k.box[3], static_cast<uint32_t>(c.blockN));
    auto q = std::get<cuda::TensorMapPatch>(unit.parameters[0].patches[0].value);
    EXPECT_EQ(q.box[1] * q.box[2] * q.box[3], 64u);
  }
  EXPECT_FALSE(smallAttentionTilesFor(problem({.queries = 64, .keys = 65})));
  EXPECT_FALSE(smallAttentionTilesFor(problem({.queries = 64, .keys = 64, .mask = "memref<1x1x1x64xi1>"})));
}

TEST_F(HopperAttention, MaskPack) {
  plan::KernelOp kernel = kernels.parse("mask_pack", {"memref<2x1x512x200xi1, strided<[102400, 0, 200, 1]>>", "memref<2x1x512x8xi32>", "memref<2x1x3x2xi8>"}, 2,
                                        "keys = 200 : i64, tile_keys = 128 : i64, tile_rows = 192 : i64");
  CudaUnit unit = *emitMaskPack(kernel);
  EXPECT_EQ(unit.launch.grid, (std::array<uint32_t, 3>{2, 3, 2}));
  const int64_t strides[] = {102400, 0, 200, 1};
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(at<int64_t>(unit, 24 + 8 * i), strides[i]);
  const int32_t sizes[] = {1, 512, 200, 192, 128};
  for (size_t i = 0; i < 5; ++i)
    EXPECT_EQ(at<int32_t>(unit, 56 + 4 * i), sizes[i]);
}

//===-- 8-bit numbers ---------------------------------------------------------------------------===//

TEST_F(HopperAttention, TilesOfQuantisedOperands) {
  struct Case {
    int64_t dim, valueDim;
    int consumers, blockN, qkPanel, vPanel;
  };
  const Case cases[] = {{32, 32, 3, 128, 16, 64},  {40, 40, 3, 128, 32, 64},   {64, 64, 3, 128, 32, 64},  {72, 72, 3, 128, 64, 64},   {80, 80, 3, 128, 64, 64},
                        {88, 88, 2, 192, 64, 32},  {128, 128, 2, 192, 64, 32}, {64, 128, 2, 192, 32, 32}, {136, 136, 2, 128, 64, 64}, {160, 160, 2, 128, 64, 64},
                        {192, 192, 2, 96, 64, 16}, {200, 200, 2, 64, 64, 32},  {256, 8, 2, 64, 64, 32}};
  for (const Case &c : cases) {
    SCOPED_TRACE(fmt::format("{} {}", c.dim, c.valueDim));
    AttentionShape shape{.heads = 24, .queries = 4608, .keys = 4608, .dim = c.dim, .valueDim = c.valueDim, .extra = ", quantized = true"};
    // What the pass asks for, and what the emitter makes of it.
    for (const AttentionTiles &tiles : {attentionTilesFor(problem(shape)), attentionTilesFor(quantizedProblem(shape))}) {
      EXPECT_TRUE(tiles.quantized);
      EXPECT_EQ(tiles.consumers, c.consumers);
      EXPECT_EQ(tiles.blockN, c.blockN);
      EXPECT_EQ(tiles.qkPanel, c.qkPanel);
      EXPECT_EQ(tiles.vPanel, c.vPanel);
      EXPECT_EQ(tiles.stages, 2);
    }
  }
}

TEST_F(HopperAttention, EverySizeOfQuantisedOperandsFitsSharedMemory) {
  for (int64_t dim = 8; dim <= 248; dim += 8)
    for (int64_t valueDim : {dim, int64_t(8), int64_t(248)})
      for (int64_t keys : {1, 300, 5000}) {
        AttentionProblem p = problem({.heads = 40, .queries = 4096, .keys = keys, .dim = dim, .valueDim = valueDim, .extra = ", quantized = true"});
        ASSERT_TRUE(p.quantizes());
        AttentionTiles tiles = attentionTilesFor(p);
        EXPECT_LE(tiles.sharedBytes(p), uint32_t(kHopperSharedBytes)) << dim << " " << valueDim;
        EXPECT_TRUE(tiles.blockN % 32 == 0 && 1024 / tiles.blockN > 0) << tiles.blockN; // words of a mask, and steps of e4m3 products
      }
}

TEST_F(HopperAttention, NeedsOfQuantisedOperands) {
  auto needs = [&](const AttentionShape &shape) { return hopperAttentionNeeds(kernels.parse(shape)); };
  AttentionShape quantized = with(kFlux, [](auto &s) { s.extra = ", quantized = true"; });
  AttentionNeeds flux = needs(quantized);
  EXPECT_EQ(flux.quantizedKeys, 192);
  EXPECT_EQ(flux.parts, 2 * 132 * 2 * 128 * (64 + 8));
  EXPECT_EQ(flux.counters, 72 * 2);
  AttentionNeeds boolean = needs(with(quantized, [](auto &s) { s.mask = "memref<1x1x4608x4608xi1>"; }));
  EXPECT_TRUE(boolean.quantizedKeys == 128 && boolean.maskRows == 128 && boolean.maskKeys == 128 && boolean.parts == 0);
  AttentionNeeds added = needs(with(quantized, [](auto &s) { s.mask = "memref<1x1x1x4608xbf16>"; })); // computes with scores
  EXPECT_TRUE(added.quantizedKeys == 0 && added.biasKeys > 0);
  EXPECT_EQ(needs(with(quantized, [](auto &s) { s.extra += ", soft_cap = 50.0 : f64"; })).quantizedKeys, 0);
  EXPECT_EQ(needs(kFlux).quantizedKeys, 0);
  AttentionNeeds once = hopperAttentionNeeds(kernels.parseQuantized(kFlux)); // nothing more when it has them
  EXPECT_TRUE(once.quantizedKeys == 0 && once.parts == 0);

  // It waits for its numbers, as it does for a packed mask.
  EXPECT_FALSE(acceptsHopperAttention(kernels.parse(quantized)));
  EXPECT_TRUE(acceptsHopperAttention(kernels.parseQuantized(kFlux)));
}

TEST_F(HopperAttention, SixteenBitsWhereNumbersDoNotServe) {
  const AttentionShape cases[] = {
      with(kFlux, [](auto &s) { s.extra = ", log_sum_exp = true", s.scratch = {"memref<1x24x4608xf32>"}; }),
      {.queries = 64, .keys = 64},
      {.queries = 64, .keys = 64, .mask = "memref<1x1x1x64xbf16>"},
      {.queries = 4096, .keys = 4096, .valueDim = 256},
  };
  for (AttentionShape shape : cases) {
    shape.extra += ", quantized = true";
    SCOPED_TRACE(shape.extra + shape.mask);
    plan::KernelOp kernel = kernels.parse(shape);
    EXPECT_EQ(hopperAttentionNeeds(kernel).quantizedKeys, 0);
    ASSERT_TRUE(acceptsHopperAttention(kernel));
    CudaUnit unit = *emitHopperAttention(kernel);
    EXPECT_EQ(unit.text.find("QUANTIZED"), std::string::npos);
    EXPECT_EQ(std::get<cuda::TensorMapPatch>(unit.parameters[0].patches[0].value).dtype, DType::bf16);
  }
}

TEST_F(HopperAttention, ParametersOfQuantisedOperands) {
  CudaUnit unit = *emitHopperAttention(kernels.parseQuantized(kFlux));
  EXPECT_NE(unit.text.find("QUANTIZED = true"), std::string::npos) << unit.text;
  EXPECT_NE(unit.text.find("using Element = BF16"), std::string::npos) << unit.text;
  EXPECT_EQ(at<int32_t>(unit, 456), 72);
  std::map<uint32_t, cuda::ParameterPatch> patches = patchesOf(unit);
  for (auto [offset, arg] : {std::pair{472u, 3u}, {480u, 4u}, {488u, 5u}, {440u, 6u}, {448u, 7u}, {384u, 8u}}) // scales, parts, counters, result
    EXPECT_EQ(std::get<cuda::PointerPatch>(patches.at(offset).value).arg, arg) << offset;
  auto map = [&](uint32_t offset) { return std::get<cuda::TensorMapPatch>(patches.at(offset).value); };
  EXPECT_EQ(map(0).box, (std::vector<uint32_t>{128, 64, 1, 1}));
  EXPECT_EQ(map(128).box, (std::vector<uint32_t>{128, 192, 1, 1}));
  EXPECT_EQ(map(256).box, (std::vector<uint32_t>{64, 128, 1, 1})); // 192 keys are three such panels
  EXPECT_EQ(map(256).sizes, (std::vector<uint64_t>{4608, 128, 24, 1}));

  CudaUnit bits = *emitHopperAttention(kernels.parseQuantized(with(kFlux, [](auto &s) { s.mask = "memref<1x1x4608x4608xi1>"; })));
  std::map<uint32_t, cuda::ParameterPatch> masked = patchesOf(bits);
  for (auto [offset, arg] : {std::pair{472u, 5u}, {480u, 6u}, {488u, 7u}, {384u, 8u}})
    EXPECT_EQ(std::get<cuda::PointerPatch>(masked.at(offset).value).arg, arg) << offset;
  EXPECT_EQ(masked.count(440) + masked.count(448), 0u);
  EXPECT_EQ(std::get<cuda::PointerPatch>(bits.parameters[1].patches[0].value).arg, 3u);
  EXPECT_EQ(std::get<cuda::PointerPatch>(bits.parameters[2].patches[0].value).arg, 4u);
}

/// What cuTensorMapEncodeTiled takes: bytes, strides of 16, and boxes as wide as their swizzle.
TEST_F(HopperAttention, MapsOfQuantisedOperands) {
  for (int64_t dim = 8; dim <= 248; dim += 8) {
    CudaUnit unit = *emitHopperAttention(kernels.parseQuantized({.batch = 2, .heads = 6, .queries = 200, .keys = 300, .dim = dim, .keyHeads = 2}));
    std::map<uint32_t, cuda::ParameterPatch> patches = patchesOf(unit);
    for (uint32_t offset : {0u, 128u, 256u}) {
      auto map = std::get<cuda::TensorMapPatch>(patches.at(offset).value);
      SCOPED_TRACE(fmt::format("{} of {}", offset / 128, dim));
      EXPECT_EQ(map.dtype, DType::u8);
      for (uint64_t stride : map.strides)
        EXPECT_EQ(stride % 16, 0u);
      EXPECT_TRUE(map.box[1] <= 256);
      EXPECT_EQ(map.box[0], map.swizzle == cuda::TensorMapSwizzle::Bytes128 ? 128u : map.swizzle == cuda::TensorMapSwizzle::Bytes64 ? 64u : 32u);
    }
    auto k = std::get<cuda::TensorMapPatch>(patches.at(128).value);
    EXPECT_EQ(k.sizes, (std::vector<uint64_t>{uint64_t(dim), 300, 2, 2}));
    EXPECT_EQ(k.strides[0], llvm::alignTo(uint64_t(dim), 16)); // what is behind a row's end is filled with zeros
  }
}
