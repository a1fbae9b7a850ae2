// SPDX-License-Identifier: Apache-2.0
//
// Folds and canonicalisations that are always right and never cost anything: views that cancel, casts
// that do nothing, map operands that are constants or repeated.
#include "dialects/dit/Dit.h"
#include "dialects/dit/Tensors.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace ditc::dit {

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValueAttr(); }

//===-- Views -------------------------------------------------------------------------------------===//

OpFoldResult ViewOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType())
    return getInput();
  if (auto inner = getInput().getDefiningOp<ViewOp>()) {
    if (inner.getInput().getType() == getType())
      return inner.getInput();
    getInputMutable().assign(inner.getInput());
    return getResult();
  }
  return {};
}

OpFoldResult PermuteOp::fold(FoldAdaptor) {
  if (llvm::equal(getPermutation(), llvm::seq<int64_t>(0, getPermutation().size())))
    return getInput();
  auto inner = getInput().getDefiningOp<PermuteOp>();
  if (!inner)
    return {};
  SmallVector<int64_t> composed;
  for (int64_t dim : getPermutation())
    composed.push_back(inner.getPermutation()[dim]);
  setPermutation(composed);
  getInputMutable().assign(inner.getInput());
  return getResult();
}

/// For each dimension of `wide` the one of `shape` that it is, -1 for those that were added; empty when it has more than added ones.
static SmallVector<int64_t> withoutAddedOnes(ArrayRef<int64_t> shape, ArrayRef<int64_t> wide) {
  SmallVector<int64_t> from;
  int64_t next = 0, rank = shape.size();
  for (int64_t size : wide) {
    bool isOwn = next < rank && shape[next] == size;
    if (!isOwn && size != 1)
      return {};
    from.push_back(isOwn ? next++ : -1);
  }
  return next == rank && rank < int64_t(wide.size()) ? from : SmallVector<int64_t>();
}

/// A permutation that moves dimensions of one element only is a view.
struct PermuteOfOnes : OpRewritePattern<PermuteOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(PermuteOp op, PatternRewriter &rewriter) const override {
    SmallVector<int64_t> order;
    for (int64_t dim : op.getPermutation())
      if (tensorType(op.getInput()).getDimSize(dim) != 1)
        order.push_back(dim);
    if (!llvm::is_sorted(order))
      return failure();
    rewriter.replaceOpWithNewOp<ViewOp>(op, op.getType(), op.getInput());
    return success();
  }
};

/// view(permute(view(x))) permutes x itself where the inner view only adds dimensions of one element, as einsum does.
struct ViewOfPermutedOnes : OpRewritePattern<ViewOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ViewOp op, PatternRewriter &rewriter) const override {
    auto permute = op.getInput().getDefiningOp<PermuteOp>();
    auto inner = permute ? permute.getInput().getDefiningOp<ViewOp>() : ViewOp();
    if (!inner)
      return failure();
    ArrayRef<int64_t> shape = tensorType(inner.getInput()).getShape();
    SmallVector<int64_t> from = withoutAddedOnes(shape, inner.getType().getShape()), permutation, permuted;
    if (from.empty())
      return failure();
    for (int64_t dim : permute.getPermutation())
      if (from[dim] >= 0) {
        permutation.push_back(from[dim]);
        permuted.push_back(shape[from[dim]]);
      }
    Value narrow = rewriter.createOrFold<PermuteOp>(op.getLoc(), op.getType().clone(permuted), inner.getInput(), permutation);
    rewriter.replaceOpWithNewOp<ViewOp>(op, op.getType(), narrow);
    return success();
  }
};

OpFoldResult SliceOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType())
    return getInput();
  auto inner = getInput().getDefiningOp<SliceOp>();
  if (!inner)
    return {};
  SmallVector<int64_t> offsets, steps;
  for (size_t i = 0; i < getOffsets().size(); ++i) {
    offsets.push_back(inner.getOffsets()[i] + getOffsets()[i] * inner.getSteps()[i]);
    steps.push_back(getSteps()[i] * inner.getSteps()[i]);
  }
  setOffsets(offsets);
  setSteps(steps);
  getInputMutable().assign(inner.getInput());
  return getResult();
}

OpFoldResult ConcatOp::fold(FoldAdaptor) {
  if (getInputs().size() == 1)
    return getInputs()[0];
  return {};
}

OpFoldResult PadOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType())
    return getInput();
  return {};
}

OpFoldResult ExpandOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType())
    return getInput();
  if (auto inner = getInput().getDefiningOp<ExpandOp>()) {
    getInputMutable().assign(inner.getInput());
    return getResult();
  }
  return {};
}

/// slice(concat(a, b, ...)) that lies within one operand reads that operand.
struct SliceOfConcat : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SliceOp op, PatternRewriter &rewriter) const override {
    auto concat = op.getInput().getDefiningOp<ConcatOp>();
    if (!concat || op.getType().getNumElements() == 0)
      return failure();
    int64_t axis = concat.getAxis();
    int64_t first = op.getOffsets()[axis];
    int64_t last = first + (op.getType().getDimSize(axis) - 1) * op.getSteps()[axis];
    int64_t start = 0;
    for (Value input : concat.getInputs()) {
      int64_t size = tensorType(input).getDimSize(axis);
      if (first >= start && last < start + size) {
        SmallVector<int64_t> offsets(op.getOffsets());
        offsets[axis] -= start;
        rewriter.replaceOpWithNewOp<SliceOp>(op, op.getType(), input, offsets, op.getSteps());
        return success();
      }
      start += size;
    }
    return failure();
  }
};

/// The constant that slice(pad(x)) is where it lies in the border.
struct SliceOfBorder : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SliceOp op, PatternRewriter &rewriter) const override {
    auto pad = op.getInput().getDefiningOp<PadOp>();
    if (!pad || op.getType().getNumElements() == 0)
      return failure();
    for (auto [i, size] : llvm::enumerate(tensorType(pad.getInput()).getShape())) {
      int64_t first = op.getOffsets()[i] - pad.getLow()[i], last = first + (op.getType().getDimSize(i) - 1) * op.getSteps()[i];
      if (last >= 0 && first < size)
        continue;
      auto one = op.getType().clone(SmallVector<int64_t>(op.getType().getRank(), 1));
      Value value = ConstantOp::create(rewriter, op.getLoc(), DenseElementsAttr::get(one, Attribute(pad.getValue())));
      rewriter.replaceOp(op, rewriter.createOrFold<ExpandOp>(op.getLoc(), op.getType(), value));
      return success();
    }
    return failure();
  }
};

/// slice(pad(x)) reads x: all that it takes where that lies within what was padded, or else what does, and pads the part
/// again, if nobody wants the whole.
struct SliceOfPad : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SliceOp op, PatternRewriter &rewriter) const override {
    auto pad = op.getInput().getDefiningOp<PadOp>();
    if (!pad || op.getType().getNumElements() == 0)
      return failure();
    SmallVector<int64_t> offsets, sizes, low, high;
    for (auto [i, size] : llvm::enumerate(tensorType(pad.getInput()).getShape())) {
      int64_t count = op.getType().getDimSize(i), step = op.getSteps()[i], first = op.getOffsets()[i] - pad.getLow()[i], last = first + (count - 1) * step;
      bool isInside = first >= 0 && last < size;
      if (last < 0 || first >= size || (!isInside && step != 1))
        return failure();
      low.push_back(std::max<int64_t>(-first, 0));
      high.push_back(isInside ? 0 : std::max<int64_t>(last + 1 - size, 0));
      offsets.push_back(std::max<int64_t>(first, 0));
      sizes.push_back(count - low.back() - high.back());
    }
    if (ArrayRef<int64_t>(sizes) != op.getType().getShape() && !llvm::all_of(pad->getUsers(), llvm::IsaPred<SliceOp>))
      return failure();
    Value part = rewriter.createOrFold<SliceOp>(op.getLoc(), op.getType().clone(sizes), pad.getInput(), offsets, op.getSteps());
    rewriter.replaceOp(op, rewriter.createOrFold<PadOp>(pad.getLoc(), op.getType(), part, low, high, pad.getValue()));
    return success();
  }
};

/// True when `second` goes on along `axis` where `first` ends, in the same tensor.
static bool continues(SliceOp first, SliceOp second, int64_t axis) {
  if (first.getInput() != second.getInput() || first.getSteps() != second.getSteps() || first.getSteps()[axis] != 1)
    return false;
  SmallVector<int64_t> expected(first.getOffsets());
  expected[axis] += first.getType().getDimSize(axis);
  return second.getOffsets() == ArrayRef<int64_t>(expected);
}

/// Neighbouring slices of one tensor that are put together again are one slice; empty parts vanish.
struct ConcatOfSlices : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ConcatOp op, PatternRewriter &rewriter) const override {
    int64_t axis = op.getAxis();
    SmallVector<Value> parts;
    for (Value input : op.getInputs()) {
      if (tensorType(input).getDimSize(axis) == 0)
        continue;
      auto last = parts.empty() ? SliceOp() : parts.back().getDefiningOp<SliceOp>();
      auto next = input.getDefiningOp<SliceOp>();
      if (last && next && continues(last, next, axis))
        parts.back() = joined(last, next, axis, op.getLoc(), rewriter);
      else
        parts.push_back(input);
    }
    if (parts.size() == op.getInputs().size() || parts.empty())
      return failure();
    rewriter.replaceOpWithNewOp<ConcatOp>(op, op.getType(), parts, axis);
    return success();
  }

  static Value joined(SliceOp first, SliceOp second, int64_t axis, Location loc, PatternRewriter &rewriter) {
    SmallVector<int64_t> shape(first.getType().getShape());
    shape[axis] += second.getType().getDimSize(axis);
    return SliceOp::create(rewriter, loc, first.getType().clone(shape), first.getInput(), first.getOffsets(), first.getSteps());
  }
};

void ConcatOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) { patterns.add<ConcatOfSlices>(context); }

void ViewOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) { patterns.add<ViewOfPermutedOnes>(context); }

void PermuteOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) { patterns.add<PermuteOfOnes>(context); }

void SliceOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) { patterns.add<SliceOfBorder, SliceOfConcat, SliceOfPad>(context); }

//===-- Products ----------------------------------------------------------------------------------===//

/// A weight, or what views and functions of one tensor make of it.
static bool isOfWeight(Value value) {
  Operation *def = value.getDefiningOp();
  if (!def || isa<WeightOp>(def))
    return def != nullptr;
  return (isViewOp(def) || (isa<MapOp>(def) && def->getNumOperands() == 1)) && isOfWeight(def->getOperand(0));
}

/// A weight that is repeated for each batch, as decomposition writes a linear layer of rows that do not lie in order, is the
/// weight of all rows, read as it lies.
struct WeightOfAllBatches : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const override {
    Value rhs = op.getRhs();
    if (tensorType(rhs).getRank() < 3 || !isOfWeight(rhs))
      return failure();
    if (auto expand = rhs.getDefiningOp<ExpandOp>())
      rhs = expand.getInput();
    ArrayRef<int64_t> shape = tensorType(rhs).getShape(), matrix = shape.take_back(2);
    if (matrix != tensorType(op.getRhs()).getShape().take_back(2) || llvm::any_of(shape.drop_back(2), [](int64_t size) { return size != 1; }))
      return failure();
    rhs = rewriter.createOrFold<ViewOp>(op.getLoc(), tensorType(rhs).clone(matrix), rhs);
    auto permute = rhs.getDefiningOp<PermuteOp>();
    bool isTurned = permute && permute.getPermutation() == ArrayRef<int64_t>{1, 0};
    rewriter.modifyOpInPlace(op, [&] {
      op.getRhsMutable().assign(isTurned ? Value(permute.getInput()) : rhs);
      op.setTransposeRhs(op.getTransposeRhs() != isTurned);
    });
    return success();
  }
};

void MatmulOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) { patterns.add<WeightOfAllBatches>(context); }

//===-- Map ---------------------------------------------------------------------------------------===//

/// True when every value of `narrow` is a value of `wide`.
static bool holdsExactly(Type wide, Type narrow) {
  if (wide == narrow)
    return true;
  auto wideFloat = dyn_cast<FloatType>(wide), narrowFloat = dyn_cast<FloatType>(narrow);
  if (wideFloat && narrowFloat)
    return wideFloat.getFPMantissaWidth() >= narrowFloat.getFPMantissaWidth() && wideFloat.getWidth() > narrowFloat.getWidth();
  return false;
}

OpFoldResult MapOp::fold(FoldAdaptor) {
  if (!isIdentity())
    return {};
  Value input = getInputs()[0];
  if (input.getType() == getType())
    return input;
  // A widening cast that is undone: f32(bf16 x) back to bf16.
  auto inner = input.getDefiningOp<MapOp>();
  if (inner && inner.isIdentity() && inner.getInputs()[0].getType() == getType() &&
      holdsExactly(inner.getType().getElementType(), getType().getElementType()))
    return inner.getInputs()[0];
  return {};
}

/// Rebuilds `op` with the operands for which `keep` is true; the body argument of a dropped operand has
/// been replaced before.
static void rebuildWithout(MapOp op, const llvm::BitVector &drop, PatternRewriter &rewriter) {
  SmallVector<Value> inputs;
  for (auto [i, input] : llvm::enumerate(op.getInputs()))
    if (!drop[i])
      inputs.push_back(input);
  rewriter.modifyOpInPlace(op, [&] {
    op.getBodyBlock().eraseArguments(drop);
    op.getInputsMutable().assign(inputs);
  });
}

/// A splat constant operand becomes a scalar constant of the body.
struct SplatOperandToScalar : OpRewritePattern<MapOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MapOp op, PatternRewriter &rewriter) const override {
    llvm::BitVector drop(op.getInputs().size());
    Block &body = op.getBodyBlock();
    for (auto [i, input] : llvm::enumerate(op.getInputs())) {
      TypedAttr scalar = splatValue(input, body.getArgument(i).getType());
      if (!scalar)
        continue;
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPointToStart(&body);
      Value constant = arith::ConstantOp::create(rewriter, op.getLoc(), scalar);
      rewriter.replaceAllUsesWith(body.getArgument(i), constant);
      drop.set(i);
    }
    if (drop.none())
      return failure();
    rebuildWithout(op, drop, rewriter);
    return success();
  }

  /// The scalar that `input` repeats, converted to the compute type; null when it is no splat.
  static TypedAttr splatValue(Value input, Type compute) {
    while (Operation *def = input.getDefiningOp()) {
      if (!isViewOp(def))
        break;
      input = def->getOperand(0);
    }
    auto constant = input.getDefiningOp<ConstantOp>();
    auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
    if (!elements || !elements.isSplat())
      return {};
    if (auto floatType = dyn_cast<FloatType>(compute)) {
      APFloat value = elements.getSplatValue<APFloat>();
      bool lossy = false;
      value.convert(floatType.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lossy);
      return FloatAttr::get(floatType, value);
    }
    APInt value = elements.getSplatValue<APInt>();
    bool isUnsigned = elements.getElementType().isUnsignedInteger() || elements.getElementType().isInteger(1);
    unsigned width = compute.getIntOrFloatBitWidth();
    return IntegerAttr::get(compute, isUnsigned ? value.zextOrTrunc(width) : value.sextOrTrunc(width));
  }
};

/// Operands that are unused, or equal to an earlier one, go.
struct DropDeadOrRepeatedOperands : OpRewritePattern<MapOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MapOp op, PatternRewriter &rewriter) const override {
    llvm::BitVector drop(op.getInputs().size());
    llvm::SmallDenseMap<Value, unsigned> firstUse;
    Block &body = op.getBodyBlock();
    for (auto [i, input] : llvm::enumerate(op.getInputs())) {
      auto [known, isNew] = firstUse.try_emplace(input, i);
      if (!isNew)
        rewriter.replaceAllUsesWith(body.getArgument(i), body.getArgument(known->second));
    }
    for (BlockArgument argument : body.getArguments()) // last: one without uses may have got those of an equal one behind it
      if (argument.use_empty())
        drop.set(argument.getArgNumber());
    if (drop.none())
      return failure();
    rebuildWithout(op, drop, rewriter);
    return success();
  }
};

/// Maps repeat dimensions of size 1 themselves: an expanded operand is read before its expansion.
struct OperandBeforeExpand : OpRewritePattern<MapOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MapOp op, PatternRewriter &rewriter) const override {
    bool changed = false;
    for (OpOperand &operand : op.getInputsMutable())
      if (auto expand = operand.get().getDefiningOp<ExpandOp>()) {
        rewriter.modifyOpInPlace(op, [&] { operand.set(expand.getInput()); });
        changed = true;
      }
    return success(changed);
  }
};

/// Is the map a product of two operands, one of which it repeats?
static bool isProductWithTable(MapOp op) {
  Block &body = op.getBodyBlock();
  auto product = body.getTerminator()->getOperand(0).getDefiningOp<arith::MulFOp>();
  bool areOperands = product && llvm::all_of(product->getOperands(), llvm::IsaPred<BlockArgument>) && product.getLhs() != product.getRhs();
  return areOperands && llvm::any_of(op.getInputs(), [&](Value input) { return tensorType(input).getShape() != op.getType().getShape(); });
}

/// sum(table * x) over an axis of two, which is how a product with 2x2 matrices is written out (rotary embedding of pairs), is
/// the sum of two products: each element is a few operations on its row, as in other spellings, and nothing is reduced.
struct SumOfTwoProducts : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ReduceOp op, PatternRewriter &rewriter) const override {
    auto product = op.getInput().getDefiningOp<MapOp>();
    bool isSum = op.getKind() == ReduceKind::Sum && op.getAxes().size() == 1 && product && product->hasOneUse() && isProductWithTable(product);
    if (!isSum || product.getType().getDimSize(op.getAxes()[0]) != 2)
      return failure();
    Type compute = computeType(product.getType().getElementType());
    if (computeType(op.getType().getElementType()) != compute)
      return failure();
    SmallVector<Value, 2> terms{term(product, op, 0, rewriter), term(product, op, 1, rewriter)};
    auto sum = MapOp::create(rewriter, op.getLoc(), op.getType(), terms);
    Block *body = rewriter.createBlock(&sum.getBody(), {}, {compute, compute}, {op.getLoc(), op.getLoc()});
    Value added = arith::AddFOp::create(rewriter, op.getLoc(), body->getArgument(0), body->getArgument(1));
    YieldOp::create(rewriter, op.getLoc(), added);
    rewriter.replaceOp(op, sum.getResult());
    return success();
  }

private:
  /// What the product is at place `i` of the axis.
  static Value term(MapOp product, ReduceOp sum, int64_t i, PatternRewriter &rewriter) {
    IRMapping mapping;
    for (Value input : product.getInputs())
      mapping.map(input, at(input, sum.getAxes()[0], i, rewriter));
    auto own = cast<MapOp>(rewriter.clone(*product, mapping));
    own.getResult().setType(product.getType().clone(tensorType(sum.getResult()).getShape()));
    return own.getResult();
  }

  static Value at(Value input, int64_t axis, int64_t i, PatternRewriter &rewriter) {
    RankedTensorType type = tensorType(input);
    if (type.getDimSize(axis) == 1)
      return input;
    SmallVector<int64_t> shape(type.getShape()), offsets(type.getRank(), 0), steps(type.getRank(), 1);
    shape[axis] = 1;
    offsets[axis] = i;
    return SliceOp::create(rewriter, input.getLoc(), type.clone(shape), input, offsets, steps);
  }
};

void MapOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<SplatOperandToScalar, DropDeadOrRepeatedOperands, OperandBeforeExpand>(context);
}

void ReduceOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) { patterns.add<SumOfTwoProducts>(context); }

} // namespace ditc::dit
