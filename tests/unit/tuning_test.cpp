// SPDX-License-Identifier: Apache-2.0
//
// Tuning databases and bundles as files: both directions, every way in which a damaged one is refused, look-up and merge.
#include "RuntimeFixture.h"

#include "runtime/Zip.h"
#include "runtime/tuning/Bundle.h"

#include <functional>
#include <random>

using namespace ditc;
using namespace ditc::tuning;
using namespace ditc::test;
using nlohmann::json;

namespace {

const Key kKey{"gemm", "sm_90a", "bf16", "1x4096x9216x3072", "bias, norm"};

Entry entryOf(const std::string &date, double microseconds, const std::string &gpu = "NVIDIA H200", const Key &key = kKey) {
  Entry entry;
  entry.key = key, entry.gpu = gpu, entry.capability = "9.0", entry.date = date, entry.driver = 13000;
  entry.best = {{{"m", 128}, {"n", 192}, {"pingpong", 1}}, microseconds};
  return entry;
}

Database good() {
  Database database;
  Entry full = entryOf("2026-11-29T10:00:00Z", 350.25);
  full.others = {{{{"m", 128}, {"n", 128}}, 361}};
  full.model = 361, full.library = 352.5, full.candidates = 12;
  full.excluded = {{{{"m", 64}, {"n", 16}}, "differs"}};
  database.merge(full);
  database.merge(entryOf("2026-11-30T10:00:00Z", 400, "NVIDIA H100", {"gemm", "sm_90a", "f16", "2x64x64x64", "none"}));
  database.failures = {{kKey, "NVIDIA H200", {{{"m", 256}, {"n", 128}}, "did not end within 20 s"}}};
  return database;
}

std::string errorAfter(const std::function<void(json &)> &change) {
  json text = json::parse(good().write());
  change(text);
  return errorOf([&] { Database::parse(text.dump(), "t.json"); });
}

} // namespace

TEST(TuningDatabase, RoundTrip) {
  std::string text = good().write();
  Database read = Database::parse(text, "t.json");
  EXPECT_EQ(read.write(), text);
  EXPECT_EQ(read.entries(), good().entries());
  EXPECT_EQ(read.failures, good().failures);
  EXPECT_EQ(Database::parse(Database().write(), "t.json").entries().size(), 0u);
}

TEST(TuningDatabase, RefusedWithFileAndKey) {
  auto entry = [](json &j) -> json & { return j["entries"][1]; };
  struct Case {
    std::function<void(json &)> change;
    std::string text;
  };
  const Case cases[] = {
      {[&](json &j) { entry(j)["us"] = "fast"; }, "entries[1] (gemm sm_90a f16"},
      {[&](json &j) { j["entries"][0]["us"] = "fast"; }, "'t.json'.entries[0] (gemm sm_90a bf16 1x4096x9216x3072 (bias, norm)).us: found \"fast\", expected a number"},
      {[&](json &j) { j["entries"][0]["us"] = -1; }, "microseconds above 0"},
      {[&](json &j) { j["entries"][0]["us"] = 1e300; }, "microseconds above 0"},
      {[&](json &j) { j["entries"][0].erase("tiles"); }, "field 'tiles' is missing; mend or remove the entry"},
      {[&](json &j) { j["entries"][0]["tiles"]["m"] = 1 << 20; }, ".tiles.m: found 1048576, expected an integer from 0 to 4096"},
      {[&](json &j) { j["entries"][0]["tiles"]["m"] = 1.5; }, "an integer"},
      {[&](json &j) { j["entries"][0]["tiles"] = json::object(); }, "1 to 32 named numbers"},
      {[&](json &j) { j["entries"][0]["gpu"] = ""; }, "a printable text"},
      {[&](json &j) { j["entries"][0]["op"] = std::string("a\nb"); }, "a printable text"},
      {[&](json &j) { j["entries"][0]["sizes"] = std::string(1000, 'x'); }, "a printable text of 1 to 256 bytes"},
      {[&](json &j) { j["entries"][0]["date"] = "yesterday"; }, "a time of the years 2020 to 2099 in UTC"},
      {[&](json &j) { j["entries"][0]["date"] = "2026-13-01T00:00:00Z"; }, "a time of"},
      {[&](json &j) { j["entries"][0]["date"] = "2026-02-30T00:00:00Z"; }, "a time of"},
      {[&](json &j) { j["entries"][0]["date"] = "2026-02-03T24:00:00Z"; }, "a time of"},
      {[&](json &j) { j["entries"][0]["date"] = "9999-01-01T00:00:00Z"; }, "a time of"},
      {[&](json &j) { j["entries"][0]["others"] = json::array({1}); }, "others[0]"},
      {[&](json &j) { j["entries"][0]["others"] = json(std::vector<int>(100)); }, "at most 64 elements"},
      {[&](json &j) { j["entries"].push_back(j["entries"][0]); }, "a second entry of gemm"},
      {[&](json &j) { j["entries"] = 3; }, "a list"},
      {[&](json &j) { j["ditc_tuning"] = 9; }, "tuning database version 9, this program reads version 1"},
      {[&](json &j) { j.erase("ditc_tuning"); }, "field 'ditc_tuning' is missing"},
      {[&](json &j) { j["failures"][0].erase("reason"); }, "field 'reason' is missing"},
  };
  for (const Case &c : cases)
    EXPECT_NE(errorAfter(c.change).find(c.text), std::string::npos) << errorAfter(c.change) << "\nexpected: " << c.text;
  EXPECT_NE(errorOf([] { Database::parse("{", "t.json"); }).find("'t.json' is no tuning database"), std::string::npos);
}

TEST(TuningDatabase, FindsTheLatestOrTheNamedGpu) {
  Database database;
  EXPECT_EQ(database.find(kKey), nullptr);
  database.merge(entryOf("2026-11-29T10:00:00Z", 1, "NVIDIA H100"));
  database.merge(entryOf("2026-11-29T11:00:00Z", 2, "NVIDIA H200"));
  database.merge(entryOf("2026-11-29T09:00:00Z", 3, "NVIDIA GH200"));
  EXPECT_EQ(database.find(kKey)->gpu, "NVIDIA H200");
  EXPECT_EQ(database.find(kKey, "NVIDIA H100")->best.microseconds, 1);
  EXPECT_EQ(database.find(kKey, "NVIDIA B200"), nullptr);
  Key other = kKey;
  other.epilogue = "bias";
  EXPECT_EQ(database.find(other), nullptr);
}

TEST(TuningDatabase, GpusByWordsOfTheirNames) {
  Database database;
  for (const char *gpu : {"NVIDIA H100", "NVIDIA H100 PCIe", "NVIDIA H200"})
    database.merge(entryOf("2026-11-29T10:00:00Z", 1, gpu));
  using Names = std::set<std::string>;
  EXPECT_EQ(database.gpusNamed("h200"), Names{"NVIDIA H200"});
  EXPECT_EQ(database.gpusNamed("pcie  Nvidia"), Names{"NVIDIA H100 PCIe"});
  EXPECT_EQ(database.gpusNamed("nvidia h100"), Names{"NVIDIA H100"}); // its whole name
  EXPECT_EQ(database.gpusNamed("H100"), (Names{"NVIDIA H100", "NVIDIA H100 PCIe"}));
  EXPECT_EQ(database.gpusNamed("").size(), 3u);
  EXPECT_EQ(database.gpusNamed("h100 sxm"), Names{});
}

TEST(TuningDatabase, LaterMeasurementsStay) {
  Database database;
  EXPECT_EQ(database.merge(entryOf("2026-11-29T10:00:00Z", 100)), Change::Added);
  EXPECT_EQ(database.merge(entryOf("2026-11-29T09:00:00Z", 50)), Change::Kept); // older, of older code
  EXPECT_EQ(database.merge(entryOf("2026-11-29T11:00:00Z", 120)), Change::Replaced);
  EXPECT_EQ(database.merge(entryOf("2026-11-29T11:00:00Z", 130)), Change::Kept);
  EXPECT_EQ(database.merge(entryOf("2026-11-29T11:00:00Z", 110)), Change::Replaced);
  EXPECT_EQ(database.merge(entryOf("2026-01-01T11:00:00Z", 1, "NVIDIA H100")), Change::Added);
  EXPECT_EQ(database.entries().size(), 2u);
  EXPECT_EQ(database.find(kKey, "NVIDIA H200")->best.microseconds, 110);
}

TEST(TuningDatabase, TheUsersFileGoesBeforeTheShippedOne) {
  Database shipped, user;
  shipped.merge(entryOf("2027-01-01T00:00:00Z", 1, "NVIDIA H200"));
  user.merge(entryOf("2026-01-01T00:00:00Z", 2, "NVIDIA H100"));
  shipped.overrideBy(user);
  EXPECT_EQ(shipped.find(kKey)->gpu, "NVIDIA H100"); // although it is older
  EXPECT_EQ(shipped.find(kKey, "NVIDIA H200")->best.microseconds, 1); // of another GPU, for those who name it
  Database several; // the last file that has the kernel, there the latest
  several.merge(entryOf("2025-01-01T00:00:00Z", 3, "NVIDIA H200"));
  several.merge(entryOf("2025-02-01T00:00:00Z", 4, "NVIDIA GH200"));
  shipped.overrideBy(several);
  shipped.overrideBy(Database());
  EXPECT_EQ(shipped.find(kKey)->gpu, "NVIDIA GH200");
  EXPECT_EQ(shipped.find(kKey, "NVIDIA H200")->best.microseconds, 3);
  EXPECT_EQ(shipped.find(kKey, "NVIDIA H100")->best.microseconds, 2);
  EXPECT_EQ(shipped.entries().size(), 3u);
}

TEST(TuningDatabase, TilesAsText) {
  EXPECT_EQ(textOf({{"m", 128}, {"n", 192}, {"pingpong", 1}, {"cluster_m", 1}, {"cluster_n", 2}, {"split", 1}, {"stages", 4}}),
            "128x192 cluster_n=2 pingpong=1 stages=4");
}

//===-- bundles ---------------------------------------------------------------------------------------===//

namespace {

Bundle goodBundle() {
  Job job{kKey, "blocks.0.to_q", 19, {}, {{4096, 9216, 3072}}, {{"gemm0_0", "gemm", {{"m", 128}, {"n", 192}}}}};
  job.arguments = {{DType::bf16, 64, false, 0.5}, {DType::bf16, 128, true, 1}};
  return {"ditc 0.1.0", "sm_90a", {job}};
}

cuda::KernelFile goodKernels() {
  cuda::KernelFile file{"sm_90a", 12000, {}};
  cuda::KernelParameter pointer{std::vector<uint8_t>(16), {{0, cuda::PointerPatch{0, 0}}, {8, cuda::PointerPatch{1, 64}}}};
  file.kernels = {{"gemm0_0", "sm_90a/a.cubin", {}, {pointer}, 2}, {kFillKernel, "sm_90a/b.cubin", {}, {}, 1}, {kCompareKernel, "sm_90a/b.cubin", {}, {}, 3}};
  return file;
}

/// What opening a bundle of these says; empty when nothing.
std::string errorOfBundle(const std::string &bundle, const std::string &kernels) {
  TempFolder folder;
  ZipWriter writer(folder / "b.tune");
  writer.add("bundle.json", bundle);
  writer.add("sm_90a/kernels.json", kernels);
  writer.add("sm_90a/a.cubin", "image");
  writer.finish();
  return errorOf([&] {
    BundleFile file = BundleFile::open(folder / "b.tune");
    EXPECT_EQ(file.image("sm_90a/a.cubin"), "image");
  });
}

std::string errorAfterBundle(const std::function<void(json &)> &change) {
  json text = json::parse(writeBundle(goodBundle()));
  change(text);
  return errorOfBundle(text.dump(), cuda::writeKernelFile(goodKernels()));
}

} // namespace

TEST(TuningBundle, RoundTrip) {
  std::string text = writeBundle(goodBundle());
  EXPECT_EQ(writeBundle(parseBundle(text, "b")), text);
  EXPECT_EQ(parseBundle(text, "b").jobs[0].flop(), 2.0 * 4096 * 9216 * 3072);
  EXPECT_EQ(errorOfBundle(text, cuda::writeKernelFile(goodKernels())), "");
}

/// Whatever a file holds, it is read or refused.
TEST(TuningFiles, DamageIsAnError) {
  std::string database = good().write(), bundle = writeBundle(goodBundle());
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    for (const std::string *text : {&database, &bundle}) {
      std::string damaged = *text;
      for (unsigned n = 1 + random() % 3; n > 0; --n)
        damaged[random() % damaged.size()] = "0123456789-.eE{}[]\",:x\xff"[random() % 24];
      try {
        text == &database ? void(Database::parse(damaged, "t")) : void(parseBundle(damaged, "t"));
      } catch (const Error &error) {
        EXPECT_EQ(error.kind(), ErrorKind::Input) << error.what();
      }
    }
  }
}

TEST(TuningBundle, Refused) {
  auto job = [](json &j) -> json & { return j["jobs"][0]; };
  struct Case {
    std::function<void(json &)> change;
    std::string text;
  };
  const Case cases[] = {
      {[&](json &j) { job(j)["arguments"][1]["bytes"] = 32; }, "reaches outside of its argument 1"},
      {[&](json &j) { job(j)["arguments"][0]["bytes"] = 63; }, "whole elements"},
      {[&](json &j) { job(j)["arguments"][0].erase("scale"); }, "field 'scale' is missing"},
      {[&](json &j) { job(j)["arguments"].push_back(job(j)["arguments"][0]); }, "is missing or has other arguments"},
      {[&](json &j) { job(j)["candidates"][0]["kernel"] = "none"; }, "kernel 'none' of gemm sm_90a"},
      {[&](json &j) { job(j)["candidates"] = json::array(); }, "at least one"},
      {[&](json &j) { job(j)["products"][0] = json::array({1, 2}); }, "[rows, columns, k]"},
      {[&](json &j) { job(j)["products"][0][0] = 0; }, "a size"},
      {[&](json &j) { j["arch"] = "sm_80"; }, "sm_80/kernels.json' is missing"},
      {[&](json &j) { j["ditc_tuning_bundle"] = 2; }, "bundle version 2"},
  };
  for (const Case &c : cases)
    EXPECT_NE(errorAfterBundle(c.change).find(c.text), std::string::npos) << errorAfterBundle(c.change) << "\nexpected: " << c.text;
  cuda::KernelFile kernels = goodKernels();
  kernels.kernels.pop_back();
  EXPECT_NE(errorOfBundle(writeBundle(goodBundle()), cuda::writeKernelFile(kernels)).find("no kernel 'tuning_compare'"), std::string::npos);
  TempFolder folder;
  ZipWriter(folder / "empty.tune").finish();
  EXPECT_NE(errorOf([&] { BundleFile::open(folder / "empty.tune"); }).find("is no tuning bundle"), std::string::npos);
}
