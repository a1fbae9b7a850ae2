// SPDX-License-Identifier: Apache-2.0
#include "passes/RowsFirst.h"

#include "dialects/dit/Tensors.h"
#include "dialects/fusion/DimRoles.h"
#include "passes/Terms.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;

namespace ditc {

static Cluster clusterOf(Block &body) {
  Cluster cluster;
  for (Operation &op : body.without_terminator()) {
    cluster.ops.push_back(&op);
    cluster.members.insert(&op);
    if (isa<dit::MatmulOp>(op))
      cluster.anchors.push_back(&op);
  }
  return cluster;
}

/// The dimensions of a result with those of columns behind all others; empty where they are not known.
static SmallVector<int64_t> rowsFirst(Value result, RoleMap &roles) {
  const DimRoles *found = result.getDefiningOp() ? roles.find(result) : nullptr;
  SmallVector<int64_t> order;
  for (bool columns : {false, true})
    for (size_t dim = 0; found && dim < found->size(); ++dim)
      if (((*found)[dim] == DimRole::Column) == columns)
        order.push_back(dim);
  return order;
}

dit::FusionOp putRowsFirst(OpBuilder &b, dit::FusionOp fusion, const TargetKernels &kernels) {
  if (kernels.takes(fusion).reason != Reason::EmptyTiles)
    return {};
  b.setInsertionPoint(fusion);
  auto own = cast<dit::FusionOp>(b.clone(*fusion));
  Cluster cluster = clusterOf(own.getBodyBlock());
  RoleMap roles(cluster);
  Operation *yield = own.getBodyBlock().getTerminator();
  SmallVector<SmallVector<int64_t>> orders;
  b.setInsertionPoint(yield);
  for (auto [operand, result] : llvm::zip(yield->getOpOperands(), own.getResults())) {
    orders.push_back(rowsFirst(operand.get(), roles));
    if (orders.back().empty())
      continue;
    operand.set(permuted(b, own.getLoc(), operand.get(), orders.back()));
    result.setType(operand.get().getType());
  }
  if (!kernels.takes(own)) {
    own.erase();
    return {};
  }
  b.setInsertionPointAfter(own);
  for (auto [before, result, order] : llvm::zip(fusion.getResults(), own.getResults(), orders))
    before.replaceAllUsesWith(order.empty() ? Value(result) : permuted(b, own.getLoc(), result, invertPermutationVector(order)));
  fusion.erase();
  return own;
}

} // namespace ditc
