// SPDX-License-Identifier: Apache-2.0
#include "passes/KernelGrowth.h"

#include <iterator>
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
    if (!cluster.kernel->acceptsReader(cluster, reader) || savedBytes(id, reader) < 0 || graph.wouldCycleWithReader(id, other))
      continue;
    graph.merge(id, other);
    for (Operation *next : reader->getUsers())
      pending[graph.positionOf(next)] = next;
  }
  takeParts(id);
  trimViews(id);
  storeWholes(id);
}

/// Bytes that are not moved when the kernel `id` computes `reader`: what that takes of it is not loaded, nor stored where nothing
/// else reads it. A norm that nothing but the reader reads, and that could be computed on the way, is stored and loaded then.
int64_t KernelGrowth::savedBytes(Id id, Operation *reader) const {
  int64_t bytes = 0;
  llvm::SmallDenseSet<Value, 8> seen;
  for (Value operand : reader->getOperands()) {
    Operation *def = operand.getDefiningOp();
    Id other = def ? graph.clusterOf(def) : ClusterGraph::kNone;
    if (other == ClusterGraph::kNone || !seen.insert(operand).second)
      continue;
    bool isAlone = llvm::all_of(operand.getUsers(), [&](Operation *user) { return user == reader; });
    int64_t size = dit::tensorBytes(cast<RankedTensorType>(operand.getType()));
    if (other == id)
      bytes += isAlone && !dit::isViewOp(def) ? 2 * size : size;
    else if (isAlone && isTakeable(other) && isa<dit::NormOp>(def))
      bytes -= 2 * size;
  }
  return bytes;
}

/// Of a value that the kernel itself reads by parts (queries and keys, to normalise them) others read parts as well (values).
/// Then those are stored, and not the whole beside what was made of it.
void KernelGrowth::takeParts(Id id) {
  for (Value whole : graph.resultsOf(id)) {
    if (!graph.isReadInside(whole.getDefiningOp(), id))
      continue;
    SmallVector<Operation *> parts;
    llvm::copy_if(whole.getUsers(), std::back_inserter(parts), [&](Operation *user) { return graph.clusterOf(user) != id; });
    const Cluster &cluster = graph.cluster(id);
    if (!llvm::all_of(parts, [&](Operation *part) { return isa<dit::SliceOp>(part) && cluster.kernel->acceptsReader(cluster, part); }))
      continue;
    for (Operation *part : parts) // with the views that say how it is stored
      while (take(id, part) && part->hasOneUse() && isa<dit::ViewOp, dit::PermuteOp>(*part->user_begin()))
        part = *part->user_begin();
  }
}

/// Takes a view of one of the kernel's results from the kernel that reads it so.
bool KernelGrowth::take(Id id, Operation *view) {
  const Cluster &cluster = graph.cluster(id);
  if (graph.clusterOf(view) == ClusterGraph::kNone || !cluster.kernel->acceptsReader(cluster, view))
    return false;
  if (!isTakeable(graph.clusterOf(view)))
    graph.release(view);
  if (graph.wouldCycleWithReader(id, graph.clusterOf(view)))
    return false;
  graph.merge(id, graph.clusterOf(view));
  return true;
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

/// A kernel has a bounded number of results. With more parts than that, what they are parts of is stored, and read in parts.
void KernelGrowth::storeWholes(Id id) {
  size_t most = graph.cluster(id).kernel->maxResults(graph.cluster(id));
  for (bool changed = true; changed && graph.resultsOf(id).size() > most;) {
    changed = false;
    SmallVector<Operation *> ops = graph.cluster(id).ops;
    for (Operation *op : llvm::reverse(ops))
      if (dit::isViewOp(op) && !graph.isReadInside(op, id)) {
        graph.release(op);
        changed = true;
      }
  }
}

} // namespace ditc
