// SPDX-License-Identifier: Apache-2.0
//
// The report's section on quantised products, from remarks, and the patterns by which users name modules.
#include "compiler/report/Quantized.h"
#include "dialects/ModulePatterns.h"
#include "dialects/fusion/QuantizeReason.h"

#include <gmock/gmock.h>

namespace ditc {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

FusionRemark product(const std::string &name, double flops, const std::string &reason = "") {
  FusionRemark remark{.passed = reason.empty(), .pass = "QuantizeProducts", .function = "f", .facts = {{"Product", name}, {"Flops", std::to_string(flops)}}};
  if (!reason.empty())
    remark.facts["Reason"] = reason;
  return remark;
}

/// A step of 800 FLOP in products, and as many that run once.
GraphRecord stepOf800() {
  GraphRecord graph;
  for (bool prepare : {false, true}) {
    KernelRecord kernel;
    kernel.prepare = prepare;
    kernel.work.matrixFlops = 800;
    graph.kernels.push_back(kernel);
  }
  return graph;
}

json bucketWith(const std::vector<FusionRemark> &remarks) {
  json bucket = json::object();
  addQuantization(bucket, remarks, stepOf800());
  return bucket;
}

const std::vector<FusionRemark> kRemarks = {product("blocks.0.to_q:linear", 200), product("blocks.0.mod:linear_1", 50, "few_rows"), product("blocks.1.to_q:linear_2", 200),
                                            product("blocks.1.mod:linear_3", 50, "few_rows"), product("proj_out:linear_4", 100, "little_work")};

TEST(Quantized, ProductsOfEqualBlocksAreOneEntry) {
  json found = bucketWith(kRemarks)["quantization"];
  EXPECT_EQ(found["products"], 5);
  EXPECT_EQ(found["quantized"], 2);
  EXPECT_EQ(found["share"], 0.5);
  ASSERT_EQ(found["modules"].size(), 3u);
  EXPECT_EQ(found["modules"][1]["path"], "blocks.{i}.mod");
  EXPECT_EQ(found["modules"][1]["reason"], "few_rows");
  EXPECT_EQ(found["modules"][1]["count"], 2);
  EXPECT_THAT(found["modules"][1]["nodes"], ElementsAre("linear_1", "linear_3"));
  EXPECT_THAT(found["modules"][1]["indices"], ElementsAre(0, 1));
}

TEST(Quantized, TextListsWhatIsNot) {
  std::string text = quantizationText(bucketWith(kRemarks));
  EXPECT_THAT(text, AllOf(HasSubstr("fp8: 2 of 5, 50.0% of the matrix arithmetic"), HasSubstr("    2  blocks.{0-1}.mod"), HasSubstr("    1  proj_out"),
                          HasSubstr("few_rows: it has 16 rows or fewer"), Not(HasSubstr("to_q"))));
  EXPECT_EQ(quantizationText(json::object()), "");
}

TEST(Quantized, WithoutRemarksThereIsNoSection) { EXPECT_TRUE(bucketWith({}).empty()); }

TEST(Quantized, AttentionIsASectionOfItsOwn) {
  auto attention = [](const std::string &name, const std::string &reason) {
    FusionRemark remark{.passed = reason.empty(), .pass = "QuantizeAttention", .function = "f", .facts = {{"Attention", name}, {"Flops", "80"}}};
    if (!reason.empty())
      remark.facts["Reason"] = reason;
    return remark;
  };
  json alone = bucketWith({attention("blocks.0.attn:sdpa", ""), attention("blocks.0.cross:sdpa_1", "little_work")});
  EXPECT_FALSE(alone.contains("quantization"));
  EXPECT_EQ(alone["attention_quantization"]["attentions"], 2);
  EXPECT_EQ(alone["attention_quantization"]["quantized"], 1);
  EXPECT_EQ(alone["attention_quantization"]["share"], 0.1);
  json both = bucketWith({kRemarks[0], attention("blocks.0.attn:sdpa", ""), attention("blocks.0.cross:sdpa_1", "little_work")});
  EXPECT_THAT(quantizationText(both), AllOf(HasSubstr("products quantised to fp8: 1 of 1, 25.0%"), HasSubstr("attention quantised to int8 scores and fp8 values: 1 of 2, 10.0%"),
                                            HasSubstr("    1  blocks.{0}.cross"), HasSubstr("little_work: quantising its inputs")));
  EXPECT_EQ(quantizationOf(both, "sdpa"), "quantised to int8 scores and fp8 values");
  EXPECT_THAT(quantizationOf(both, "sdpa_1"), HasSubstr("not quantised\n    little_work"));
}

TEST(Quantized, OneProductIsExplained) {
  json bucket = bucketWith(kRemarks);
  EXPECT_EQ(quantizationOf(bucket, "linear_2"), "quantised to fp8");
  EXPECT_THAT(quantizationOf(bucket, "linear_4"), HasSubstr("not quantised\n    little_work: quantising its inputs"));
  EXPECT_EQ(quantizationOf(bucket, "layer_norm"), "");
}

TEST(QuantizeReasons, HaveNamesAndSentences) {
  for (QuantizeReason reason : allQuantizeReasons())
    EXPECT_EQ(explainQuantizeReason(nameOf(reason)), explain(reason));
  EXPECT_EQ(explainQuantizeReason("no_slot"), "");
}

TEST(ModulePatterns, MatchPathsAndNodesWithoutOne) {
  ModulePatterns patterns(std::vector<std::string>{"*.proj_out", "blocks.0.*", "single.{i}.mlp", "linear_7"});
  for (const char *path : {"a.b.proj_out", "blocks.0.attn.to_q", "single.12.mlp"})
    EXPECT_TRUE(patterns.matches({path, "linear"})) << path;
  for (const char *path : {"proj_out", "blocks.01.attn", "blocks.0", "single.12.mlp.up", ""})
    EXPECT_FALSE(patterns.matches({path, "linear"})) << path;
  EXPECT_TRUE(patterns.matches({"", "linear_7"}));
  EXPECT_FALSE(patterns.matches({"ff", "linear_7"}));
}

TEST(ModulePatterns, SayWhatIsWrong) {
  EXPECT_EQ(ModulePatterns::whyWrong("blocks.[0-3].*"), "");
  EXPECT_NE(ModulePatterns::whyWrong("blocks.[0"), "");
  EXPECT_EQ(ModulePatterns::whyWrong(""), "it is empty");
}

} // namespace
} // namespace ditc
