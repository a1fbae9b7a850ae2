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

/// Roles of the dimensions of the values that a cluster computes, found on demand from its anchors' results:
/// the last dimension of those (all that a norm covers) are columns.
class RoleMap {
public:
  explicit RoleMap(const Cluster &cluster) : cluster(cluster) {}

  /// Roles of a value of the cluster; nothing for values from outside.
  const DimRoles *find(mlir::Value value) &; ///< lives as long as the map

  /// Roles that the results of `op` would have; a verdict when rows would mix.
  Verdict visit(mlir::Operation *op);

private:
  Verdict visitView(dit::ViewOp op, const DimRoles &roles);
  Verdict visitConcat(dit::ConcatOp op);
  bool restoresColumns(mlir::Operation *map);

  void addAnchor(mlir::Operation *anchor);

  const Cluster &cluster;
  llvm::DenseMap<mlir::Value, DimRoles> known;
};

} // namespace ditc
