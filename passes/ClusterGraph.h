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
  /// Of weights and nothing else, behind views: it runs when they are bound, not in a step.
  bool readsOnlyWeights(Id id) const;
  /// Values of the cluster that others read.
  llvm::SmallVector<mlir::Value> resultsOf(Id id) const;
  bool isReadInside(mlir::Operation *op, Id id) const {
    return llvm::any_of(op->getUsers(), [&](mlir::Operation *user) { return clusterOf(user) == id; });
  }
  bool isReadOutside(mlir::Value value, Id id) const {
    return llvm::any_of(value.getUsers(), [&](mlir::Operation *user) { return clusterOf(user) != id; });
  }

  /// True when a merge would make a kernel wait for itself.
  bool wouldCycle(Id a, Id b) const;
  /// The same when `reader` is known to read `id` directly, so that nothing leads back from it.
  bool wouldCycleWithReader(Id id, Id reader) const;
  /// True when one of the two needs, directly or not, a result of the other.
  bool dependent(Id a, Id b) const;
  /// Moves the operations of `from` into `into`, which keeps its kernel.
  void merge(Id into, Id from);

  /// Computes a second time what `op` computes, in the cluster `id`, which reads the copy from now on.
  void mergeCopy(Id id, mlir::Operation *op);
  /// Makes an operation a cluster of its own again, without a kernel.
  void release(mlir::Operation *op);
  /// Declares that a cluster needs no launch.
  void makeFree(Id id) { clusters[id].kernel = nullptr; }

  /// Replaces every cluster that has a kernel by a dit.fusion, in an order that respects dependencies. Fails,
  /// leaving the block as it is, when there is none: a merge made a cycle.
  mlir::LogicalResult materialise();

private:
  /// Where the operations of a cluster stand in the program.
  struct Extent {
    int first, last;
    int lastNeeded; ///< the last operation of another cluster that it reads; -1 for none
  };

  bool reaches(Id from, Id to, bool directEdgeCounts) const;
  Extent extentOf(Id id) const;
  void updateExtent(Id id);
  void addToCrossings(const Extent &extent, int count);
  llvm::SmallVector<Id> successors(Id id) const;
  std::vector<Id> topologicalOrder() const;
  void build(Id id, mlir::OpBuilder &builder, llvm::DenseMap<mlir::Value, mlir::Value> &replaced);

  mlir::Block &block;
  std::vector<Cluster> clusters;
  llvm::DenseMap<mlir::Operation *, Id> owner;
  llvm::DenseMap<mlir::Operation *, int> position;
  std::vector<Extent> extents;
  /// For each position p the clusters that have an operation at or before p and read one behind p. Where there is none,
  /// no path leads from behind p back to p, which keeps searches within a block of the model.
  std::vector<int> crossings;
};

} // namespace ditc
