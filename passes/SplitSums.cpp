// SPDX-License-Identifier: Apache-2.0
//
// SplitSums: a sum or mean over what does not lie side by side in memory (over the tokens, of each channel: the normaliser of
// linear attention, pooled tokens) would be a block for each result, which reads a column two bytes at a time. The column is
// cut into parts: one kernel sums each of them in one thread, whose neighbours read the columns beside it, and another one
// joins the parts. Sums are in a fixed order, so that results are the same in every run.
//
// Before:
//   func.func @f(%x: tensor<1x32768x512xbf16>) -> tensor<1x1x512xbf16> {
//     %y = dit.fusion "layout"(%x) : (tensor<1x32768x512xbf16>) -> tensor<1x1x512xbf16> {
//     ^bb0(%a: tensor<1x32768x512xbf16>):
//       %s = dit.reduce sum %a axes [1] : (tensor<1x32768x512xbf16>) -> tensor<1x1x512xbf16>
//       dit.yield %s : tensor<1x1x512xbf16>
//     }
//     return %y : tensor<1x1x512xbf16>
//   }
// After:
//   func.func @f(%arg0: tensor<1x32768x512xbf16>) -> tensor<1x1x512xbf16> {
//     %0 = dit.view %arg0 : tensor<1x32768x512xbf16> -> tensor<1x512x64x512xbf16>
//     %1 = dit.permute %0 [1, 0, 3, 2] : tensor<1x512x64x512xbf16> -> tensor<512x1x512x64xbf16>
//     %2 = dit.fusion "rowwise"(%1) : (tensor<512x1x512x64xbf16>) -> tensor<512x1x512x1xf32> {
//     ^bb0(%arg1: tensor<512x1x512x64xbf16>):
//       %4 = dit.reduce  sum %arg1 axes [3] : (tensor<512x1x512x64xbf16>) -> tensor<512x1x512x1xf32>
//       dit.yield %4 : tensor<512x1x512x1xf32>
//     }
//     %3 = dit.fusion "layout"(%2) : (tensor<512x1x512x1xf32>) -> tensor<1x1x512xbf16> {
//     ^bb0(%arg1: tensor<512x1x512x1xf32>):
//       %4 = dit.view %arg1 : tensor<512x1x512x1xf32> -> tensor<512x1x512xf32>
//       %5 = dit.permute %4 [1, 0, 2] : tensor<512x1x512xf32> -> tensor<1x512x512xf32>
//       %6 = dit.reduce  sum %5 axes [1] : (tensor<1x512x512xf32>) -> tensor<1x1x512xbf16>
//       dit.yield %6 : tensor<1x1x512xbf16>
//     }
//     return %3 : tensor<1x1x512xbf16>
//   }
#include "dialects/dit/Tensors.h"
#include "passes/Fusions.h"
#include "passes/Passes.h"
#include "passes/Rewriting.h"
#include "passes/Strided.h"

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_SPLITSUMS
#include "passes/Passes.h.inc"

namespace {

/// So many results, or so few bytes, need no second launch: the first fills a GPU, the other takes some 10 us.
constexpr int64_t kManyResults = int64_t(1) << 16, kFewElements = int64_t(1) << 21;
/// Sums of parts that a GPU is busy with, eight in a thread, and what such a thread goes through.
constexpr int64_t kManyParts = int64_t(1) << 18, kFewestParts = 8, kShortestPart = 16, kLongestPart = 1024;

/// Parts of a column, of equal length: enough for a GPU if there are so many, else as many as there are; 1 for too few.
int64_t partsOf(int64_t column, int64_t results) {
  int64_t most = column / kShortestPart, wanted = std::max<int64_t>(llvm::divideCeil(kManyParts, results), llvm::divideCeil(column, kLongestPart));
  for (int64_t parts = wanted; parts <= most; ++parts)
    if (column % parts == 0)
      return parts;
  for (int64_t parts = std::min(wanted, most); parts >= kFewestParts; --parts)
    if (column % parts == 0)
      return parts;
  return 1;
}

/// The one dimension of more than one element that is combined.
std::optional<int64_t> combinedDim(dit::ReduceOp reduce) {
  ArrayRef<int64_t> shape = shapeOf(reduce.getInput());
  SmallVector<int64_t> dims = llvm::to_vector(llvm::make_filter_range(reduce.getAxes(), [&](int64_t axis) { return shape[axis] > 1; }));
  return dims.size() == 1 ? std::optional(dims[0]) : std::nullopt;
}

/// Do elements along the dimension lie apart in memory, as far as views and maps of one operand show?
bool liesApart(Value value, int64_t dim) {
  while (true) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      if (auto fusion = dyn_cast<dit::FusionOp>(argument.getOwner()->getParentOp())) {
        value = fusion.getInputs()[argument.getArgNumber()];
        continue;
      }
    Operation *def = value.getDefiningOp();
    auto map = dyn_cast_or_null<dit::MapOp>(def);
    if (auto permute = dyn_cast_or_null<dit::PermuteOp>(def)) {
      dim = permute.getPermutation()[dim];
    } else if (auto view = dyn_cast_or_null<dit::ViewOp>(def)) {
      std::optional<int64_t> before = keptAxis(shapeOf(value), shapeOf(view.getInput()), dim);
      if (!before)
        return false;
      dim = *before;
    } else if (!map || map.getInputs().size() != 1 || shapeOf(map.getInputs()[0]) != shapeOf(value)) {
      return llvm::product_of(shapeOf(value).drop_front(dim + 1)) > 1;
    }
    value = def->getOperand(0);
  }
}

/// How many parts the column of a reduction is cut into; 1 where it stays whole.
int64_t partsOf(dit::ReduceOp reduce) {
  bool isSum = reduce.getKind() == dit::ReduceKind::Sum || reduce.getKind() == dit::ReduceKind::Mean;
  Type element = elementOf(reduce.getInput());
  int64_t elements = tensorType(reduce.getInput()).getNumElements(), results = tensorType(reduce.getResult()).getNumElements();
  std::optional<int64_t> dim = combinedDim(reduce);
  if (!isSum || !dim || !isa<FloatType>(element) || element.isF64() || results >= kManyResults || elements < kFewElements || !liesApart(reduce.getInput(), *dim))
    return 1;
  return partsOf(shapeOf(reduce.getInput())[*dim], results);
}

class Splitter {
public:
  explicit Splitter(MLIRContext *context) : b(context) {}

  void run(dit::FusionOp fusion) {
    while (fusion) {
      auto reductions = fusion.getBodyBlock().getOps<dit::ReduceOp>();
      auto found = llvm::find_if(reductions, [](dit::ReduceOp reduce) { return partsOf(reduce) > 1; });
      fusion = found == reductions.end() ? dit::FusionOp() : split(fusion, *found);
    }
  }

private:
  /// The fusion with the reduction of the parts in place of that of the columns.
  dit::FusionOp split(dit::FusionOp fusion, dit::ReduceOp reduce) {
    int64_t parts = partsOf(reduce), dim = *combinedDim(reduce);
    Operation *next = fusion->getNextNode();
    std::string family = fusion.getFamily().str();
    SmallVector<Operation *> ops = inlineFusion(fusion);
    b.setInsertionPoint(ops.front());
    Value sums = sumsOfParts(reduce, ops, dim, parts);
    b.setInsertionPoint(reduce);
    SmallVector<Operation *> joined = join(reduce, sums, dim);
    auto *at = llvm::find(ops, reduce.getOperation());
    at = ops.erase(at);
    ops.insert(at, joined.begin(), joined.end());
    reduce.replaceAllUsesWith(joined.back()->getResult(0));
    reduce.erase();
    eraseUnread(ops); // what was made for the columns alone
    b.setInsertionPoint(next);
    return makeFusion(b, family, ops, resultsReadOutside(ops));
  }

  static void eraseUnread(SmallVectorImpl<Operation *> &ops) {
    for (size_t i = ops.size(); i-- > 0;)
      if (ops[i]->use_empty()) {
        ops[i]->erase();
        ops.erase(ops.begin() + i);
      }
  }

  /// [parts, dimensions that are left...], f32: parts in front, so that neighbours are results that lie side by side.
  Value sumsOfParts(dit::ReduceOp reduce, ArrayRef<Operation *> ops, int64_t dim, int64_t parts) {
    Location loc = reduce.getLoc();
    SmallVector<Operation *> made;
    Value whole = copyOf(b, reduce.getInput(), ops, made);
    SmallVector<int64_t> shape(shapeOf(whole)), order{dim};
    shape[dim] /= parts;
    shape.insert(shape.begin() + dim, parts);
    for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i)
      if (i != dim && i != dim + 1)
        order.push_back(i);
    order.push_back(dim + 1);
    auto cut = dit::ViewOp::create(b, loc, tensorType(whole).clone(shape), whole);
    auto turned = dit::PermuteOp::create(b, loc, tensorType(whole).clone(llvm::map_to_vector(order, [&](int64_t i) { return shape[i]; })), cut, order);
    Value sums = reducedRows(b, loc, turned, reduce.getKind());
    if (!made.empty()) // else they are views of what is in memory
      made.append({cut, turned});
    made.push_back(sums.getDefiningOp());
    return makeFusion(b, "rowwise", made, {sums}).getResult(0);
  }

  /// Sum or mean of the parts, in the type and shape of the reduction.
  SmallVector<Operation *> join(dit::ReduceOp reduce, Value sums, int64_t dim) {
    Location loc = reduce.getLoc();
    SmallVector<int64_t> order; // the parts, from the front, to where the column was
    for (int64_t i = 1, rank = static_cast<int64_t>(shapeOf(sums).size()) - 1; i < rank; ++i)
      order.push_back(i);
    order.insert(order.begin() + dim, 0);
    auto parts = dit::ViewOp::create(b, loc, tensorType(sums).clone(shapeOf(sums).drop_back()), sums);
    auto turned = dit::PermuteOp::create(b, loc, tensorType(sums).clone(llvm::map_to_vector(order, [&](int64_t i) { return shapeOf(parts)[i]; })), parts, order);
    auto whole = dit::ReduceOp::create(b, loc, tensorType(reduce.getResult()), turned, reduce.getKind(), reduce.getAxesAttr());
    return {parts, turned, whole};
  }

  OpBuilder b;
};

class SplitSums : public impl::SplitSumsBase<SplitSums> {
  void runOnOperation() override {
    for (dit::FusionOp fusion : llvm::make_early_inc_range(getOperation().getOps<dit::FusionOp>()))
      if (fusion.getFamily() == "rowwise" || fusion.getFamily() == "layout")
        Splitter(&getContext()).run(fusion);
  }
};

} // namespace
} // namespace ditc
