// SPDX-License-Identifier: Apache-2.0
//
// How operations are called in reports: the names of a location, and names of equal operations in repeated
// blocks made equal.
#pragma once

#include "mlir/IR/Location.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ditc {

/// One node of the source graph: its module path (may be empty) and its name.
struct NodeName {
  std::string path, node;

  bool operator==(const NodeName &) const = default;
};

/// Every node that a location was made of; the last one stands for the operation.
std::vector<NodeName> namesOf(mlir::Location loc);

/// "transformer_blocks.3.ff:linear_88", the spelling in remarks, back into its parts.
NodeName parseNodeName(std::string_view text);

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
