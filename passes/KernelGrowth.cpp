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
  takeParts(id);
  trimViews(id);
}

/// A value of which the kernel computes with parts (the queries and keys of one product for Q, K and V) would be stored
/// whole beside what becomes of them when others read the rest (the values, which an attention cuts out itself). The kernel
/// stores the rest as parts too, up to what is no view.
void KernelGrowth::takeParts(Id id) {
  for (Operation *op : SmallVector<Operation *>(graph.cluster(id).ops))
    for (Operation *part : partsOutside(op->getResult(0), id)) {
      while (dit::isViewOp(part) && graph.cluster(id).kernel->acceptsReader(graph.cluster(id), part)) {
        if (!isTakeable(graph.clusterOf(part)))
          graph.release(part);
        graph.merge(id, graph.clusterOf(part));
        if (!part->hasOneUse() || graph.clusterOf(*part->getUsers().begin()) == ClusterGraph::kNone)
          break;
        part = *part->getUsers().begin();
      }
    }
}

/// The slices of `value` that others read; none when the kernel has no use of its own for a slice of it, or would store
/// all of it anyway.
SmallVector<Operation *> KernelGrowth::partsOutside(Value value, Id id) const {
  SmallVector<Operation *> outside;
  bool isUsedInParts = false;
  for (Operation *user : value.getUsers()) {
    if (!isa<dit::SliceOp>(user))
      return {};
    bool isInside = graph.clusterOf(user) == id;
    if (!isInside && (graph.clusterOf(user) == ClusterGraph::kNone || !graph.cluster(id).kernel->acceptsReader(graph.cluster(id), user)))
      return {};
    isUsedInParts |= isInside && computesOn(user, id);
    if (!isInside)
      outside.push_back(user);
  }
  return isUsedInParts ? outside : SmallVector<Operation *>();
}

/// True when the kernel computes with what the view `op` shows.
bool KernelGrowth::computesOn(Operation *op, Id id) const {
  return llvm::any_of(op->getUsers(), [&](Operation *user) { return graph.clusterOf(user) == id && (!dit::isViewOp(user) || computesOn(user, id)); });
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
