// SPDX-License-Identifier: Apache-2.0
//
// gemm, gemv and conv: products with an epilogue on the tile.
#include "codegen/templates/hopper/Catalogue.h"
#include "codegen/templates/hopper/Products.h"

#include "codegen/cuda/sm90/GemmTiles.h"
#include "codegen/cuda/sm90/Hopper.h"
#include "dialects/dit/Tensors.h"
#include "dialects/fusion/Cost.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace ditc {

int64_t productRows(dit::MatmulOp op) {
  auto type = tensorType(op.getResult());
  return type.getNumElements() / std::max<int64_t>(type.getShape().back(), 1);
}

size_t outsideOperands(const Cluster &cluster, Operation *op) {
  llvm::SmallPtrSet<Value, 16> outside;
  auto add = [&](Operation *member) {
    for (Value operand : member->getOperands())
      if (Operation *def = operand.getDefiningOp(); !def || (def != op && !cluster.contains(def)))
        outside.insert(operand);
  };
  for (Operation *member : cluster.ops)
    if (!isa<dit::MatmulOp>(member))
      add(member);
  add(op);
  return outside.size();
}

/// A norm in an epilogue needs its whole row in one tile: a head, not the width of the product.
static Verdict acceptsNorm(dit::NormOp norm, RoleMap &roles) {
  const DimRoles *input = roles.find(norm.getInput());
  if (!input)
    return {Reason::NoSlot, norm.getInput()};
  ArrayRef<int64_t> shape = tensorType(norm.getInput()).getShape();
  int64_t size = 1, columns = 1;
  for (auto [i, role] : llvm::enumerate(*input)) {
    if (role == DimRole::Column)
      columns *= shape[i];
    if (i + norm.getAxes() < shape.size())
      continue;
    if (role == DimRole::Row)
      return {Reason::CrossesRows, norm.getInput()};
    size *= shape[i];
  }
  if (size == columns && size > kMaxTileWidth)
    return {Reason::RowStatistics, norm.getInput()};
  if (size > kMaxTileWidth)
    return {Reason::HeadSplitsTile, norm.getInput()};
  return {};
}

bool isEpilogueType(Operation *op) {
  return llvm::all_of(op->getResultTypes(), [](Type type) {
    Type element = cast<RankedTensorType>(type).getElementType();
    return isa<FloatType>(element) && !is8BitFloat(element);
  });
}

bool feedsOnlyReductions(Operation *op) {
  return isa<dit::MapOp>(op) && !op->use_empty() && llvm::all_of(op->getUsers(), llvm::IsaPred<dit::ReduceOp>) &&
         llvm::none_of(op->getOperands(), [](Value operand) { return operand.hasOneUse(); });
}

Verdict acceptsInEpilogue(const Cluster &cluster, Operation *op, size_t maxOperands) {
  if (isa<dit::MatmulOp, dit::ConvOp, dit::AttentionOp, dit::LinearStateOp, dit::LinearApplyOp>(op))
    return {Reason::NeedsWholeInput, op->getOperand(0)};
  if (isa<dit::ReduceOp, dit::ScanOp>(op) || feedsOnlyReductions(op))
    return {Reason::RowStatistics, op->getOperand(0)};
  if (!dit::isViewOp(op) && !isa<dit::MapOp, dit::NormOp, dit::ConcatOp>(op))
    return {Reason::NoSlot, op->getOperand(0)};
  if (isa<dit::ExpandOp>(op))
    return {Reason::NoSlot, op->getOperand(0)};
  if (!isEpilogueType(op))
    return {Reason::TypeUnsupported, op->getResult(0)};
  RoleMap roles(cluster);
  if (auto norm = dyn_cast<dit::NormOp>(op))
    if (Verdict verdict = acceptsNorm(norm, roles); !verdict)
      return verdict;
  if (Verdict verdict = roles.visit(op); !verdict)
    return verdict;
  if (outsideOperands(cluster, op) > maxOperands)
    return {Reason::TooManyOperands, op->getOperand(0)};
  return {};
}

namespace {

/// The side of a product that changes from run to run, behind views.
Value activationOf(const Cluster &cluster) { return cluster.anchors.front()->getOperand(0); }

/// concat -> linear: a product over two or three ranges of K reads the parts where they are.
Verdict acceptsKRanges(const Cluster &cluster, dit::ConcatOp concat) {
  auto matmul = dyn_cast<dit::MatmulOp>(cluster.anchors.front());
  bool isLastAxis = concat.getAxis() + 1 == static_cast<uint64_t>(tensorType(concat.getResult()).getRank());
  if (!matmul || matmul.getLhs() != concat.getResult() || !isLastAxis || concat.getInputs().size() > 3)
    return {Reason::NoSlot, concat.getResult()};
  return {};
}

/// Weights of a launch that are products of one input.
struct Columns {
  explicit Columns(ArrayRef<const Cluster *> clusters) {
    for (const Cluster *cluster : clusters)
      for (Operation *anchor : cluster->anchors)
        add(cast<dit::MatmulOp>(anchor));
    if (!areInPlace())
      widths.clear(); // then they are one
  }

  /// The kernel reads each where it is.
  bool areInPlace() const { return count == 1 || (count <= kMaxGemmWeights && isTiled); }
  int64_t copiedBytes() const { return areInPlace() ? 0 : bytes; }
  double microseconds() const { return gemmMicroseconds(size, needs()); }
  /// The share of one wave of tiles over the GPU, which is the most that a tail of idle multiprocessors takes.
  double waveMicroseconds() const {
    GemmTiles tiles = gemmCandidates(size, needs()).front();
    double waves = static_cast<double>(tileCount(size, tiles) * tiles.cluster()) / kHopperMultiprocessors;
    return microseconds() / std::max(waves, 1.0);
  }

private:
  GemmNeeds needs() const {
    GemmNeeds needs;
    if (count > 1)
      needs.weightColumns = widths;
    return needs;
  }

  void add(dit::MatmulOp op) {
    int64_t width = tensorType(op.getResult()).getShape().back();
    size = {1, productRows(op), size.columns + width, tensorType(op.getLhs()).getShape().back()};
    widths.push_back(width);
    isTiled &= width % kNarrowestTile == 0;
    bytes += dit::tensorBytes(tensorType(op.getRhs()));
    ++count;
  }

  GemmSize size;
  SmallVector<int64_t> widths;
  size_t count = 0;
  int64_t bytes = 0;
  bool isTiled = true;
};

/// A weight as a launch sees it: its type, and whether it is transposed.
using WeightKind = std::pair<Type, bool>;
/// Weights by what they multiply.
using Streams = llvm::MapVector<Value, SmallVector<WeightKind>>;

Streams streamsOf(ArrayRef<const Cluster *> clusters) {
  Streams streams;
  for (const Cluster *cluster : clusters)
    for (Operation *anchor : cluster->anchors) {
      auto matmul = cast<dit::MatmulOp>(anchor);
      streams[matmul.getLhs()].push_back({matmul.getRhs().getType(), matmul.getTransposeRhs()});
    }
  return streams;
}

class GemmTemplate : public KernelTemplate {
public:
  StringRef family() const override { return "gemm"; }
  bool isAnchor(Operation *op) const override { return isa<dit::MatmulOp>(op) && isa<FloatType>(tensorType(op->getResult(0)).getElementType()); }
  Verdict acceptsReader(const Cluster &cluster, Operation *op) const override { return acceptsInEpilogue(cluster, op, kMaxEpilogueOperands * cluster.anchors.size()); }

  Verdict acceptsProducer(const Cluster &cluster, Operation *op) const override {
    if (auto concat = dyn_cast<dit::ConcatOp>(op))
      return acceptsKRanges(cluster, concat);
    return {Reason::NoSlot, op->getResult(0)};
  }

  size_t maxResults(const Cluster &cluster) const override { return kMaxGemmResults * streamsOf({&cluster}).size(); }

  /// Products of one input side by side (Q, K, V), or the same of two inputs: two streams, image and text.
  Verdict acceptsTogether(const Cluster &a, const Cluster &b) const override {
    auto first = cast<dit::MatmulOp>(a.anchors.front()), second = cast<dit::MatmulOp>(b.anchors.front());
    if (tensorType(first.getLhs()).getElementType() != tensorType(second.getLhs()).getElementType())
      return {Reason::TypeUnsupported, second.getLhs()};
    Streams streams = streamsOf({&a, &b});
    if (streams.size() > kMaxGemmStreams)
      return {Reason::DifferentInput, second.getLhs()};
    if (streams.front().second != streams.back().second)
      return {Reason::ShapeMismatch, second.getRhs()};
    return {};
  }

  /// Where that holds memory, the time saved has to be worth it: a product that fills the GPU alone gains nothing.
  Verdict acceptsAsColumns(const Cluster &a, const Cluster &b, int64_t keptBytes) const override {
    if (Verdict verdict = acceptsTogether(a, b); !verdict)
      return verdict;
    Columns first({&a}), second({&b}), both({&a, &b});
    int64_t held = keptBytes + both.copiedBytes() - first.copiedBytes() - second.copiedBytes();
    double saved = first.microseconds() + second.microseconds() - both.microseconds();
    if (held > 0 && !isWorthHolding(saved, held))
      return {Reason::JoinTooDear, b.anchors.front()->getOperand(1)};
    return {};
  }

  /// One launch saves the tail of a wave of tiles, at most. Of products that fill the GPU many times over that is nothing beside
  /// their results.
  Verdict acceptsAsStreams(const Cluster &a, const Cluster &b, llvm::function_ref<int64_t()> besideBytes) const override {
    if (Verdict verdict = acceptsTogether(a, b); !verdict)
      return verdict;
    if (int64_t bytes = besideBytes(); bytes > 0 && !isWorthHoldingShortly(std::min(Columns({&a}).waveMicroseconds(), Columns({&b}).waveMicroseconds()), bytes))
      return {Reason::JoinTooDear, b.anchors.front()->getOperand(1)};
    return {};
  }
};

class GemvTemplate : public KernelTemplate {
public:
  StringRef family() const override { return "gemv"; }
  bool isAnchor(Operation *op) const override {
    auto matmul = dyn_cast<dit::MatmulOp>(op);
    return matmul && tensorType(matmul.getLhs()).getNumElements() > 0 && productRows(matmul) <= kMaxGemvRows && tensorType(matmul.getRhs()).getRank() == 2 && isa<FloatType>(tensorType(op->getResult(0)).getElementType());
  }
  Verdict acceptsReader(const Cluster &cluster, Operation *op) const override { return acceptsInEpilogue(cluster, op, kMaxGemvOperands); }

  /// The input is a few rows: every block computes a map on it again, mostly for nothing while weights arrive.
  Verdict acceptsProducer(const Cluster &cluster, Operation *op) const override { return acceptsCopy(cluster, op, 0); }

  Verdict acceptsCopy(const Cluster &cluster, Operation *op, unsigned others) const override {
    if (dit::isViewOp(op))
      return {};
    if (!isa<dit::MapOp>(op))
      return {Reason::NoSlot, op->getResult(0)};
    bool fits = tensorType(op->getResult(0)).getNumElements() <= kMaxGemvRows * 65536;
    if (!fits || !recomputePays(workOf(cluster), workOf(op), blocksOf(cluster), others, *findGpu("H100")))
      return {Reason::RecomputeTooDear, op->getResult(0)};
    return {};
  }

  /// Weights of one input side by side, or products with inputs of their own: as many as a launch has parameters for.
  Verdict acceptsTogether(const Cluster &a, const Cluster &b) const override {
    auto first = cast<dit::MatmulOp>(a.anchors.front()), second = cast<dit::MatmulOp>(b.anchors.front());
    if (tensorType(first.getLhs()).getElementType() != tensorType(second.getLhs()).getElementType())
      return {Reason::TypeUnsupported, second.getLhs()};
    if (a.anchors.size() + b.anchors.size() > kMaxGemvProducts)
      return {Reason::NoSlot, second.getRhs()};
    return {};
  }

private:
  static Work workOf(const Cluster &cluster) {
    Work work;
    for (Operation *anchor : cluster.anchors)
      work += ditc::workOf(anchor);
    return work;
  }
  static Work workOf(Operation *op) { return ditc::workOf(op); }

  static double blocksOf(const Cluster &cluster) {
    double columns = 0;
    for (Operation *anchor : cluster.anchors)
      columns += tensorType(anchor->getResult(0)).getShape().back();
    return columns / kGemvColumns;
  }
};

class ConvTemplate : public KernelTemplate {
public:
  StringRef family() const override { return "conv"; }
  bool isAnchor(Operation *op) const override { return isa<dit::ConvOp>(op); }

  /// Output channels lie in dimension 1; maps and views of the whole result are on the tile.
  Verdict acceptsReader(const Cluster &, Operation *op) const override {
    if (isa<dit::MapOp, dit::ViewOp, dit::PermuteOp>(op))
      return {};
    return {isa<dit::NormOp, dit::ReduceOp>(op) ? Reason::RowStatistics : Reason::NoSlot, op->getOperand(0)};
  }
  Verdict acceptsProducer(const Cluster &, Operation *op) const override { return {Reason::NoSlot, op->getResult(0)}; }
  Verdict acceptsTogether(const Cluster &, const Cluster &b) const override { return {Reason::DifferentInput, activationOf(b)}; }
};

} // namespace

std::unique_ptr<const KernelTemplate> makeGemmTemplate() { return std::make_unique<GemmTemplate>(); }
std::unique_ptr<const KernelTemplate> makeGemvTemplate() { return std::make_unique<GemvTemplate>(); }
std::unique_ptr<const KernelTemplate> makeConvTemplate() { return std::make_unique<ConvTemplate>(); }

} // namespace ditc
