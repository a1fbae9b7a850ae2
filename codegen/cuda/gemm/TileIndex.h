// SPDX-License-Identifier: Apache-2.0
//
// Indices of elements of a tile: sums of a few variables, each with a known range, and a constant. Divisions are exact
// or not done: an index that would need one at run time is not an index of a tile.
#pragma once

#include "mlir/Support/LLVM.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace ditc {

/// A variable runs from 0 to size - 1. `text` is how device code spells it.
struct TileVar {
  std::string text;
  int64_t size = 1;
};

using TileVars = mlir::SmallVector<TileVar>;

/// constant + Σ coefficient · variable, with coefficients above 0, by rising variable.
struct TileIndex {
  int64_t constant = 0;
  mlir::SmallVector<std::pair<unsigned, int64_t>, 4> terms;

  static TileIndex of(int64_t constant) { return {constant, {}}; }
  static TileIndex of(const TileVars &vars, unsigned var) { return vars[var].size == 1 ? TileIndex{} : TileIndex{0, {{var, 1}}}; }

  TileIndex plus(const TileIndex &other) const;
  TileIndex times(int64_t factor) const;
  /// Without `var`, which has this value.
  TileIndex with(unsigned var, int64_t value) const;
  int64_t coefficient(unsigned var) const;
  /// The largest value; the smallest is `constant`.
  int64_t largest(const TileVars &vars) const;
  bool operator==(const TileIndex &) const = default;
};

/// Quotient and remainder by a positive divisor; nothing when they are no sums of variables.
std::optional<std::pair<TileIndex, TileIndex>> divide(const TileIndex &index, int64_t divisor, const TileVars &vars);

/// Row-major number of an element, and back.
TileIndex linearise(mlir::ArrayRef<TileIndex> index, mlir::ArrayRef<int64_t> shape);
std::optional<mlir::SmallVector<TileIndex>> delinearise(TileIndex number, mlir::ArrayRef<int64_t> shape, const TileVars &vars);

} // namespace ditc
