// SPDX-License-Identifier: Apache-2.0
//
// The report on plain structs and JSON: folding of blocks, conditions, finding operations, text, page, diff.
#include "compiler/report/BucketJson.h"
#include "compiler/report/Diff.h"
#include "compiler/report/Explain.h"
#include "compiler/report/FailIf.h"
#include "compiler/report/Find.h"
#include "compiler/report/Gpu.h"
#include "compiler/report/Html.h"
#include "compiler/report/Report.h"
#include "compiler/report/Text.h"
#include "runtime/Error.h"

#include <gmock/gmock.h>

namespace ditc {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

KernelRecord kernel(const std::string &family, const std::string &op, const std::string &path, const std::string &node, int64_t width = 64) {
  KernelRecord record;
  record.family = family;
  record.ops = {{op, {{path, node}}, {-1}}};
  std::string type = "4x" + std::to_string(width) + "xbf16";
  record.inputs = {{{"input x"}, {}, type, 8.0 * width, false, -1}};
  record.results = {{{}, {path, node}, type, 8.0 * width, false, 0}};
  record.work = {.bytesRead = 8.0 * width, .bytesWritten = 8.0 * width, .matrixFlops = 1e6, .scalarFlops = 0};
  record.ir = "dit.fusion";
  return record;
}

/// An embedder, and `count` blocks of a norm, a product and another product.
GraphRecord model(int64_t count, int64_t widerBlock = -1) {
  GraphRecord graph;
  graph.kernels.push_back(kernel("gemm", "matmul", "embed.proj", "linear"));
  for (int64_t i = 0; i < count; ++i) {
    std::string block = "blocks." + std::to_string(i), suffix = "_" + std::to_string(i);
    graph.kernels.push_back(kernel("rowwise", "norm", block + ".norm", "layer_norm" + suffix));
    graph.kernels.push_back(kernel("gemm", "matmul", block + ".attn.to_q", "query" + suffix, i == widerBlock ? 128 : 64));
    graph.kernels.push_back(kernel("gemm", "matmul", block + ".ff", "linear_ff" + suffix));
  }
  assignHomes(graph);
  return graph;
}

FusionRemark missed(const std::string &producer, const std::string &kernel, const std::string &reader, const std::string &readerKernel, const std::string &reason = "needs_whole_input") {
  return {.passed = false, .pass = "GroupKernels", .function = "f",
          .facts = {{"Reason", reason}, {"Producer", producer}, {"Kernel", kernel}, {"Reader", reader}, {"ReaderKernel", readerKernel}, {"Operand", producer}, {"Bytes", "512"}}};
}

/// report.json of a model, with one missed fusion in each block.
json reportOf(const GraphRecord &graph, int64_t count, const std::string &reason = "needs_whole_input") {
  Folded folded = foldBlocks(graph);
  std::vector<FusionRemark> remarks;
  for (int64_t i = 0; i < count; ++i) {
    std::string block = "blocks." + std::to_string(i), suffix = "_" + std::to_string(i);
    remarks.push_back(missed(block + ".norm:layer_norm" + suffix, "rowwise", block + ".attn.to_q:query" + suffix, "gemm", reason));
  }
  json totals = totalsJson(graph, {.launches = 99, .bytes = 5000, .weightBytes = 1000});
  for (const char *name : {"today_launches", "today_prepare_launches", "arena_bytes", "prepared_bytes", "constant_bytes", "parameter_bytes"})
    totals[name] = 7;
  totals["reasons"] = {{reason, count}};
  totals["today_target"] = "host";
  LiveTensor tensor{.name = {"blocks.1.ff", "linear_9"}, .type = "4x64xbf16", .bytes = 512};
  json free = freeJson(graph), memory = memoryJson({.arenaBytes = 2048, .peakBytes = 1024, .operations = 40, .position = 17, .at = {"blocks.1.ff", "gelu_1"}, .alive = {tensor}});
  json bucket{{"name", "small"}, {"totals", totals}, {"blocks", blocksJson(graph, folded)}, {"kernels", kernelsJson(graph, folded)}, {"free", free},
              {"not_fused", notFusedJson(remarks, graph, folded)}, {"memory", memory}, {"targets", {{"host", {{"step", {{"launches", 5}, {"gemms", 2}, {"copies", 0}}}, {"distinct_kernels", 3}}}}}};
  json report{{"version", kReportVersion}, {"catalogue", "Hopper"}, {"buckets", json::array({bucket})}};
  applyGpu(report, kDefaultGpu);
  return report;
}

std::string errorOf(const std::function<void()> &action) {
  try {
    action();
  } catch (const Error &error) {
    return error.what();
  }
  return "no error";
}

TEST(Names, BlocksAndOpenPaths) {
  EXPECT_EQ(blockOf("blocks.3.attn"), (BlockPosition{"blocks", 3}));
  EXPECT_EQ(blockOf("model.layers.12"), (BlockPosition{"model.layers", 12}));
  EXPECT_EQ(blockOf("embed.proj"), std::nullopt);
  EXPECT_EQ(blockOf("0.linear"), std::nullopt);
  BlockPosition home{"blocks", 3};
  EXPECT_EQ(generalise("blocks.3.ff.net.0", home), "blocks.{i}.ff.net.0");
  EXPECT_EQ(generalise("blocks.2.ff", home), "blocks.{i-1}.ff");
  EXPECT_EQ(generalise("blocks.4", home), "blocks.{i+1}");
  EXPECT_EQ(generalise("blocks.9.ff", home), "blocks.9.ff");
  EXPECT_EQ(generalise("other.3.ff", home), "other.3.ff");
  EXPECT_EQ(specialise("blocks.{i-1}.ff", 3), "blocks.2.ff");
  EXPECT_EQ(parseNodeName("blocks.3.ff:linear_8"), (NodeName{"blocks.3.ff", "linear_8"}));
  EXPECT_EQ(parseNodeName("linear_8"), (NodeName{"", "linear_8"}));
}

TEST(Fold, EqualBlocksAreOne) {
  GraphRecord graph = model(5);
  Folded folded = foldBlocks(graph);
  ASSERT_EQ(folded.blocks.size(), 1u);
  EXPECT_EQ(folded.blocks[0].list, "blocks");
  EXPECT_THAT(folded.blocks[0].indices, ElementsAre(0, 1, 2, 3, 4));
  ASSERT_EQ(folded.kernels.size(), 4u);
  EXPECT_THAT(folded.kernels[0].members, ElementsAre(0));
  EXPECT_THAT(folded.kernels[2].members, ElementsAre(2, 5, 8, 11, 14));
}

TEST(Fold, ABlockWithOtherShapesIsApart) {
  Folded folded = foldBlocks(model(4, 2));
  ASSERT_EQ(folded.blocks.size(), 2u);
  EXPECT_THAT(folded.blocks[0].indices, ElementsAre(0, 1, 3));
  EXPECT_THAT(folded.blocks[1].indices, ElementsAre(2));
}

TEST(Fold, LayersAreNoBlocks) {
  GraphRecord graph;
  graph.kernels.push_back(kernel("gemm", "matmul", "mlp.0", "linear"));
  graph.kernels.push_back(kernel("gemm", "matmul", "mlp.2", "linear_1"));
  assignHomes(graph);
  EXPECT_TRUE(foldBlocks(graph).blocks.empty());
}

TEST(Fold, AKernelOfAllBlocksBelongsToNone) {
  GraphRecord graph = model(4);
  KernelRecord shared = kernel("gemv", "matmul", "blocks.0.mod", "linear_mod");
  for (int i = 1; i < 4; ++i)
    shared.ops.push_back({"matmul", {{"blocks." + std::to_string(i) + ".mod", "linear_mod_" + std::to_string(i)}}, {-1}});
  graph.kernels.insert(graph.kernels.begin(), shared);
  assignHomes(graph);
  EXPECT_EQ(graph.kernels[0].home, std::nullopt);
  EXPECT_EQ(foldBlocks(graph).blocks.size(), 1u);
}

TEST(Fold, MissedFusionsFoldWithTheirBlocks) {
  json missed = reportOf(model(5), 5)["buckets"][0]["not_fused"];
  ASSERT_EQ(missed.size(), 1u);
  EXPECT_EQ(missed[0]["count"], 5);
  EXPECT_EQ(missed[0]["producer"]["path"], "blocks.{i}.norm");
  EXPECT_EQ(missed[0]["reader"]["kernel"], "k3");
  EXPECT_EQ(missed[0]["launches"][4], (json{"k14", "k15"}));
}

TEST(FailIf, Parses) {
  EXPECT_EQ(parseCondition("launches>310").total, "launches");
  EXPECT_TRUE(parseCondition("launches>310").holds(311));
  EXPECT_FALSE(parseCondition("launches>310").holds(310));
  EXPECT_TRUE(parseCondition(" bytes >= 2.5G ").holds(2.5e9));
  EXPECT_TRUE(parseCondition("reason.no_slot!=0").holds(3));
  EXPECT_TRUE(parseCondition("launches<=3").holds(3));
  EXPECT_TRUE(parseCondition("launches==3").holds(3));
  EXPECT_FALSE(parseCondition("launches<3").holds(3));
  for (const char *wrong : {"launches", ">3", "launches>", "launches>many", "launches>3x", "", "launches=3", "launches>=nan", "launches<inf"})
    EXPECT_THAT(errorOf([&] { parseCondition(wrong); }), HasSubstr("expected TOTAL")) << wrong;
}

TEST(FailIf, SaysTheValue) {
  json report = reportOf(model(2), 2);
  checkFailIf(report, {"launches>7", "reason.row_statistics>0"});
  EXPECT_THAT(errorOf([&] { checkFailIf(report, {"launches>=7", "reason.needs_whole_input>1"}); }),
              testing::AllOf(HasSubstr("bucket 'small': launches is 7, and --fail-if says 'launches>=7'"), HasSubstr("reason.needs_whole_input is 2")));
  EXPECT_THAT(errorOf([&] { checkFailIf(report, {"launch>3"}); }), HasSubstr("no total is called 'launch'; there are "));
  EXPECT_THAT(errorOf([&] { checkFailIf(report, {"reason.rain>3"}); }), HasSubstr("reason.row_statistics"));
}

TEST(Find, ByNodePathModuleAndKernel) {
  json report = reportOf(model(3), 3);
  const json &bucket = report["buckets"][0];
  std::vector<Match> node = findOps(bucket, "query_1");
  ASSERT_EQ(node.size(), 1u);
  EXPECT_EQ(node[0].path, "blocks.1.attn.to_q");
  EXPECT_EQ(findOps(bucket, "blocks.1.attn.to_q").size(), 1u);
  EXPECT_EQ(findOps(bucket, "blocks.1.attn").size(), 1u);
  EXPECT_EQ(findOps(bucket, "blocks.1").size(), 3u);
  EXPECT_EQ(findOps(bucket, "blocks.*.ff").size(), 1u);
  EXPECT_EQ(findOps(bucket, "k6")[0].node, "query_1");
  EXPECT_TRUE(findOps(bucket, "blocks.1.at").empty());
  EXPECT_EQ(nearestNames(bucket, "blocks.1.attn.to_k").front(), "blocks.1.attn.to_q");
}

TEST(Explain, NamesKernelRuleAndOperand) {
  json report = reportOf(model(3), 3);
  std::string text = explainText(report, report["buckets"][0], "query_1");
  EXPECT_THAT(text, HasSubstr("blocks.1.attn.to_q (query_1): matmul"));
  EXPECT_THAT(text, HasSubstr("computed by k6, a gemm kernel: launch 2 of 3 in 3 equal blocks (blocks 0-2)"));
  EXPECT_THAT(text, HasSubstr("needs_whole_input: it reads all of a value that the kernel computes piece by piece, operand blocks.1.norm (layer_norm_1)"));
  EXPECT_THAT(explainText(report, report["buckets"][0], "blocks"), HasSubstr("blocks is in 9 launches"));
  EXPECT_THAT(errorOf([&] { explainText(report, report["buckets"][0], "query_7"); }), HasSubstr("the nearest names are query_0"));
}

TEST(Explain, KernelsThatCouldRunBesideEachOther) {
  GraphRecord graph = model(3);
  FusionRemark remark = missed("blocks.0.norm:layer_norm_0", "rowwise", "blocks.1.norm:layer_norm_1", "rowwise", "different_input");
  remark.facts["Relation"] = "beside";
  remark.facts["Bytes"] = "0";
  json report = reportOf(graph, 3);
  report["buckets"][0]["not_fused"] = notFusedJson({remark}, graph, foldBlocks(graph));
  EXPECT_EQ(report["buckets"][0]["not_fused"][0]["beside"], true);
  std::string text = explainText(report, report["buckets"][0], "layer_norm_1");
  EXPECT_THAT(text, HasSubstr("k2 rowwise blocks.0.norm (layer_norm_0), which does the same as blocks.1.norm (layer_norm_1)"));
  EXPECT_THAT(text, HasSubstr("different_input: the products read different inputs"));
  EXPECT_THAT(text, Not(HasSubstr("written and read again")));
}

TEST(Explain, WhatATargetLaunchesOtherwise) {
  GraphRecord graph = model(3);
  std::vector<FusionRemark> remarks;
  for (std::string i : {"0", "1", "2"})
    remarks.push_back({.passed = false, .pass = "TargetKernels", .function = "",
                       .facts = {{"Reason", "head_splits_tile"}, {"Kernel", "gemm"}, {"Anchor", "blocks." + i + ".attn.to_q:query_" + i}, {"Deviation", "taken_apart"},
                                 {"Operand", "blocks." + i + ".attn:view_" + i}}});
  json report = reportOf(graph, 3);
  json &bucket = report["buckets"][0];
  bucket["targets"]["sm_90a"] = bucket["targets"]["host"];
  bucket["targets"]["sm_90a"]["deviations"] = deviationsJson(remarks, graph, foldBlocks(graph));
  ASSERT_EQ(bucket["targets"]["sm_90a"]["deviations"].size(), 1u); // equal blocks are one
  EXPECT_THAT(explainText(report, bucket, "query_1"),
              HasSubstr("for sm_90a it is taken apart\n    head_splits_tile: no tile has whole heads of this size, operand blocks.1.attn (view_1)\n"));
  EXPECT_THAT(explainText(report, bucket, "linear_ff_1"), Not(HasSubstr("taken apart")));
  EXPECT_THAT(reportText(report, bucket, ""),
              HasSubstr("planned, but not launched by sm_90a\n      3  gemm, taken apart\n         head_splits_tile: no tile has whole heads of this size\n         attn.to_q\n"));
}

TEST(Explain, FreeOperations) {
  GraphRecord graph = model(3);
  graph.free.push_back({{"view", {{"blocks.1", "reshape_4"}}, {}}, "4x64xbf16"});
  json report = reportOf(graph, 3);
  EXPECT_THAT(explainText(report, report["buckets"][0], "reshape_4"), HasSubstr("blocks.1 (reshape_4): a view that costs no launch"));
}

TEST(Explain, DamagedReportsThrow) {
  json report = reportOf(model(3), 3);
  applyGpu(report, kDefaultGpu);
  report["buckets"][0]["kernels"][1]["ops"][0]["parts"][0]["nodes"] = json::array();
  EXPECT_THROW(explainText(report, report["buckets"][0], "query_1"), json::exception);
}

TEST(Text, OneBlockFitsAScreen) {
  json report = reportOf(model(9), 9);
  std::string text = reportText(report, report["buckets"][0], "blocks.4");
  EXPECT_THAT(text, HasSubstr("blocks.{0-8}: 9 equal blocks, 3 launches each"));
  EXPECT_LE(std::ranges::count(text, '\n'), 50);
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    EXPECT_LE(end - begin, 80u) << text.substr(begin, end - begin);
  EXPECT_THAT(errorOf([&] { reportText(report, report["buckets"][0], "layers"); }), HasSubstr("has no block 'layers'; it has blocks"));
}

TEST(Text, WhatFillsMemory) {
  json report = reportOf(model(12), 12);
  std::string text = reportText(report, report["buckets"][0], "");
  EXPECT_THAT(text, HasSubstr("memory of host: arena 2.05 KB, prepared weights 7.00 B; most in use at once 1.02 KB\n  at operation 17 of 40, blocks.1.ff (gelu_1), with 1 tensors:\n"));
  EXPECT_THAT(text, HasSubstr("512 B  4x64xbf16              blocks.1.ff (linear_9)\n"));
}

TEST(Text, Units) {
  EXPECT_EQ(bytesText(25165824), "25.2 MB");
  EXPECT_EQ(bytesText(12), "12.0 B");
  EXPECT_EQ(flopsText(7.44e13), "74.4 TFLOP");
  EXPECT_EQ(rangesText({0, 1, 2, 5, 7, 8}), "0-2, 5, 7-8");
}

TEST(Gpu, TimesFollowTheGpu) {
  json report = reportOf(model(2), 2);
  double onH200 = report["buckets"][0]["totals"]["roofline_us"];
  applyGpu(report, "L40S");
  EXPECT_GT(report["buckets"][0]["totals"]["roofline_us"].get<double>(), onH200);
  EXPECT_THAT(errorOf([&] { applyGpu(report, "Voodoo2"); }), HasSubstr("expected one of H100, H200"));
}

TEST(Html, HoldsTheReportAndNothingFromElsewhere) {
  json report = reportOf(model(2), 2);
  report["buckets"][0]["kernels"][0]["ir"] = "</script><b>";
  std::string page = reportPage(report, "a <model>");
  EXPECT_THAT(page, HasSubstr("<title>a &lt;model> - ditc report</title>"));
  EXPECT_THAT(page, Not(HasSubstr("</script><b>")));
  EXPECT_THAT(page, Not(HasSubstr("%REPORT%")));
  EXPECT_THAT(page, Not(HasSubstr("http")));
}

TEST(Diff, SaysWhatChanged) {
  json before = reportOf(model(3), 3), after = reportOf(model(4, 3), 4, "row_statistics");
  EXPECT_EQ(diffText(before["buckets"][0], before["buckets"][0]), "no difference\n");
  std::string text = diffText(before["buckets"][0], after["buckets"][0]);
  EXPECT_THAT(text, HasSubstr("launches                    10 -> 13          +30.0%"));
  EXPECT_THAT(text, HasSubstr("+   1x gemm blocks: matmul attn.to_q"));
  EXPECT_THAT(text, HasSubstr("rowwise blocks.{i}.norm -> gemm blocks.{i}.attn.to_q: needs_whole_input => row_statistics"));
}

} // namespace
} // namespace ditc
