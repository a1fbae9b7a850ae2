// SPDX-License-Identifier: Apache-2.0
//
// GroupKernels: decides which operations one launch computes. Every product, attention, norm and map starts
// as a kernel of its own; kernels then grow as far as the catalogue's templates say yes:
//
//   1. products of one input join side by side (Q, K, V; gate and up; modulations of all blocks), unless the template
//      finds that it holds more memory than the time is worth (K and V of a text, for all blocks),
//   2. what feeds a kernel joins it (concats as ranges, head layouts, the SiLU before modulations); what others read
//      as well is computed again where the template's cost model says that this is cheaper than to load it,
//   3. what reads a kernel joins its epilogue (bias, activation, gates, residual, QK-norm, RoPE), if no norm has to be stored
//      for that; parts of a value that others read as such (V of a joint QKV layer) are then stored, and not the whole, as
//      long as a launch has so many results,
//   4. chains of norms and maps become one pass over the rows,
//   5. kernels of two streams with the same code (image and text tokens) become one launch, unless one of them is the same
//      in every step; so do products of few rows that are independent, whatever their shapes,
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

#include "passes/GroupRemarks.h"
#include "passes/MarkInvariant.h"
#include "passes/ResultLifetimes.h"

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
      : functionName(function.getName()), invariant(stepInvariantValues(function)), graph(function.getBody().front(), catalogue), growth(graph) {}

  LogicalResult run() {
    joinProductsOfOneInput();
    for (StringRef family : {"attention", "gemv", "gemm"})
      forEach(family, [&](Id id) { growth.growProducers(id); });
    for (StringRef family : {"gemm", "gemv", "attention", "conv", "rowwise"})
      forEach(family, [&](Id id) { growth.growReaders(id); });
    for (StringRef family : {"gemv", "gemm", "rowwise", "layout", "attention", "conv"})
      joinStreams(family);
    placeConcats();
    GroupRemarks(graph, growth, functionName).emit(strangers);
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
      if (together.empty() || keptBytes(graph, together.back(), id) > 0 || !acceptsAsColumns(together.back(), id, 0) || !tryMerge(together.back(), id))
        together.push_back(id);
    Id into = together.front();
    for (Id id : ArrayRef(together).drop_front()) {
      Verdict verdict = acceptsAsColumns(into, id, keptBytes(graph, into, id));
      if (verdict && tryMerge(into, id))
        continue;
      if (!verdict)
        strangers.push_back({into, id, verdict});
      into = id;
    }
  }

  Verdict acceptsAsColumns(Id into, Id id, int64_t kept) const { return graph.cluster(id).kernel->acceptsAsColumns(graph.cluster(into), graph.cluster(id), kept); }

  //===-- Streams ---------------------------------------------------------------------------------===//

  /// Shapes of weights, and the operations in order: what two streams of one block have in common. Products of few rows need
  /// nothing in common but to be independent: what counts is that memory is read without a pause.
  std::string signature(Id id) const {
    const Cluster &cluster = graph.cluster(id);
    if (cluster.kernel->family() == "gemv")
      return "";
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
    auto isProduct = llvm::IsaPred<dit::MatmulOp>;
    auto inputs = [](Operation *anchor) { return anchor->getOperand(0); };
    ArrayRef<Operation *> first = graph.cluster(a).anchors, second = graph.cluster(b).anchors;
    return isProduct(first.front()) && isProduct(second.front()) && llvm::any_of(first, [&](Operation *anchor) { return llvm::is_contained(llvm::map_range(second, inputs), anchor->getOperand(0)); });
  }

  /// What is once per generation (the projection of a text) does not join what is of every step.
  Verdict acceptsStreams(Id a, Id b) const {
    const KernelTemplate &kernel = *graph.cluster(a).kernel;
    Verdict verdict = kernel.acceptsAsStreams(graph.cluster(a), graph.cluster(b), [&] { return besideBytes(graph, a, b); });
    Value first = graph.cluster(a).anchors.front()->getResult(0), second = graph.cluster(b).anchors.front()->getResult(0);
    return verdict && invariant.contains(first) != invariant.contains(second) ? Verdict{Reason::DifferentInput, second} : verdict;
  }

  /// What is made of weights alone runs when they are bound: fewer launches gain nothing there, and each stays a part of its block.
  void joinStreams(StringRef family) {
    std::map<std::string, SmallVector<Id>> groups;
    forEach(family, [&](Id id) {
      if (!graph.readsOnlyWeights(id))
        groups[signature(id)].push_back(id);
    });
    for (auto &[text, ids] : groups)
      for (size_t i = 0; i < ids.size(); ++i) {
        size_t tried = 0;
        for (size_t j = i + 1; j < ids.size() && tried < kPartnersTried; ++j) {
          if (graph.cluster(ids[i]).ops.empty() || graph.cluster(ids[j]).ops.empty() || areColumns(ids[i], ids[j]))
            continue;
          ++tried;
          if (graph.dependent(ids[i], ids[j]))
            continue;
          Verdict verdict = acceptsStreams(ids[i], ids[j]);
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

  StringRef functionName;
  llvm::DenseSet<Value> invariant; ///< what is the same in every step
  ClusterGraph graph;
  KernelGrowth growth;
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
