// SPDX-License-Identifier: Apache-2.0
//
// All rows of the ATen table in one lookup, and what targets mean that have no row: in-place spellings,
// checks that vanish, random and data-dependent ops that are refused.
#pragma once

#include "compiler/import/OpContext.h"

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ditc {

/// The row that a target runs, and whether the target writes its result to the first operand.
struct ResolvedTarget {
  const OpRow *row = nullptr; ///< null: unknown
  bool writes = false;
};

class AtenTable {
public:
  AtenTable();

  /// `target` as in the graph. `complex`: an operand or a result is complex.
  ResolvedTarget resolve(std::string_view target, bool complex) const;
  std::vector<std::string> targets() const;

private:
  const OpRow *find(std::string_view target, bool complex) const;

  std::vector<OpRow> realRows, complexRows;
  std::unordered_map<std::string_view, const OpRow *> real, complex;
};

/// "torch.ops.aten.add.Tensor" -> "aten.add.Tensor"; other targets stay.
std::string_view shortTarget(std::string_view target);

/// Asserts and constraints: nodes that compute nothing.
bool isCheck(std::string_view target);

/// Symbolic arithmetic, which is evaluated from expressions instead of imported.
bool isSymbolic(const Node &node);

/// True for "aten.item.default" and its like: a tensor's element becomes a number of the graph.
bool isItem(std::string_view target);

/// Why a target is refused whatever its arguments; empty when it is not.
std::string refusalOf(std::string_view target);

/// That a target without a row is not supported, and what to do about it.
std::string adviceOn(std::string_view target);

} // namespace ditc
