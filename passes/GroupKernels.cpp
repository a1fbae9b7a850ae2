// SPDX-License-Identifier: Apache-2.0
//
// GroupKernels: decides which operations one launch computes. Every product, attention, norm and map starts
// as a kernel of its own; kernels then grow as far as the catalogue's templates say yes:
//
//   1. products of one input join side by side (Q, K, V; gate and up; modulations of all blocks), unless the template
//      finds that it holds more memory than the time is worth (K and V of a text, for all blocks),
//   2. what feeds a kernel joins it (concats as ranges, head layouts, the SiLU before modulations); what others read
//      as well is computed again where the template's cost model says that this is cheaper than to load it,
//   3. what reads a kernel joins its epilogue (bias, activation, gates, residual, QK-norm, RoPE),
//   4. chains of norms and maps become one pass over the rows,
//   5. kernels of two streams with the same code (image and text tokens) become one launch, unless one of them is the same
//      in every step,
//   6. a concat whose parts are kernels' results is a matter of where they are written.
//
// Every refusal is a remark with its reason and operand.
//
// Before:
//   func.func @f(%x: tensor<64x32xbf16>, %w: tensor<128x32xbf16>) -> tensor<64x128xbf16> {
//     %m = dit.matmul %x, %w transpose_rhs : (tensor<64x32xbf16>, tensor<128x32xbf16>) -> tensor<64x128xbf16>
//     %y = dit.map(%m) : (tensor<64x128xbf16>) -> tensor<64x128xbf16> {
//     ^bb0(%p: f32):
//       %q = math.tanh %p : f32
//       dit.yield %q : f32
//     }
//     return %y : tensor<64x128xbf16>
//   }
// After:
//   func.func @f(%x: tensor<64x32xbf16>, %w: tensor<128x32xbf16>) -> tensor<64x128xbf16> {
//     %y = dit.fusion "gemm"(%x, %w) : (tensor<64x32xbf16>, tensor<128x32xbf16>) -> tensor<64x128xbf16> {
//     ^bb0(%a: tensor<64x32xbf16>, %b: tensor<128x32xbf16>):
//       %m = dit.matmul %a, %b transpose_rhs : (tensor<64x32xbf16>, tensor<128x32xbf16>) -> tensor<64x128xbf16>
//       %t = dit.map(%m) : (tensor<64x128xbf16>) -> tensor<64x128xbf16> {
//       ^bb0(%p: f32):
//         %q = math.tanh %p : f32
//         dit.yield %q : f32
//       }
//       dit.yield %t : tensor<64x128xbf16>
//     }
//     return %y : tensor<64x128xbf16>
//   }
#include "passes/GroupKernels.h"

#include "dialects/Locations.h"
#include "passes/ClusterGraph.h"
#include "passes/MarkInvariant.h"

#include "mlir/IR/Remarks.h"
#include "llvm/ADT/MapVector.h"

#include <map>

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_GROUPKERNELS
#include "passes/Passes.h.inc"

namespace {

using Id = ClusterGraph::Id;

/// How many later kernels of equal code are tried as partners in one launch.
constexpr size_t kPartnersTried = 4;

class Grouping {
public:
  Grouping(func::FuncOp function, const Catalogue &catalogue)
      : functionName(function.getName()), invariant(stepInvariantValues(function)), graph(function.getBody().front(), catalogue) {}

  LogicalResult run() {
    joinProductsOfOneInput();
    for (StringRef family : {"attention", "gemv", "gemm"})
      forEach(family, [&](Id id) { growProducers(id); });
    for (StringRef family : {"gemm", "gemv", "attention", "conv", "rowwise"})
      forEach(family, [&](Id id) { growReaders(id); });
    for (StringRef family : {"gemv", "gemm", "rowwise", "layout", "attention", "conv"})
      joinStreams(family);
    placeConcats();
    emitRemarks();
    return graph.materialise();
  }

private:
  StringRef familyOf(Id id) const { return graph.cluster(id).kernel->family(); }

  template <typename Action>
  void forEach(StringRef family, Action action) {
    for (Id id : graph.kernels())
      if (!graph.cluster(id).ops.empty() && familyOf(id) == family)
        action(id);
  }

  bool tryMerge(Id into, Id from) {
    if (graph.wouldCycle(into, from))
      return false;
    graph.merge(into, from);
    return true;
  }

  //===-- Side by side ----------------------------------------------------------------------------===//

  Value inputOf(Id id) const { return graph.cluster(id).anchors.front()->getOperand(0); }

  void joinProductsOfOneInput() {
    for (StringRef family : {"gemv", "gemm"}) {
      llvm::MapVector<Value, SmallVector<Id>> byInput;
      forEach(family, [&](Id id) { byInput[inputOf(id)].push_back(id); });
      for (auto &[input, ids] : byInput)
        joinColumns(ids);
    }
  }

  /// Products that are needed at the same time (Q, K and V of a block) are joined first, then what results with that of
  /// later blocks.
  void joinColumns(ArrayRef<Id> ids) {
    SmallVector<Id> together;
    for (Id id : ids)
      if (together.empty() || keptBytes(together.back(), id) > 0 || !joinAsColumns(together.back(), id, 0))
        together.push_back(id);
    Id into = together.front();
    for (Id id : ArrayRef(together).drop_front()) {
      int64_t kept = keptBytes(into, id);
      if (joinAsColumns(into, id, kept))
        continue;
      if (Verdict verdict = graph.cluster(id).kernel->acceptsAsColumns(graph.cluster(into), graph.cluster(id), kept); !verdict)
        strangers.push_back({into, id, verdict});
      into = id;
    }
  }

  bool joinAsColumns(Id into, Id id, int64_t kept) {
    return graph.cluster(id).kernel->acceptsAsColumns(graph.cluster(into), graph.cluster(id), kept) && tryMerge(into, id);
  }

  /// Bytes of the results of `id` that would be there while nothing of `into` is wanted any more: all, when `into` has
  /// been read to the end where `id` stands in the program.
  int64_t keptBytes(Id into, Id id) const {
    ArrayRef<Operation *> products = graph.cluster(id).anchors;
    int position = graph.positionOf(products.front());
    if (llvm::any_of(graph.cluster(into).anchors, [&](Operation *product) { return isReadBehind(product, position); }))
      return 0;
    int64_t bytes = 0;
    for (Operation *product : products)
      bytes += dit::tensorBytes(cast<RankedTensorType>(product->getResult(0).getType()));
    return bytes;
  }

  /// Is the product, or what stands for it after views, norms and maps with what was there before, read behind `position`?
  bool isReadBehind(Operation *product, int position) const {
    llvm::SmallPtrSet<Operation *, 16> carriers{product};
    std::map<int, Operation *> pending{{graph.positionOf(product), product}};
    while (!pending.empty()) {
      Operation *op = pending.begin()->second;
      pending.erase(pending.begin());
      for (Operation *reader : op->getUsers()) {
        if (graph.positionOf(reader) > position)
          return true;
        bool carries = (dit::isViewOp(reader) || isa<dit::MapOp, dit::NormOp, dit::ConcatOp>(reader)) && llvm::all_of(reader->getOperands(), [&](Value operand) {
          return carriers.contains(operand.getDefiningOp()) || isThereBefore(operand, product);
        });
        if (carries && carriers.insert(reader).second)
          pending[graph.positionOf(reader)] = reader;
      }
    }
    return false;
  }

  /// Inputs, weights and constants always are.
  bool isThereBefore(Value value, Operation *op) const {
    Operation *def = value.getDefiningOp();
    bool isLeaf = !def || graph.clusterOf(def) == ClusterGraph::kNone;
    return isLeaf || graph.positionOf(def) < graph.positionOf(op) || (dit::isViewOp(def) && isThereBefore(def->getOperand(0), op));
  }

  /// Family, shapes of weights, and the operations in order: what two streams of one block have in common.
  std::string signature(Id id) const {
    const Cluster &cluster = graph.cluster(id);
    std::string text;
    llvm::raw_string_ostream stream(text);
    for (Operation *op : cluster.ops) {
      stream << op->getName() << " ";
      auto type = cast<RankedTensorType>(op->getResult(0).getType());
      if (!type.getShape().empty())
        stream << type.getShape().back() << type.getElementType() << " ";
      if (auto matmul = dyn_cast<dit::MatmulOp>(op))
        stream << matmul.getRhs().getType() << " ";
    }
    return text;
  }

  /// Products of one input, which have been looked at.
  bool areColumns(Id a, Id b) const {
    return isa<dit::MatmulOp>(graph.cluster(a).anchors.front()) && isa<dit::MatmulOp>(graph.cluster(b).anchors.front()) && inputOf(a) == inputOf(b);
  }

  /// What is once per generation (the projection of a text) does not join what is of every step.
  Verdict acceptsStreams(Id a, Id b) const {
    Verdict verdict = graph.cluster(a).kernel->acceptsTogether(graph.cluster(a), graph.cluster(b));
    Value first = graph.cluster(a).anchors.front()->getResult(0), second = graph.cluster(b).anchors.front()->getResult(0);
    return verdict && invariant.contains(first) != invariant.contains(second) ? Verdict{Reason::DifferentInput, second} : verdict;
  }

  void joinStreams(StringRef family) {
    std::map<std::string, SmallVector<Id>> groups;
    forEach(family, [&](Id id) { groups[signature(id)].push_back(id); });
    for (auto &[text, ids] : groups)
      for (size_t i = 0; i < ids.size(); ++i) {
        size_t tried = 0;
        for (size_t j = i + 1; j < ids.size() && tried < kPartnersTried; ++j) {
          if (graph.cluster(ids[i]).ops.empty() || graph.cluster(ids[j]).ops.empty() || areColumns(ids[i], ids[j]))
            continue;
          ++tried;
          Verdict verdict = acceptsStreams(ids[i], ids[j]);
          if (graph.dependent(ids[i], ids[j]))
            continue;
          if (!verdict) {
            if (verdict.reason != Reason::NoSlot) // a template that never joins two kernels needs no telling
              strangers.push_back({ids[i], ids[j], verdict});
            continue;
          }
          graph.merge(ids[i], ids[j]);
          tried = 0;
        }
      }
  }

  //===-- Growth ----------------------------------------------------------------------------------===//

  /// A cluster that is one operation and may be taken by another: no product, attention or convolution.
  bool isTakeable(Id id) const { return graph.cluster(id).ops.size() == 1; }

  void growProducers(Id id) {
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

  /// May the kernel `id`, which reads `producer`, compute it?
  Verdict acceptsFeeding(Id id, Operation *producer) const {
    const Cluster &cluster = graph.cluster(id);
    unsigned others = otherReaders(producer, id);
    return others == 0 ? cluster.kernel->acceptsProducer(cluster, producer) : cluster.kernel->acceptsCopy(cluster, producer, others);
  }

  /// Kernels beside `id` that read `producer`.
  unsigned otherReaders(Operation *producer, Id id) const {
    llvm::SmallDenseSet<Id, 4> readers;
    for (Operation *user : producer->getUsers())
      if (Id reader = graph.clusterOf(user); reader != id)
        readers.insert(reader);
    return readers.size();
  }

  /// Readers are asked in program order. What was refused is asked again when something that it reads has joined.
  void growReaders(Id id) {
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
  void trimViews(Id id) {
    bool changed = true;
    while (changed) {
      changed = false;
      SmallVector<Operation *> ops = graph.cluster(id).ops;
      for (Operation *op : llvm::reverse(ops)) {
        if (!dit::isViewOp(op) || readInside(op, id) || !readOutside(op->getOperand(0), id))
          continue;
        graph.release(op);
        changed = true;
      }
    }
  }

  bool readInside(Operation *op, Id id) const {
    return llvm::any_of(op->getUsers(), [&](Operation *user) { return graph.clusterOf(user) == id; });
  }
  bool readOutside(Value value, Id id) const {
    return llvm::any_of(value.getUsers(), [&](Operation *user) { return graph.clusterOf(user) != id; });
  }

  //===-- Concats ---------------------------------------------------------------------------------===//

  /// A concat costs nothing when each part is the result of a kernel that can write it in its place.
  void placeConcats() {
    forEach("layout", [&](Id id) {
      auto concat = dyn_cast<dit::ConcatOp>(graph.cluster(id).ops.front());
      if (!concat || !llvm::all_of(concat.getInputs(), [&](Value part) { return isWrittenInPlace(part, concat); }))
        return;
      concat->setAttr("placement", UnitAttr::get(concat.getContext()));
      graph.makeFree(id);
    });
  }

  bool isWrittenInPlace(Value part, Operation *concat) const {
    Operation *def = part.getDefiningOp();
    while (def && dit::isViewOp(def) && graph.clusterOf(def) != ClusterGraph::kNone && !graph.cluster(graph.clusterOf(def)).kernel && def->hasOneUse()) {
      if (!isa<dit::ViewOp>(def))
        return false;
      def = def->getOperand(0).getDefiningOp();
    }
    Id id = def ? graph.clusterOf(def) : ClusterGraph::kNone;
    return id != ClusterGraph::kNone && graph.cluster(id).kernel;
  }

  //===-- Remarks ---------------------------------------------------------------------------------===//

  static std::string pathOf(Location loc) { return writeNodeName(nameOf(loc)); }

  using Path = SmallVector<Operation *, 4>;

  /// The operations of kernels that read `value`, each with the free views on the way.
  void forEachReadingKernel(Value value, Path &views, llvm::function_ref<void(Operation *, const Path &)> action) const {
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
  Verdict whyApart(Id id, Operation *reader, const Path &views) const {
    Verdict verdict = views.empty() ? graph.cluster(id).kernel->acceptsReader(graph.cluster(id), reader) : whyApartBehind(id, reader, views);
    if (views.empty() && isTakeable(id))
      if (Verdict feeding = acceptsFeeding(graph.clusterOf(reader), graph.cluster(id).ops.front()); feeding.reason == Reason::RecomputeTooDear)
        return feeding;
    if (!verdict)
      return verdict;
    return {graph.wouldCycle(id, graph.clusterOf(reader)) ? Reason::WouldCycle : Reason::AlreadyFused, reader->getOperand(0)};
  }

  Verdict whyApartBehind(Id id, Operation *reader, const Path &views) const {
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

  void emitRemarks() const {
    for (Id id : graph.kernels()) {
      emitPassed(id);
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

  /// Two kernels that stay apart.
  struct Pair {
    Id first;
    Value value;
    Id second;
    Operation *reader;
    int64_t bytes;
    StringRef relation; ///< the reader "reads" the value, or could run "beside" the kernel that makes it
  };

  void emitMissed(const Pair &pair, const Verdict &verdict) const {
    std::string operand = verdict.operand ? pathOf(verdict.operand.getLoc()) : "";
    remark::missed(pair.reader->getLoc(), remark::RemarkOpts::name("GroupKernels").category("fusion").function(functionName))
        << remark::reason("{0}", StringRef(nameOf(verdict.reason))) << remark::metric("Kernel", familyOf(pair.first))
        << remark::metric("Producer", pathOf(pair.value.getLoc())) << remark::metric("Reader", pathOf(pair.reader->getLoc()))
        << remark::metric("ReaderKernel", familyOf(pair.second)) << remark::metric("Operand", operand) << remark::metric("Relation", pair.relation)
        << remark::metric("Bytes", pair.bytes);
  }

  void emitPassed(Id id) const {
    const Cluster &cluster = graph.cluster(id);
    if (cluster.ops.size() < 2)
      return;
    int64_t saved = 0; // every value that stays inside is neither written nor read
    for (Operation *op : cluster.ops)
      for (Value result : op->getResults())
        if (!dit::isViewOp(op) && !readOutside(result, id))
          saved += 2 * dit::tensorBytes(cast<RankedTensorType>(result.getType()));
    remark::passed(cluster.anchors.front()->getLoc(), remark::RemarkOpts::name("GroupKernels").category("fusion").function(functionName))
        << remark::metric("Kernel", familyOf(id)) << remark::metric("Anchor", pathOf(cluster.anchors.front()->getLoc()))
        << remark::metric("Ops", cluster.ops.size()) << remark::metric("BytesSaved", saved);
  }

  /// Kernels of equal code that were not allowed to be one launch.
  struct Strangers {
    Id first, second;
    Verdict verdict;
  };

  StringRef functionName;
  llvm::DenseSet<Value> invariant; ///< what is the same in every step
  ClusterGraph graph;
  SmallVector<Strangers> strangers;
};

class GroupKernels : public impl::GroupKernelsBase<GroupKernels> {
public:
  explicit GroupKernels(std::shared_ptr<const Catalogue> catalogue) : catalogue(std::move(catalogue)) {}

  void runOnOperation() override {
    if (failed(Grouping(getOperation(), *catalogue).run()))
      signalPassFailure();
  }

private:
  std::shared_ptr<const Catalogue> catalogue;
};

} // namespace

std::unique_ptr<Pass> createGroupKernels(std::shared_ptr<const Catalogue> catalogue) { return std::make_unique<GroupKernels>(std::move(catalogue)); }

} // namespace ditc
