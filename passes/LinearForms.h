// SPDX-License-Identifier: Apache-2.0
//
// What a function of a row does to its elements, where that is linear: each result is a sum of elements of the row, times
// elements of tables. A rotation is x[j] * cos[j] - x[j + 1] * sin[j], however it is spelled.
#pragma once

#include "dialects/dit/Dit.h"

#include <optional>

namespace ditc {

/// An element of a table, by its place in it.
struct TableElement {
  mlir::Value table;
  int64_t place;
};

/// factor * row[element] * coefficient, of which either may be missing.
struct LinearTerm {
  double factor = 1;
  std::optional<int64_t> element;
  std::optional<TableElement> coefficient;
};

/// A sum.
using LinearForm = mlir::SmallVector<LinearTerm, 4>;

/// Values of the elements of tables, by their places.
using TableValues = llvm::MapVector<mlir::Value, llvm::DenseMap<int64_t, double>>;

/// True when every value of `narrow` is one of `wide` as well.
bool holdsExactly(mlir::Type wide, mlir::Type narrow);

/// What `map` makes of its arguments, of which some may not be linear; nothing when the result is not, or when an element
/// of type `element` would be rounded.
std::optional<LinearForm> formOf(dit::MapOp map, mlir::ArrayRef<std::optional<LinearForm>> arguments, mlir::Type element);

/// Adds to `values` those under which `form` is `row[element]`, exactly so for finite numbers; false when there are none.
bool solveForElement(const LinearForm &form, int64_t element, TableValues &values);

} // namespace ditc
