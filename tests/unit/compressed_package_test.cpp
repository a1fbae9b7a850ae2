// SPDX-License-Identifier: Apache-2.0
//
// Packages with a compressed constant: what the manifest says of it, that runs do not notice, and that a manifest which
// is not true of its members is refused.
#include "RuntimeFixture.h"

#include "runtime/Compression.h"
#include "runtime/Hash.h"
#include "runtime/Session.h"
#include "runtime/Zip.h"

using namespace ditc;
using namespace ditc::test;

namespace {

class CompressedPackage : public testing::Test {
protected:
  void SetUp() override { writeTestPackage(good, {.table = largeTable()}); }

  Package forge(const std::function<void(Json &)> &change) {
    forgePackage(good, forged, change);
    return Package::open(forged);
  }

  /// With other bytes in place of the frame, which the manifest gives the right hash.
  Package forgeFrame(const std::vector<uint8_t> &frame) {
    forgePackage(
        good, forged,
        [&](Json &j) { j["entries"][member].update({{"bytes", frame.size()}, {"xxh128", hashHex(frame)}}); },
        [&](const std::string &name, std::vector<uint8_t> &bytes) {
          if (name == member)
            bytes = frame;
        });
    return Package::open(forged);
  }

  std::vector<uint8_t> storedFrame() const {
    ZipReader zip = ZipReader::open(good);
    std::span<const uint8_t> bytes = zip.bytes(*zip.find(member));
    return {bytes.begin(), bytes.end()};
  }

  static std::vector<float> run(const std::string &path) {
    std::shared_ptr<Session> session = Session::open(path, {});
    std::vector<float> x = inputX(2), y(2 * kOut);
    TensorRef in = tensor("x", x, {2, kIn}), out = tensor("y", y, {2, kOut});
    Context(session).run({"", {&in, 1}, {&out, 1}});
    EXPECT_EQ(session->memory().weights, 16 + largeTable().size() * sizeof(float)) << "b and the table as kernels read it";
    return y;
  }

  TempFolder folder;
  std::string good = folder / "good.dita", forged = folder / "forged.dita";
  std::string member = constantMember(bytesOf(largeTable()));
  uint64_t size = largeTable().size() * sizeof(float);
};

} // namespace

TEST_F(CompressedPackage, WhatIsInTheFile) {
  Package package = Package::open(good);
  EXPECT_EQ(package.manifest().version, 3);
  EXPECT_EQ(package.unpackedBytes(member), size);
  EXPECT_LT(package.memberBytes(member), 1000u);
  EXPECT_EQ(package.unpackedBytes("weights/w"), 48u);
  EXPECT_EQ(package.unpackedBytes("nothing"), 0u);
  EXPECT_EQ(hashHex(package.constant(member).bytes), hashHex(bytesOf(largeTable())));
  EXPECT_NO_THROW(package.verify(member));
  EXPECT_ERROR(package.bytes(member), "the member '" + member + "' is compressed and is no constant of a plan");
  EXPECT_ERROR(package.uncheckedBytes(member), "is compressed and is no constant of a plan");
  writeTestPackage(forged, {.table = largeTable()});
  EXPECT_EQ(readText(good), readText(forged)) << "twice the same bytes";
}

/// So runtimes of before read what has nothing that is new to them.
TEST_F(CompressedPackage, WithoutOneTheVersionIsThatOfBefore) {
  writeTestPackage(forged);
  Package package = Package::open(forged);
  EXPECT_EQ(package.manifest().version, 2);
  std::string plain = constantMember(bytesOf(table()));
  EXPECT_EQ(package.unpackedBytes(plain), 16u);
  EXPECT_EQ(package.constant(plain).bytes.data(), package.bytes(plain).data()) << "mapped in place";
}

TEST_F(CompressedPackage, RunsAsIfItWereNot) {
  EXPECT_EQ(run(good), expectedY(inputX(2)));
  // The same package as it was written before.
  std::vector<float> values = largeTable();
  std::span<const uint8_t> plain = bytesOf(values);
  forgePackage(
      good, forged,
      [&](Json &j) {
        j["version"] = 2;
        j["entries"][member] = {{"bytes", size}, {"xxh128", hashHex(plain)}};
      },
      [&](const std::string &name, std::vector<uint8_t> &bytes) {
        if (name == member)
          bytes.assign(plain.begin(), plain.end());
      });
  EXPECT_EQ(run(forged), expectedY(inputX(2)));
}

/// The constant outlives what it was asked of.
TEST_F(CompressedPackage, OwnsItsMemory) {
  HostBytes content;
  {
    content = Package::open(good).constant(member);
  }
  EXPECT_EQ(hashHex(content.bytes), hashHex(bytesOf(largeTable())));
}

TEST_F(CompressedPackage, RefusedManifests) {
  auto record = [&](Json &j) -> Json & { return j["entries"][member]; };
  EXPECT_ERROR(forge([&](Json &j) { record(j)["compression"] = "lz4"; }), "found \"lz4\", expected \"zstd\"");
  EXPECT_ERROR(forge([&](Json &j) { record(j).erase("unpacked_bytes"); }), "field 'unpacked_bytes' is missing");
  EXPECT_ERROR(forge([&](Json &j) { record(j)["unpacked_bytes"] = 0; }), "found 0, expected a number above 0");
  EXPECT_ERROR(forge([&](Json &j) { record(j)["unpacked_bytes"] = -1; }), "found -1");
  EXPECT_ERROR(forge([&](Json &j) { record(j)["unpacked_bytes"] = 1.5; }), "expected an integer");
  EXPECT_ERROR(forge([&](Json &j) { record(j)["unpacked_bytes"] = UINT64_MAX; }), "expected an integer below 2^63");
  EXPECT_ERROR(forge([&](Json &j) { j["version"] = 2; }), "compression in a package of version 2, which has none");
  auto compressed = [](Json &entry) { entry.update({{"compression", "zstd"}, {"unpacked_bytes", 48}}); };
  EXPECT_ERROR(forge([&](Json &j) { compressed(j["entries"]["weights/w"]); }), "the member 'weights/w' is compressed and is no constant");
  EXPECT_ERROR(forge([&](Json &j) { compressed(j["entries"]["host/kernels.so"]); }), "'host/kernels.so' is compressed");
  EXPECT_ERROR(forge([&](Json &j) { compressed(j["entries"]["buckets/two/host/plan.json"]); }), "plan.json' is compressed");
}

/// The plan needs what it needs, whatever the manifest claims; nothing is decompressed to find that out.
TEST_F(CompressedPackage, StatedSizesAreHeldAgainstThePlan) {
  for (uint64_t stated : {uint64_t{1}, size - 1, size + 1, uint64_t{1} << 62})
    EXPECT_ERROR(forge([&](Json &j) { j["entries"][member]["unpacked_bytes"] = stated; }).plan("two", "host"),
                 "needs " + std::to_string(size) + " bytes, its member '" + member + "' has " + std::to_string(stated) + " uncompressed");
}

TEST_F(CompressedPackage, DamagedFrames) {
  forgePackage(good, forged, [](Json &) {}, [&](const std::string &name, std::vector<uint8_t> &bytes) {
    if (name == member)
      bytes[20] ^= 1;
  });
  Package package = Package::open(forged);
  EXPECT_ERROR(package.constant(member), "the content of member '" + member + "' does not have the hash in the manifest");
  EXPECT_ERROR(package.verify(member), "does not have the hash in the manifest");

  std::vector<uint8_t> frame = storedFrame();
  frame.pop_back();
  EXPECT_ERROR(forgeFrame(frame).verify(member), "'" + forged + "': member '" + member + "' is cut short or damaged");
  EXPECT_ERROR(run(forged), "is cut short or damaged");
  EXPECT_ERROR(forgeFrame(std::vector<uint8_t>(30)).verify(member), "does not begin with a frame of zstd");
  std::vector<uint8_t> other = compressConstant(std::vector<uint8_t>(size + 4)).value();
  EXPECT_ERROR(forgeFrame(other).verify(member), "should have " + std::to_string(size) + " bytes uncompressed");
}
