// SPDX-License-Identifier: Apache-2.0
#include "passes/ResultLifetimes.h"

#include <map>

using namespace mlir;

namespace ditc {

/// Is the value there before `op` is? Inputs, weights and constants always are.
static bool isThereBefore(const ClusterGraph &graph, Value value, Operation *op) {
  Operation *def = value.getDefiningOp();
  bool isLeaf = !def || graph.clusterOf(def) == ClusterGraph::kNone;
  return isLeaf || graph.positionOf(def) < graph.positionOf(op) || (dit::isViewOp(def) && isThereBefore(graph, def->getOperand(0), op));
}

/// Is the product, or what stands for it after views, norms and maps with what was there before, read behind `position`?
static bool isReadBehind(const ClusterGraph &graph, Operation *product, int position) {
  llvm::SmallPtrSet<Operation *, 16> carriers{product};
  std::map<int, Operation *> pending{{graph.positionOf(product), product}};
  while (!pending.empty()) {
    Operation *op = pending.begin()->second;
    pending.erase(pending.begin());
    for (Operation *reader : op->getUsers()) {
      if (graph.positionOf(reader) > position)
        return true;
      bool carries = (dit::isViewOp(reader) || isa<dit::MapOp, dit::NormOp, dit::ConcatOp>(reader)) && llvm::all_of(reader->getOperands(), [&](Value operand) {
        return carriers.contains(operand.getDefiningOp()) || isThereBefore(graph, operand, product);
      });
      if (carries && carriers.insert(reader).second)
        pending[graph.positionOf(reader)] = reader;
    }
  }
  return false;
}

/// Are all results of the products of `first` read before `second` stands in the program?
static bool isReadBefore(const ClusterGraph &graph, ClusterGraph::Id first, ClusterGraph::Id second) {
  int position = graph.positionOf(graph.cluster(second).anchors.front());
  return llvm::none_of(graph.cluster(first).anchors, [&](Operation *product) { return isReadBehind(graph, product, position); });
}

static int64_t resultBytes(const ClusterGraph &graph, ClusterGraph::Id id) {
  int64_t bytes = 0;
  for (Operation *product : graph.cluster(id).anchors)
    bytes += dit::tensorBytes(cast<RankedTensorType>(product->getResult(0).getType()));
  return bytes;
}

int64_t keptBytes(const ClusterGraph &graph, ClusterGraph::Id into, ClusterGraph::Id id) { return isReadBefore(graph, into, id) ? resultBytes(graph, id) : 0; }

int64_t besideBytes(const ClusterGraph &graph, ClusterGraph::Id a, ClusterGraph::Id b) {
  return isReadBefore(graph, a, b) || isReadBefore(graph, b, a) ? std::min(resultBytes(graph, a), resultBytes(graph, b)) : 0;
}

} // namespace ditc
