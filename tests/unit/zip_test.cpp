// SPDX-License-Identifier: Apache-2.0
//
// Reading stored zips: what torch, Python and ditc write is taken, and every way a zip can lie is refused.
#include "ReaderFixture.h"

#include "runtime/Zip.h"

using namespace ditc;
using namespace ditc::test;
using testing::HasSubstr;

namespace {

class ZipReaderTest : public testing::Test {
protected:
  ZipReader open(const std::string &bytes) {
    writeBytes(path, bytes);
    return ZipReader::open(path);
  }
  std::string openError(const std::string &bytes) {
    return errorOf([&] { open(bytes); });
  }
  /// What opening says after a change of the bytes of a good archive.
  std::string changedError(const std::function<void(std::string &)> &change, ZipStyle style = ZipStyle::Torch) {
    std::string bytes = makeZip({{"a/first", "payload"}, {"a/second", std::string(100, 'x')}}, style);
    change(bytes);
    return openError(bytes);
  }

  TempFolder folder;
  std::string path = folder / "test.zip";
};

/// A zip whose numbers are all in zip64 fields, although they would fit without.
std::string forcedZip64() {
  std::string zip = makeZip({{"a/one", "hello"}});
  size_t central = centralOf(zip, "a/one"), end = endOf(zip);
  uint32_t offset = static_cast<uint32_t>(central), local = 0;
  std::string record = zip.substr(central, end - central);
  for (size_t field : {20, 24, 42})
    patch(record, field, 0xffffffffu);
  std::string extra = raw<uint16_t>(1) + raw<uint16_t>(24) + raw<uint64_t>(5) + raw<uint64_t>(5) + raw<uint64_t>(local);
  patch(record, 30, static_cast<uint16_t>(extra.size()));
  record += extra;
  std::string end64 = raw(0x06064b50u) + raw<uint64_t>(44) + raw<uint32_t>(0) + raw<uint64_t>(0) + raw<uint64_t>(1) +
                      raw<uint64_t>(1) + raw<uint64_t>(record.size()) + raw<uint64_t>(offset);
  std::string locator = raw(0x07064b50u) + raw(0u) + raw<uint64_t>(offset + record.size()) + raw(1u);
  std::string plain = zip.substr(end);
  patch(plain, 8, uint16_t{0xffff});
  patch(plain, 10, uint16_t{0xffff});
  patch(plain, 12, 0xffffffffu);
  patch(plain, 16, 0xffffffffu);
  return zip.substr(0, central) + record + end64 + locator + plain;
}

} // namespace

TEST_F(ZipReaderTest, ReadsWhatTorchAndPythonWrite) {
  for (ZipStyle style : {ZipStyle::Torch, ZipStyle::Python}) {
    ZipReader zip = open(makeZip({{"a/first", "payload"}, {"a/empty", ""}, {"b", "x"}}, style));
    ASSERT_EQ(zip.entries().size(), 3u);
    EXPECT_EQ(zip.entries()[0].name, "a/first");
    EXPECT_EQ(zip.text(zip.entries()[0]), "payload");
    EXPECT_EQ(zip.text(*zip.find("a/empty")), "");
    EXPECT_EQ(zip.text(*zip.find("b")), "x");
    EXPECT_EQ(zip.find("c"), nullptr);
    EXPECT_EQ(readBytes(path).substr(zip.find("a/first")->payloadOffset, 7), "payload");
    EXPECT_EQ(zip.path(), path);
  }
}

TEST_F(ZipReaderTest, ReadsArchiveComment) {
  std::string zip = makeZip({{"a", "x"}});
  patch(zip, endOf(zip) + 20, uint16_t{5});
  EXPECT_EQ(open(zip + "hello").entries().size(), 1u);
}

TEST_F(ZipReaderTest, SkipsFolders) {
  ZipReader zip = open(makeZip({{"a/", ""}, {"a/b", "x"}}));
  ASSERT_EQ(zip.entries().size(), 1u);
  EXPECT_EQ(zip.entries()[0].name, "a/b");
}

TEST_F(ZipReaderTest, ChecksCrcOnDemand) {
  std::string bytes = makeZip({{"m/a", "payload"}, {"m/b", "other"}});
  bytes[bytes.find("payload")] = 'P';
  ZipReader zip = open(bytes);
  EXPECT_FALSE(zip.checkCrc(*zip.find("m/a")));
  EXPECT_TRUE(zip.checkCrc(*zip.find("m/b")));
  patch(bytes, centralOf(bytes, "m/a") + 16, 0u); // "not computed"
  zip = open(bytes);
  EXPECT_TRUE(zip.checkCrc(*zip.find("m/a")));
}

TEST_F(ZipReaderTest, OpensNestedZip) {
  std::string inner = makeZip({{"archive/data.pkl", "pickle"}});
  ZipReader outer = open(makeZip({{"w.pt", inner}, {"z", ""}}, ZipStyle::Python));
  ZipReader nested = ZipReader::openNested(outer, *outer.find("w.pt"));
  const ZipEntry &entry = *nested.find("archive/data.pkl");
  EXPECT_EQ(nested.text(entry), "pickle");
  EXPECT_EQ(nested.path(), path);
  EXPECT_EQ(readBytes(path).substr(entry.payloadOffset, entry.size), "pickle") << "offsets count from the outer file";
}

TEST_F(ZipReaderTest, NestedErrorsNameTheMember) {
  ZipReader outer = open(makeZip({{"w.pt", "not a zip"}}));
  EXPECT_THAT(errorOf([&] { ZipReader::openNested(outer, *outer.find("w.pt")); }),
              HasSubstr("test.zip/w.pt' is not a zip file; expected an archive of torch.export.save"));
}

TEST_F(ZipReaderTest, RefusesEntryOfAnotherArchive) {
  ZipReader zip = open(makeZip({{"a", "x"}}));
  EXPECT_EQ(kindOf([&] { zip.bytes({"b", 1u << 30, 5, 0}); }), ErrorKind::Internal);
  EXPECT_EQ(kindOf([&] { zip.bytes({"b", 0, UINT64_MAX, 0}); }), ErrorKind::Internal);
}

TEST_F(ZipReaderTest, ReadsZip64) {
  ZipReader zip = open(forcedZip64());
  ASSERT_EQ(zip.entries().size(), 1u);
  EXPECT_EQ(zip.text(zip.entries()[0]), "hello");
}

TEST_F(ZipReaderTest, RefusesBrokenZip64) {
  auto changed = [&](const std::function<void(std::string &)> &change) {
    std::string bytes = forcedZip64();
    change(bytes);
    return openError(bytes);
  };
  size_t end = endOf(forcedZip64()), locator = end - 20, end64 = locator - 56, field = end64 - 28;
  EXPECT_THAT(changed([&](auto &b) { patch(b, locator + 8, uint64_t{1} << 60); }),
              HasSubstr("the zip64 end record lies outside the file"));
  EXPECT_THAT(changed([&](auto &b) { patch(b, end64, 0u); }),
              HasSubstr("the zip64 end record is not where its locator says"));
  EXPECT_THAT(changed([&](auto &b) { patch(b, end64 + 16, 7u); }), HasSubstr("split over several files"));
  EXPECT_THAT(changed([&](auto &b) { patch(b, locator, 0u); }),
              HasSubstr("the directory needs a zip64 record, which is missing"));
  EXPECT_THAT(changed([&](auto &b) { patch(b, field + 2, uint16_t{500}); }), HasSubstr("malformed extra field"));
  EXPECT_THAT(changed([&](auto &b) { patch(b, field, uint16_t{2}); }),
              HasSubstr("needs a zip64 field, which is missing"));
  EXPECT_THAT(changed([&](auto &b) {
                patch(b, field + 2, uint16_t{8});
                patch(b, field + 12, uint16_t{2});
                patch(b, field + 14, uint16_t{12});
              }),
              HasSubstr("has a zip64 field that is too short"));
  EXPECT_THAT(changed([&](auto &b) {
                patch(b, field + 4, UINT64_MAX);
                patch(b, field + 12, UINT64_MAX);
              }),
              HasSubstr("reaches past the end of the file"));
  EXPECT_THAT(changed([&](auto &b) { patch(b, end64 + 32, uint64_t{1} << 40); }),
              HasSubstr("it claims 1099511627776 members, more than the 1048576 that ditc accepts"));
}

TEST_F(ZipReaderTest, RefusesWhatIsNoZip) {
  EXPECT_THAT(openError(""),
              HasSubstr("is not a zip file; expected an archive of torch.export.save, a ditc package or a tuning bundle"));
  EXPECT_THAT(openError(std::string(1000, 'x')), HasSubstr("is not a zip file"));
  std::string zip = makeZip({{"a", "payload"}});
  EXPECT_THAT(openError(zip.substr(0, zip.size() - 3)),
              HasSubstr("starts like a zip file but ends without a directory: it is truncated; copy or save it again"));
  EXPECT_THAT(errorOf([] { ZipReader::open("/no/such/file"); }),
              HasSubstr("cannot open '/no/such/file': No such file or directory; check the path and its permissions"));
  EXPECT_THAT(errorOf([&] { ZipReader::open(folder.path); }), HasSubstr("it is a folder, expected a regular file"));
  EXPECT_THAT(errorOf([] { ZipReader::open("/dev/null"); }), HasSubstr("it is a device or pipe"));
}

TEST_F(ZipReaderTest, EveryTruncationIsAnError) {
  std::string zip = makeZip({{"a/first", "payload"}, {"a/second", "x"}});
  for (size_t size = 0; size < zip.size(); ++size)
    EXPECT_EQ(kindOf([&] { open(zip.substr(0, size)); }), ErrorKind::Input) << size;
}

TEST_F(ZipReaderTest, RefusesCompressionAndEncryption) {
  EXPECT_THAT(
      changedError([](auto &b) { patch(b, centralOf(b, "a/first") + 10, uint16_t{8}); }),
      HasSubstr("member 'a/first' is compressed (zip method 8); ditc maps members in place and needs them stored"));
  EXPECT_THAT(changedError([](auto &b) { patch(b, centralOf(b, "a/first") + 8, uint16_t{1}); }),
              HasSubstr("member 'a/first' is encrypted; ditc reads plain archives only"));
  EXPECT_THAT(changedError([](auto &b) { patch(b, localOf(b, "a/first") + 8, uint16_t{8}); }),
              HasSubstr("is stored by the directory but compressed by its own header"));
}

TEST_F(ZipReaderTest, RefusesLyingDirectory) {
  EXPECT_THAT(changedError([](auto &b) { patch(b, endOf(b) + 16, 0x7fffffffu); }), HasSubstr("lies outside the file"));
  EXPECT_THAT(changedError([](auto &b) { patch(b, endOf(b) + 4, uint16_t{1}); }),
              HasSubstr("split over several files"));
  auto setCount = [](std::string &b, uint16_t count) {
    patch(b, endOf(b) + 8, count);
    patch(b, endOf(b) + 10, count);
  };
  EXPECT_THAT(changedError([&](auto &b) { setCount(b, 9); }),
              HasSubstr("it claims 9 members, but its directory has only"));
  EXPECT_THAT(changedError([&](auto &b) { setCount(b, 1); }), HasSubstr("bytes more than its 1 members need"));
  EXPECT_THAT(changedError([](auto &b) { b[centralOf(b, "a/second")] = 'X'; }),
              HasSubstr("its directory is cut short or overwritten"));
  EXPECT_THAT(changedError([](auto &b) { patch(b, centralOf(b, "a/second") + 28, uint16_t{0xfff0}); }),
              HasSubstr("its directory is cut short or overwritten"));
}

TEST_F(ZipReaderTest, RefusesLyingMembers) {
  EXPECT_THAT(changedError([](auto &b) { patch(b, centralOf(b, "a/first") + 42, 0x7fffffffu); }),
              HasSubstr("the header of member 'a/first' lies outside the file"));
  EXPECT_THAT(changedError([](auto &b) { patch(b, centralOf(b, "a/first") + 42, 1u); }),
              HasSubstr("member 'a/first' has no header where the directory says"));
  EXPECT_THAT(changedError([](auto &b) { b[localOf(b, "a/first") + 30] = 'b'; }),
              HasSubstr("member 'a/first' is called 'b/first' in its own header"));
  EXPECT_THAT(changedError([](auto &b) { patch(b, centralOf(b, "a/first") + 20, 6u); }),
              HasSubstr("stored member 'a/first' has two sizes, 6 and 7"));
  auto setSize = [](std::string &b, uint32_t size) {
    patch(b, centralOf(b, "a/second") + 20, size);
    patch(b, centralOf(b, "a/second") + 24, size);
  };
  EXPECT_THAT(changedError([&](auto &b) { setSize(b, 0x7fffffffu); }),
              HasSubstr("member 'a/second' (2147483647 bytes) reaches past the end of the file"));
  EXPECT_THAT(changedError([&](auto &b) { setSize(b, 117); }), HasSubstr("member 'a/second' overlaps the directory"));
  EXPECT_THAT(changedError([&](auto &b) { setSize(b, 99); }, ZipStyle::Python),
              HasSubstr("member 'a/second' has 99 bytes by the directory but 100 by its own header"));
  EXPECT_THAT(changedError([](auto &b) {
                patch(b, centralOf(b, "a/first") + 20, 40u);
                patch(b, centralOf(b, "a/first") + 24, 40u);
              }),
              HasSubstr("two of its members overlap at byte"));
}

TEST_F(ZipReaderTest, RefusesNames) {
  auto nameError = [&](const std::string &name) { return openError(makeZip({{name, "x"}})); };
  EXPECT_THAT(nameError(""), HasSubstr("the member name '' is empty"));
  EXPECT_THAT(nameError("/etc/passwd"), HasSubstr("the member name '/etc/passwd' starts with '/'"));
  EXPECT_THAT(nameError("a\\b"), HasSubstr("has a backslash"));
  EXPECT_THAT(nameError("a/../b"), HasSubstr("has a '..' component"));
  EXPECT_THAT(nameError(".."), HasSubstr("has a '..' component"));
  EXPECT_THAT(nameError("a/.."), HasSubstr("has a '..' component"));
  EXPECT_THAT(nameError("a\nb"), HasSubstr("the member name 'a?b' has a control character"));
  EXPECT_THAT(nameError("a\xff"), HasSubstr("the member name 'a?' is not UTF-8"));
  EXPECT_THAT(nameError("a\xed\xa0\x80"), HasSubstr("is not UTF-8")) << "a surrogate";
  EXPECT_THAT(nameError("a\xc0\xaf"), HasSubstr("is not UTF-8")) << "an overlong slash";
  EXPECT_EQ(open(makeZip({{"a/..b/c..", "x"}, {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "x"}})).entries().size(), 2u);
}

TEST_F(ZipReaderTest, RefusesDuplicates) {
  EXPECT_THAT(openError(makeZip({{"a", "x"}, {"b", "y"}, {"a", "z"}})), HasSubstr("the member 'a' is there twice"));
}

TEST_F(ZipReaderTest, MessagesCutLongNames) {
  std::string error = openError(makeZip({{std::string(5000, 'n') + "\\", "x"}}));
  EXPECT_LT(error.size(), 500u);
}
