// SPDX-License-Identifier: Apache-2.0
//
// Gemm fusions as tiles: indices that divide exactly, which bodies are refused and why, the text of epilogues, and the
// choice of tiles, those of attention among them.
#include "codegen/cuda/families/AttentionTiles.h"
#include "codegen/cuda/gemm/EpilogueText.h"
#include "codegen/cuda/gemm/MmaTiles.h"
#include "tests/unit/GemmBodies.h"

#include "mlir/Parser/Parser.h"

#include <gmock/gmock.h>

using namespace ditc;
using namespace ditc::test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

//===-- TileIndex -------------------------------------------------------------------------------------===//

const TileVars kVars{{"row", 10}, {"head", 3}, {"quad", 4}, {"one", 1}};

TileIndex var(unsigned number, int64_t factor = 1) { return TileIndex::of(kVars, number).times(factor); }

TEST(TileIndex, AddsAndMultiplies) {
  TileIndex sum = var(0, 64).plus(var(2, 2)).plus(TileIndex::of(5)).plus(var(0, -64));
  EXPECT_EQ(sum, var(2, 2).plus(TileIndex::of(5))); // what cancels is gone
  EXPECT_EQ(sum.largest(kVars), 2 * 3 + 5);
  EXPECT_EQ(sum.coefficient(2), 2);
  EXPECT_EQ(sum.coefficient(0), 0);
  EXPECT_EQ(sum.times(0), TileIndex::of(0));
  EXPECT_EQ(var(3), TileIndex::of(0)); // a variable of size 1 is always 0
}

TEST(TileIndex, DividesWhatIsKnownToBeExact) {
  auto parts = divide(var(1, 64).plus(var(2, 2)).plus(TileIndex::of(57)), 64, kVars);
  ASSERT_TRUE(parts.has_value());
  EXPECT_EQ(parts->first, var(1));
  EXPECT_EQ(parts->second, var(2, 2).plus(TileIndex::of(57))); // at most 63
  EXPECT_FALSE(divide(var(1, 64).plus(var(2, 2)).plus(TileIndex::of(58)), 64, kVars)); // quad 3 would be 64
  EXPECT_FALSE(divide(var(0, 48), 64, kVars));
  auto whole = divide(var(0, 6).plus(TileIndex::of(128)), 3, kVars);
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(whole->first, var(0, 2).plus(TileIndex::of(42)));
  EXPECT_EQ(whole->second, TileIndex::of(2));
}

TEST(TileIndex, GoesThroughShapes) {
  TileIndex number = linearise({var(0), var(1), var(2, 2).plus(TileIndex::of(1))}, {10, 3, 8});
  EXPECT_EQ(number, var(0, 24).plus(var(1, 8)).plus(var(2, 2)).plus(TileIndex::of(1)));
  auto joined = delinearise(number, {10, 24}, kVars);
  ASSERT_TRUE(joined.has_value());
  EXPECT_EQ((*joined)[0], var(0));
  auto split = delinearise(number, {10, 1, 6, 4}, kVars); // 2 quad + 1 crosses a 4
  EXPECT_FALSE(split.has_value());
  auto pairs = delinearise(number, {30, 4, 2}, kVars);
  ASSERT_TRUE(pairs.has_value());
  EXPECT_EQ((*pairs)[1], var(2));
  EXPECT_EQ((*pairs)[2], TileIndex::of(1));
}

//===-- RowSplit --------------------------------------------------------------------------------------===//

using Strides = std::optional<std::pair<int64_t, int64_t>>; // of rows, of batches

TEST(RowSplit, JoinsDimensions) {
  EXPECT_EQ(rowStrides({2, 10}, {640, 64}, {1, 20}), Strides({64, 64}));
  EXPECT_EQ(rowStrides({2, 10}, {640, 64}, {2, 10}), Strides({64, 640}));
  EXPECT_EQ(rowStrides({1, 2, 1, 10}, {7, 900, 3, 64}, {2, 10}), Strides({64, 900})); // single dimensions lie anywhere
  EXPECT_EQ(rowStrides({2, 10}, {900, 64}, {1, 20}), Strides());
  EXPECT_EQ(rowStrides({20}, {64}, {2, 10}), Strides({64, 640})); // one dimension comes apart
  EXPECT_EQ(rowStrides({2, 5, 4}, {900, 256, 64}, {2, 20}), Strides({64, 900}));
  EXPECT_EQ(rowStrides({2, 5, 4}, {900, 64, 320}, {2, 20}), Strides()); // rows in another order
  EXPECT_EQ(rowStrides({2, 5, 4}, {0, 0, 0}, {10, 4}), Strides({0, 0}));
  EXPECT_EQ(rowStrides({2, 10}, {640, 0}, {2, 10}), Strides({0, 640})); // a gate for each batch
  EXPECT_EQ(rowStrides({}, {}, {1, 1}), Strides({0, 0}));
}

TEST(RowSplit, FindsRuns) {
  auto runs = [](std::vector<int64_t> sizes, std::vector<int64_t> strides) {
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (const RowRun &run : rowRuns(sizes, strides))
      pairs.emplace_back(run.size, run.stride);
    return pairs;
  };
  using Runs = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(runs({2, 10}, {640, 64}), Runs({{20, 64}}));
  EXPECT_EQ(runs({4, 1, 2}, {0, 7, 64}), Runs({{4, 0}, {2, 64}}));
  EXPECT_EQ(runs({5, 4, 3}, {0, 64, 0}), Runs({{5, 0}, {4, 64}, {3, 0}}));
  EXPECT_EQ(runs({3, 5, 4}, {0, 0, 0}), Runs({{60, 0}}));
  EXPECT_EQ(runs({1}, {64}), Runs());
}

TEST(RowSplit, CountsBatches) { EXPECT_THAT(batchCounts({1, 2, 1, 5, 4}), testing::ElementsAre(2, 10, 40)); }

//===-- TileProgram -----------------------------------------------------------------------------------===//

class TileTest : public testing::Test {
protected:
  TileTest() { context.loadDialect<dit::DitDialect, plan::PlanDialect, mlir::func::FuncDialect, mlir::arith::ArithDialect>(); }

  plan::KernelOp parse(const CudaCase &c) {
    module = mlir::parseSourceString<mlir::ModuleOp>(moduleText(c), &context);
    EXPECT_TRUE(module) << moduleText(c);
    return *module->getOps<plan::KernelOp>().begin();
  }

  std::string reasonOf(const CudaCase &c) {
    TileProgram program;
    return std::string(nameOf(readTileProgram(parse(c).getBody().front(), program).reason));
  }
  std::string reasonOf(GemmBody &body, const GemmValue &result) {
    body.output(result);
    return reasonOf(body.build());
  }

  /// The epilogue's type with its functions in front, as the template takes it.
  std::string epilogueOf(const CudaCase &c, ResidualBy residual = ResidualBy::Loads) {
    GemmKernel gemm;
    EXPECT_TRUE(succeeded(gemm.read(parse(c), residual)));
    return gemm.epilogues.empty() ? "" : gemm.epilogue().functions + gemm.epilogue().type;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

TEST_F(TileTest, ReadsProductsAndTheirResults) {
  TileProgram program;
  ASSERT_TRUE(readTileProgram(parse(qkvHeads("bf16", 20, 2, 64, true, false)).getBody().front(), program));
  EXPECT_EQ(program.head, 64);
  ASSERT_EQ(program.problems.size(), 1u);
  const TileProblem &problem = program.problems.front();
  EXPECT_EQ(problem.columns, 3 * 128);
  EXPECT_EQ(problem.weights.size(), 3u);
  ASSERT_EQ(problem.outputs.size(), 3u);
  EXPECT_EQ(problem.outputs[2].begin, 256);
  EXPECT_THAT(problem.outputs[2].rowDims, testing::ElementsAre(0u, 2u)); // [batch, head, row, column]
  EXPECT_THAT(problem.outputs[2].columnDims, testing::ElementsAre(1u, 3u));
}

TEST_F(TileTest, ReadsStreamsAndRanges) {
  TileProgram streams, ranges;
  ASSERT_TRUE(readTileProgram(parse(twoStreams("bf16", 70, 13, 128, 40)).getBody().front(), streams));
  EXPECT_EQ(streams.problems.size(), 2u);
  EXPECT_EQ(streams.head, 0);
  mlir::OwningOpRef<mlir::ModuleOp> keep = std::move(module);
  ASSERT_TRUE(readTileProgram(parse(twoRanges("f16", 33, 64, 40, 72)).getBody().front(), ranges));
  EXPECT_THAT(ranges.problems.front().k, testing::ElementsAre(40, 72));
}

TEST_F(TileTest, RefusesTypesAndSizes) {
  EXPECT_EQ(reasonOf(plainGemm("f32", 1, 64, 64, 64, true)), "type_unsupported");
  EXPECT_EQ(reasonOf(plainGemm("bf16", 1, 64, 60, 64, true)), "no_slot");
  EXPECT_EQ(reasonOf(plainGemm("bf16", 1, 64, 64, 60, true)), "no_slot");
  EXPECT_EQ(reasonOf(plainGemm("bf16", 1, 64, 64, 64, true)), "accepted");
}

TEST_F(TileTest, RefusesResultsOfTheOther16BitType) {
  for (auto [from, to, reason] : {std::tuple("bf16", "f16", "type_unsupported"), std::tuple("f16", "bf16", "type_unsupported"), std::tuple("bf16", "bf16", "accepted")}) {
    GemmBody body(from);
    EXPECT_EQ(reasonOf(body, body.cast(body.linear(body.input({20, 64}), 64), to)), reason) << from << " to " << to;
  }
}

TEST_F(TileTest, RefusesWhatHasNoElements) {
  EXPECT_EQ(reasonOf(qkvHeads("bf16", 0, 2, 64, true, true)), "no_slot"); // heads of no rows
  GemmBody body("bf16");
  GemmValue y = body.linear(body.input({20, 64}), 64);
  EXPECT_EQ(reasonOf(body, body.add(body.slice(y, 1, 0, 0), body.slice(y, 1, 64, 64))), "no_slot");
}

TEST_F(TileTest, RefusesHeadsThatSplitTiles) {
  EXPECT_EQ(reasonOf(qkvHeads("bf16", 20, 2, 72, true, true)), "accepted");
  EXPECT_EQ(reasonOf(qkvHeads("bf16", 20, 2, 68, true, true)), "head_splits_tile");
  EXPECT_EQ(reasonOf(qkvHeads("bf16", 20, 1, 136, true, true)), "head_splits_tile");
  EXPECT_EQ(reasonOf(qkvHeads("bf16", 20, 2, 72, false, false)), "accepted");
  EXPECT_EQ(reasonOf(qkvHeads("bf16", 20, 3, 72, false, false)), "head_splits_tile"); // weights of a tile and a half
  GemmBody body("bf16");
  GemmValue x = body.input({1, 20, 64});
  body.output(body.gelu(body.linear(x, 192))); // beside heads of 128 columns
  body.output(body.norm(body.view(body.linear(x, 128), {1, 20, 1, 128}), "rms", true));
  EXPECT_EQ(reasonOf(body.build()), "head_splits_tile");
}

TEST_F(TileTest, RefusesNormsOfWholeRows) {
  GemmBody body("bf16");
  EXPECT_EQ(reasonOf(body, body.norm(body.linear(body.input({30, 64}), 256), "rms", true)), "head_splits_tile");
}

TEST_F(TileTest, RefusesWhatMovesBetweenRows) {
  GemmBody body("bf16");
  GemmValue y = body.linear(body.input({30, 64}), 64);
  GemmValue turned = body.concat({body.slice(y, 0, 15, 30), body.slice(y, 0, 0, 15)}, 0);
  EXPECT_EQ(reasonOf(body, body.add(y, turned)), "crosses_rows");
}

TEST_F(TileTest, RefusesThreeInputs) {
  GemmBody body("bf16");
  for (int i = 0; i < 3; ++i)
    body.output(body.linear(body.input({30, 64}), 64));
  EXPECT_EQ(reasonOf(body.build()), "no_slot");
}

TEST_F(TileTest, RefusesStreamsOfDifferentWidth) {
  GemmBody body("bf16");
  body.output(body.linear(body.input({30, 64}), 64));
  body.output(body.linear(body.input({30, 64}), 128));
  EXPECT_EQ(reasonOf(body.build()), "shape_mismatch");
}

TEST_F(TileTest, GatesAreReadInEverySpelling) {
  for (GateSpelling spelling : {GateSpelling::GateFirst, GateSpelling::GateLast, GateSpelling::TwoLayers}) {
    TileProgram program;
    ASSERT_TRUE(readTileProgram(parse(gatedMlp("bf16", 30, 72, 64, spelling, true)).getBody().front(), program));
    EXPECT_TRUE(program.gated);
    const TileProblem &problem = program.problems.front();
    EXPECT_EQ(problem.columns, 144); // of the product
    EXPECT_EQ(program.outputColumns(problem), 72);
    EXPECT_EQ(problem.weights.size(), spelling == GateSpelling::TwoLayers ? 2u : 1u);
  }
}

TEST_F(TileTest, RefusesGatesOfOtherColumns) {
  GemmBody thirds("bf16"), turned("bf16"), read("bf16");
  GemmValue y = thirds.linear(thirds.input({30, 64}), 216);
  EXPECT_EQ(reasonOf(thirds, thirds.times(thirds.slice(y, 1, 0, 72), thirds.slice(y, 1, 144, 216))), "no_slot");
  GemmValue z = turned.view(turned.linear(turned.input({30, 64}), 144), {30, 72, 2}); // gate and up in turns
  GemmValue first = turned.view(turned.slice(z, 2, 0, 1), {30, 72}), second = turned.view(turned.slice(z, 2, 1, 2), {30, 72});
  EXPECT_EQ(reasonOf(turned, turned.times(turned.silu(first), second)), "crosses_rows");
  GemmValue both = read.linear(read.input({30, 64}), 144); // the product is read elsewhere as well
  read.output(both);
  EXPECT_EQ(reasonOf(read, read.times(read.slice(both, 1, 0, 72), read.slice(both, 1, 72, 144))), "no_slot");
  EXPECT_EQ(reasonOf(gatedMlp("bf16", 30, 68, 64, GateSpelling::GateFirst, true)), "no_slot"); // rows that do not start on 16 bytes
  EXPECT_EQ(reasonOf(gatedMlp("f32", 30, 72, 64, GateSpelling::GateFirst, true)), "type_unsupported");
}

//===-- Layouts ---------------------------------------------------------------------------------------===//

/// x + linear(a) on rows of two or three dimensions, whose results lie as `strides` say.
CudaCase addedRows(std::vector<int64_t> rows, std::vector<int64_t> strides) {
  GemmBody body("bf16");
  std::vector<int64_t> left = rows, result = rows;
  left.push_back(40), result.push_back(64);
  GemmValue y = body.linear(body.input(left), 64);
  body.output(body.add(y, body.input(result)), std::move(strides));
  return body.build();
}

TEST_F(TileTest, RowsAreARunOrBatchesOfRuns) {
  auto batchesOf = [&](const CudaCase &c) {
    GemmKernel gemm;
    mlir::ScopedDiagnosticHandler quiet(&context, [](mlir::Diagnostic &) { return mlir::success(); });
    return succeeded(gemm.read(parse(c), ResidualBy::Loads)) ? gemm.problems.front().split.batches : 0;
  };
  EXPECT_EQ(batchesOf(addedRows({2, 5, 4}, {})), 1);
  EXPECT_EQ(batchesOf(addedRows({2, 5, 4}, {4096, 256, 64, 1})), 2);
  EXPECT_EQ(batchesOf(addedRows({2, 5, 4}, {2560, 512, 64, 1})), 10);
  EXPECT_EQ(batchesOf(addedRows({2, 5, 4}, {1280, 64, 320, 1})), 0); // columns of an image before its rows
}

/// x Wᵀ gate with a gate for each of the inner rows: samples behind tokens.
CudaCase innerGate(int64_t tokens, int64_t samples, int64_t columns, bool residual) {
  GemmBody body("bf16");
  GemmValue y = body.linear(body.input({tokens, samples, 256}), columns, false), gate = body.input({1, samples, columns});
  body.output(residual ? body.gated(y, gate, body.input({tokens, samples, columns})) : body.times(y, gate));
  return body.build();
}

TEST_F(TileTest, FewRowsInEachOfManyBatchesAreOneRun) {
  EXPECT_THAT(epilogueOf(innerGate(4096, 2, 4096, false)), HasSubstr("loadPair(in0 + row % 2 * 4096 + "));
  EXPECT_THAT(epilogueOf(innerGate(4096, 2, 4096, true), ResidualBy::CopyEngine), AllOf(HasSubstr("RESIDUAL = true"), HasSubstr("loadPair(in0 + row % 2 * 4096 + ")));
  EXPECT_THAT(epilogueOf(innerGate(2, 4096, 4096, false)), HasSubstr("loadPair(in0 + row * 4096 + ")); // many in each of few
  EXPECT_THAT(epilogueOf(innerGate(8, 2, 4096, false)), HasSubstr("loadPair(in0 + row * 4096 + "));    // nothing to win
}

/// Results whose rows come in batches cannot be one run: heads in front of the rows.
TEST_F(TileTest, BatchesThatLeaveTilesEmptyAreRefused) {
  auto verdictOf = [&](int64_t batches, int64_t rows) {
    GemmBody body("bf16");
    GemmValue y = body.view(body.linear(body.input({batches, rows, 2560}), 2560), {batches, rows, 20, 128});
    body.output(body.permute(body.norm(y, "rms", true), {0, 2, 1, 3}));
    mlir::ScopedDiagnosticHandler quiet(&context, [](mlir::Diagnostic &) { return mlir::success(); });
    plan::KernelOp kernel = parse(body.build());
    mlir::SmallVector<mlir::MemRefType> types;
    for (unsigned i = 0; i < kernel.getNumArgs(); ++i)
      types.push_back(kernel.getArgType(i));
    return std::string(nameOf(GemmKernel().read(kernel.getBody().front(), types, mlir::SmallVector<int64_t>(types.size(), 16), ResidualBy::Loads).reason));
  };
  EXPECT_EQ(verdictOf(512, 12), "empty_tiles");
  EXPECT_EQ(verdictOf(2, 3072), "accepted");
  EXPECT_EQ(verdictOf(4, 77), "accepted"); // 4 tiles instead of 3
  EXPECT_EQ(verdictOf(4, 12), "accepted"); // one tile more costs less than a launch
}

TEST_F(TileTest, FusionsAreTakenAsTheirArgumentsLie) {
  CudaCase c = addedRows({2, 5, 4}, {});
  auto typeOf = [&](size_t i) { return GemmValue{"", c.args[i].shape, "bf16"}.type(); };
  std::string parameters, inputs, types, result = typeOf(c.args.size() - 1);
  for (size_t i = 0; i + 1 < c.args.size(); ++i) {
    std::string comma = i ? ", " : "", name = "%f" + std::to_string(i);
    parameters += comma + name + ": " + typeOf(i), inputs += comma + name, types += comma + typeOf(i);
  }
  std::string fusionText = "  %r = dit.fusion \"gemm\"(" + inputs + ") : (" + types + ") -> " + result + " " + c.body + "\n";
  module = mlir::parseSourceString<mlir::ModuleOp>("func.func @f(" + parameters + ") -> " + result + " {\n" + fusionText + "  return %r : " + result + "\n}\n", &context);
  ASSERT_TRUE(module);
  dit::FusionOp fusion = *(*module->getOps<mlir::func::FuncOp>().begin()).getBody().getOps<dit::FusionOp>().begin();
  EXPECT_TRUE(acceptsGemm(fusion, ResidualBy::Loads));
  mlir::SmallVector<mlir::MemRefType> lies;
  for (mlir::Type type : llvm::concat<mlir::Type>(llvm::to_vector(fusion->getOperandTypes()), llvm::to_vector(fusion->getResultTypes())))
    lies.push_back(mlir::MemRefType::get(cast<mlir::RankedTensorType>(type).getShape(), cast<mlir::RankedTensorType>(type).getElementType()));
  EXPECT_TRUE(acceptsGemm(fusion, lies, ResidualBy::Loads));
  lies.back() = plan::makeMemRef(lies.back().getShape(), lies.back().getElementType(), {{1280, 64, 320, 1}, 0});
  EXPECT_EQ(acceptsGemm(fusion, lies, ResidualBy::Loads).reason, Reason::ShapeMismatch);
}

//===-- EpilogueText ----------------------------------------------------------------------------------===//

TEST_F(TileTest, BiasAndGelu) {
  std::string text = epilogueOf(biasGelu("bf16", 37, 72, 64));
  EXPECT_THAT(text, HasSubstr("fastTanh<Element>("));
  EXPECT_THAT(text, HasSubstr("COLUMNS = Config::CHUNK;"));
  EXPECT_THAT(text, HasSubstr("float2 v0 = loadPair(in0 + at.column(i));\n#pragma unroll\n      for (int half = 0; half < 2; ++half) {\n        float first = f0((x[4 * i + 2 * half] + v0.x));"));
}

TEST_F(TileTest, ResidualsComeByTheCopyEngineOrByLoads) {
  CudaCase c = gateResidual("bf16", 37, 128, 64, false);
  std::string fetched = epilogueOf(c, ResidualBy::CopyEngine), loaded = epilogueOf(c);
  EXPECT_THAT(fetched, HasSubstr("COLUMNS = 16;\n  static constexpr bool RESIDUAL = true;"));
  EXPECT_THAT(fetched, HasSubstr("residualOf<Element>(residual[2 * i + half], 1)"));
  EXPECT_THAT(loaded, HasSubstr("COLUMNS = Config::CHUNK;\n  static constexpr bool RESIDUAL = false;"));
  EXPECT_THAT(loaded, HasSubstr("at.batch * 4736 + row * 128 + at.column(i)"));
  EXPECT_THAT(loaded, HasSubstr("at.batch * 768 + at.column(i)")); // the gate, for all rows of a batch
}

TEST_F(TileTest, GatesMeetWhatTheyMultiply) {
  std::string text = epilogueOf(gatedMlp("bf16", 30, 72, 64, GateSpelling::GateLast, true), ResidualBy::CopyEngine);
  EXPECT_THAT(text, HasSubstr("(float (&x)[COLUMNS / 2], const float (&up)[COLUMNS / 2], const Place &at)"));
  EXPECT_THAT(text, HasSubstr("(up[4 * i + 2 * half] + v0.x)")); // the gate is the second half
  EXPECT_THAT(text, HasSubstr("loadPair(in0 + at.column(i) + 72)"));
  EXPECT_THAT(text, HasSubstr("part0(x, up, at);"));
}

TEST_F(TileTest, OnlySigmoidsDivideByTheReciprocal) {
  EXPECT_THAT(epilogueOf(gatedMlp("bf16", 30, 72, 64, GateSpelling::TwoLayers, true)), HasSubstr("return divideApprox(a, fastExp(-a) + 1.0f);"));
  GemmBody body("bf16");
  GemmValue y = body.linear(body.input({30, 64}), 64);
  body.output(body.map({y, body.input({30, 64})}, "%z = arith.divf %a, %b : f32")); // by anything, also by 0
  EXPECT_THAT(epilogueOf(body.build()), HasSubstr("return a / b;"));
}

TEST_F(TileTest, HeadsSeeTheirNormAndTheirOtherHalf) {
  std::string text = epilogueOf(qkvHeads("bf16", 20, 2, 64, false, true));
  EXPECT_THAT(text, HasSubstr("float squares0[2] = {};"));
  EXPECT_THAT(text, HasSubstr("rsqrtf(fmaf(quadSum(squares0[half]), 1.f / 64, 1e-06f))"));
  EXPECT_THAT(text, HasSubstr("x[4 * (i + 4) + 2 * half]")); // the first half turns with the second
  EXPECT_THAT(text, HasSubstr("x[4 * (i - 4) + 2 * half]"));
  // Queries and keys of one weight are one function.
  EXPECT_THAT(text, HasSubstr("in0 + head * 64 + quad * 2 + i * 8 + begin"));
  EXPECT_THAT(text, HasSubstr("part0(x, at, which == 0 ? 0 : 128, which == 0 ? in1 : in4);\n    }\n    part1(x, at);"));
}

TEST_F(TileTest, InterleavedPairsStayInPlace) {
  std::string text = epilogueOf(qkvHeads("bf16", 20, 2, 64, true, true));
  EXPECT_THAT(text, Not(HasSubstr("float y[")));
  EXPECT_THAT(text, HasSubstr("x[4 * i + 2 * half] = first, x[4 * i + 2 * half + 1] = second;"));
}

TEST_F(TileTest, HalvesOfNoWholeGroupsTurnAcrossThreads) {
  std::string text = epilogueOf(qkvHeads("bf16", 20, 2, 72, false, true)), interleaved = epilogueOf(qkvHeads("bf16", 20, 2, 72, true, true));
  EXPECT_THAT(text, HasSubstr("ofQuad((quad < 2 ? x[4 * 6 + 2 * half] : x[4 * 5 + 2 * half]), quad ^ 2)"));
  EXPECT_THAT(text, HasSubstr("either(quad < 2, ")); // columns 32 … 39 are of both halves
  EXPECT_THAT(interleaved, Not(HasSubstr("ofQuad(")));
  EXPECT_THAT(interleaved, HasSubstr("x[4 * i + 2 * half] = first, x[4 * i + 2 * half + 1] = second;"));
}

/// A table of half the columns is read where its columns are, also by the threads that take the other alternative.
TEST_F(TileTest, ThreadsLoadFromWhereThereIsSomething) {
  std::string text = epilogueOf(turnedHeads("bf16", 20, 2, 72, {.halfTables = true}));
  EXPECT_THAT(text, HasSubstr("loadPair(in2 + row * 36 + quad * 2 + (quad < 2 ? 0 : -4));"));
  EXPECT_THAT(text, HasSubstr("loadPair(in2 + row * 36 + quad * 2 + (quad < 2 ? 0 : -4) + 32);"));
}

TEST_F(TileTest, WhatIsNormalisedIsComputedOnce) {
  std::string text = epilogueOf(turnedHeads("bf16", 20, 2, 72, {.normLast = true}));
  size_t turned = text.rfind("ofQuad("), squares = text.find("squares0[half] += square(x[4 * i + 2 * half]);");
  ASSERT_NE(turned, std::string::npos);
  ASSERT_NE(squares, std::string::npos);
  EXPECT_LT(turned, squares); // the turned columns stand where the accumulators did
}

TEST_F(TileTest, ProductsOfOneLaunchDifferInMembersOnly) {
  GemmKernel gemm;
  ASSERT_TRUE(succeeded(gemm.read(parse(twoStreams("bf16", 70, 13, 128, 40)), ResidualBy::Loads)));
  EXPECT_EQ(gemm.epilogues[0].type, gemm.epilogues[1].type);
  EXPECT_THAT(gemm.epilogue().type, HasSubstr("int stride0;"));
  EXPECT_NE(gemm.epilogues[0].strides, gemm.epilogues[1].strides);
  cuda::KernelParameter members = gemm.epilogueParameter();
  EXPECT_EQ(members.bytes.size() % 16, 0u); // two structures of pointers and numbers
  EXPECT_EQ(members.patches.size(), 2 * gemm.epilogue().pointers.size());
}

//===-- MmaTiles --------------------------------------------------------------------------------------===//

MmaTiles tilesFor(const char *arch, GemmSize size, int64_t columns = 64, std::vector<int64_t> multiples = {}) {
  return chooseMmaTiles({arch, std::atoi(arch + 3)}, size, columns, multiples);
}

TEST(MmaTiles, LargeProductsGetLargeTiles) {
  MmaTiles large = tilesFor("sm_80", {1, 4096, 12288, 3072}), small = tilesFor("sm_80", {1, 77, 256, 3072});
  EXPECT_EQ(large.m * large.n, 128 * 128);
  EXPECT_LE(small.m * small.n, 64 * 64);
}

TEST(MmaTiles, HoldWholeHeadsAndWeights) {
  for (int64_t head = 16; head <= 128; head += 8) {
    MmaTiles tiles = tilesFor("sm_86", {1, 4096, 3 * 24 * head, 3072}, head, {24 * head});
    EXPECT_EQ(tiles.n / tiles.warpsN % head, 0);
    EXPECT_EQ(24 * head % tiles.n, 0);
  }
  EXPECT_EQ(tilesFor("sm_80", {1, 4096, 576, 1024}, 64, {192, 384}).n, 64); // 128 would span weights
}

TEST(MmaTiles, TwoBlocksShareAMultiprocessor) {
  for (auto [arch, bytes] : {std::pair("sm_80", 164 << 10), {"sm_86", 100 << 10}, {"sm_90a", 228 << 10}, {"sm_120a", 100 << 10}})
    for (int64_t columns : {64, 96, 128}) {
      MmaTiles tiles = tilesFor(arch, {2, 4096, 4608, 3072}, columns);
      EXPECT_GE(tiles.stages, 3) << arch;
      EXPECT_LE(2 * (tiles.sharedBytes() + 1024), static_cast<uint32_t>(bytes)) << arch;
    }
}

//===-- MmaAttentionTile ----------------------------------------------------------------------------===//

TEST(MmaAttentionTile, TwoBlocksOfTwoBandsShareAMultiprocessor) {
  for (int64_t dim : {40, 64, 72, 96})
    for (const char *arch : {"sm_80", "sm_86", "sm_120a"}) {
      MmaAttentionTile tile = chooseMmaAttentionTile({2, 16, 4096, 4096, dim, dim}, {arch, std::atoi(arch + 3)}, Hidden::None);
      EXPECT_EQ(tile.bands, 2) << arch << " " << dim;
      EXPECT_LE(2 * (tile.sharedBytes({2, 16, 4096, 4096, dim, dim}) + 1024), (std::string(arch) == "sm_80" ? 164 : 100) << 10) << arch << " " << dim;
    }
}

TEST(MmaAttentionTile, WideHeadsOnSmallMultiprocessorsHaveOneBlockOfManyWarps) {
  MmaAttentionTile large = chooseMmaAttentionTile({1, 24, 4608, 4608, 128, 128}, {"sm_100a", 100}, Hidden::None);
  MmaAttentionTile small = chooseMmaAttentionTile({1, 24, 4608, 4608, 128, 128}, {"sm_89", 89}, Hidden::None);
  EXPECT_EQ(large.bands, 2);
  EXPECT_EQ(large.stages, 2);
  EXPECT_EQ(small.bands, 1);
  EXPECT_EQ(small.warps, 8);
}

TEST(MmaAttentionTile, FewBlocksAndMasksByQueryHaveOneBand) {
  EXPECT_EQ(chooseMmaAttentionTile({2, 16, 256, 256, 72, 72}, {"sm_80", 80}, Hidden::None).bands, 1);
  EXPECT_EQ(chooseMmaAttentionTile({2, 16, 4096, 4096, 64, 64}, {"sm_80", 80}, Hidden::ByQuery).bands, 1);
  EXPECT_EQ(chooseMmaAttentionTile({2, 16, 4096, 300, 72, 72}, {"sm_80", 80}, Hidden::ByKey).bands, 2);
}

TEST(MmaAttentionTile, StepsAreEquallyFull) {
  EXPECT_EQ(chooseMmaAttentionTile({2, 16, 4096, 300, 72, 72}, {"sm_80", 80}, Hidden::None).keys, 80); // 4 x 80, not 3 x 96 and 12
  EXPECT_EQ(chooseMmaAttentionTile({2, 16, 4096, 0, 72, 72}, {"sm_80", 80}, Hidden::None).keys, 16);
}

} // namespace
