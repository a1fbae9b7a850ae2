// SPDX-License-Identifier: Apache-2.0
//
// Packages: what the writer writes the reader reads, twice the same; everything else is refused.
#include "RuntimeFixture.h"

#include "runtime/Hash.h"
#include "runtime/Zip.h"

#include <optional>

using namespace ditc;
using namespace ditc::test;

namespace {

class PackageTest : public testing::Test {
protected:
  void SetUp() override { writeTestPackage(good); }

  /// What opening says after a change of the manifest.
  std::string openError(const std::function<void(Json &)> &change) {
    forgePackage(good, forged, change);
    return errorOf([&] { Package::open(forged); });
  }

  TempFolder folder;
  std::string good = folder / "good.dita", forged = folder / "forged.dita";
};

struct Case {
  std::function<void(Json &)> change;
  std::string text;
};

} // namespace

TEST_F(PackageTest, RoundTrip) {
  Package package = Package::open(good);
  const Manifest &manifest = package.manifest();
  EXPECT_EQ(package.path(), good);
  EXPECT_EQ(manifest.modelName, "affine");
  EXPECT_EQ(manifest.bucketList(), "two, four");
  EXPECT_EQ(manifest.findBucket("four")->symbols.at("rows"), 4);
  EXPECT_EQ(manifest.findBucket("six"), nullptr);
  EXPECT_EQ(manifest.findTarget("host")->object, "host/kernels.so");
  EXPECT_EQ(std::get<std::string>(manifest.inputs[0].shape[0]), "rows");
  EXPECT_EQ(std::get<int64_t>(manifest.inputs[0].shape[1]), 3);
  EXPECT_EQ(std::get<bool>(manifest.constantInputs.at("return_dict")), false);
  EXPECT_EQ(package.memberBytes("weights/w"), 48u);
  EXPECT_EQ(package.memberBytes("nothing"), 0u);
  EXPECT_TRUE(package.has("weights/w"));
  EXPECT_FALSE(package.has("manifest.json"));
  EXPECT_EQ(package.members().size(), 6u);
  EXPECT_EQ(package.bytes("weights/w").size(), 48u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(package.bytes("weights/w").data()) % 64, 0u);
  EXPECT_EQ(package.plan("four", "host").inputs[0].shape[0], 4);
}

TEST_F(PackageTest, ConstantInputsOfEveryKindAndNoneOutputs) {
  writeTestPackage(forged, {.manifest = [](Manifest &m) {
    m.constantInputs = {{"a", std::monostate()}, {"b", true}, {"c", int64_t{-3}}, {"d", 1.5}, {"e", std::string("s")}};
    m.noneOutputs = {"output.1"};
  }});
  EXPECT_EQ(Package::open(forged).manifest().noneOutputs, std::vector<std::string>{"output.1"});
  auto constants = Package::open(forged).manifest().constantInputs;
  EXPECT_TRUE(std::holds_alternative<std::monostate>(constants.at("a")));
  EXPECT_EQ(std::get<bool>(constants.at("b")), true);
  EXPECT_EQ(std::get<int64_t>(constants.at("c")), -3);
  EXPECT_EQ(std::get<double>(constants.at("d")), 1.5);
  EXPECT_EQ(std::get<std::string>(constants.at("e")), "s");
}

TEST_F(PackageTest, TwiceTheSameBytes) {
  writeTestPackage(forged);
  EXPECT_EQ(readText(good), readText(forged));
}

TEST_F(PackageTest, NothingIsLeftOfAnAbandonedWriter) {
  {
    PackageWriter writer(forged);
    writer.add("weights/w", std::string_view("abc"));
    writer.begin("weights/v");
  }
  EXPECT_EQ(folder.list(), std::vector<std::string>{"good.dita"});
}

TEST_F(PackageTest, AFailedWriterLeavesTheOldPackage) {
  std::string before = readText(good);
  EXPECT_THROW(writeTestPackage(good, {.manifest = [](Manifest &m) { m.buckets[0].plans["host"] = "none"; }}), Error);
  EXPECT_EQ(readText(good), before);
  EXPECT_EQ(folder.list(), std::vector<std::string>{"good.dita"});
}

TEST_F(PackageTest, PiecesAndConstants) {
  PackageWriter writer(forged);
  writer.begin("weights/w");
  writer.append(bytesOf(std::vector<float>{1, 2}));
  writer.append(bytesOf(std::vector<float>{3}));
  writer.end();
  std::vector<float> constant{7, 8};
  std::string name = writer.addConstant(bytesOf(constant));
  EXPECT_EQ(writer.addConstant(bytesOf(constant)), name);
  EXPECT_EQ(name, "constants/" + hashHex(bytesOf(constant)));
  Manifest manifest;
  manifest.targets = {{"host", "", "", ""}};
  manifest.buckets = {{"b", {}, {{"host", writer.addPlan("b", "host", Plan())}}}};
  writer.finish(manifest);
  EXPECT_EQ(hashHex(Package::open(forged).bytes("weights/w")), hashHex(bytesOf(std::vector<float>{1, 2, 3})));
}

TEST_F(PackageTest, WriterRefusesWhatDoesNotFit) {
  auto write = [&](auto manifest, auto plan) {
    writeTestPackage(forged, {.manifest = manifest, .plan = plan});
  };
  auto noManifest = [](Manifest &) {};
  auto noPlan = [](Plan &) {};
  EXPECT_ERROR(write([](Manifest &m) { m.targets[0].object = "none"; }, noPlan), "target 'host' names the member 'none'");
  EXPECT_ERROR(write([](Manifest &m) { m.weights["w"].shape = {3}; }, noPlan), "weight 'w' has 12 bytes, its member");
  EXPECT_ERROR(write([](Manifest &m) { m.weights.erase("w"); }, noPlan), "names the weight 'w', which is not in the manifest");
  EXPECT_ERROR(write([](Manifest &m) { m.inputs.clear(); }, noPlan), "has 1 inputs and 1 outputs, the manifest has 0 and 1");
  EXPECT_ERROR(write([](Manifest &m) { m.buckets.clear(); }, noPlan), "has no buckets");
  EXPECT_ERROR(write(noManifest, [](Plan &p) { p.buffers[4].name = "constants/none"; }), "names the member 'constants/none'");
  EXPECT_ERROR(write(noManifest, [](Plan &p) { p.arenaBytes = 0; }), "buffer 6 covers 32 bytes");
  PackageWriter writer(forged);
  writer.begin("m");
  EXPECT_ERROR(writer.begin("n"), "package member 'n' begins inside 'm'");
  EXPECT_ERROR(writer.finish(Manifest()), "package member 'm' was not ended");
}

TEST_F(PackageTest, RefusedManifests) {
  const Case cases[] = {
      {[](Json &j) { j["format"] = "zip"; }, "has format 'zip', expected 'dita'; it is not a ditc package"},
      {[](Json &j) { j["version"] = 4; }, "has package version 4, this runtime reads versions 2 to 3; update the runtime"},
      {[](Json &j) { j["version"] = 1; }, "compile again with this version of ditc"},
      {[](Json &j) { j.erase("buckets"); }, "field 'buckets' is missing"},
      {[](Json &j) { j["buckets"].clear(); }, "has no buckets"},
      {[](Json &j) { j["buckets"][1]["name"] = "two"; }, "the bucket name 'two' is empty or not unique"},
      {[](Json &j) { j["buckets"][0]["plans"]["host"] = "none"; }, "has no member 'none'; the package is damaged"},
      {[](Json &j) { j["targets"][0]["object"] = "none"; }, "has no member 'none'"},
      {[](Json &j) { j["weights"]["w"]["shape"] = {5, 3}; }, "weight 'w' needs 60 bytes, its member 'weights/w' has 48"},
      {[](Json &j) { j["weights"]["w"]["file"] = "f"; }, "has either 'entry' or 'file', not both"},
      {[](Json &j) { j["entries"].erase("weights/w"); }, "member 'weights/w' is not in the manifest"},
      {[](Json &j) { j["entries"]["weights/w"]["bytes"] = 1; }, "has 48 bytes, the manifest says 1"},
      {[](Json &j) { j["entries"]["ghost"] = j["entries"]["weights/w"]; }, "has no member 'ghost'"},
      {[](Json &j) { j["inputs"][0]["shape"][1] = -3; }, "found -3"},
  };
  for (const Case &test : cases)
    EXPECT_NE(openError(test.change).find(test.text), std::string::npos) << openError(test.change);
}

TEST_F(PackageTest, RefusedWeightsInFiles) {
  auto file = [](Json &j, int64_t bytes, Json strides) {
    Json &w = j["weights"]["w"];
    w.erase("entry");
    w.update(Json{{"file", "f"}, {"offset", 0}, {"bytes", bytes}});
    if (!strides.is_null())
      w["strides"] = strides;
  };
  const Case cases[] = {
      {[&](Json &j) { file(j, 47, nullptr); }, "47 bytes for a tensor that covers 48"},
      {[&](Json &j) { file(j, 48, Json{1, 5}); }, "48 bytes for a tensor that covers 56"},
      {[&](Json &j) { file(j, 48, Json{1}); }, "1 strides for 2 dimensions"},
      {[&](Json &j) { file(j, 48, Json{INT64_MAX, 1}); }, "are too large"},
      {[&](Json &j) { file(j, 48, Json{-1, 1}); }, "found -1, expected an integer that is not negative"},
  };
  for (const Case &test : cases)
    EXPECT_NE(openError(test.change).find(test.text), std::string::npos) << openError(test.change);
}

TEST_F(PackageTest, NoPackageAtAll) {
  ZipWriter zip(forged);
  zip.add("other", std::string_view("x"));
  zip.finish();
  EXPECT_ERROR(Package::open(forged), "has no manifest.json; it is not a ditc package");
  writeText(forged, "not a zip at all, but long enough to hold the end of one, were there one");
  EXPECT_NE(errorOf([&] { Package::open(forged); }), "");
  EXPECT_NE(errorOf([&] { Package::open(folder / "absent.dita"); }), "");
}

TEST_F(PackageTest, DamagedMembers) {
  forgePackage(good, forged, [](Json &) {}, [](const std::string &name, std::vector<uint8_t> &bytes) {
    if (name == "weights/w")
      bytes[5] ^= 1;
  });
  Package package = Package::open(forged);
  EXPECT_ERROR(package.bytes("weights/w"), "the content of member 'weights/w' does not have the hash in the manifest");
  EXPECT_EQ(package.uncheckedBytes("weights/w").size(), 48u);
  EXPECT_NO_THROW(package.bytes("weights/b"));
  EXPECT_ERROR(package.bytes("none"), "has no member 'none'");
}

TEST_F(PackageTest, DamagedManifest) {
  std::string bytes = readText(good);
  bytes[bytes.find("\"affine\"") + 2] ^= 1;
  writeText(forged, bytes);
  EXPECT_ERROR(Package::open(forged), "manifest.json is damaged (its checksum differs)");
}

TEST_F(PackageTest, PlanAgainstManifest) {
  EXPECT_ERROR(Package::open(good).plan("six", "host"), "has no bucket 'six'; it has two, four");
  auto planError = [&](const std::function<void(Plan &)> &change) {
    std::string text;
    Plan plan = Package::open(good).plan("two", "host");
    change(plan);
    text = writePlan(plan);
    forgePackage(
        good, forged,
        [&](Json &j) {
          j["entries"]["buckets/two/host/plan.json"] = {{"bytes", text.size()}, {"xxh128", hashHex(std::string_view(text))}};
        },
        [&](const std::string &name, std::vector<uint8_t> &bytes) {
          if (name == "buckets/two/host/plan.json")
            bytes.assign(text.begin(), text.end());
        });
    return errorOf([&] { Package::open(forged).plan("two", "host"); });
  };
  const std::pair<std::function<void(Plan &)>, std::string> cases[] = {
      {[](Plan &p) { p.inputs[0].name = "z"; }, "the inputs differ from those of the manifest"},
      {[](Plan &p) { p.outputs[0].dtype = DType::i32; }, "the outputs differ from those of the manifest"},
      {[](Plan &p) { p.inputs[0].shape = {2, 30}; }, "the inputs differ from those of the manifest"},
      {[](Plan &p) { p.buffers[2].name = "v"; }, "weight 'v' is not in the manifest"},
      {[](Plan &p) { p.buffers[3].bytes = 32; }, "weight 'b' has 32 bytes, the manifest says 16"},
      {[](Plan &p) { p.buffers[4].bytes = 32; }, "buffer 4 of"},
      {[](Plan &p) { p.buffers[4].name = "constants/none"; }, "has no member 'constants/none'"},
      {[](Plan &p) { p.arenaBytes = 1; }, "bytes of arena"},
      {[](Plan &) {}, ""},
  };
  for (const auto &[change, text] : cases)
    EXPECT_NE(planError(change).find(text), std::string::npos) << planError(change);
}

TEST(Hash, PiecesAndWhole) {
  std::vector<uint8_t> bytes(1000);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<uint8_t>(i * 7);
  Hasher hasher;
  hasher.update(std::span(bytes).first(300));
  hasher.update(std::span(bytes).subspan(300));
  EXPECT_EQ(hasher.hex(), hashHex(bytes));
  EXPECT_EQ(hashHex(std::string_view("")), "99aa06d3014798d86001c324468d497f"); // published test vector
}
