// SPDX-License-Identifier: Apache-2.0
//
// The persistent cache under everything that happens to caches: damage, other writers, no space, no
// permission.
#include "RuntimeFixture.h"

#include "runtime/AtomicFile.h"
#include "runtime/Cache.h"
#include "runtime/Hash.h"

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace ditc;
using namespace ditc::test;

namespace {

constexpr uint64_t kHuge = uint64_t{1} << 40;

std::vector<uint8_t> payload(size_t size, uint8_t seed = 1) {
  std::vector<uint8_t> out(size);
  for (size_t i = 0; i < size; ++i)
    out[i] = static_cast<uint8_t>(i * 31 + seed);
  return out;
}

std::string keyOf(int number) { return hashHex(std::to_string(number)); }

/// Runs `body` in a child process; its result is the exit status.
pid_t startChild(const std::function<int()> &body) {
  pid_t child = fork();
  if (child == 0)
    _exit(body());
  return child;
}

int waitFor(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class CacheTest : public testing::Test {
protected:
  std::string pathOf(const std::string &key) const { return root + "/" + key.substr(0, 2) + "/" + key; }

  void setUsed(const std::string &key, int64_t secondsAgo) const {
    timespec time{std::time(nullptr) - secondsAgo, 0};
    timespec times[2] = {time, time};
    utimensat(AT_FDCWD, pathOf(key).c_str(), times, 0);
  }

  TempFolder folder;
  std::string root = folder / "cache";
  std::string key = keyOf(1);
};

struct Environment {
  Environment(const char *name, const char *value) : name(name) {
    if (const char *held = std::getenv(name))
      old = held;
    if (value)
      setenv(name, value, 1);
    else
      unsetenv(name);
  }
  ~Environment() {
    if (old)
      setenv(name, old->c_str(), 1);
    else
      unsetenv(name);
  }
  const char *name;
  std::optional<std::string> old;
};

} // namespace

TEST_F(CacheTest, StoreAndLoad) {
  Cache cache(root, kHuge);
  EXPECT_FALSE(cache.load(key));
  for (size_t size : {0, 1, 100000}) {
    EXPECT_TRUE(cache.store(key, payload(size)));
    EXPECT_EQ(cache.load(key), payload(size));
  }
  EXPECT_EQ(Cache(root, kHuge).load(key), payload(100000)); // another process would see it
  EXPECT_TRUE(cache.takeWarnings().empty());
}

TEST_F(CacheTest, Folders) {
  Environment dir("DITC_CACHE_DIR", "/a"), xdg("XDG_CACHE_HOME", "/b"), home("HOME", "/c");
  EXPECT_EQ(Cache::defaultFolder(), "/a");
  unsetenv("DITC_CACHE_DIR");
  EXPECT_EQ(Cache::defaultFolder(), "/b/ditc");
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(Cache::defaultFolder(), "/c/.cache/ditc");
  unsetenv("HOME");
  EXPECT_EQ(Cache::defaultFolder(), "");
  Cache none;
  EXPECT_FALSE(none.store(key, payload(3)));
  EXPECT_FALSE(none.load(key));
  EXPECT_TRUE(none.takeWarnings().empty());
}

TEST_F(CacheTest, Limit) {
  Environment limit("DITC_CACHE_MAX_BYTES", nullptr);
  EXPECT_EQ(Cache::defaultMaxBytes(), uint64_t{10} << 30);
  setenv("DITC_CACHE_MAX_BYTES", "12345", 1);
  EXPECT_EQ(Cache::defaultMaxBytes(), 12345u);
  setenv("DITC_CACHE_MAX_BYTES", "10 GB", 1);
  EXPECT_ERROR(Cache::defaultMaxBytes(), "DITC_CACHE_MAX_BYTES is '10 GB', expected a number of bytes");
}

TEST_F(CacheTest, Keys) {
  Cache cache(root, kHuge);
  for (std::string bad : {"", "abc", "../../etc/passwd", "ABCDEF0123", "0123456789/", "012345678g"})
    EXPECT_ERROR(cache.load(bad), "is no cache key, expected 8 to 128 lower-case hex digits");
}

TEST_F(CacheTest, DamageIsAMissAndIsRemoved) {
  Cache cache(root, kHuge);
  const std::function<void(std::string &)> damages[] = {
      [](std::string &bytes) { bytes[200] ^= 1; },                 // a flipped bit
      [](std::string &bytes) { bytes[20] ^= 1; },                  // in the header
      [](std::string &bytes) { bytes.resize(bytes.size() / 2); },  // a torn write
      [](std::string &bytes) { bytes.resize(10); },
      [](std::string &bytes) { bytes.clear(); },
      [](std::string &bytes) { bytes += "more"; },
      [](std::string &bytes) { bytes.assign(bytes.size(), 0); },   // blocks that never reached the disk
  };
  for (const auto &damage : damages) {
    cache.store(key, payload(1000));
    std::string bytes = readText(pathOf(key));
    damage(bytes);
    writeText(pathOf(key), bytes);
    EXPECT_FALSE(cache.load(key));
    EXPECT_FALSE(std::filesystem::exists(pathOf(key)));
    std::vector<std::string> warnings = cache.takeWarnings();
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find("was damaged and is made anew"), std::string::npos);
  }
}

TEST_F(CacheTest, AnEntryUnderAnotherKeyIsRefused) {
  Cache cache(root, kHuge);
  cache.store(key, payload(10));
  std::string other = key;
  other.back() = other.back() == '0' ? '1' : '0';
  std::filesystem::rename(pathOf(key), pathOf(other));
  EXPECT_FALSE(cache.load(other));
}

TEST_F(CacheTest, ManyWritersAndReaders) {
  constexpr int kWriters = 4, kRounds = 100;
  std::vector<pid_t> children;
  for (int w = 0; w < kWriters; ++w)
    children.push_back(startChild([&] {
      Cache cache(root, kHuge);
      int bad = 0;
      for (int i = 0; i < kRounds; ++i) {
        bad += !cache.store(keyOf(i % 5), payload(5000, static_cast<uint8_t>(i % 5)));
        auto found = cache.load(keyOf((i + 1) % 5));
        bad += found && *found != payload(5000, static_cast<uint8_t>((i + 1) % 5));
      }
      return bad + static_cast<int>(cache.takeWarnings().size()) == 0 ? 0 : 1;
    }));
  for (pid_t child : children)
    EXPECT_EQ(waitFor(child), 0);
  Cache cache(root, kHuge);
  EXPECT_EQ(cache.list().size(), 5u); // and no temporary files
  EXPECT_TRUE(cache.verify().removed.empty());
}

TEST_F(CacheTest, AKilledWriterLeavesNoEntry) {
  for (int i = 0; i < 10; ++i) {
    pid_t child = startChild([&] {
      Cache cache(root, kHuge);
      for (;;)
        cache.store(key, payload(1 << 20));
      return 0;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(3 + 5 * i));
    kill(child, SIGKILL);
    waitFor(child);
    Cache cache(root, kHuge);
    std::optional<std::vector<uint8_t>> found = cache.load(key);
    EXPECT_TRUE(!found || *found == payload(1 << 20));
    EXPECT_TRUE(cache.takeWarnings().empty());
  }
}

TEST_F(CacheTest, FullDisk) {
  // The limit on the size of files fails writes as a full disk does.
  EXPECT_EQ(waitFor(startChild([&] {
              rlimit limit{4096, 4096};
              setrlimit(RLIMIT_FSIZE, &limit);
              std::signal(SIGXFSZ, SIG_IGN);
              Cache cache(root, kHuge);
              bool stored = cache.store(key, payload(100000));
              std::vector<std::string> warnings = cache.takeWarnings();
              bool told = warnings.size() == 1 && warnings[0].find("a result was not cached") == 0 &&
                          warnings[0].find("set DITC_CACHE_DIR") != std::string::npos;
              return !stored && told && !cache.load(key) && cache.store(keyOf(2), payload(100)) ? 0 : 1;
            })),
            0);
  for (const auto &entry : std::filesystem::recursive_directory_iterator(root))
    EXPECT_EQ(entry.path().string().find(".tmp-"), std::string::npos);
}

TEST_F(CacheTest, ReadOnlyFolder) {
  Cache(root, kHuge).store(key, payload(100));
  chmod(folder.path.c_str(), 0755);
  EXPECT_EQ(waitFor(startChild([&] {
              if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) // root may write everywhere
                return 2;
              if (access(root.c_str(), W_OK) == 0)
                chmod(root.c_str(), 0555), chmod((root + "/" + key.substr(0, 2)).c_str(), 0555);
              Cache cache(root, kHuge);
              bool reads = cache.load(key) == payload(100) && cache.takeWarnings().empty();
              bool stores = cache.store(keyOf(2), payload(100));
              return reads && !stores && cache.takeWarnings().size() == 1 ? 0 : 1;
            })),
            0);
  chmod(root.c_str(), 0755);
  chmod((root + "/" + key.substr(0, 2)).c_str(), 0755);
}

TEST_F(CacheTest, AFileInPlaceOfTheFolder) {
  writeText(root, "a file");
  Cache cache(root, kHuge);
  EXPECT_FALSE(cache.store(key, payload(3)));
  EXPECT_NE(cache.takeWarnings().at(0).find("cannot create"), std::string::npos);
  EXPECT_TRUE(cache.list().empty());
}

TEST_F(CacheTest, ListIsByLastUse) {
  Cache cache(root, kHuge);
  for (int i = 0; i < 3; ++i) {
    cache.store(keyOf(i), payload(10));
    setUsed(keyOf(i), 100 - i);
  }
  cache.load(keyOf(0));
  std::vector<CacheEntry> entries = cache.list();
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].key, keyOf(1));
  EXPECT_EQ(entries[2].key, keyOf(0));
  EXPECT_EQ(entries[0].bytes, 74u);
}

TEST_F(CacheTest, PruneRemovesTheLeastRecentlyUsed) {
  Cache cache(root, kHuge);
  for (int i = 0; i < 4; ++i) {
    cache.store(keyOf(i), payload(936)); // 1000 bytes with the header
    setUsed(keyOf(i), 100 - i);
  }
  CacheSweep sweep = cache.prune(2500);
  EXPECT_EQ(sweep.removed, (std::vector<std::string>{keyOf(0), keyOf(1)}));
  EXPECT_EQ(sweep.bytes, 2000u);
  EXPECT_EQ(sweep.kept, 2u);
  EXPECT_EQ(cache.clear().removed.size(), 2u);
  EXPECT_TRUE(cache.list().empty());
}

TEST_F(CacheTest, TheLimitHoldsWhileStoring) {
  for (int i = 0; i < 50; ++i) {
    Cache cache(root, 5000); // a new process each time
    EXPECT_TRUE(cache.store(keyOf(i), payload(936)));
    setUsed(keyOf(i), 100 - i);
  }
  EXPECT_EQ(Cache(root, 5000).list().size(), 5u);
  Cache cache(root, 5000);
  for (int i = 50; i < 100; ++i) // and one process with many
    cache.store(keyOf(i), payload(936));
  EXPECT_LE(cache.list().size(), 6u);
  EXPECT_FALSE(cache.store(key, payload(5000)));
  EXPECT_NE(cache.takeWarnings().at(0).find("a result of 5064 bytes was not cached: the cache may hold 5000"),
            std::string::npos);
}

TEST_F(CacheTest, VerifyRemovesDamage) {
  Cache cache(root, kHuge);
  cache.store(keyOf(1), payload(100));
  cache.store(keyOf(2), payload(100));
  writeText(pathOf(keyOf(2)), "rubbish");
  CacheSweep sweep = cache.verify();
  EXPECT_EQ(sweep.removed, std::vector<std::string>{keyOf(2)});
  EXPECT_EQ(sweep.kept, 1u);
}

TEST_F(CacheTest, OnlyItsOwnFilesAreTouched) {
  Cache cache(root, kHuge);
  cache.store(key, payload(100));
  std::string shard = root + "/" + key.substr(0, 2);
  std::filesystem::create_directories(root + "/mine");
  writeText(root + "/mine/0123456789abcdef", "not a cache entry");
  writeText(shard + "/notes.txt", "neither");
  writeText(shard + "/notes.ditc.tmp-1", "nor this");
  AtomicFile atWork(shard + "/" + key); // a writer that still has it open
  writeText(shard + "/" + key + ".ditc.tmp-7", "of a crashed writer");
  EXPECT_EQ(cache.verify().kept, 1u);
  cache.prune(kHuge);
  EXPECT_TRUE(std::filesystem::exists(shard + "/" + key + ".ditc.tmp-0"));
  EXPECT_FALSE(std::filesystem::exists(shard + "/" + key + ".ditc.tmp-7"));
  cache.clear();
  EXPECT_TRUE(std::filesystem::exists(root + "/mine/0123456789abcdef"));
  EXPECT_TRUE(std::filesystem::exists(shard + "/notes.txt"));
  EXPECT_TRUE(std::filesystem::exists(shard + "/notes.ditc.tmp-1"));
  atWork.commit();
  EXPECT_EQ(cache.list().size(), 1u);
}

TEST_F(CacheTest, TheNextWriterRemovesWhatAKilledOneLeft) {
  std::string shard = root + "/" + key.substr(0, 2);
  std::filesystem::create_directories(shard);
  pid_t child = startChild([&] {
    AtomicFile file(shard + "/" + key);
    kill(getpid(), SIGKILL);
    return 0;
  });
  waitFor(child);
  EXPECT_TRUE(std::filesystem::exists(shard + "/" + key + ".ditc.tmp-0"));
  Cache(root, kHuge).store(key, payload(10));
  EXPECT_FALSE(std::filesystem::exists(shard + "/" + key + ".ditc.tmp-0"));
  EXPECT_EQ(Cache(root, kHuge).load(key), payload(10));
}

TEST_F(CacheTest, AnEntryOfAnotherSizeIsNotReadAtAll) {
  Cache cache(root, kHuge);
  cache.store(key, payload(100));
  std::filesystem::resize_file(pathOf(key), uint64_t{1} << 42); // more than there is memory
  EXPECT_FALSE(cache.load(key));
  EXPECT_EQ(cache.takeWarnings().size(), 1u);
}

TEST_F(CacheTest, EntriesThatCannotBeRemoved) {
  Cache(root, kHuge).store(key, payload(100));
  writeText(pathOf(key), "rubbish");
  chmod(folder.path.c_str(), 0755);
  EXPECT_EQ(waitFor(startChild([&] {
              if (geteuid() != 0)
                return 0; // as the owner one could
              if (setgid(65534) != 0 || setuid(65534) != 0)
                return 2;
              Cache cache(root, kHuge);
              cache.verify();
              cache.clear();
              std::vector<std::string> warnings = cache.takeWarnings();
              return warnings.size() == 2 && warnings[0].find("the damaged cache entry") == 0 &&
                             warnings[1].find("cannot be removed") != std::string::npos
                         ? 0
                         : 1;
            })),
            0);
}
