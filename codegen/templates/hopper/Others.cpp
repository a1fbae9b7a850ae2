// SPDX-License-Identifier: Apache-2.0
//
// attention, rowwise and layout.
#include "codegen/templates/hopper/Catalogue.h"
#include "codegen/templates/hopper/Products.h"
#include "dialects/dit/Tensors.h"

using namespace mlir;

namespace ditc {

namespace {

/// Text and image parts of joint attention are ranges of keys and queries.
constexpr size_t kMaxTokenRanges = 3;
constexpr int64_t kMaxHeadSize = 256;

/// The dimension of `shape` with the elements that lie `stride` apart in a dense tensor.
int64_t dimAt(ArrayRef<int64_t> shape, int64_t stride) {
  int64_t dim = static_cast<int64_t>(shape.size()) - 1;
  for (int64_t behind = 1; dim > 0 && (behind *= shape[dim]) <= stride;)
    --dim;
  return dim;
}

/// The dimension of the view in which the elements along dimension `axis` of its input are.
int64_t behindView(dit::ViewOp view, int64_t axis) {
  return dimAt(shapeOf(view.getResult()), llvm::product_of(shapeOf(view.getInput()).drop_front(axis + 1)));
}

/// Does an attention find dimension `axis` of `value`, behind views and in concats, among the channels of its heads?
bool endsInChannels(Value value, int64_t axis) {
  while (!value.use_empty()) {
    OpOperand &use = *value.use_begin();
    Operation *user = use.getOwner();
    if (isa<dit::AttentionOp>(user))
      return use.getOperandNumber() < 3 && axis + 1 == static_cast<int64_t>(shapeOf(value).size());
    if (!dit::isViewOp(user) && !isa<dit::ConcatOp>(user))
      return false;
    value = user->getResult(0);
    if (auto permute = dyn_cast<dit::PermuteOp>(user))
      axis = llvm::find(permute.getPermutation(), axis) - permute.getPermutation().begin();
    else if (auto view = dyn_cast<dit::ViewOp>(user))
      axis = behindView(view, axis);
  }
  return false;
}

/// Does the view make the channels of a head of several dimensions (pairs of a rotation)?
bool joinsChannels(dit::ViewOp view) {
  int64_t joined = 0;
  for (auto [axis, size] : llvm::enumerate(shapeOf(view.getInput())))
    joined += size > 1 && endsInChannels(view.getResult(), behindView(view, axis));
  return joined > 1;
}

class AttentionTemplate : public KernelTemplate {
public:
  StringRef family() const override { return "attention"; }
  bool isAnchor(Operation *op) const override {
    auto attention = dyn_cast<dit::AttentionOp>(op);
    return attention && tensorType(attention.getQuery()).getShape().back() <= kMaxHeadSize;
  }

  /// The output goes where the next product reads it: any strides, with a cast or a gate on the way.
  Verdict acceptsReader(const Cluster &cluster, Operation *op) const override {
    if (isa<dit::NormOp, dit::ReduceOp>(op) || feedsOnlyReductions(op))
      return {Reason::RowStatistics, op->getOperand(0)};
    if (isa<dit::MatmulOp, dit::ConvOp, dit::AttentionOp, dit::LinearStateOp, dit::LinearApplyOp>(op))
      return {Reason::NeedsWholeInput, op->getOperand(0)};
    if (!isEpilogueType(op))
      return {Reason::TypeUnsupported, op->getResult(0)};
    if (dit::isViewOp(op) && !isa<dit::ExpandOp>(op))
      return {};
    if (isa<dit::MapOp>(op) && tensorType(op->getResult(0)).getNumElements() == tensorType(cluster.anchors.front()->getResult(0)).getNumElements())
      return outsideOperands(cluster, op) <= 2 ? Verdict{} : Verdict{Reason::TooManyOperands, op->getOperand(0)};
    return {Reason::NoSlot, op->getOperand(0)};
  }

  /// Tokens in two or three ranges without a concat; heads repeated for grouped queries; masks spread out. Channels are not put
  /// together here (the halves or pairs of a rotation): that belongs to what computes the parts, and stores whole heads.
  Verdict acceptsProducer(const Cluster &, Operation *op) const override {
    if (auto view = dyn_cast<dit::ViewOp>(op); view && joinsChannels(view))
      return {Reason::NoSlot, view.getInput()};
    if (dit::isViewOp(op))
      return {};
    auto concat = dyn_cast<dit::ConcatOp>(op);
    if (!concat)
      return {Reason::NoSlot, op->getResult(0)};
    if (concat.getInputs().size() > kMaxTokenRanges)
      return {Reason::TooManyOperands, concat.getResult()};
    if (endsInChannels(concat.getResult(), concat.getAxis()))
      return {Reason::NoSlot, concat.getResult()};
    return {};
  }
  Verdict acceptsTogether(const Cluster &, const Cluster &b) const override { return {Reason::DifferentInput, b.anchors.front()->getOperand(0)}; }
};

/// One thread block or warp per row: maps, and norms and reductions along the row, in any order.
class RowwiseTemplate : public KernelTemplate {
public:
  StringRef family() const override { return "rowwise"; }
  bool isAnchor(Operation *op) const override { return isa<dit::MapOp, dit::NormOp>(op) || (isa<dit::ReduceOp>(op) && reducesRow(cast<dit::ReduceOp>(op))); }

  Verdict acceptsReader(const Cluster &cluster, Operation *op) const override {
    if (isa<dit::MatmulOp, dit::ConvOp, dit::AttentionOp, dit::LinearStateOp, dit::LinearApplyOp>(op))
      return {Reason::NeedsWholeInput, op->getOperand(0)};
    if (auto reduce = dyn_cast<dit::ReduceOp>(op); reduce && !reducesRow(reduce))
      return {Reason::CrossesRows, reduce.getInput()};
    if (!isa<dit::ViewOp, dit::PermuteOp, dit::SliceOp, dit::ConcatOp, dit::MapOp, dit::NormOp, dit::ReduceOp>(op))
      return {Reason::NoSlot, op->getOperand(0)};
    if (Verdict verdict = keepsRows(cluster, op); !verdict)
      return verdict;
    // Either it walks over the same elements, or it shuffles the columns of a row (RoPE after a norm).
    bool walks = isa<dit::ViewOp, dit::MapOp, dit::NormOp, dit::ReduceOp>(op) && sameRows(cluster, op);
    if (!walks)
      if (Verdict verdict = RoleMap(cluster).visit(op); !verdict)
        return verdict;
    if (outsideOperands(cluster, op) > kMaxEpilogueOperands)
      return {Reason::TooManyOperands, op->getOperand(0)};
    return {};
  }

  Verdict acceptsProducer(const Cluster &, Operation *op) const override { return {Reason::NoSlot, op->getResult(0)}; }

  /// Two streams with the same code (image and text tokens) differ in the number of rows only.
  Verdict acceptsTogether(const Cluster &a, const Cluster &b) const override {
    if (a.ops.size() != b.ops.size())
      return {Reason::ShapeMismatch, b.ops.front()->getResult(0)};
    for (auto [first, second] : llvm::zip(a.ops, b.ops))
      if (first->getName() != second->getName() || tensorType(first->getResult(0)).getShape().take_back(1) != tensorType(second->getResult(0)).getShape().take_back(1))
        return {Reason::ShapeMismatch, second->getResult(0)};
    return {};
  }

private:
  static bool reducesRow(dit::ReduceOp reduce) {
    int64_t rank = tensorType(reduce.getInput()).getRank();
    for (auto [i, axis] : llvm::enumerate(llvm::reverse(reduce.getAxes())))
      if (axis != rank - 1 - static_cast<int64_t>(i))
        return false;
    return true;
  }

  /// Behind a statistic: another one over its rows, of several columns, would compute it again for each of them, and results
  /// that lie side by side along the rows would be stored element by element.
  static Verdict keepsRows(const Cluster &cluster, Operation *op) {
    if (llvm::none_of(cluster.ops, llvm::IsaPred<dit::NormOp, dit::ReduceOp>))
      return {};
    RoleMap map(cluster);
    const DimRoles *roles = map.find(op->getOperand(0));
    if (!roles)
      return {};
    ArrayRef<int64_t> shape = shapeOf(op->getOperand(0));
    auto isRow = [&](int64_t dim) { return (*roles)[dim] == DimRole::Row; };
    SmallVector<int64_t> combined = combinedDims(op, shape);
    if (!combined.empty() && llvm::all_of(combined, isRow) && llvm::is_contained(*roles, DimRole::Column))
      return {Reason::CrossesRows, op->getOperand(0)};
    if (auto permute = dyn_cast<dit::PermuteOp>(op))
      for (int64_t dim : llvm::reverse(permute.getPermutation()))
        if (shape[dim] > 1)
          return isRow(dim) ? Verdict{Reason::NoSlot, permute.getInput()} : Verdict();
    return {};
  }

  /// Dimensions that a norm or reduction takes together, but those of one element.
  static SmallVector<int64_t> combinedDims(Operation *op, ArrayRef<int64_t> shape) {
    SmallVector<int64_t> dims;
    if (auto norm = dyn_cast<dit::NormOp>(op))
      dims = llvm::to_vector(llvm::seq<int64_t>(static_cast<int64_t>(shape.size()) - norm.getAxes(), shape.size()));
    else if (auto reduce = dyn_cast<dit::ReduceOp>(op))
      dims = llvm::to_vector(reduce.getAxes());
    llvm::erase_if(dims, [&](int64_t dim) { return shape[dim] == 1; });
    return dims;
  }

  /// Elements of the space that an operation iterates over.
  static int64_t iterations(Operation *op) {
    if (isa<dit::ReduceOp>(op))
      return tensorType(op->getOperand(0)).getNumElements();
    return tensorType(op->getResult(0)).getNumElements();
  }

  static int64_t iterations(const Cluster &cluster) {
    int64_t most = 0;
    for (Operation *op : cluster.ops)
      most = std::max(most, iterations(op));
    return most;
  }

  /// The rows of the cluster, whole or reduced to one value each.
  static Verdict sameRows(const Cluster &cluster, Operation *op) {
    int64_t all = iterations(cluster), own = iterations(op);
    if (own == all)
      return {};
    bool perRow = llvm::any_of(cluster.ops, [&](Operation *member) { return isa<dit::ReduceOp>(member) && tensorType(member->getResult(0)).getNumElements() == own; });
    bool reduced = llvm::all_of(cluster.ops, [](Operation *member) { return isa<dit::ReduceOp, dit::ViewOp>(member); });
    if (perRow || (reduced && own > all))
      return {};
    return {Reason::ShapeMismatch, op->getResult(0)};
  }
};

/// What moves elements by index or along other axes than the row.
class LayoutTemplate : public KernelTemplate {
public:
  StringRef family() const override { return "layout"; }
  bool isAnchor(Operation *op) const override { return !dit::isViewOp(op) && op->getName().getDialectNamespace() == "dit"; }
  Verdict acceptsReader(const Cluster &, Operation *op) const override { return {Reason::NoSlot, op->getOperand(0)}; }
  Verdict acceptsProducer(const Cluster &, Operation *op) const override { return {Reason::NoSlot, op->getResult(0)}; }
  /// Rows of many tables by the same indices: the label embeddings of all blocks.
  Verdict acceptsTogether(const Cluster &a, const Cluster &b) const override {
    auto first = dyn_cast<dit::GatherOp>(a.anchors.front()), second = dyn_cast<dit::GatherOp>(b.anchors.front());
    if (!first || !second)
      return {Reason::NoSlot, b.ops.front()->getResult(0)};
    if (first.getIndices() != second.getIndices())
      return {Reason::DifferentInput, second.getIndices()};
    return {};
  }
};

} // namespace

std::unique_ptr<const KernelTemplate> makeAttentionTemplate() { return std::make_unique<AttentionTemplate>(); }
std::unique_ptr<const KernelTemplate> makeRowwiseTemplate() { return std::make_unique<RowwiseTemplate>(); }
std::unique_ptr<const KernelTemplate> makeLayoutTemplate() { return std::make_unique<LayoutTemplate>(); }

} // namespace ditc
