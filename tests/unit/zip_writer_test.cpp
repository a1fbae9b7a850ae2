// SPDX-License-Identifier: Apache-2.0
//
// Writing zips: aligned, deterministic, whole or not at all; and members beyond 4 GiB, as sparse files.
#include "ReaderFixture.h"

#include "runtime/AtomicFile.h"
#include "runtime/Zip.h"
#include "runtime/ZipFormat.h"

#include <csignal>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace ditc;
using namespace ditc::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

class ZipWriterTest : public testing::Test {
protected:
  TempFolder folder;
  std::string path = folder / "test.zip";
};

void writeSample(const std::string &path) {
  ZipWriter zip(path);
  zip.add("manifest.json", std::string_view("{}"));
  zip.begin("weights/w");
  zip.append(asBytes("ab"));
  zip.append({});
  zip.append(asBytes("cde"));
  zip.end();
  zip.add("empty", std::string_view());
  zip.finish();
}

/// Allows files of `bytes` at most while it lives: the nearest thing to a full disk.
struct FileSizeLimit {
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before);
    rlimit limit{bytes, before.rlim_max};
    handler = std::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
  }
  rlimit before;
  void (*handler)(int);
};

void writeAt(int fd, uint64_t offset, const std::string &bytes) {
  ASSERT_EQ(::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset)), static_cast<ssize_t>(bytes.size()));
}

} // namespace

TEST_F(ZipWriterTest, RoundTripAligned) {
  writeSample(path);
  ZipReader zip = ZipReader::open(path);
  ASSERT_EQ(zip.entries().size(), 3u);
  EXPECT_EQ(zip.entries()[0].name, "manifest.json");
  EXPECT_EQ(zip.text(*zip.find("manifest.json")), "{}");
  EXPECT_EQ(zip.text(*zip.find("weights/w")), "abcde");
  EXPECT_EQ(zip.text(*zip.find("empty")), "");
  for (const ZipEntry &entry : zip.entries()) {
    EXPECT_EQ(entry.payloadOffset % 64, 0u);
    EXPECT_TRUE(zip.checkCrc(entry));
  }
  EXPECT_NE(zip.find("weights/w")->crc32, 0u);
  EXPECT_THAT(folder.list(), ElementsAre("test.zip"));
}

TEST_F(ZipWriterTest, EqualInputGivesEqualBytes) {
  writeSample(path);
  writeSample(folder / "again.zip");
  EXPECT_EQ(readBytes(path), readBytes(folder / "again.zip"));
}

TEST_F(ZipWriterTest, EmptyArchive) {
  ZipWriter(path).finish();
  EXPECT_THAT(ZipReader::open(path).entries(), IsEmpty());
}

TEST_F(ZipWriterTest, ManyMembersNeedZip64) {
  {
    ZipWriter zip(path);
    for (int i = 0; i < 70'000; ++i)
      zip.add(std::to_string(i), std::string_view());
    zip.finish();
  }
  EXPECT_EQ(ZipReader::open(path).entries().size(), 70'000u);
}

TEST_F(ZipWriterTest, UnfinishedLeavesNothing) {
  {
    ZipWriter zip(path);
    zip.add("a", std::string_view("x"));
    EXPECT_EQ(folder.list().size(), 1u) << "the temporary file";
  }
  EXPECT_THAT(folder.list(), IsEmpty());
}

TEST_F(ZipWriterTest, ReplacesOnlyWhenFinished) {
  writeBytes(path, "old");
  {
    ZipWriter zip(path);
    zip.add("a", std::string_view("x"));
  }
  EXPECT_EQ(readBytes(path), "old");
  writeSample(path);
  EXPECT_EQ(ZipReader::open(path).entries().size(), 3u);
}

TEST_F(ZipWriterTest, TwoWritersDoNotMeet) {
  ZipWriter first(path), second(path);
  first.add("first", std::string_view("x"));
  second.add("second", std::string_view("x"));
  second.finish();
  first.finish();
  EXPECT_NE(ZipReader::open(path).find("first"), nullptr);
  EXPECT_THAT(folder.list(), ElementsAre("test.zip"));
}

TEST_F(ZipWriterTest, OrdinaryPermissions) {
  mode_t mask = ::umask(027);
  writeSample(path);
  ::umask(mask);
  struct stat status;
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST_F(ZipWriterTest, RefusesFolderThatIsNotThere) {
  EXPECT_THAT(errorOf([&] { ZipWriter zip(folder / "no/x.zip"); }),
              HasSubstr("/no/x.zip': No such file or directory; check that the folder exists and may be written"));
}

TEST_F(ZipWriterTest, FullDiskLeavesNothing) {
  std::vector<uint8_t> block(1 << 20);
  std::string error = errorOf([&] {
    FileSizeLimit limit(1 << 19);
    ZipWriter zip(path);
    zip.add("weight", std::span<const uint8_t>(block));
    zip.finish();
  });
  EXPECT_THAT(error, HasSubstr("File too large; free some space or choose another path"));
  EXPECT_THAT(folder.list(), IsEmpty());
}

TEST_F(ZipWriterTest, RenameOntoFolderLeavesNothing) {
  ::mkdir(path.c_str(), 0777);
  EXPECT_THAT(errorOf([&] { writeSample(path); }), HasSubstr("cannot rename the finished file to"));
  EXPECT_THAT(folder.list(), ElementsAre("test.zip"));
}

TEST_F(ZipWriterTest, RefusesNames) {
  ZipWriter zip(path);
  zip.add("a", std::string_view("x"));
  EXPECT_THAT(errorOf([&] { zip.add("a", std::string_view("y")); }),
              HasSubstr("the member 'a' is added twice; rename one of the two"));
  EXPECT_THAT(errorOf([&] { zip.add("a/../b", std::string_view("y")); }),
              HasSubstr("the member name 'a/../b' has a '..' component; rename the weight or kernel"));
  EXPECT_THAT(errorOf([&] { zip.begin(std::string(70'000, 'n')); }), HasSubstr("is longer than 65534 bytes"));
  zip.finish();
  EXPECT_EQ(ZipReader::open(path).entries().size(), 1u);
}

TEST_F(ZipWriterTest, MisuseIsAnInternalError) {
  ZipWriter zip(path);
  EXPECT_EQ(kindOf([&] { zip.append(asBytes("x")); }), ErrorKind::Internal);
  EXPECT_EQ(kindOf([&] { zip.end(); }), ErrorKind::Internal);
  zip.begin("a");
  EXPECT_EQ(kindOf([&] { zip.begin("b"); }), ErrorKind::Internal);
  EXPECT_EQ(kindOf([&] { zip.finish(); }), ErrorKind::Internal);
  zip.end();
  zip.finish();
  EXPECT_EQ(kindOf([&] { zip.finish(); }), ErrorKind::Internal);
  EXPECT_EQ(kindOf([&] { zip.add("b", std::string_view()); }), ErrorKind::Internal);
}

// The writer's records around a hole of 5 GiB: what a large DiT's weights need, without the gigabytes.
TEST_F(ZipWriterTest, MembersBeyond4GiB) {
  constexpr uint64_t kSize = (uint64_t{5} << 30) + 7;
  zip::Member large, small;
  large.entry = {"weights/large", zip::payloadOffsetFor(0, "weights/large"), kSize, 0};
  small.headerOffset = large.entry.payloadOffset + kSize;
  small.entry = {"weights/small", zip::payloadOffsetFor(small.headerOffset, "weights/small"), 4, 0};
  uint64_t directory = small.entry.payloadOffset + 4;
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT, 0666);
  ASSERT_GE(fd, 0);
  writeAt(fd, 0, zip::renderLocalHeader(large));
  writeAt(fd, large.entry.payloadOffset + kSize - 4, "last");
  writeAt(fd, small.headerOffset, zip::renderLocalHeader(small) + "abcd");
  writeAt(fd, directory, zip::renderDirectory({large, small}, directory));
  ::close(fd);

  ZipReader reader = ZipReader::open(path);
  ASSERT_EQ(reader.entries().size(), 2u);
  EXPECT_EQ(reader.entries()[0].size, kSize);
  EXPECT_EQ(reader.text(reader.entries()[0]).substr(kSize - 4), "last");
  EXPECT_EQ(reader.text(reader.entries()[1]), "abcd");
  EXPECT_EQ(reader.entries()[1].payloadOffset % 64, 0u);
}
