// SPDX-License-Identifier: Apache-2.0
//
// Which dimensions of a value are rows and which are columns of the tile that a kernel holds. A product's
// tile has all columns of a head (when the tile is a multiple of head_dim wide) but only some rows, so an
// epilogue may do anything among the columns of one row and nothing between rows.
#pragma once

#include "dialects/fusion/KernelTemplate.h"

#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace ditc {

enum class DimRole : uint8_t { Unit, Row, Column };

using DimRoles = llvm::SmallVector<DimRole, 6>;

/// Roles of the dimensions of every value that a cluster computes, starting from its anchors' results: the
/// last `columns` dimensions of those are columns.
class RoleMap {
public:
  RoleMap(const Cluster &cluster, int64_t columns = 1);

  /// Roles of a value of the cluster; nothing for values from outside.
  const DimRoles *find(mlir::Value value) const;

  /// Roles that the results of `op` would have; a verdict when rows would mix.
  Verdict visit(mlir::Operation *op);

private:
  Verdict visitView(dit::ViewOp op, const DimRoles &roles);
  Verdict visitConcat(dit::ConcatOp op);

  llvm::DenseMap<mlir::Value, DimRoles> known;
};

} // namespace ditc
