// SPDX-License-Identifier: Apache-2.0
#include "passes/ClusterGraph.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

#include <queue>

using namespace mlir;

namespace ditc {

static bool isLeaf(Operation *op) { return isa<dit::ConstantOp, dit::WeightOp>(op); }

static const KernelTemplate *templateFor(Operation *op, const Catalogue &catalogue) {
  if (dit::isViewOp(op))
    return nullptr;
  for (const auto &kernel : catalogue)
    if (kernel->isAnchor(op))
      return kernel.get();
  return nullptr;
}

ClusterGraph::ClusterGraph(Block &block, const Catalogue &catalogue) : block(block) {
  int next = 0;
  for (Operation &op : block.without_terminator()) {
    position[&op] = next++;
    if (isLeaf(&op))
      continue;
    owner[&op] = clusters.size();
    clusters.push_back({templateFor(&op, catalogue), {&op}, {&op}, {&op}});
  }
  position[block.getTerminator()] = next;
  crossings.resize(next + 1, 0);
  extents.resize(clusters.size(), {0, -1, -1});
  for (Id id = 0; id < static_cast<Id>(clusters.size()); ++id)
    updateExtent(id);
}

ClusterGraph::Id ClusterGraph::clusterOf(Operation *op) const {
  auto entry = owner.find(op);
  return entry == owner.end() ? kNone : entry->second;
}

std::vector<ClusterGraph::Id> ClusterGraph::kernels() const {
  std::vector<Id> ids;
  for (Id id = 0; id < static_cast<Id>(clusters.size()); ++id)
    if (!clusters[id].ops.empty() && clusters[id].kernel)
      ids.push_back(id);
  llvm::sort(ids, [&](Id a, Id b) { return positionOf(clusters[a].ops.front()) < positionOf(clusters[b].ops.front()); });
  return ids;
}

SmallVector<Operation *> ClusterGraph::readersOf(Id id) const {
  llvm::SetVector<Operation *> readers;
  for (Operation *op : clusters[id].ops)
    for (Operation *user : op->getUsers())
      if (clusterOf(user) != id)
        readers.insert(user);
  SmallVector<Operation *> sorted = readers.takeVector();
  llvm::sort(sorted, [&](Operation *a, Operation *b) { return positionOf(a) < positionOf(b); });
  return sorted;
}

SmallVector<Value> ClusterGraph::inputsOf(Id id) const {
  llvm::SetVector<Value> inputs;
  for (Operation *op : clusters[id].ops)
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp(); !def || clusterOf(def) != id)
        inputs.insert(operand);
  return inputs.takeVector();
}

bool ClusterGraph::readsOnlyWeights(Id id) const {
  SmallVector<Value> inputs = inputsOf(id);
  return !inputs.empty() && llvm::all_of(inputs, [](Value input) { return dit::behindViews(input).getDefiningOp<dit::WeightOp>() != nullptr; });
}

SmallVector<Value> ClusterGraph::resultsOf(Id id) const {
  SmallVector<Value> results;
  for (Operation *op : clusters[id].ops)
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) { return clusterOf(user) != id; }))
        results.push_back(result);
  return results;
}

SmallVector<ClusterGraph::Id> ClusterGraph::successors(Id id) const {
  llvm::SmallSetVector<Id, 8> next;
  for (Operation *op : clusters[id].ops)
    for (Operation *user : op->getUsers())
      if (Id reader = clusterOf(user); reader != kNone && reader != id)
        next.insert(reader);
  return next.takeVector();
}

ClusterGraph::Extent ClusterGraph::extentOf(Id id) const {
  const Cluster &cluster = clusters[id];
  if (cluster.ops.empty())
    return {0, -1, -1};
  Extent extent{positionOf(cluster.ops.front()), positionOf(cluster.ops.back()), -1};
  for (Operation *op : cluster.ops)
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp(); def && clusterOf(def) != kNone && clusterOf(def) != id)
        extent.lastNeeded = std::max(extent.lastNeeded, positionOf(def));
  return extent;
}

void ClusterGraph::addToCrossings(const Extent &extent, int count) {
  for (int p = extent.first; p < extent.lastNeeded; ++p)
    crossings[p] += count;
}

void ClusterGraph::updateExtent(Id id) {
  addToCrossings(extents[id], -1);
  extents[id] = extentOf(id);
  addToCrossings(extents[id], 1);
}

/// Depth-first search up to the first position behind `to` from which nothing leads back. A merged cluster may have
/// operations from far apart, so its own position bounds nothing.
bool ClusterGraph::reaches(Id from, Id to, bool directEdgeCounts) const {
  int horizon = extents[to].last;
  while (crossings[horizon] != 0)
    ++horizon;
  if (extents[from].first > horizon)
    return false;
  llvm::SmallDenseSet<Id, 32> seen;
  SmallVector<Id> stack;
  for (Id next : successors(from)) {
    if (next == to) {
      if (directEdgeCounts)
        return true;
    } else if (extents[next].first <= horizon && seen.insert(next).second) {
      stack.push_back(next);
    }
  }
  while (!stack.empty())
    for (Id next : successors(stack.pop_back_val())) {
      if (next == to)
        return true;
      if (next != from && extents[next].first <= horizon && seen.insert(next).second)
        stack.push_back(next);
    }
  return false;
}

bool ClusterGraph::wouldCycleWithReader(Id id, Id reader) const {
  bool direct = llvm::all_of(inputsOf(reader), [&](Value input) {
    Operation *def = input.getDefiningOp();
    return !def || clusterOf(def) == kNone || clusterOf(def) == id;
  });
  return !direct && reaches(id, reader, false);
}

bool ClusterGraph::wouldCycle(Id a, Id b) const { return reaches(a, b, false) || reaches(b, a, false); }

bool ClusterGraph::dependent(Id a, Id b) const { return reaches(a, b, true) || reaches(b, a, true); }

void ClusterGraph::merge(Id into, Id from) {
  Cluster &target = clusters[into], &source = clusters[from];
  for (Operation *op : source.ops)
    owner[op] = into;
  target.ops.append(source.ops);
  target.members.insert(source.ops.begin(), source.ops.end());
  auto before = [&](Operation *a, Operation *b) { return positionOf(a) < positionOf(b); };
  std::inplace_merge(target.ops.begin(), target.ops.end() - source.ops.size(), target.ops.end(), before);
  if (source.kernel == target.kernel)
    target.anchors.append(source.anchors);
  source = {};
  updateExtent(from);
  updateExtent(into);
}

void ClusterGraph::mergeCopy(Id id, Operation *op) {
  OpBuilder builder(op);
  Operation *copy = builder.clone(*op);
  position[copy] = positionOf(op);
  owner[copy] = id;
  for (auto [from, to] : llvm::zip(op->getResults(), copy->getResults()))
    from.replaceUsesWithIf(to, [&](OpOperand &use) { return clusterOf(use.getOwner()) == id; });
  Cluster &cluster = clusters[id];
  cluster.ops.push_back(copy);
  cluster.members.insert(copy);
  llvm::sort(cluster.ops, [&](Operation *a, Operation *b) { return positionOf(a) < positionOf(b); });
  updateExtent(id);
}

void ClusterGraph::release(Operation *op) {
  Id from = clusterOf(op), id = clusters.size();
  Cluster &old = clusters[from];
  llvm::erase(old.ops, op);
  old.members.erase(op);
  owner[op] = id;
  clusters.push_back({nullptr, {op}, {op}, {op}});
  extents.push_back({0, -1, -1});
  updateExtent(from);
  updateExtent(id);
}

//===-- Back to IR --------------------------------------------------------------------------------===//

/// Kahn's algorithm; among ready clusters the one that comes first in the program.
std::vector<ClusterGraph::Id> ClusterGraph::topologicalOrder() const {
  std::vector<int> waiting(clusters.size(), 0);
  for (Id id = 0; id < static_cast<Id>(clusters.size()); ++id)
    if (!clusters[id].ops.empty())
      for (Id next : successors(id))
        ++waiting[next];
  auto later = [&](Id a, Id b) { return positionOf(clusters[a].ops.front()) > positionOf(clusters[b].ops.front()); };
  std::priority_queue<Id, std::vector<Id>, decltype(later)> ready(later);
  for (Id id = 0; id < static_cast<Id>(clusters.size()); ++id)
    if (!clusters[id].ops.empty() && waiting[id] == 0)
      ready.push(id);
  std::vector<Id> order;
  while (!ready.empty()) {
    Id id = ready.top();
    ready.pop();
    order.push_back(id);
    for (Id next : successors(id))
      if (--waiting[next] == 0)
        ready.push(next);
  }
  return order;
}

void ClusterGraph::build(Id id, OpBuilder &builder, llvm::DenseMap<Value, Value> &replaced) {
  const Cluster &cluster = clusters[id];
  auto current = [&](Value value) { return replaced.contains(value) ? replaced.lookup(value) : value; };
  if (!cluster.kernel) { // a free view stays outside
    for (Operation *op : cluster.ops) {
      IRMapping mapping;
      for (Value operand : op->getOperands())
        mapping.map(operand, current(operand));
      Operation *copy = builder.clone(*op, mapping);
      for (auto [from, to] : llvm::zip(op->getResults(), copy->getResults()))
        replaced[from] = to;
    }
    return;
  }
  SmallVector<Value> inputs = inputsOf(id), results = resultsOf(id), operands;
  SmallVector<Location> locations;
  for (Value input : inputs)
    operands.push_back(current(input));
  SmallVector<Type> resultTypes(ValueRange(results).getTypes());
  for (Operation *op : cluster.ops)
    locations.push_back(op->getLoc());
  auto fusion = dit::FusionOp::create(builder, builder.getFusedLoc(locations), resultTypes, cluster.kernel->family(), operands);
  OpBuilder::InsertionGuard guard(builder);
  Block *body = builder.createBlock(&fusion.getBody());
  IRMapping mapping;
  for (Value input : inputs)
    mapping.map(input, body->addArgument(input.getType(), input.getLoc()));
  for (Operation *op : cluster.ops)
    builder.clone(*op, mapping);
  SmallVector<Value> yielded;
  for (Value result : results)
    yielded.push_back(mapping.lookup(result));
  dit::YieldOp::create(builder, fusion.getLoc(), yielded);
  for (auto [from, to] : llvm::zip(results, fusion.getResults()))
    replaced[from] = to;
}

LogicalResult ClusterGraph::materialise() {
  std::vector<Id> order = topologicalOrder();
  if (order.size() != static_cast<size_t>(llvm::count_if(clusters, [](const Cluster &cluster) { return !cluster.ops.empty(); })))
    return block.getParentOp()->emitError("kernels wait for each other after grouping");
  OpBuilder builder(block.getTerminator());
  llvm::DenseMap<Value, Value> replaced;
  for (Id id : order)
    build(id, builder, replaced);
  for (OpOperand &operand : block.getTerminator()->getOpOperands())
    if (Value value = replaced.lookup(operand.get()))
      operand.set(value);
  SmallVector<Operation *> old;
  for (auto &[op, id] : owner)
    old.push_back(op);
  llvm::sort(old, [&](Operation *a, Operation *b) { return positionOf(a) > positionOf(b); });
  for (Operation *op : old)
    op->erase();
  return success();
}

} // namespace ditc
