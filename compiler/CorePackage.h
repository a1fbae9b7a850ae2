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
#include <utility>
#include <vector>

namespace ditc {

struct CorePackage {
  Manifest manifest;                 ///< without weights
  std::set<std::string> weightNames; ///< weights that some plan reads
  std::vector<std::pair<std::string, std::vector<uint8_t>>> members;

  void add(const std::string &name, std::span<const uint8_t> bytes) { members.emplace_back(name, std::vector<uint8_t>(bytes.begin(), bytes.end())); }
  void add(const std::string &name, std::string_view text) { add(name, std::span(reinterpret_cast<const uint8_t *>(text.data()), text.size())); }

  /// For the cache.
  std::vector<uint8_t> serialise() const;
  static CorePackage parse(std::span<const uint8_t> bytes);
};

} // namespace ditc
