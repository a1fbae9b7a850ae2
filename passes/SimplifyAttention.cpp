// SPDX-License-Identifier: Apache-2.0
//
// SimplifyAttention: what an attention reads is what it needs. Key and value heads that the model repeats for groups
// of queries (repeat_interleave; unsqueeze, expand and reshape, before or after heads and tokens change places) are
// read once, as dit.attention takes fewer key heads than queries. Masks of 0 and -inf that were made of booleans are
// those booleans. A mask of all queries by all keys that is one of keys and one of queries (`m[:, None] & m[None, :]`) is the mask of
// keys, and zeros behind attention (HiddenQueries). A constant mask that hides nothing goes; one that shows the first keys cuts the others off; and one
// that hides by places (causal, or near neighbours) becomes `causal` or `window`: no memory, and no work on what it hides. It hides by
// false, by -inf, or by a number below -1e30 (`finfo.min`) in rows that show a key.
//
// Before:
//   func.func @f(%q: tensor<1x4x6x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x8xf32>) -> tensor<1x4x6x8xf32> {
//     %k5 = dit.view %k : tensor<1x2x6x8xf32> -> tensor<1x2x1x6x8xf32>
//     %ke = dit.expand %k5 : tensor<1x2x1x6x8xf32> -> tensor<1x2x2x6x8xf32>
//     %k4 = dit.view %ke : tensor<1x2x2x6x8xf32> -> tensor<1x4x6x8xf32>
//     %v5 = dit.view %v : tensor<1x2x6x8xf32> -> tensor<1x2x1x6x8xf32>
//     %ve = dit.expand %v5 : tensor<1x2x1x6x8xf32> -> tensor<1x2x2x6x8xf32>
//     %v4 = dit.view %ve : tensor<1x2x2x6x8xf32> -> tensor<1x4x6x8xf32>
//     %m = dit.constant dense<true> : tensor<1x1x1x6xi1>
//     %o = dit.attention %q, %k4, %v4 mask %m scale 1.0 : (tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x4x6x8xf32>, tensor<1x1x1x6xi1>) -> tensor<1x4x6x8xf32>
//     return %o : tensor<1x4x6x8xf32>
//   }
// After:
//   func.func @f(%q: tensor<1x4x6x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x8xf32>) -> tensor<1x4x6x8xf32> {
//     %o = dit.attention %q, %k, %v scale 1.0 : (tensor<1x4x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>) -> tensor<1x4x6x8xf32>
//     return %o : tensor<1x4x6x8xf32>
//   }
#include "dialects/dit/Tensors.h"
#include "dialects/reference/Evaluate.h"
#include "passes/HiddenQueries.h"
#include "passes/Passes.h"
#include "passes/Terms.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <cmath>
#include <functional>
#include <map>

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_SIMPLIFYATTENTION
#include "passes/Passes.h.inc"

namespace {

/// How often each element along an axis is repeated, neighbours equal; and how the value without is made, once it is known to be wanted.
struct Repeated {
  int64_t times;
  std::function<Value(OpBuilder &)> source;
};

/// view(expand(x)): [.., G, 1, ..] to [.., G, times, ..] to [.., G * times, ..].
std::optional<Repeated> repeatedByExpand(Value value, int64_t axis) {
  auto view = value.getDefiningOp<dit::ViewOp>();
  auto expand = view ? view.getInput().getDefiningOp<dit::ExpandOp>() : dit::ExpandOp();
  if (!expand || expand.getType().getRank() != tensorType(value).getRank() + 1)
    return std::nullopt;
  ArrayRef<int64_t> from = shapeOf(expand.getInput()), wide = expand.getType().getShape(), whole = shapeOf(value);
  bool splits = wide.take_front(axis) == whole.take_front(axis) && wide.drop_front(axis + 2) == whole.drop_front(axis + 1);
  bool repeats = from[axis + 1] == 1 && from.take_front(axis + 1) == wide.take_front(axis + 1) && from.drop_front(axis + 2) == wide.drop_front(axis + 2);
  if (!splits || !repeats)
    return std::nullopt;
  SmallVector<int64_t> shape(whole);
  shape[axis] = wide[axis];
  return Repeated{wide[axis + 1], [=, source = Value(expand.getInput())](OpBuilder &b) { return viewAs(b, value.getLoc(), source, shape); }};
}

/// gather by 0, 0, 1, 1, ...
std::optional<Repeated> repeatedByGather(Value value, int64_t axis) {
  auto gather = value.getDefiningOp<dit::GatherOp>();
  auto constant = gather ? gather.getIndices().getDefiningOp<dit::ConstantOp>() : dit::ConstantOp();
  if (!constant || static_cast<int64_t>(gather.getAxis()) != axis || tensorType(gather.getIndices()).getRank() != 1)
    return std::nullopt;
  int64_t groups = shapeOf(gather.getTable())[axis], count = shapeOf(value)[axis];
  if (groups == 0 || count % groups != 0)
    return std::nullopt;
  dit::TensorValue indices = dit::fromElements(constant.getValue());
  for (int64_t i = 0; i < count; ++i)
    if (indices.at(i) != static_cast<double>(i / (count / groups)))
      return std::nullopt;
  return Repeated{count / groups, [table = Value(gather.getTable())](OpBuilder &) { return table; }};
}

std::optional<Repeated> repeatedAlong(Value value, int64_t axis) {
  if (auto permute = value.getDefiningOp<dit::PermuteOp>()) {
    std::optional<Repeated> inner = repeatedAlong(permute.getInput(), permute.getPermutation()[axis]);
    if (!inner)
      return std::nullopt;
    return Repeated{inner->times, [=](OpBuilder &b) mutable { return permuted(b, value.getLoc(), inner->source(b), permute.getPermutation()); }};
  }
  std::optional<Repeated> byExpand = repeatedByExpand(value, axis);
  return byExpand ? byExpand : repeatedByGather(value, axis);
}

struct ShareKeyHeads : OpRewritePattern<dit::AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dit::AttentionOp op, PatternRewriter &rewriter) const override {
    std::optional<Repeated> key = repeatedAlong(op.getKey(), 1), value = repeatedAlong(op.getValue(), 1);
    if (!key || !value || key->times != value->times || key->times == 1)
      return failure();
    Value keys = key->source(rewriter), values = value->source(rewriter);
    rewriter.modifyOpInPlace(op, [&] {
      op.getKeyMutable().assign(keys);
      op.getValueMutable().assign(values);
    });
    return success();
  }
};

/// A constant that is 0 (added) or true (boolean) everywhere.
bool hidesNothing(Value mask) {
  while (Operation *def = mask.getDefiningOp()) {
    if (!dit::isViewOp(def))
      break;
    mask = def->getOperand(0);
  }
  auto constant = mask.getDefiningOp<dit::ConstantOp>();
  if (!constant)
    return false;
  dit::TensorValue values = dit::fromElements(constant.getValue());
  double neutral = tensorType(mask).getElementType().isInteger(1) ? 1 : 0;
  for (int64_t i = 0; i < values.type.getNumElements(); ++i)
    if (values.at(i) != neutral)
      return false;
  return true;
}

struct DropMask : OpRewritePattern<dit::AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dit::AttentionOp op, PatternRewriter &rewriter) const override {
    if (!op.getMask() || !hidesNothing(op.getMask()))
      return failure();
    rewriter.modifyOpInPlace(op, [&] { op.getMaskMutable().clear(); });
    return success();
  }
};

/// b where `value` is not b.
Value negated(Value value) {
  auto map = value.getDefiningOp<dit::MapOp>();
  if (!map || map.getInputs().size() != 1 || !tensorType(map.getInputs()[0]).getElementType().isInteger(1))
    return {};
  Operation *op = map.getBodyBlock().getTerminator()->getOperand(0).getDefiningOp();
  auto equal = dyn_cast_or_null<arith::CmpIOp>(op);
  bool isNot = op && ((equal && equal.getPredicate() == arith::CmpIPredicate::eq && matchPattern(op->getOperand(1), m_Zero())) ||
                      (isa<arith::XOrIOp>(op) && matchPattern(op->getOperand(1), m_One())));
  return isNot && op->getOperand(0) == map.getBodyBlock().getArgument(0) ? map.getInputs()[0] : Value();
}

/// The booleans, true where a key is seen, of which `mask` holds 0 and -inf; null when it is no such mask.
Value seenKeys(Value mask) {
  auto map = mask.getDefiningOp<dit::MapOp>();
  if (!map || map.getInputs().size() != 1 || !tensorType(map.getInputs()[0]).getElementType().isInteger(1))
    return {};
  Term chosen = Term::yieldedBy(map, /*keepRoundings=*/false);
  if (!chosen.is<arith::SelectOp>() || chosen.op()->getOperand(0) != map.getBodyBlock().getArgument(0))
    return {};
  std::optional<double> set = chosen.operand(1).constant(), unset = chosen.operand(2).constant();
  if (set == 0.0 && unset == -HUGE_VAL)
    return map.getInputs()[0];
  return set == -HUGE_VAL && unset == 0.0 ? negated(map.getInputs()[0]) : Value();
}

/// Booleans that a model, or the decomposition of its attention, made numbers of.
struct BooleanMask : OpRewritePattern<dit::AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dit::AttentionOp op, PatternRewriter &rewriter) const override {
    SmallVector<Operation *> views;
    Value mask = op.getMask();
    while (mask && mask.getDefiningOp() && dit::isViewOp(mask.getDefiningOp())) {
      views.push_back(mask.getDefiningOp());
      mask = views.back()->getOperand(0);
    }
    Value seen = mask ? seenKeys(mask) : Value();
    if (!seen)
      return failure();
    for (Operation *view : llvm::reverse(views)) {
      Operation *copy = rewriter.clone(*view);
      copy->setOperand(0, seen);
      seen = copy->getResult(0);
      seen.setType(tensorType(seen).clone(rewriter.getI1Type()));
    }
    rewriter.modifyOpInPlace(op, [&] { op.getMaskMutable().assign(seen); });
    return success();
  }
};

struct MaskByTokens : OpRewritePattern<dit::AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dit::AttentionOp op, PatternRewriter &rewriter) const override { return success(splitMask(op, rewriter)); }
};

/// Before it was spread over batches, heads or queries.
Value behindRepeats(Value mask) {
  while (auto expand = mask.getDefiningOp<dit::ExpandOp>())
    mask = expand.getInput();
  return mask;
}

dit::ConstantOp constantBehindViews(Value value) {
  while (auto view = value.getDefiningOp<dit::ViewOp>())
    value = view.getInput();
  return value.getDefiningOp<dit::ConstantOp>();
}

/// Added numbers up to this hide a key: where another one is seen, its weight is exactly 0.
constexpr double kHides = -1e30;

/// Whether an element of a mask shows its key: true, or 0 where -inf or f32's or bf16's lowest number hides. Nothing for other numbers.
std::optional<bool> showsKey(const dit::TensorValue &mask, int64_t i) {
  double value = mask.at(i);
  if (mask.type.getElementType().isInteger(1))
    return value != 0;
  return value == 0 ? std::optional(true) : value <= kHides ? std::optional(false) : std::nullopt;
}

/// The number of leading keys that all rows of a mask show, when they show no others.
std::optional<int64_t> prefixOf(const dit::TensorValue &mask, int64_t keys) {
  std::optional<int64_t> prefix;
  for (int64_t row = 0; row * keys < mask.type.getNumElements(); ++row) {
    int64_t count = 0;
    for (int64_t key = 0; key < keys; ++key) {
      std::optional<bool> shows = showsKey(mask, row * keys + key);
      if (!shows || (*shows && key != count))
        return std::nullopt;
      count += *shows;
    }
    if (prefix.value_or(count) != count)
      return std::nullopt;
    prefix = count;
  }
  return prefix;
}

/// Keys behind a prefix that a constant mask shows are not read at all.
struct MaskByLength : OpRewritePattern<dit::AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dit::AttentionOp op, PatternRewriter &rewriter) const override {
    Value mask = op.getMask() ? behindRepeats(op.getMask()) : Value();
    dit::ConstantOp constant = mask ? constantBehindViews(mask) : dit::ConstantOp();
    int64_t keys = shapeOf(op.getKey())[2];
    if (!constant || shapeOf(mask).back() != keys || shapeOf(mask)[shapeOf(mask).size() - 2] != 1)
      return failure();
    std::optional<int64_t> prefix = prefixOf(dit::fromElements(constant.getValue()), keys);
    if (!prefix || *prefix == 0 || *prefix == keys)
      return failure();
    auto cut = [&](Value value) -> Value {
      SmallVector<int64_t> shape(shapeOf(value)), offsets(4, 0), steps(4, 1);
      shape[2] = *prefix;
      return dit::SliceOp::create(rewriter, op.getLoc(), tensorType(value).clone(shape), value, offsets, steps);
    };
    Value key = cut(op.getKey()), value = cut(op.getValue());
    rewriter.modifyOpInPlace(op, [&] {
      op.getKeyMutable().assign(key);
      op.getValueMutable().assign(value);
      op.getMaskMutable().clear();
    });
    return success();
  }
};

/// The keys that a constant mask of one problem shows to each query: those from query - before to query + after.
std::optional<std::pair<int64_t, int64_t>> windowOf(const dit::TensorValue &mask, int64_t queries, int64_t keys) {
  auto sees = [&](int64_t query, int64_t key) { return showsKey(mask, query * keys + key); };
  bool hidesByNumbers = false, isBoolean = mask.type.getElementType().isInteger(1);
  int64_t before = -1, after = -1;
  for (int64_t query = 0; query < queries; ++query)
    for (int64_t key = 0; key < keys; ++key) {
      std::optional<bool> seen = sees(query, key);
      if (!seen)
        return std::nullopt;
      hidesByNumbers |= !*seen && !isBoolean && std::isfinite(mask.at(query * keys + key));
      if (*seen)
        before = std::max(before, query - key), after = std::max(after, key - query);
    }
  bool eachSees = queries - 1 - before <= keys - 1;
  if (before < 0 || after < 0 || (hidesByNumbers && !eachSees)) // such a row is the mean of all values, and not zeros
    return std::nullopt;
  for (int64_t query = 0; query < queries; ++query)
    for (int64_t key = 0; key < keys; ++key)
      if (*sees(query, key) != (key >= query - before && key <= query + after))
        return std::nullopt;
  return std::pair(before, after);
}

/// By the constant's value and the number of queries: all layers of a model read the same mask.
using KnownWindows = std::map<std::pair<const void *, int64_t>, std::optional<std::pair<int64_t, int64_t>>>;

struct MaskByPlaces : OpRewritePattern<dit::AttentionOp> {
  MaskByPlaces(MLIRContext *context, KnownWindows &known) : OpRewritePattern(context), known(known) {}

  LogicalResult matchAndRewrite(dit::AttentionOp op, PatternRewriter &rewriter) const override {
    if (!op.getMask() || op.getCausal() || op.getWindow())
      return failure();
    Value mask = behindRepeats(op.getMask());
    int64_t queries = shapeOf(op.getQuery())[2], keys = shapeOf(op.getKey())[2];
    dit::ConstantOp constant = constantBehindViews(mask);
    if (!constant || shapeOf(mask) != ArrayRef<int64_t>{1, 1, queries, keys})
      return failure();
    auto [entry, isNew] = known.try_emplace({constant.getValue().getAsOpaquePointer(), queries});
    if (isNew)
      entry->second = windowOf(dit::fromElements(constant.getValue()), queries, keys);
    std::optional<std::pair<int64_t, int64_t>> window = entry->second;
    if (!window)
      return failure();
    rewriter.modifyOpInPlace(op, [&] {
      op.getMaskMutable().clear();
      bool seesAllBefore = window->first >= queries - 1;
      if (seesAllBefore && window->second == 0)
        op.setCausal(true);
      else
        op.setWindow(ArrayRef<int64_t>{window->first, window->second});
    });
    return success();
  }

private:
  KnownWindows &known;
};

class SimplifyAttention : public impl::SimplifyAttentionBase<SimplifyAttention> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    KnownWindows known;
    patterns.add<ShareKeyHeads, BooleanMask, MaskByTokens, DropMask, MaskByLength>(&getContext());
    patterns.add<MaskByPlaces>(&getContext(), known);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace ditc
