// SPDX-License-Identifier: Apache-2.0
//
// One file per entry, <folder>/<first two digits>/<key>: a header with a checksum over key and bytes, then
// the bytes. Writers go through a temporary file and a rename, so readers and writers need no lock: a
// reader sees one whole version or none. The time of last use is the file's modification time.
#include "runtime/Cache.h"

#include "runtime/AtomicFile.h"
#include "runtime/Error.h"
#include "runtime/Hash.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>
#include <utility>

namespace ditc {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kDefaultMaxBytes = uint64_t{10} << 30;
/// Then the size of the entry and the checksum, in 16 and 32 hex digits, a newline behind each.
constexpr std::string_view kMagic = "ditc cache 2\n";
constexpr size_t kHeaderBytes = 64;
/// Where the file system has no locks, a temporary file of a writer that is still at work is younger than this.
constexpr int64_t kStaleSeconds = 3600;

/// The part of the header that tells a whole file from a torn one before its bytes are read.
std::string headerStart(uint64_t bytes) { return fmt::format("{}{:016x}\n", kMagic, bytes); }

std::string headerFor(const std::string &key, std::span<const uint8_t> bytes) {
  Hasher hasher;
  hasher.update(std::span(reinterpret_cast<const uint8_t *>(key.data()), key.size()));
  hasher.update(bytes);
  std::string header = fmt::format("{}{}\n", headerStart(bytes.size()), hasher.hex());
  header.resize(kHeaderBytes, '\n');
  return header;
}

bool isKey(std::string_view key) {
  return key.size() >= 8 && key.size() <= 128 && key.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

struct FileCloser {
  int fd;
  ~FileCloser() {
    if (fd >= 0)
      close(fd);
  }
};

/// Fills `out`; false when the file ends early or cannot be read.
bool readAll(int fd, std::span<uint8_t> out) {
  while (!out.empty()) {
    ssize_t count = read(fd, out.data(), out.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return false;
    out = out.subspan(static_cast<size_t>(count));
  }
  return true;
}

/// What an entry's file holds, or nothing when it is not the whole entry of that key.
std::optional<std::vector<uint8_t>> readEntry(const std::string &key, int fd) {
  struct stat status;
  std::array<uint8_t, kHeaderBytes> header;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size < static_cast<off_t>(kHeaderBytes) ||
      !readAll(fd, header))
    return std::nullopt;
  uint64_t size = static_cast<uint64_t>(status.st_size) - kHeaderBytes;
  std::string start = headerStart(size);
  if (std::memcmp(header.data(), start.data(), start.size()) != 0)
    return std::nullopt;
  std::vector<uint8_t> bytes(size);
  if (!readAll(fd, bytes) || std::memcmp(header.data(), headerFor(key, bytes).data(), kHeaderBytes) != 0)
    return std::nullopt;
  return bytes;
}

/// Calls visit(path, name, status) for each file in the folders of the cache, and passes over what vanishes.
template <typename Visit> void forEachFile(const std::string &root, Visit visit) {
  std::error_code ignored;
  for (fs::directory_iterator shard(root, ignored), end; !ignored && shard != end; shard.increment(ignored)) {
    // Only folders that the cache makes itself: whatever else the user keeps there stays.
    std::string name = shard->path().filename().string();
    if (name.size() != 2 || name.find_first_not_of("0123456789abcdef") != std::string::npos)
      continue;
    std::error_code gone;
    for (fs::directory_iterator file(shard->path(), gone); !gone && file != end; file.increment(gone)) {
      struct stat status;
      if (lstat(file->path().c_str(), &status) == 0 && S_ISREG(status.st_mode))
        visit(file->path().string(), file->path().filename().string(), status);
    }
  }
}

} // namespace

std::string Cache::defaultFolder() {
  if (const char *folder = std::getenv("DITC_CACHE_DIR"); folder && *folder)
    return folder;
  if (const char *folder = std::getenv("XDG_CACHE_HOME"); folder && *folder)
    return std::string(folder) + "/ditc";
  if (const char *folder = std::getenv("HOME"); folder && *folder)
    return std::string(folder) + "/.cache/ditc";
  return "";
}

uint64_t Cache::defaultMaxBytes() {
  const char *text = std::getenv("DITC_CACHE_MAX_BYTES");
  if (!text || !*text)
    return kDefaultMaxBytes;
  uint64_t value = 0;
  const char *end = text + std::strlen(text);
  auto [stopped, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stopped != end)
    fail("DITC_CACHE_MAX_BYTES is '{}', expected a number of bytes", text);
  return value;
}

// The first store of a process prunes: nobody knows what others left.
Cache::Cache(std::string folder, uint64_t maxBytes)
    : root(std::move(folder)), limit(maxBytes), storedSincePrune(maxBytes) {}

std::string Cache::pathOf(const std::string &key) const {
  if (!isKey(key))
    failInternal("'{}' is no cache key, expected 8 to 128 lower-case hex digits", key);
  return fmt::format("{}/{}/{}", root, key.substr(0, 2), key);
}

void Cache::warn(std::string text) {
  std::lock_guard lock(mutex);
  warnings.push_back(std::move(text));
}

std::vector<std::string> Cache::takeWarnings() {
  std::lock_guard lock(mutex);
  // A folder that cannot be written fails every result in the same way: one warning for all.
  if (notStored > 0)
    warnings.push_back(fmt::format("{} not cached: {}; set DITC_CACHE_DIR to a folder that can be written",
                                   notStored == 1 ? "a result was" : fmt::format("{} results were", notStored),
                                   firstFailure));
  notStored = 0;
  return std::exchange(warnings, {});
}

std::optional<std::vector<uint8_t>> Cache::load(const std::string &key) {
  std::string path = pathOf(key);
  if (root.empty())
    return std::nullopt;
  FileCloser file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0)
    return std::nullopt;
  std::optional<std::vector<uint8_t>> bytes = readEntry(key, file.fd);
  if (!bytes) {
    unlink(path.c_str());
    warn(fmt::format("the cache entry '{}' was damaged and is made anew", path));
    return std::nullopt;
  }
  futimens(file.fd, nullptr); // Used now. On a read-only folder this fails, which does no harm.
  return bytes;
}

bool Cache::store(const std::string &key, std::span<const uint8_t> bytes) {
  std::string path = pathOf(key);
  if (root.empty())
    return false;
  uint64_t size = bytes.size() + kHeaderBytes;
  if (size > limit) {
    warn(fmt::format("a result of {} bytes was not cached: the cache may hold {} (DITC_CACHE_MAX_BYTES)", size, limit));
    return false;
  }
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  try {
    if (error)
      fail("cannot create '{}': {}", fs::path(path).parent_path().string(), error.message());
    AtomicFile file(path);
    file.write(headerFor(key, bytes));
    file.write(bytes);
    file.commit(/*sync=*/false); // the checksum tells what a power cut tore
  } catch (const Error &failure) {
    std::lock_guard lock(mutex);
    if (notStored++ == 0)
      firstFailure = failure.what();
    return false;
  }
  {
    std::lock_guard lock(mutex);
    storedSincePrune += size;
    if (storedSincePrune <= limit / 16)
      return true;
    storedSincePrune = 0;
  }
  prune();
  return true;
}

std::vector<CacheEntry> Cache::list() const {
  struct Dated {
    CacheEntry entry;
    int64_t nanoseconds;
  };
  std::vector<Dated> found;
  forEachFile(root, [&](const std::string &, const std::string &name, const struct stat &status) {
    if (isKey(name))
      found.push_back({{name, static_cast<uint64_t>(status.st_size), status.st_mtim.tv_sec}, status.st_mtim.tv_nsec});
  });
  std::sort(found.begin(), found.end(), [](const Dated &a, const Dated &b) {
    return std::tuple(a.entry.lastUsed, a.nanoseconds, a.entry.key) <
           std::tuple(b.entry.lastUsed, b.nanoseconds, b.entry.key);
  });
  std::vector<CacheEntry> entries;
  for (Dated &dated : found)
    entries.push_back(std::move(dated.entry));
  return entries;
}

CacheSweep Cache::verify() {
  CacheSweep sweep;
  for (const CacheEntry &entry : list()) {
    std::string path = pathOf(entry.key);
    FileCloser file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    if (file.fd < 0) {
      if (errno != ENOENT) // which means that another process removed it meanwhile
        warn(fmt::format("the cache entry '{}' cannot be read: {}", path, std::strerror(errno)));
      continue;
    }
    if (readEntry(entry.key, file.fd)) {
      ++sweep.kept;
    } else if (unlink(path.c_str()) == 0) {
      sweep.removed.push_back(entry.key);
      sweep.bytes += entry.bytes;
    } else if (errno != ENOENT) {
      warn(fmt::format("the damaged cache entry '{}' cannot be removed: {}", path, std::strerror(errno)));
    }
  }
  return sweep;
}

CacheSweep Cache::prune(uint64_t bytes) {
  forEachFile(root, [&](const std::string &path, const std::string &name, const struct stat &status) {
    if (!isKey(AtomicFile::targetOfTemporary(name)) || AtomicFile::removeAbandoned(path))
      return;
    if (status.st_mtim.tv_sec + kStaleSeconds < std::time(nullptr))
      unlink(path.c_str());
  });
  CacheSweep sweep;
  std::vector<CacheEntry> entries = list();
  uint64_t total = 0;
  for (const CacheEntry &entry : entries)
    total += entry.bytes;
  for (const CacheEntry &entry : entries) {
    std::string path = pathOf(entry.key);
    if (total <= bytes) {
      ++sweep.kept;
    } else if (unlink(path.c_str()) == 0 || errno == ENOENT) {
      total -= entry.bytes;
      sweep.bytes += entry.bytes;
      sweep.removed.push_back(entry.key);
    } else {
      warn(fmt::format("the cache entry '{}' cannot be removed: {}", path, std::strerror(errno)));
      ++sweep.kept;
    }
  }
  return sweep;
}

} // namespace ditc
