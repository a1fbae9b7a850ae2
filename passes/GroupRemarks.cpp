// SPDX-License-Identifier: Apache-2.0
#include "passes/GroupRemarks.h"

#include "dialects/Locations.h"

#include "mlir/IR/Remarks.h"

using namespace mlir;

namespace ditc {

static std::string pathOf(Location loc) { return writeNodeName(nameOf(loc)); }

void GroupRemarks::emit(ArrayRef<Strangers> strangers) const {
  for (Id id : graph.kernels()) {
    emitPassed(id);
    if (graph.readsOnlyWeights(id))
      continue; // runs once: nothing is lost in a step
    llvm::SmallDenseSet<std::pair<Value, Id>, 8> told;
    Path views;
    for (Value result : graph.resultsOf(id))
      forEachReadingKernel(result, views, [&](Operation *reader, const Path &path) {
        Id other = graph.clusterOf(reader);
        if (other != id && told.insert({result, other}).second)
          emitMissed({id, result, other, reader, dit::tensorBytes(cast<RankedTensorType>(result.getType())), "reads"}, whyApart(id, reader, path));
      });
  }
  for (const Strangers &pair : strangers)
    if (graph.cluster(pair.first).kernel && graph.cluster(pair.second).kernel) // not merged elsewhere, nor made free
      emitMissed({pair.first, graph.cluster(pair.first).anchors.front()->getResult(0), pair.second, graph.cluster(pair.second).anchors.front(), 0, "beside"},
                 pair.verdict);
}

/// The operations of kernels that read `value`, each with the free views on the way.
void GroupRemarks::forEachReadingKernel(Value value, Path &views, llvm::function_ref<void(Operation *, const Path &)> action) const {
  for (Operation *user : value.getUsers()) {
    Id id = graph.clusterOf(user);
    if (id == ClusterGraph::kNone)
      continue;
    if (graph.cluster(id).kernel) {
      action(user, views);
      continue;
    }
    views.push_back(user);
    for (Value result : user->getResults())
      forEachReadingKernel(result, views, action);
    views.pop_back();
  }
}

/// What is in the way: that the reader needs all of the value, a view between the two, what computing it again costs,
/// or what the reader does.
Verdict GroupRemarks::whyApart(Id id, Operation *reader, const Path &views) const {
  Verdict verdict = views.empty() ? graph.cluster(id).kernel->acceptsReader(graph.cluster(id), reader) : whyApartBehind(id, reader, views);
  if (views.empty() && growth.isTakeable(id))
    if (Verdict feeding = growth.acceptsFeeding(graph.clusterOf(reader), graph.cluster(id).ops.front()); feeding.reason == Reason::RecomputeTooDear)
      return feeding;
  if (!verdict)
    return verdict;
  return {graph.wouldCycle(id, graph.clusterOf(reader)) ? Reason::WouldCycle : Reason::AlreadyFused, reader->getOperand(0)};
}

Verdict GroupRemarks::whyApartBehind(Id id, Operation *reader, const Path &views) const {
  Cluster cluster = graph.cluster(id);
  if (Verdict verdict = cluster.kernel->acceptsReader(cluster, reader); verdict.reason == Reason::NeedsWholeInput)
    return verdict;
  for (Operation *view : views) {
    if (Verdict verdict = cluster.kernel->acceptsReader(cluster, view); !verdict)
      return verdict;
    cluster.ops.push_back(view);
    cluster.members.insert(view);
  }
  return cluster.kernel->acceptsReader(cluster, reader);
}

void GroupRemarks::emitMissed(const Pair &pair, const Verdict &verdict) const {
  std::string operand = verdict.operand ? pathOf(verdict.operand.getLoc()) : "";
  remark::missed(pair.reader->getLoc(), remark::RemarkOpts::name("GroupKernels").category("fusion").function(functionName))
      << remark::reason("{0}", StringRef(nameOf(verdict.reason))) << remark::metric("Kernel", familyOf(pair.first))
      << remark::metric("Producer", pathOf(pair.value.getLoc())) << remark::metric("Reader", pathOf(pair.reader->getLoc()))
      << remark::metric("ReaderKernel", familyOf(pair.second)) << remark::metric("Operand", operand) << remark::metric("Relation", pair.relation)
      << remark::metric("Bytes", pair.bytes);
}

void GroupRemarks::emitPassed(Id id) const {
  const Cluster &cluster = graph.cluster(id);
  if (cluster.ops.size() < 2)
    return;
  int64_t saved = 0; // every value that stays inside is neither written nor read
  for (Operation *op : cluster.ops)
    for (Value result : op->getResults())
      if (!dit::isViewOp(op) && !graph.isReadOutside(result, id))
        saved += 2 * dit::tensorBytes(cast<RankedTensorType>(result.getType()));
  remark::passed(cluster.anchors.front()->getLoc(), remark::RemarkOpts::name("GroupKernels").category("fusion").function(functionName))
      << remark::metric("Kernel", familyOf(id)) << remark::metric("Anchor", pathOf(cluster.anchors.front()->getLoc()))
      << remark::metric("Ops", cluster.ops.size()) << remark::metric("BytesSaved", saved);
}

} // namespace ditc
