// SPDX-License-Identifier: Apache-2.0
//
// The operations of a function as a graph of clusters, which fusers merge. Every operation starts as its own
// cluster; a merge is legal when no path leaves one of the two and comes back to the other.
#pragma once

#include "dialects/fusion/KernelTemplate.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <vector>

namespace ditc {

class ClusterGraph {
public:
  using Id = int;
  static constexpr Id kNone = -1;

  /// One cluster for each operation of `block` but its terminator. Constants and weights are leaves, which
  /// belong to no cluster.
  ClusterGraph(mlir::Block &block, const Catalogue &catalogue);

  Id clusterOf(mlir::Operation *op) const;
  const Cluster &cluster(Id id) const { return clusters[id]; }
  /// Clusters with a kernel, in program order of their first operation.
  std::vector<Id> kernels() const;
  /// Position of an operation in program order.
  int positionOf(mlir::Operation *op) const { return position.lookup(op); }

  /// Operations outside `id` that read its results, in program order.
  llvm::SmallVector<mlir::Operation *> readersOf(Id id) const;
  /// Values from outside that the cluster reads.
  llvm::SmallVector<mlir::Value> inputsOf(Id id) const;
  /// Values of the cluster that others read.
  llvm::SmallVector<mlir::Value> resultsOf(Id id) const;

  /// True when a merge would make a kernel wait for itself.
  bool wouldCycle(Id a, Id b) const;
  /// The same when `reader` is known to read `id` directly, so that nothing leads back from it.
  bool wouldCycleWithReader(Id id, Id reader) const;
  /// True when one of the two needs, directly or not, a result of the other.
  bool dependent(Id a, Id b) const;
  /// Moves the operations of `from` into `into`, which keeps its kernel.
  void merge(Id into, Id from);

  /// Makes an operation a cluster of its own again, without a kernel.
  void release(mlir::Operation *op);
  /// Declares that a cluster needs no launch.
  void makeFree(Id id) { clusters[id].kernel = nullptr; }

  /// Replaces every cluster that has a kernel by a dit.fusion, in an order that respects dependencies. Fails,
  /// leaving the block as it is, when there is none: a merge made a cycle.
  mlir::LogicalResult materialise();

private:
  bool reaches(Id from, Id to, bool directEdgeCounts) const;
  llvm::SmallVector<Id> successors(Id id) const;
  std::vector<Id> topologicalOrder() const;
  void build(Id id, mlir::OpBuilder &builder, llvm::DenseMap<mlir::Value, mlir::Value> &replaced);

  mlir::Block &block;
  std::vector<Cluster> clusters;
  llvm::DenseMap<mlir::Operation *, Id> owner;
  llvm::DenseMap<mlir::Operation *, int> position;
};

} // namespace ditc
