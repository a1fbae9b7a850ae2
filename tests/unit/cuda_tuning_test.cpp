// SPDX-License-Identifier: Apache-2.0
//
// Gemm kernels and measured tiles: what a kernel is looked up by, which tiles are candidates, which are refused, and where
// the tiles of a kernel come from.
#include "codegen/cuda/tuning/TunedTiles.h"
#include "codegen/cuda/tuning/TileFields.h"
#include "tests/unit/GemmBodies.h"

#include "mlir/Parser/Parser.h"

#include <gmock/gmock.h>
#include <set>

using namespace ditc;
using namespace ditc::test;
using testing::HasSubstr;

namespace {

class CudaTuning : public testing::Test {
protected:
  CudaTuning() { context.loadDialect<dit::DitDialect, plan::PlanDialect, mlir::arith::ArithDialect, mlir::math::MathDialect, mlir::func::FuncDialect>(); }

  GemmTuning &read(const CudaCase &c, const char *arch = "sm_90a") {
    module = mlir::parseSourceString<mlir::ModuleOp>(moduleText(c), &context);
    EXPECT_TRUE(module);
    auto found = GemmTuning::read(*module->getOps<plan::KernelOp>().begin(), *parseCudaArch(arch));
    EXPECT_TRUE(mlir::succeeded(found));
    tuning = std::move(*found);
    return *tuning;
  }

  tuning::Database databaseWith(const tuning::Key &key, tuning::Tiles tiles) {
    tuning::Entry entry;
    entry.key = key, entry.gpu = "NVIDIA H200", entry.capability = "9.0", entry.date = "2026-11-29T10:00:00Z";
    entry.best = {std::move(tiles), 10};
    tuning::Database database;
    database.merge(entry);
    return database;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::unique_ptr<GemmTuning> tuning;
};

} // namespace

TEST_F(CudaTuning, TheModelKnowsItsTime) {
  std::optional<ProductTime> flux = read(plainGemm("bf16", 1, 4096, 12288, 3072, false)).modelTime();
  ASSERT_TRUE(flux);
  EXPECT_NEAR(flux->roofline, 2e6 * 4096 * 12288 * 3072 / 989e12, 1);
  EXPECT_GT(flux->expected, flux->roofline);
  EXPECT_LT(flux->expected, 1.2 * flux->roofline);
  EXPECT_FALSE(flux->isPoor());
  EXPECT_FALSE(read(plainGemm("bf16", 1, 16, 64, 64, false)).modelTime()->isPoor()); // short is not poor
  GemmBody body("bf16"); // 512 batches of four rows that lie apart: tiles are all but empty
  body.output(body.linear(body.input({512, 4, 4096}, {8 * 4096, 4096, 1}), 4096));
  EXPECT_TRUE(read(body.build()).modelTime()->isPoor());
  EXPECT_FALSE(read(plainGemm("bf16", 1, 4096, 3072, 3072, false), "sm_80").modelTime()); // a GPU that it does not know
}

TEST_F(CudaTuning, KeysSayWhatMatters) {
  EXPECT_EQ(read(plainGemm("bf16", 1, 4096, 3072, 3072, false)).key().text(), "gemm sm_90a bf16 1x4096x3072x3072 (none)");
  EXPECT_EQ(read(plainGemm("f16", 1, 300, 64, 4096, true), "sm_80").key().text(), "gemm sm_80 f16 1x300x64x4096 (bias, 1 operands)");
  EXPECT_EQ(read(twoRanges("bf16", 4608, 3072, 3072, 12288)).key().sizes, "1x4608x3072x3072+12288");
  EXPECT_EQ(read(twoStreams("bf16", 4096, 512, 3072, 12288)).key().sizes, "2x4096x3072x12288, 2x512x3072x12288");
  EXPECT_THAT(read(qkvHeads("bf16", 4096, 24, 128, true, false)).key().epilogue, HasSubstr("3 weights"));
  EXPECT_THAT(tuning->key().epilogue, HasSubstr("norm, heads of 128"));
  EXPECT_THAT(read(gateResidual("bf16", 4096, 3072, 12288, false)).key().epilogue, HasSubstr("residual"));
  EXPECT_EQ(read(gatedMlp("bf16", 4608, 9216, 3072, GateSpelling::TwoLayers, false)).key().text(), "gemm sm_90a bf16 1x4608x18432x3072 (gated, exp)");
  EXPECT_NE(read(biasGelu("bf16", 4096, 3072, 3072)).key(), read(plainGemm("bf16", 1, 4096, 3072, 3072, true)).key());
}

TEST_F(CudaTuning, CandidatesFitAndBeginWithTheModels) {
  for (const char *arch : {"sm_90a", "sm_80"})
    for (const CudaCase &c : {plainGemm("bf16", 1, 4096, 12288, 3072, true), qkvHeads("bf16", 4096, 24, 128, true, false), qkvHeads("bf16", 4096, 38, 64, true, true),
                              gateResidual("bf16", 4096, 3072, 12288, false), twoRanges("bf16", 4608, 3072, 3072, 12288), plainGemm("bf16", 1, 512, 3072, 3072, false),
                              gatedMlp("bf16", 4608, 9216, 3072, GateSpelling::GateLast, true)}) {
      GemmTuning &gemm = read(c, arch);
      std::vector<tuning::Tiles> tiles = gemm.candidates(16);
      ASSERT_GE(tiles.size(), 2u) << gemm.key().text();
      EXPECT_LE(tiles.size(), 16u);
      EXPECT_EQ(tiles.front(), gemm.modelTiles());
      EXPECT_EQ(std::set(tiles.begin(), tiles.end()).size(), tiles.size());
      for (const tuning::Tiles &each : tiles) {
        EXPECT_EQ(gemm.misfit(each), "") << tuning::textOf(each);
        EXPECT_TRUE(mlir::succeeded(gemm.emit(each)));
      }
      EXPECT_EQ(gemm.candidates(1).size(), 1u);
    }
}

TEST_F(CudaTuning, FieldsRoundTrip) {
  GemmTiles tiles{.m = 192, .n = 96, .stages = 5, .consumers = 3, .clusterM = 2, .clusterN = 1, .pingpong = false, .split = 2, .group = 16, .box = 48, .boxes = 1};
  std::string unknown;
  EXPECT_EQ(fieldsOf(hopperTilesOf(fieldsOf(tiles), unknown)), fieldsOf(tiles));
  EXPECT_EQ(unknown, "");
  MmaTiles mma{.m = 64, .n = 96, .k = 64, .stages = 2, .warpsM = 4, .warpsN = 1, .group = 3};
  EXPECT_EQ(fieldsOf(mmaTilesOf(fieldsOf(mma), unknown)), fieldsOf(mma));
  hopperTilesOf({{"m", 128}, {"colour", 3}}, unknown);
  EXPECT_EQ(unknown, "colour");
}

TEST_F(CudaTuning, TilesThatDoNotFitAreRefused) {
  GemmTuning &plain = read(plainGemm("bf16", 1, 4096, 12288, 3072, true));
  tuning::Tiles good = plain.modelTiles();
  auto with = [](tuning::Tiles tiles, std::initializer_list<std::pair<const char *, int64_t>> changes) {
    for (auto [name, value] : changes)
      tiles[name] = value;
    return tiles;
  };
  EXPECT_EQ(plain.misfit(good), "");
  for (auto changes : std::initializer_list<std::initializer_list<std::pair<const char *, int64_t>>>{
           {{"m", 0}}, {{"m", 4096}}, {{"n", 100}}, {{"n", 0}}, {{"stages", 1}}, {{"stages", 16}}, {{"consumers", 7}}, {{"consumers", 0}}, {{"cluster_m", 2}, {"cluster_n", 2}}, {{"cluster_m", 4}},
           {{"split", 3}, {"pingpong", 1}}, {{"split", 0}}, {{"box", 32}}, {{"box", 0}}, {{"boxes", 0}}, {{"group", 0}}, {{"n", 256}, {"pingpong", 1}}, {{"colour", 1}}})
    EXPECT_NE(plain.misfit(with(good, changes)), "") << changes.begin()->first;
  tuning::Tiles narrow = with(good, {{"n", 64}, {"box", 64}, {"pingpong", 0}, {"stages", 4}, {"split", 1}});
  EXPECT_EQ(plain.misfit(narrow), "");
  EXPECT_EQ(plain.misfit(with(narrow, {{"split", 4}, {"cluster_m", 1}})), "");
  EXPECT_THAT(plain.misfit(with(narrow, {{"split", 8}, {"cluster_m", 1}, {"stages", 2}})), HasSubstr("sums"));
  EXPECT_THAT(read(qkvHeads("bf16", 4096, 24, 128, true, false)).misfit(narrow), HasSubstr("heads"));
  GemmTuning &mma = read(plainGemm("bf16", 1, 4096, 12288, 3072, true), "sm_86");
  EXPECT_EQ(mma.misfit(mma.modelTiles()), "");
  EXPECT_NE(mma.misfit(with(mma.modelTiles(), {{"stages", 8}, {"k", 64}})), "");
  EXPECT_NE(mma.misfit(with(mma.modelTiles(), {{"warps_n", 3}})), "");
  EXPECT_NE(mma.misfit(good), ""); // Hopper's
  GemmTuning &gated = read(gatedMlp("bf16", 4096, 12288, 3072, GateSpelling::TwoLayers, true));
  EXPECT_NE(gated.misfit(with(gated.modelTiles(), {{"n", 192}, {"box", 64}})), ""); // 96 columns of the output
  EXPECT_NE(gated.misfit(with(gated.modelTiles(), {{"pingpong", 0}, {"n", 128}, {"box", 64}, {"split", 2}, {"cluster_m", 1}})), "");
}

TEST_F(CudaTuning, MeasuredTilesGoBeforeTheModels) {
  GemmTuning &gemm = read(gateResidual("bf16", 4096, 3072, 12288, false));
  tuning::Tiles other = gemm.candidates(16).back();
  tuning::Database database = databaseWith(gemm.key(), other);
  ChosenTiles chosen = chooseTiles(gemm, &database, "");
  EXPECT_EQ(chosen.tiles, other);
  EXPECT_EQ(chosen.gpu, "NVIDIA H200");
  EXPECT_EQ(chooseTiles(gemm, &database, "NVIDIA B200").gpu, "");
  EXPECT_EQ(chooseTiles(gemm, nullptr, "").tiles, gemm.modelTiles());

  tuning::Database bad = databaseWith(gemm.key(), {{"m", 77}});
  chosen = chooseTiles(gemm, &bad, "");
  EXPECT_EQ(chosen.tiles, gemm.modelTiles());
  EXPECT_EQ(chosen.gpu, "");
  EXPECT_THAT(chosen.note, HasSubstr("is not used: rows are not those of whole warpgroups"));
}

TEST_F(CudaTuning, TheShippedDatabaseIsWellFormed) {
  tuning::Database shipped = shippedTuning();
  EXPECT_GT(shipped.entries().size(), 40u);
  for (const auto &[place, entry] : shipped.entries()) {
    EXPECT_EQ(entry.key.op, "gemm");
    std::string unknown;
    if (entry.key.arch == "sm_90a")
      hopperTilesOf(entry.best.tiles, unknown);
    EXPECT_EQ(unknown, "") << entry.key.text();
  }
}
