// SPDX-License-Identifier: Apache-2.0
//
// HoistSlices: a slice of a rearranged value becomes a rearrangement of a slice. Queries, keys and values that are columns
// of one product are then told apart at the product, in whatever order a model reshapes, permutes and unbinds them; each
// becomes a result of the product's kernel with its own epilogue, instead of one result with all three that is read in parts.
//
// A slice of columns passes a permute always, and a reshape where it takes a range of the outermost of the dimensions that
// the columns were split into. Slices of rows stay: what is behind them says how all rows are stored.
//
// A product whose rows part behind it, each part into its own maps (CogView4's image and text, behind one output projection), is a
// product of each part, with the same weight: one launch of two inputs, with an epilogue for each. Columns of a linear layer that nobody
// reads are not computed.
//
// What was padded and is cut again (Mochi's attention, whose text was packed) is not padded: the pad moves behind the views, to the
// slices, where canonicalisation drops it, or pads those parts alone that reach over the edge.
//
// Before:
//   func.func @f(%x: tensor<5x16xf32>, %w: tensor<48x16xf32>) -> tensor<1x2x5x8xf32> {
//     %m = dit.matmul %x, %w transpose_rhs : (tensor<5x16xf32>, tensor<48x16xf32>) -> tensor<5x48xf32>
//     %v = dit.view %m : tensor<5x48xf32> -> tensor<5x3x2x8xf32>
//     %p = dit.permute %v [1, 2, 0, 3] : tensor<5x3x2x8xf32> -> tensor<3x2x5x8xf32>
//     %s = dit.slice %p offsets [1, 0, 0, 0] steps [1, 1, 1, 1] : tensor<3x2x5x8xf32> -> tensor<1x2x5x8xf32>
//     return %s : tensor<1x2x5x8xf32>
//   }
// After:
//   func.func @f(%x: tensor<5x16xf32>, %w: tensor<48x16xf32>) -> tensor<1x2x5x8xf32> {
//     %m = dit.matmul %x, %w transpose_rhs : (tensor<5x16xf32>, tensor<48x16xf32>) -> tensor<5x48xf32>
//     %s = dit.slice %m offsets [0, 16] steps [1, 1] : tensor<5x48xf32> -> tensor<5x16xf32>
//     %v = dit.view %s : tensor<5x16xf32> -> tensor<5x1x2x8xf32>
//     %p = dit.permute %v [1, 2, 0, 3] : tensor<5x1x2x8xf32> -> tensor<1x2x5x8xf32>
//     return %p : tensor<1x2x5x8xf32>
//   }
#include "dialects/dit/Tensors.h"
#include "passes/Passes.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_HOISTSLICES
#include "passes/Passes.h.inc"

namespace {

/// What a slice takes of each dimension.
struct Ranges {
  SmallVector<int64_t> offsets, steps, sizes;

  static Ranges of(dit::SliceOp op) {
    return {SmallVector<int64_t>(op.getOffsets()), SmallVector<int64_t>(op.getSteps()), SmallVector<int64_t>(op.getType().getShape())};
  }
  static Ranges all(ArrayRef<int64_t> shape) { return {SmallVector<int64_t>(shape.size(), 0), SmallVector<int64_t>(shape.size(), 1), SmallVector<int64_t>(shape)}; }

  bool isAll(ArrayRef<int64_t> shape) const { return ArrayRef<int64_t>(sizes) == shape; }

  Value apply(Value input, Location loc, OpBuilder &b) const {
    auto type = RankedTensorType::get(sizes, cast<RankedTensorType>(input.getType()).getElementType());
    return isAll(shapeOf(input)) ? input : dit::SliceOp::create(b, loc, type, input, offsets, steps).getResult();
  }
};

/// The dimension of the input that is split, with dimension `to` of the result as the outermost one of its parts.
std::optional<int64_t> splitBy(dit::ViewOp view, int64_t dim) {
  ArrayRef<int64_t> from = shapeOf(view.getInput()), to = shapeOf(view.getResult());
  if (llvm::is_contained(from, 0))
    return std::nullopt;
  int64_t before = 1, count = 1, behind = 1;
  for (int64_t size : to.take_front(dim))
    before *= size;
  for (int64_t size : to.drop_front(dim + 1))
    behind *= size;
  for (auto [i, size] : llvm::enumerate(from)) {
    if (count == before && size > 1) {
      int64_t rest = 1; // elements behind the input's dimension
      for (int64_t inner : from.drop_front(i + 1))
        rest *= inner;
      return size % to[dim] == 0 && behind % rest == 0 ? std::optional<int64_t>(i) : std::nullopt;
    }
    count *= size;
  }
  return std::nullopt;
}

/// A dimension of a value.
using Dim = std::pair<Value, int64_t>;

/// The dimensions that `dim` is made of, where an op only rearranges them, casts or adds a bias.
SmallVector<Dim> madeOf(Dim dim) {
  auto [value, position] = dim;
  Operation *def = value.getDefiningOp();
  if (auto permute = dyn_cast_if_present<dit::PermuteOp>(def))
    return {{permute.getInput(), permute.getPermutation()[position]}};
  if (auto view = dyn_cast_if_present<dit::ViewOp>(def)) {
    std::optional<int64_t> from = splitBy(view, position);
    return from ? SmallVector<Dim>{{view.getInput(), *from}} : SmallVector<Dim>();
  }
  SmallVector<Dim> operands;
  if (isa_and_present<dit::SliceOp, dit::MapOp>(def))
    for (Value operand : def->getOperands())
      if (shapeOf(operand).size() == shapeOf(value).size() && shapeOf(operand)[position] > 1)
        operands.push_back({operand, position});
  return operands;
}

/// True when dimension `dim` of `value` is made of columns of a product.
bool isColumn(Value value, int64_t dim) {
  SmallVector<Dim> pending{{value, dim}};
  DenseSet<Dim> seen; // values that are read several times would be followed as often, and again behind them
  while (!pending.empty()) {
    Dim next = pending.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    if (next.first.getDefiningOp<dit::MatmulOp>() && next.second + 1 == static_cast<int64_t>(shapeOf(next.first).size()))
      return true;
    pending.append(madeOf(next));
  }
  return false;
}

/// Moves the part of a slice that cuts columns in front of the view that it reads.
template <typename View> struct HoistSlice : OpRewritePattern<dit::SliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dit::SliceOp op, PatternRewriter &rewriter) const override {
    auto view = op.getInput().getDefiningOp<View>();
    if (!view || op.getType().getNumElements() == 0)
      return failure();
    Ranges outer = Ranges::of(op), inner = Ranges::all(shapeOf(view.getInput()));
    SmallVector<int64_t> shape(shapeOf(view.getResult())); // of the rearranged part
    for (size_t dim = 0; dim < shape.size(); ++dim)
      if (outer.sizes[dim] != shape[dim] && isColumn(view.getResult(), dim) && cut(view, dim, outer, inner)) {
        shape[dim] = outer.sizes[dim];
        outer.offsets[dim] = 0, outer.steps[dim] = 1;
      }
    if (inner.isAll(shapeOf(view.getInput())))
      return failure();
    Value part = inner.apply(view.getInput(), op.getLoc(), rewriter);
    rewriter.replaceOp(op, outer.apply(rearranged(view, part, shape, rewriter), op.getLoc(), rewriter));
    return success();
  }

private:
  static bool cut(dit::PermuteOp permute, size_t dim, const Ranges &outer, Ranges &inner) {
    int64_t from = permute.getPermutation()[dim];
    inner.offsets[from] = outer.offsets[dim], inner.steps[from] = outer.steps[dim], inner.sizes[from] = outer.sizes[dim];
    return true;
  }

  static bool cut(dit::ViewOp view, size_t dim, const Ranges &outer, Ranges &inner) {
    int64_t from = *splitBy(view, dim), behind = shapeOf(view.getInput())[from] / shapeOf(view.getResult())[dim];
    if (outer.steps[dim] != 1)
      return false;
    inner.offsets[from] = outer.offsets[dim] * behind;
    inner.sizes[from] = outer.sizes[dim] * behind;
    return true;
  }

  static Value rearranged(dit::PermuteOp permute, Value part, ArrayRef<int64_t> shape, OpBuilder &b) {
    return dit::PermuteOp::create(b, permute.getLoc(), permute.getType().clone(shape), part, permute.getPermutation());
  }
  static Value rearranged(dit::ViewOp view, Value part, ArrayRef<int64_t> shape, OpBuilder &b) { return dit::ViewOp::create(b, view.getLoc(), view.getType().clone(shape), part); }
};

/// Is the value read by parts only, behind whatever views?
bool isReadByParts(Value value) {
  return llvm::all_of(value.getUsers(), [](Operation *user) { return isa<dit::SliceOp>(user) || (isa<dit::ViewOp, dit::PermuteOp>(user) && isReadByParts(user->getResult(0))); });
}

/// What a pad adds to each dimension.
struct Border {
  SmallVector<int64_t> low, high;

  bool isPadded(size_t dim) const { return low[dim] + high[dim] > 0; }
  static Border none(size_t rank) { return {SmallVector<int64_t>(rank, 0), SmallVector<int64_t>(rank, 0)}; }
};

/// A rearrangement of a padded value that is read by parts becomes one of the value itself, padded behind it: the slices then see
/// that they read what was padded, and nothing of the border.
template <typename View> struct SinkPad : OpRewritePattern<View> {
  using OpRewritePattern<View>::OpRewritePattern;

  LogicalResult matchAndRewrite(View op, PatternRewriter &rewriter) const override {
    auto pad = op.getInput().template getDefiningOp<dit::PadOp>();
    if (!pad || tensorType(pad.getInput()).getNumElements() == 0 || !isReadByParts(pad.getResult()))
      return failure();
    std::optional<Border> border = borderBehind(op, {SmallVector<int64_t>(pad.getLow()), SmallVector<int64_t>(pad.getHigh())});
    if (!border)
      return failure();
    SmallVector<int64_t> shape(op.getType().getShape());
    for (auto [size, low, high] : llvm::zip(shape, border->low, border->high))
      size -= low + high;
    auto view = cast<View>(rewriter.clone(*op));
    view.getInputMutable().assign(pad.getInput());
    view.getResult().setType(op.getType().clone(shape));
    rewriter.replaceOpWithNewOp<dit::PadOp>(op, op.getType(), view.getResult(), border->low, border->high, pad.getValue());
    return success();
  }

private:
  static std::optional<Border> borderBehind(dit::PermuteOp permute, const Border &border) {
    Border result;
    for (int64_t dim : permute.getPermutation()) {
      result.low.push_back(border.low[dim]);
      result.high.push_back(border.high[dim]);
    }
    return result;
  }

  /// A padded dimension stays one of its own.
  static std::optional<Border> borderBehind(dit::ViewOp view, const Border &border) {
    ArrayRef<int64_t> from = shapeOf(view.getInput()), to = shapeOf(view.getResult());
    Border result = Border::none(to.size());
    int64_t before = 1, beforeTo = 1;
    size_t j = 0;
    for (auto [i, size] : llvm::enumerate(from)) {
      if (border.isPadded(i)) {
        while (j < to.size() && (beforeTo < before || (beforeTo == before && to[j] == 1)))
          beforeTo *= to[j++];
        if (j == to.size() || beforeTo != before || to[j] != size)
          return std::nullopt;
        result.low[j] = border.low[i];
        result.high[j] = border.high[i];
      }
      before *= size;
    }
    return result;
  }
};

/// Fewer are not worth rows of tiles of their own; modulations of few rows are one launch for all blocks as long as they are alike.
constexpr int64_t kLeastRows = 64;

/// Is the value read by element-wise maps only, as a residual stream reads what is added to it?
bool isReadByMaps(Value value) {
  return !value.use_empty() && llvm::all_of(value.getUsers(), [&](Operation *user) { return isa<dit::MapOp>(user) && shapeOf(user->getResult(0)) == shapeOf(value); });
}

/// A product of the rows of two streams, which part behind it, is a product of each stream with the same weight.
struct SplitProduct : OpRewritePattern<dit::MatmulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dit::MatmulOp op, PatternRewriter &rewriter) const override {
    SmallVector<dit::SliceOp> parts;
    for (Operation *user : op->getUsers())
      parts.push_back(dyn_cast<dit::SliceOp>(user));
    if (parts.size() != 2 || !llvm::all_of(parts, [&](dit::SliceOp part) { return part && isStream(part) && isReadByMaps(part.getResult()); }))
      return failure();
    if (tensorType(op.getRhs()).getRank() != 2 || parts[0].getType().getNumElements() + parts[1].getType().getNumElements() != op.getType().getNumElements())
      return failure();
    for (dit::SliceOp part : parts) {
      Ranges rows = Ranges::of(part);
      rows.sizes.back() = shapeOf(op.getLhs()).back();
      rewriter.setInsertionPoint(op);
      Value lhs = rows.apply(op.getLhs(), part.getLoc(), rewriter);
      rewriter.replaceOpWithNewOp<dit::MatmulOp>(part, part.getType(), lhs, op.getRhs(), op.getBias(), op.getTransposeRhs());
    }
    return success();
  }

private:
  /// A range of rows, of all batches.
  static bool isStream(dit::SliceOp part) {
    ArrayRef<int64_t> whole = shapeOf(part.getInput()), rows = part.getType().getShape();
    size_t rowAxis = whole.size() - 2;
    for (size_t dim = 0; dim < whole.size(); ++dim)
      if (part.getSteps()[dim] != 1 || (dim != rowAxis && whole[dim] != rows[dim]))
        return false;
    return rows[rowAxis] >= kLeastRows;
  }
};

/// Columns of products are all that is read of what maps make of them: of the residual stream behind FIBO's last text block, for one.
struct DropMapColumns : OpRewritePattern<dit::SliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dit::SliceOp op, PatternRewriter &rewriter) const override {
    auto map = op.getInput().getDefiningOp<dit::MapOp>();
    if (!map || !map->hasOneUse() || !cutsColumnsOnly(op) || !isColumn(map.getResult(), map.getType().getRank() - 1))
      return failure();
    SmallVector<Value> inputs;
    for (Value input : map.getInputs()) {
      Ranges ranges = Ranges::all(shapeOf(input));
      if (ranges.sizes.back() != 1)
        ranges.offsets.back() = op.getOffsets().back(), ranges.sizes.back() = op.getType().getShape().back();
      inputs.push_back(ranges.apply(input, op.getLoc(), rewriter));
    }
    auto part = cast<dit::MapOp>(rewriter.clone(*map));
    part.getInputsMutable().assign(inputs);
    part.getResult().setType(op.getType());
    rewriter.replaceOp(op, part);
    return success();
  }

private:
  static bool cutsColumnsOnly(dit::SliceOp op) {
    ArrayRef<int64_t> whole = shapeOf(op.getInput()), part = op.getType().getShape();
    return !whole.empty() && whole.drop_back() == part.drop_back() && op.getSteps().back() == 1 && op.getType().getNumElements() > 0;
  }
};

/// Columns of a linear layer that nobody reads are not computed: the others are rows of its weight, a view.
struct DropColumns : OpRewritePattern<dit::MatmulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dit::MatmulOp op, PatternRewriter &rewriter) const override {
    int64_t columns = shapeOf(op.getResult()).back();
    std::optional<std::pair<int64_t, int64_t>> read = columnsRead(op.getResult());
    if (!op.getTransposeRhs() || tensorType(op.getRhs()).getRank() != 2 || !read || tensorType(op.getResult()).getNumElements() < kLeastRows * columns)
      return failure();
    auto [first, end] = *read;
    first -= first % kColumns;
    end = std::min<int64_t>(llvm::alignTo(end, kColumns), columns);
    if (end - first == columns)
      return failure();
    Value weight = dit::SliceOp::create(rewriter, op.getLoc(), tensorType(op.getRhs()).clone({end - first, shapeOf(op.getRhs())[1]}), op.getRhs(), {first, 0}, {1, 1});
    Value bias = op.getBias();
    if (bias)
      bias = dit::SliceOp::create(rewriter, op.getLoc(), tensorType(bias).clone({end - first}), bias, {first}, {1});
    SmallVector<int64_t> shape(op.getType().getShape());
    shape.back() = end - first;
    auto product = dit::MatmulOp::create(rewriter, op.getLoc(), op.getType().clone(shape), op.getLhs(), weight, bias, true);
    for (Operation *user : llvm::make_early_inc_range(op->getUsers())) {
      auto slice = cast<dit::SliceOp>(user);
      Ranges ranges = Ranges::of(slice);
      ranges.offsets.back() -= first;
      rewriter.setInsertionPoint(slice);
      rewriter.replaceOp(slice, ranges.apply(product, slice.getLoc(), rewriter));
    }
    return success();
  }

private:
  /// What tiles are made of: parts of a layer begin and end where kernels copy its weight by whole pieces.
  static constexpr int64_t kColumns = 64;

  /// From the first to behind the last, where all of the value is read by slices.
  static std::optional<std::pair<int64_t, int64_t>> columnsRead(Value value) {
    std::optional<std::pair<int64_t, int64_t>> read;
    for (Operation *user : value.getUsers()) {
      auto slice = dyn_cast<dit::SliceOp>(user);
      if (!slice || slice.getType().getNumElements() == 0)
        return std::nullopt;
      int64_t first = slice.getOffsets().back(), end = first + (slice.getType().getShape().back() - 1) * slice.getSteps().back() + 1;
      read = read ? std::pair(std::min(read->first, first), std::max(read->second, end)) : std::pair(first, end);
    }
    return read;
  }
};

class HoistSlices : public impl::HoistSlicesBase<HoistSlices> {
public:
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<HoistSlice<dit::PermuteOp>, HoistSlice<dit::ViewOp>, SinkPad<dit::PermuteOp>, SinkPad<dit::ViewOp>, SplitProduct, DropMapColumns, DropColumns>(&getContext());
    dit::SliceOp::getCanonicalizationPatterns(patterns, &getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace ditc
