// SPDX-License-Identifier: Apache-2.0
//
// A package before weights: everything that depends on the graph alone, and so can be cached whatever the
// weights are.
#pragma once

#include "runtime/Manifest.h"

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace ditc {

struct CorePackage {
  struct Member {
    std::string name;
    std::vector<uint8_t> bytes;
    uint64_t unpackedBytes = 0; ///< of a constant that is compressed; 0: it is not
  };

  Manifest manifest;                 ///< without weights
  std::set<std::string> weightNames; ///< weights that some plan reads
  std::vector<Member> members;

  void add(const std::string &name, std::span<const uint8_t> bytes) { members.push_back({name, {bytes.begin(), bytes.end()}}); }
  void add(const std::string &name, std::string_view text) { add(name, std::span(reinterpret_cast<const uint8_t *>(text.data()), text.size())); }

  /// Compressed when that is worth it: in memory and in the cache, too.
  void addConstant(const std::string &name, std::span<const uint8_t> bytes);

  /// For the cache.
  std::vector<uint8_t> serialise() const;
  static CorePackage parse(std::span<const uint8_t> bytes);
};

} // namespace ditc
