// SPDX-License-Identifier: Apache-2.0
//
// Units over gemm_mma.cuh through NVRTC for GPUs of several generations: they compile without warnings, fit the shared
// memory of the GPU, and do not spill. Skipped where NVRTC is absent.
#include "codegen/cuda/CudaTarget.h"
#include "codegen/cuda/Nvrtc.h"
#include "codegen/cuda/Templates.h"
#include "codegen/cuda/families/FamilyUnit.h"
#include "codegen/cuda/gemm/MmaGemm.h"
#include "codegen/cuda/sm90/GemmTiles.h"
#include "tests/unit/GemmBodies.h"

#include <gtest/gtest.h>

using namespace ditc;
using namespace ditc::test;

namespace {

mlir::FailureOr<CudaUnit> emitChosen(plan::KernelOp kernel, const CudaArch &arch) { return emitMmaGemm(kernel, arch); }

struct Unit {
  std::string name;
  CudaCase kernel;
};

std::vector<Unit> units() {
  return {
      {"plain", plainGemm("bf16", 1, 4096, 3072, 3072, true)},
      {"narrow", plainGemm("f16", 1, 300, 64, 4096, false)},
      {"gelu", biasGelu("bf16", 4096, 12288, 3072)},
      {"gate", gateResidual("bf16", 4096, 3072, 12288, false)},
      {"gate_token", gateResidual("f16", 4096, 3072, 12288, true)},
      {"heads_128", qkvHeads("bf16", 4096, 24, 128, true, false)},
      {"heads_128_halves", qkvHeads("bf16", 4096, 24, 128, false, true)},
      {"heads_96", qkvHeads("bf16", 4096, 24, 96, false, true)},
      {"heads_72", qkvHeads("bf16", 8192, 16, 72, true, true)},
      {"heads_72_halves", qkvHeads("bf16", 8192, 16, 72, false, false)},
      {"heads_120", qkvHeads("bf16", 4096, 24, 120, false, true)},
      {"heads_64", qkvHeads("bf16", 4096, 38, 64, true, true)},
      {"heads_64_short", qkvHeads("bf16", 100, 2, 64, false, false)},
      {"streams", twoStreams("bf16", 4096, 512, 3072, 12288)},
      {"swiglu", gatedMlp("bf16", 4608, 9216, 3072, GateSpelling::TwoLayers, true)},
      {"geglu", gatedMlp("f16", 4096, 6912, 2560, GateSpelling::GateLast, true, true)},
      {"ranges", twoRanges("bf16", 4608, 3072, 3072, 12288)},
  };
}

/// For GPUs that multiply such numbers by mma.sync.
std::vector<Unit> fp8Units() {
  return {{"fp8_gelu", fp8Gelu("bf16", 2048, 12288, 3072)}, {"fp8_gelu_short", fp8Gelu("f16", 77, 640, 2064)}, {"fp8_heads_128", fp8Heads("bf16", 4096, 24, 128)}, {"fp8_heads_72", fp8Heads("bf16", 512, 16, 72)}};
}

class CudaGemmUnit : public testing::TestWithParam<std::string> {};

} // namespace

TEST_P(CudaGemmUnit, CompilesWithoutSpills) {
  std::string whyNot, arch = GetParam();
  if (!Nvrtc::available(&whyNot))
    GTEST_SKIP() << whyNot;
  std::vector<Unit> all = units();
  if (CudaArch target = *parseCudaArch(arch); target.multipliesFp8() && !target.hasWgmma())
    std::ranges::copy(fp8Units(), std::back_inserter(all));
  for (const Unit &u : all) {
    CudaFamilies families(emitChosen, arch);
    ASSERT_TRUE(families.emit(u.kernel)) << families.messages;
    const CudaUnit &unit = families.unit;
    CudaBinary binary = Nvrtc::get().compile({u.name, unit.text, templatesIncludedBy(unit.text), arch, {"--ptxas-options=-v"}});
    EXPECT_EQ(binary.log.find("warning"), std::string::npos) << binary.log;
    EXPECT_EQ(binary.reported("bytes spill stores"), 0) << u.name << " for " << arch;
    EXPECT_LE(unit.launch.sharedBytes, sharedLimitOf({arch, std::atoi(arch.c_str() + 3)})) << u.name;
    if (std::getenv("DITC_SHOW_REGISTERS"))
      std::printf("%-20s %-8s %4d registers %4d spilled %7u shared %5u threads %6u blocks\n", u.name.c_str(), arch.c_str(), binary.reported("registers").value_or(-1),
                  binary.reported("bytes spill stores").value_or(-1), unit.launch.sharedBytes, unit.launch.threads, unit.launch.grid[0]);
  }
}

/// With the tiles that the model puts first.
mlir::FailureOr<CudaUnit> emitFirstTiles(plan::KernelOp kernel, const CudaArch &) {
  GemmKernel gemm;
  if (failed(gemm.read(kernel, ResidualBy::CopyEngine)))
    return mlir::failure();
  return emitHopperGemm(kernel, gemm, gemmCandidates(gemm.sizes, GemmNeeds::of(gemm)).front());
}

/// The unit's line about its outputs.
std::string outputsOf(const CudaCase &c) {
  CudaFamilies families(emitFirstTiles, "sm_90a");
  if (!families.emit(c))
    return families.messages;
  size_t begin = families.unit.text.find("OUTPUTS"), end = families.unit.text.find(';', begin);
  return families.unit.text.substr(begin, end - begin);
}

TEST(CudaGemmHopper, OutputsAndTheirHeadsAreKnownToTheCompiler) {
  EXPECT_EQ(outputsOf(plainGemm("bf16", 1, 512, 128, 64, true)), "OUTPUTS = 1, HEAD = 0");
  EXPECT_EQ(outputsOf(qkvHeads("bf16", 512, 16, 72, true, true)), "OUTPUTS = 3, HEAD = 72");
  GemmBody body("bf16");
  GemmValue y = body.linear(body.input({1, 256, 64}), 256);
  body.output(body.permute(body.view(body.slice(y, 2, 0, 128), {1, 256, 2, 64}), {0, 2, 1, 3})); // heads outside of the rows
  body.output(body.slice(y, 2, 128, 256));                                                       // and none
  EXPECT_EQ(outputsOf(body.build()), "OUTPUTS = 2, HEAD = -1");
}

/// With tiles of this many columns.
template <int WIDTH>
mlir::FailureOr<CudaUnit> emitTilesOf(plan::KernelOp kernel, const CudaArch &) {
  GemmKernel gemm;
  if (failed(gemm.read(kernel, ResidualBy::CopyEngine)))
    return mlir::failure();
  std::vector<GemmTiles> candidates = gemmCandidates(gemm.sizes, GemmNeeds::of(gemm));
  auto tiles = std::ranges::find(candidates, WIDTH, &GemmTiles::n);
  if (tiles == candidates.end())
    return mlir::failure();
  return emitHopperGemm(kernel, gemm, *tiles);
}

TEST(CudaGemmHopper, ResidualBoxesThatReachPastTheColumnsAreCut) {
  GemmBody body("bf16"); // 3072 columns are 17.5 boxes of 176, 16 of 192
  body.output(body.gated(body.linear(body.input({1, 4096, 12288}), 3072), body.input({1, 1, 3072}), body.input({1, 4096, 3072})));
  for (bool cut : {false, true}) {
    CudaFamilies families(cut ? emitTilesOf<176> : emitTilesOf<192>, "sm_90a");
    ASSERT_TRUE(families.emit(body.build())) << families.messages;
    EXPECT_NE(families.unit.text.find(cut ? "CUT = true" : "CUT = false"), std::string::npos) << families.unit.text;
    if (!Nvrtc::available())
      continue;
    CudaBinary binary = Nvrtc::get().compile({"cut", families.unit.text, templatesIncludedBy(families.unit.text), "sm_90a", {"--ptxas-options=-v"}});
    EXPECT_EQ(binary.log.find("warning"), std::string::npos) << binary.log;
    EXPECT_EQ(binary.reported("bytes spill stores"), 0) << binary.log;
  }
}

TEST(CudaGemmHopper, Fp8IsMultipliedAsItIs) {
  std::string whyNot;
  if (!Nvrtc::available(&whyNot))
    GTEST_SKIP() << whyNot;
  for (const CudaCase &c : {fp8Gelu("bf16", 2048, 12288, 3072), fp8Gelu("f16", 77, 640, 2064), fp8Heads("bf16", 4096, 24, 128), fp8Heads("bf16", 512, 16, 72)}) {
    CudaFamilies families(emitFirstTiles, "sm_90a");
    ASSERT_TRUE(families.emit(c)) << families.messages;
    EXPECT_NE(families.unit.text.find("using Operand = E4M3;"), std::string::npos) << families.unit.text;
    CudaBinary binary = Nvrtc::get().compile({"fp8", families.unit.text, templatesIncludedBy(families.unit.text), "sm_90a", {"--ptxas-options=-v"}});
    EXPECT_EQ(binary.log.find("warning"), std::string::npos) << binary.log;
    EXPECT_EQ(binary.reported("bytes spill stores"), 0) << binary.log << families.unit.text;
  }
}

TEST(CudaGemmHopper, Fp8IsCopiedInPiecesOf16Bytes) {
  EXPECT_TRUE(CudaFamilies(emitFirstTiles, "sm_90a").emit(fp8Gelu("bf16", 64, 192, 1040)));
  CudaFamilies odd(emitFirstTiles, "sm_90a");
  EXPECT_FALSE(odd.emit(fp8Gelu("bf16", 64, 192, 1032))); // 64.5 pieces
  EXPECT_NE(odd.messages.find("is no gemm kernel"), std::string::npos) << odd.messages;
}

TEST(CudaGemmHopper, HeadsOf72DoNotSpill) {
  std::string whyNot;
  if (!Nvrtc::available(&whyNot))
    GTEST_SKIP() << whyNot;
  auto emit = [](plan::KernelOp kernel, const CudaArch &) -> mlir::FailureOr<CudaUnit> {
    GemmKernel gemm;
    if (failed(gemm.read(kernel, ResidualBy::CopyEngine)))
      return mlir::failure();
    std::vector<GemmTiles> candidates = gemmCandidates(gemm.sizes, GemmNeeds::of(gemm));
    EXPECT_TRUE(candidates.front().pingpong && candidates.front().n == 144);
    return emitHopperGemm(kernel, gemm, candidates.front());
  };
  for (bool interleaved : {false, true}) {
    CudaFamilies families(emit, "sm_90a");
    ASSERT_TRUE(families.emit(qkvHeads("bf16", 4096, 16, 72, interleaved, true))) << families.messages;
    CudaBinary binary = Nvrtc::get().compile({"heads", families.unit.text, templatesIncludedBy(families.unit.text), "sm_90a", {"--ptxas-options=-v"}});
    EXPECT_EQ(binary.reported("bytes spill stores"), 0) << binary.log;
  }
}

INSTANTIATE_TEST_SUITE_P(Archs, CudaGemmUnit, testing::Values("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"));
