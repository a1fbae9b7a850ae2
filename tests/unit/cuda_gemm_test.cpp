// SPDX-License-Identifier: Apache-2.0
//
// gemm_mma.cuh with generated epilogues computes what the reference evaluator does.
#include "codegen/cuda/gemm/MmaGemm.h"
#include "tests/unit/GemmBodies.h"

#include <gtest/gtest.h>

using namespace ditc;
using namespace ditc::test;

namespace {

mlir::FailureOr<CudaUnit> emitChosen(plan::KernelOp kernel, const CudaArch &arch) { return emitMmaGemm(kernel, arch); }

/// A tile whatever the sizes are.
template <int M, int N, int K, int STAGES, int WARPS_M, int WARPS_N>
mlir::FailureOr<CudaUnit> emitTile(plan::KernelOp kernel, const CudaArch &) {
  return emitMmaGemm(kernel, MmaTiles{.m = M, .n = N, .k = K, .stages = STAGES, .warpsM = WARPS_M, .warpsN = WARPS_N, .group = 2});
}

void checkWith(CudaEmitter emitter, const CudaCase &c) { CudaFamilies(emitter).check(c); }
void check(const CudaCase &c) { checkWith(emitChosen, c); }

} // namespace

TEST(CudaGemm, PlainWithTails) {
  check(plainGemm("bf16", 1, 64, 64, 64, false));
  check(plainGemm("bf16", 1, 70, 72, 40, true));
  check(plainGemm("f16", 1, 17, 200, 8, true));
  check(plainGemm("f16", 3, 5, 64, 200, false));
}

TEST(CudaGemm, EveryTile) {
  CudaCase tails = plainGemm("bf16", 1, 141, 264, 104, true); // parts of the last tile in every direction
  checkWith(emitTile<128, 128, 32, 3, 2, 2>, tails);
  checkWith(emitTile<128, 64, 32, 4, 4, 1>, tails);
  checkWith(emitTile<64, 128, 32, 5, 2, 2>, tails);
  checkWith(emitTile<64, 64, 64, 2, 4, 1>, tails);
  checkWith(emitTile<128, 256, 32, 2, 2, 4>, plainGemm("f16", 1, 130, 256, 96, true));
}

TEST(CudaGemm, TilesOfWholeHeads) {
  checkWith(emitTile<128, 128, 32, 3, 4, 1>, qkvHeads("bf16", 35, 1, 128, true, false));
  checkWith(emitTile<64, 128, 32, 3, 4, 1>, qkvHeads("bf16", 35, 1, 128, false, false));
  checkWith(emitTile<128, 96, 32, 3, 4, 1>, qkvHeads("f16", 35, 2, 96, false, true));
  checkWith(emitTile<64, 96, 32, 3, 4, 1>, qkvHeads("f16", 35, 2, 96, true, false));
}

TEST(CudaGemm, BiasAndGelu) {
  check(biasGelu("bf16", 37, 72, 64));
  check(biasGelu("f16", 37, 128, 24));
}

TEST(CudaGemm, GateAndResidual) {
  for (bool perToken : {false, true}) {
    check(gateResidual("bf16", 37, 136, 64, perToken));
    check(gateResidual("f16", 70, 64, 40, perToken));
  }
}

/// Which of two gates a token has, and which results are kept at all: booleans of a row, of a column, and of an element.
TEST(CudaGemm, BooleansChoose) {
  for (const std::vector<int64_t> &shape : {std::vector<int64_t>{37, 1}, {1, 72}, {37, 72}, {1, 1}}) {
    GemmBody body("bf16");
    GemmValue y = body.linear(body.input({37, 40}), 72), which = body.input(shape, {}, "i1");
    body.output(body.map({body.input({37, 72}), which, body.input({1, 72}), body.input({1, 72}), y}, "%g = arith.select %b, %c, %d : f32\n    %u = arith.mulf %g, %e : f32\n    %z = arith.addf %a, %u : f32"));
    check(body.build());
  }
}

TEST(CudaGemm, HeadsWithNormAndRotation) {
  for (bool interleaved : {false, true})
    for (bool oneWeight : {false, true})
      check(qkvHeads("bf16", 19, 2, 64, interleaved, oneWeight));
  check(qkvHeads("f16", 19, 1, 128, true, true));
  check(qkvHeads("f16", 19, 2, 64, false, true, "layer"));
}

/// Heads that are no powers of two, by either spelling and from one weight or three.
TEST(CudaGemm, HeadsOf72) {
  for (bool interleaved : {false, true})
    for (bool oneWeight : {false, true})
      check(qkvHeads("bf16", 19, 2, 72, interleaved, oneWeight));
  check(qkvHeads("f16", 37, 4, 72, false, true, "layer"));
  checkWith(emitTile<128, 144, 32, 3, 4, 1>, qkvHeads("f16", 131, 2, 72, false, false));
  checkWith(emitTile<64, 144, 32, 3, 4, 1>, qkvHeads("f16", 35, 3, 72, true, true)); // half a tile at the end
  checkWith(emitTile<64, 144, 64, 2, 4, 1>, qkvHeads("bf16", 35, 2, 72, false, true));
}

TEST(CudaGemm, HeadsOfEverySize) {
  for (int64_t head = 16; head <= 128; head += 8)
    check(qkvHeads("f16", 19, narrowestTile(head) / head, head, head % 32 == 16, head % 16 == 0));
}

/// What turns with a pair lies in another thread, in either half of a quad.
TEST(CudaGemm, RotationsThatCrossThreads) {
  for (bool halfTables : {false, true})
    for (int sections : {1, 2, 3})
      check(turnedHeads("f16", 21, 2, 72, {.sections = sections, .halfTables = halfTables}));
  check(turnedHeads("f16", 21, 2, 72, {.bias = false, .weight = false}));
  check(turnedHeads("bf16", 21, 2, 72, {.bias = false, .norm = false}));
  check(turnedHeads("f16", 21, 2, 72, {.norm = false}));
  check(turnedHeads("f16", 21, 2, 72, {.normLast = true}));
  check(turnedHeads("f16", 21, 2, 72, {.interleaved = true, .weight = false, .normLast = true}));
  check(turnedHeads("f16", 21, 2, 72, {.interleaved = true, .bias = false, .norm = false}));
  check(turnedHeads("f16", 21, 1, 128, {.sections = 4})); // sections of 32, halves of whole groups
  check(turnedHeads("f16", 21, 4, 40, {.sections = 2, .normLast = true})); // halves of ten columns
}

TEST(CudaGemm, TwoStreamsOfOneLaunch) {
  check(twoStreams("bf16", 70, 13, 128, 40));
  check(twoStreams("f16", 5, 67, 72, 64));
}

TEST(CudaGemm, TwoRangesOfK) {
  check(twoRanges("bf16", 33, 64, 40, 72));
  check(twoRanges("f16", 33, 72, 8, 24));
}

TEST(CudaGemm, GatedMlp) {
  for (GateSpelling spelling : {GateSpelling::GateFirst, GateSpelling::GateLast, GateSpelling::TwoLayers})
    for (bool bias : {false, true})
      check(gatedMlp("bf16", 70, 72, 40, spelling, bias));
  check(gatedMlp("f16", 37, 96, 64, GateSpelling::TwoLayers, true, true));
  check(gatedMlp("f16", 5, 200, 24, GateSpelling::GateLast, false, true));
  check(gatedStreams("bf16", 70, 13, 72, 40));
}

TEST(CudaGemm, GatedMlpInEveryTile) {
  for (GateSpelling spelling : {GateSpelling::GateLast, GateSpelling::TwoLayers}) {
    CudaCase tails = gatedMlp("bf16", 141, 136, 104, spelling, true);
    checkWith(emitTile<128, 128, 32, 3, 2, 2>, tails);
    checkWith(emitTile<128, 128, 32, 3, 4, 1>, tails);
    checkWith(emitTile<128, 64, 32, 4, 4, 1>, tails);
    checkWith(emitTile<64, 64, 64, 2, 4, 1>, tails);
  }
}

/// What is computed of the two factors may read other tensors, and k may come in two ranges.
TEST(CudaGemm, GatedMlpWithOperandsAndRanges) {
  GemmBody body("bf16");
  GemmValue x = body.concat({body.input({33, 40}), body.input({33, 24})}, 1), both = body.linear(x, 144);
  GemmValue gate = body.add(body.slice(both, 1, 0, 72), body.input({1, 72})), up = body.slice(both, 1, 72, 144);
  body.output(body.add(body.times(body.silu(gate), up), body.input({33, 72})), {80, 1});
  check(body.build());
}

/// 32 values of k at a time, tails of them, heads, and tiles with longer steps.
TEST(CudaGemm, Fp8) {
  auto emit = [](plan::KernelOp kernel, const CudaArch &) { return emitMmaGemm(kernel, CudaArch{"sm_89", 89}); };
  checkWith(emit, fp8Gelu("bf16", 35, 72, 80));
  checkWith(emit, fp8Gelu("f16", 17, 200, 16));
  checkWith(emit, fp8Heads("bf16", 19, 2, 64));
  checkWith(emit, fp8Heads("f16", 19, 2, 72));
  for (auto tile : {emitTile<128, 128, 32, 3, 2, 2>, emitTile<128, 64, 32, 4, 4, 1>, emitTile<64, 64, 64, 2, 4, 1>})
    checkWith(tile, fp8Gelu("bf16", 141, 264, 208));
}

/// A left side that is a part of something larger, a weight that is a part of another, and rows in batches.
TEST(CudaGemm, ReadsAndWritesAnyRows) {
  GemmBody body("bf16");
  GemmValue x = body.input({3, 20, 48}, {4096, 64, 1});
  body.output(body.linear(x, 64), {2400, 80, 1});
  CudaCase c = body.build();
  c.args[1].strides = {72, 1};
  check(c);
}

/// All tokens in one dimension, but heads for each batch.
TEST(CudaGemm, FlatRowsComeApartIntoBatches) {
  GemmBody body("bf16");
  GemmValue y = body.view(body.linear(body.input({46, 40}), 128), {2, 23, 2, 64});
  body.output(body.permute(body.norm(y, "rms", true), {0, 2, 1, 3}));
  check(body.build());
}

/// What is read of rows may lie in runs that are no batches: then the row is divided by their lengths.
TEST(CudaGemm, OperandsOfSomeRowDimensions) {
  GemmBody body("bf16");
  GemmValue y = body.linear(body.input({5, 4, 3, 40}), 72);
  body.output(body.add(body.times(body.add(y, body.input({1, 4, 1, 72})), body.input({1, 1, 3, 72})), body.input({5, 1, 3, 72})));
  check(body.build());
}

TEST(CudaGemm, RefusesRowsThatDoNotStartOnSixteenBytes) {
  CudaCase c = plainGemm("bf16", 1, 16, 64, 64, false);
  c.args[0].strides = {16 * 68, 68, 1};
  CudaFamilies families(emitChosen);
  EXPECT_FALSE(families.emit(c));
  EXPECT_NE(families.messages.find("do not start on 16 bytes"), std::string::npos) << families.messages;
}
