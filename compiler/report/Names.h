// SPDX-License-Identifier: Apache-2.0
//
// How operations are called in reports: names of equal operations in repeated blocks made equal.
#pragma once

#include "dialects/Locations.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ditc {

/// A module list and the position in it: "transformer_blocks", 3.
struct BlockPosition {
  std::string list;
  int64_t index = 0;

  bool operator==(const BlockPosition &) const = default;
};

/// The outermost list that a module path goes through: its first component that is a number.
std::optional<BlockPosition> blockOf(std::string_view path);

/// The path with `home.index` written as "{i}" when it goes through the same list, and its neighbours as
/// "{i-1}" and "{i+1}", so that equal operations of two blocks have equal names.
std::string generalise(std::string_view path, const std::optional<BlockPosition> &home);

/// The other way round.
std::string specialise(std::string_view pattern, int64_t index);

} // namespace ditc
