// SPDX-License-Identifier: Apache-2.0
#include "passes/KernelGrowth.h"

#include <map>

using namespace mlir;

namespace ditc {

void KernelGrowth::growProducers(Id id) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (Value input : graph.inputsOf(id)) {
      Operation *producer = input.getDefiningOp();
      Id other = producer ? graph.clusterOf(producer) : ClusterGraph::kNone;
      if (other == ClusterGraph::kNone || !isTakeable(other) || !acceptsFeeding(id, producer))
        continue;
      if (otherReaders(producer, id) == 0)
        graph.merge(id, other); // it is read here alone, so nothing else leads back
      else if (!dit::isViewOp(producer)) // a view that others read stays free
        graph.mergeCopy(id, producer);
      else
        continue;
      changed = true;
      break;
    }
  }
}

Verdict KernelGrowth::acceptsFeeding(Id id, Operation *producer) const {
  const Cluster &cluster = graph.cluster(id);
  unsigned others = otherReaders(producer, id);
  return others == 0 ? cluster.kernel->acceptsProducer(cluster, producer) : cluster.kernel->acceptsCopy(cluster, producer, others);
}

/// Kernels beside `id` that read `producer`.
unsigned KernelGrowth::otherReaders(Operation *producer, Id id) const {
  llvm::SmallDenseSet<Id, 4> readers;
  for (Operation *user : producer->getUsers())
    if (Id reader = graph.clusterOf(user); reader != id)
      readers.insert(reader);
  return readers.size();
}

void KernelGrowth::growReaders(Id id) {
  std::map<int, Operation *> pending;
  for (Operation *reader : graph.readersOf(id))
    pending[graph.positionOf(reader)] = reader;
  while (!pending.empty()) {
    Operation *reader = pending.begin()->second;
    pending.erase(pending.begin());
    Id other = graph.clusterOf(reader);
    if (other == id || other == ClusterGraph::kNone || !isTakeable(other))
      continue;
    const Cluster &cluster = graph.cluster(id);
    if (!cluster.kernel->acceptsReader(cluster, reader) || graph.wouldCycleWithReader(id, other))
      continue;
    graph.merge(id, other);
    for (Operation *next : reader->getUsers())
      pending[graph.positionOf(next)] = next;
  }
  trimViews(id);
}

/// A view at the edge of a kernel belongs to it when it says how a result is stored. When its source is
/// stored as well, it is a view of that.
void KernelGrowth::trimViews(Id id) {
  bool changed = true;
  while (changed) {
    changed = false;
    SmallVector<Operation *> ops = graph.cluster(id).ops;
    for (Operation *op : llvm::reverse(ops)) {
      if (!dit::isViewOp(op) || graph.isReadInside(op, id) || !graph.isReadOutside(op->getOperand(0), id))
        continue;
      graph.release(op);
      changed = true;
    }
  }
}

} // namespace ditc
