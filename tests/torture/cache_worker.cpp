// SPDX-License-Identifier: Apache-2.0
//
// A compiler without the compiling, for cache_torture.py: per "compile" it asks the cache for a result, makes it when it
// is not there, stores it, and writes a package with it. What a result must be follows from its number, so anything
// else that comes out of the cache ends the process with status 3, and a result that is not stored with status 1.
//
//   cache_worker expect FOLDER                             writes all packages without a cache
//   cache_worker work CACHE LIMIT FOLDER SEED FIRST COUNT  compiles FIRST to COUNT; prints one letter for each: h(it), m(iss),
//                                                          d(amaged) or f(ull disk)
#include "runtime/AtomicFile.h"
#include "runtime/Cache.h"
#include "runtime/Error.h"
#include "runtime/Hash.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fmt/ranges.h>
#include <random>
#include <sys/resource.h>
#include <unistd.h>

using namespace ditc;

namespace {

constexpr unsigned kResults = 48;
constexpr size_t kLargest = 64 << 10;

/// Result `number`: its size and bytes are random, and always the same.
std::vector<uint8_t> resultOf(unsigned number) {
  std::minstd_rand random(number + 1);
  std::vector<uint8_t> bytes(1 + random() % kLargest);
  for (uint8_t &byte : bytes)
    byte = static_cast<uint8_t>(random() >> 8);
  return bytes;
}

void writePackage(const std::string &folder, unsigned number, std::span<const uint8_t> bytes) {
  AtomicFile file(fmt::format("{}/{}.dita", folder, number));
  file.write(bytes);
  file.commit(/*sync=*/false);
}

/// While it lives no file may grow beyond half of a large result, like on a disk that is nearly full.
struct FullDisk {
  explicit FullDisk(bool full) {
    getrlimit(RLIMIT_FSIZE, &before);
    rlimit limit{full ? kLargest / 4 : before.rlim_cur, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before); }
  rlimit before;
};

/// Returns the letter.
char compile(Cache &cache, const std::string &folder, std::minstd_rand &random) {
  unsigned number = random() % kResults;
  bool fullDisk = random() % 20 == 0;
  std::vector<uint8_t> expected = resultOf(number);
  std::string key = hashHex(fmt::format("result {}", number));
  std::optional<std::vector<uint8_t>> found = cache.load(key);
  char letter = found ? 'h' : cache.takeWarnings().empty() ? 'm' : 'd';
  if (found && *found != expected) {
    fmt::print(stderr, "the cache gave something else for result {}\n", number);
    std::exit(3);
  }
  if (!found) {
    FullDisk disk(fullDisk);
    if (!cache.store(key, expected)) {
      letter = 'f';
      if (!fullDisk)
        fail("a result was not stored: {}", fmt::join(cache.takeWarnings(), "; "));
    }
  }
  writePackage(folder, number, found ? *found : expected);
  return letter;
}

int work(const std::vector<std::string> &arguments) {
  auto number = [&](size_t i) { return std::strtoul(arguments[i].c_str(), nullptr, 10); };
  for (unsigned long i = number(5); i < number(6); ++i) {
    std::minstd_rand random(static_cast<unsigned>(number(4) * 100003 + i + 1));
    random.discard(10);
    Cache cache(arguments[1], number(2)); // as every process has its own
    char letter = compile(cache, arguments[3], random);
    if (write(STDOUT_FILENO, &letter, 1) != 1)
      return 1;
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  std::signal(SIGXFSZ, SIG_IGN);
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 2 && arguments[0] == "expect") {
    for (unsigned number = 0; number < kResults; ++number)
      writePackage(arguments[1], number, resultOf(number));
    return 0;
  }
  if (arguments.size() != 7 || arguments[0] != "work")
    return 2;
  try {
    return work(arguments);
  } catch (const Error &error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
