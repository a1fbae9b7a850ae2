// SPDX-License-Identifier: Apache-2.0
//
// The persistent cache: bytes by key, on disk, shared by all processes of a user. A cache only saves time,
// so nothing that goes wrong with it is an error: a full disk, a read-only folder, a torn or damaged
// entry count as a miss and leave a warning.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ditc {

struct CacheEntry {
  std::string key;
  uint64_t bytes = 0;   ///< on disk
  int64_t lastUsed = 0; ///< seconds since 1970
};

/// What maintenance did.
struct CacheSweep {
  std::vector<std::string> removed; ///< keys
  uint64_t bytes = 0;               ///< that they freed
  size_t kept = 0;                  ///< entries left
};

/// May be used from several threads and processes at once.
class Cache {
public:
  /// DITC_CACHE_DIR, else XDG_CACHE_HOME/ditc, else HOME/.cache/ditc; empty (nothing is cached) when the
  /// environment has none of them.
  static std::string defaultFolder();
  /// DITC_CACHE_MAX_BYTES, else 10 GiB. Throws Error (Input) when it is no number.
  static uint64_t defaultMaxBytes();

  Cache() : Cache(defaultFolder(), defaultMaxBytes()) {}
  Cache(std::string folder, uint64_t maxBytes);

  const std::string &folder() const { return root; }
  uint64_t maxBytes() const { return limit; }

  /// The bytes stored under the key, checked, or nothing. A damaged entry is removed. Keys are 8 to 128
  /// lower-case hex digits; another key is an Error (Internal).
  std::optional<std::vector<uint8_t>> load(const std::string &key);
  /// True when the entry is on disk now. Removes the least recently used entries when the cache grew over
  /// its limit.
  bool store(const std::string &key, std::span<const uint8_t> bytes);
  /// What went wrong since the last call, as texts for the user.
  std::vector<std::string> takeWarnings();

  /// Entries, least recently used first.
  std::vector<CacheEntry> list() const;
  /// Reads every entry and removes damaged ones.
  CacheSweep verify();
  /// Removes the least recently used entries until at most `bytes` bytes are left, and what crashed
  /// writers left behind.
  CacheSweep prune(uint64_t bytes);
  CacheSweep prune() { return prune(limit); }
  CacheSweep clear() { return prune(0); }

private:
  std::string pathOf(const std::string &key) const;
  void warn(std::string text);

  std::string root;
  uint64_t limit;
  std::mutex mutex; ///< guards what follows
  std::vector<std::string> warnings;
  size_t notStored = 0; ///< results, since warnings were taken
  std::string firstFailure;
  uint64_t storedSincePrune;
};

} // namespace ditc
