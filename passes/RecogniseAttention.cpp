// SPDX-License-Identifier: Apache-2.0
//
// RecogniseAttention: attention that the model spells out (product, scale, mask, softmax, product) becomes one
// dit.attention. Products may have batch and heads apart or as one dimension; keys may be transposed by a permute or
// by the product; the scale may stand on the scores, the queries or the keys; scores may be capped by a tangent; masks may be added, or chosen by a
// select between the scores and a number so low that nothing remains, and several become one; the softmax may be computed in f32; values may stand on
// the left of weights that are turned for it.
//
// One thing differs: where every key of a row is at -inf, the spelled softmax gives NaN and dit.attention gives 0,
// as torch's own fused attention does. With `keep-roundings` only what computes in f32 throughout is recognised.
//
// Before:
//   func.func @f(%q: tensor<6x5x8xf32>, %k: tensor<6x7x8xf32>, %v: tensor<6x7x8xf32>) -> tensor<6x5x8xf32> {
//     %t = dit.permute %k [0, 2, 1] : tensor<6x7x8xf32> -> tensor<6x8x7xf32>
//     %s = dit.matmul %q, %t : (tensor<6x5x8xf32>, tensor<6x8x7xf32>) -> tensor<6x5x7xf32>
//     %c = dit.map(%s) : (tensor<6x5x7xf32>) -> tensor<6x5x7xf32> {
//     ^bb0(%a: f32):
//       %h = arith.constant 5.000000e-01 : f32
//       %r = arith.mulf %a, %h : f32
//       dit.yield %r : f32
//     }
//     %m = dit.reduce max %c axes [2] : (tensor<6x5x7xf32>) -> tensor<6x5x1xf32>
//     %e = dit.map(%c, %m) : (tensor<6x5x7xf32>, tensor<6x5x1xf32>) -> tensor<6x5x7xf32> {
//     ^bb0(%a: f32, %b: f32):
//       %d = arith.subf %a, %b : f32
//       %r = math.exp %d : f32
//       dit.yield %r : f32
//     }
//     %l = dit.reduce sum %e axes [2] : (tensor<6x5x7xf32>) -> tensor<6x5x1xf32>
//     %p = dit.map(%e, %l) : (tensor<6x5x7xf32>, tensor<6x5x1xf32>) -> tensor<6x5x7xf32> {
//     ^bb0(%a: f32, %b: f32):
//       %r = arith.divf %a, %b : f32
//       dit.yield %r : f32
//     }
//     %o = dit.matmul %p, %v : (tensor<6x5x7xf32>, tensor<6x7x8xf32>) -> tensor<6x5x8xf32>
//     return %o : tensor<6x5x8xf32>
//   }
// After:
//   func.func @f(%q: tensor<6x5x8xf32>, %k: tensor<6x7x8xf32>, %v: tensor<6x7x8xf32>) -> tensor<6x5x8xf32> {
//     %q4 = dit.view %q : tensor<6x5x8xf32> -> tensor<1x6x5x8xf32>
//     %k4 = dit.view %k : tensor<6x7x8xf32> -> tensor<1x6x7x8xf32>
//     %v4 = dit.view %v : tensor<6x7x8xf32> -> tensor<1x6x7x8xf32>
//     %o = dit.attention %q4, %k4, %v4 scale 5.000000e-01 : (tensor<1x6x5x8xf32>, tensor<1x6x7x8xf32>, tensor<1x6x7x8xf32>) -> tensor<1x6x5x8xf32>
//     %y = dit.view %o : tensor<1x6x5x8xf32> -> tensor<6x5x8xf32>
//     return %y : tensor<6x5x8xf32>
//   }
#include "dialects/dit/Tensors.h"
#include "passes/Passes.h"
#include "passes/SpelledSoftmax.h"
#include "passes/Terms.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_RECOGNISEATTENTION
#include "passes/Passes.h.inc"

namespace {

/// Longer heads stay two products: a kernel holds a query's row and its sum at once.
constexpr int64_t kMaxHeadSize = 256;

/// One spelled attention and the operands that it becomes.
class Rewrite {
public:
  /// `isTurned`: the values are on the left of the last product, whose result has channels before queries.
  Rewrite(dit::MatmulOp last, bool isTurned, SpelledSoftmax spelled, bool keepRoundings)
      : last(last), isTurned(isTurned), softmax(std::move(spelled)), keepRoundings(keepRoundings), b(last) {}

  bool run() {
    dit::MatmulOp scores = softmax.scores;
    Value query = scores.getLhs(), key = scores.getRhs(), value = isTurned ? last.getLhs() : last.getRhs();
    if (!chooseHeads() || !canBatch(query) || !canBatch(key) || !canBatch(value))
      return false;
    if (shapeOf(query).back() > kMaxHeadSize || last.getType().getShape().take_back(2)[isTurned ? 0 : 1] > kMaxHeadSize)
      return false;
    SmallVector<Value> masks;
    for (const SpelledMask &part : softmax.masks)
      if (Value apart = asHeads(part.tensor, part.level))
        masks.push_back(apart);
      else
        return false;
    mask = softmax.maskFor(b, masks);
    if (softmax.factor && (keepRoundings || !(softmax.factor = asHeads(softmax.factor, softmax.factorLevel))))
      return false;
    query = withoutScale(batched(query), kMaxDepth);
    key = withoutScale(scores.getTransposeRhs() ? batched(key) : transposed(key), kMaxDepth);
    return replace(query, key, isTurned || last.getTransposeRhs() ? transposed(value) : batched(value));
  }

private:
  /// How many views and casts are looked through.
  static constexpr int kMaxDepth = 6;

  bool replace(Value query, Value key, Value value) {
    // f32 copies of narrow operands: products of narrow numbers are exact in f32.
    Value narrow[3] = {withoutWidening(query, kMaxDepth), withoutWidening(key, kMaxDepth), withoutWidening(value, kMaxDepth)};
    auto sameType = [&](Value x, Value y, Value z) { return elementOf(x) == elementOf(y) && elementOf(y) == elementOf(z); };
    if (softmax.factor && narrow[0] != query)
      return false; // the model scales numbers of 16 bits in f32
    if (sameType(narrow[0], narrow[1], narrow[2]))
      query = narrow[0], key = narrow[1], value = narrow[2];
    else if (!sameType(query, key, value))
      return false;
    if (softmax.factor)
      query = timesFactor(query);
    SmallVector<int64_t> shape(shapeOf(query));
    shape.back() = shapeOf(value).back();
    Value attention = dit::AttentionOp::create(b, last.getLoc(), last.getType().clone(shape), query, key, value, mask,
                                               b.getF64FloatAttr(scale * softmax.scale), UnitAttr(), softmax.softCap ? b.getF64FloatAttr(*softmax.softCap) : FloatAttr(),
                                               DenseI64ArrayAttr(), UnitAttr());
    if (isTurned)
      attention = permuted(b, last.getLoc(), attention, {0, 1, 3, 2});
    last.replaceAllUsesWith(viewAs(b, last.getLoc(), attention, last.getType().getShape()));
    last.erase();
    return true;
  }

  /// Queries take the scores' factor, which is the same for all of their keys.
  Value timesFactor(Value query) {
    auto map = dit::MapOp::create(b, last.getLoc(), query.getType(), ValueRange{query, softmax.factor});
    OpBuilder::InsertionGuard guard(b);
    Type compute = dit::computeType(tensorType(query).getElementType());
    Block *body = b.createBlock(&map.getBody());
    for (Value operand : map.getInputs())
      body->addArgument(dit::computeType(tensorType(operand).getElementType()), last.getLoc());
    Value factor = body->getArgument(1);
    if (factor.getType() != compute)
      factor = compute.isF64() ? arith::ExtFOp::create(b, last.getLoc(), compute, factor).getResult() : arith::TruncFOp::create(b, last.getLoc(), compute, factor).getResult();
    dit::YieldOp::create(b, last.getLoc(), arith::MulFOp::create(b, last.getLoc(), body->getArgument(0), factor).getResult());
    return map.getResult();
  }

  //===-- Batch and heads -------------------------------------------------------------------------===//

  /// Batch and heads of the scores: where the mask has them apart, else where a view of the operands has, else one batch.
  bool chooseHeads() {
    ArrayRef<int64_t> shape = softmax.scores.getType().getShape();
    batchShape = SmallVector<int64_t>(shape.drop_back(2));
    if (ShapedType::getNumElements(last.getType().getShape().drop_back(2)) != ShapedType::getNumElements(batchShape))
      return false;
    int64_t all = ShapedType::getNumElements(batchShape);
    heads = batchShape.empty() ? 1 : batchShape.back();
    batch = all / std::max<int64_t>(heads, 1);
    for (Value operand : {last.getResult(), softmax.scores.getRhs(), softmax.scores.getLhs()})
      if (std::optional<int64_t> apart = headsApart(operand))
        setHeads(all, *apart);
    for (const SpelledMask &part : softmax.masks)
      if (part.level.size() == 4)
        setHeads(all, part.level[1]);
    return all > 0 && batch * heads == all;
  }

  void setHeads(int64_t all, int64_t count) {
    heads = count;
    batch = all / std::max<int64_t>(count, 1);
  }

  /// The heads of a value that a view takes from or brings to four dimensions, of which the last two stay.
  static std::optional<int64_t> headsApart(Value value) {
    auto matches = [&](Value other) {
      return shapeOf(other).size() == 4 && shapeOf(value).size() == 3 && shapeOf(other).take_back(2) == shapeOf(value).take_back(2);
    };
    if (auto view = value.getDefiningOp<dit::ViewOp>(); view && matches(view.getInput()))
      return shapeOf(view.getInput())[1];
    for (Operation *user : value.getUsers())
      if (auto view = dyn_cast<dit::ViewOp>(user); view && matches(view.getResult()))
        return shapeOf(view.getResult())[1];
    return std::nullopt;
  }

  /// Operands that lack no batch dimension.
  bool canBatch(Value value) const { return ShapedType::getNumElements(shapeOf(value).drop_back(2)) == batch * heads; }

  Value batched(Value value) {
    ArrayRef<int64_t> shape = shapeOf(value);
    return viewAs(b, last.getLoc(), value, {batch, heads, shape[shape.size() - 2], shape.back()});
  }

  /// The last two dimensions change places; a permutation that did so before is undone.
  Value transposed(Value value) {
    auto permute = behindBatchView(value).getDefiningOp<dit::PermuteOp>();
    SmallVector<int64_t> swap = llvm::to_vector(llvm::seq<int64_t>(0, permute ? permute.getPermutation().size() : 2));
    std::swap(swap.back(), swap[swap.size() - 2]);
    if (permute && permute.getPermutation() == ArrayRef<int64_t>(swap))
      return batched(permute.getInput());
    return permuted(b, last.getLoc(), batched(value), {0, 1, 3, 2});
  }

  //===-- Mask ------------------------------------------------------------------------------------===//

  /// What meets the scores as [batch or 1, heads or 1, queries or 1, keys or 1]; null when it does not come so.
  Value asHeads(Value value, ArrayRef<int64_t> level) {
    if (auto expand = value.getDefiningOp<dit::ExpandOp>())
      value = expand.getInput();
    ArrayRef<int64_t> own = shapeOf(value);
    SmallVector<int64_t> shape{1, 1, own.size() < 2 ? 1 : own[own.size() - 2], own.empty() ? 1 : own.back()};
    bool isWhole = own.size() > 2 && own.drop_back(2) == level.drop_back(2);
    if (isWhole)
      shape[0] = batch, shape[1] = heads;
    else if (own.size() > 4 && own.size() == level.size())
      return ofWindows(value, level);
    else if (own.size() == 4)
      shape[0] = own[0], shape[1] = own[1];
    else if (own.size() == 3 && level.size() == 4)
      shape[1] = own[0];
    else if (own.size() > 2 && ShapedType::getNumElements(own.drop_back(2)) != 1)
      return {};
    if (ShapedType::getNumElements(shape) != tensorType(value).getNumElements())
      return {};
    return viewAs(b, last.getLoc(), value, shape);
  }

  /// A mask of scores whose batch is several dimensions, as windows of images are: where it differs along one, it is repeated along the others.
  Value ofWindows(Value value, ArrayRef<int64_t> level) {
    SmallVector<int64_t> own(shapeOf(value)), shape;
    size_t end = level.size() - 2, split = 0;
    while (split < end && ShapedType::getNumElements(level.take_front(split)) != batch)
      ++split;
    if (ShapedType::getNumElements(level.slice(split, end - split)) != heads)
      return {};
    for (auto [from, to] : {std::pair(size_t(0), split), std::pair(split, end)}) {
      bool isOne = llvm::all_of(llvm::seq(from, to), [&](size_t dim) { return own[dim] == 1; });
      for (size_t dim = from; dim < to && !isOne; ++dim)
        own[dim] = level[dim];
      shape.push_back(ShapedType::getNumElements(ArrayRef<int64_t>(own).slice(from, to - from)));
    }
    shape.append(own.end() - 2, own.end());
    if (own != shapeOf(value))
      value = dit::ExpandOp::create(b, last.getLoc(), tensorType(value).clone(own), value);
    return viewAs(b, last.getLoc(), value, shape);
  }

  //===-- Operands --------------------------------------------------------------------------------===//

  /// `value` without a map that `take` accepts, behind views and permutations.
  template <typename Take> Value without(Value value, int depth, const Take &take) {
    Operation *def = value.getDefiningOp();
    if (!def || depth == 0)
      return value;
    if (Value source = take(value))
      return source;
    if (!isa<dit::ViewOp, dit::PermuteOp>(def))
      return value;
    Value inner = without(def->getOperand(0), depth - 1, take);
    if (inner == def->getOperand(0))
      return value;
    if (auto permute = dyn_cast<dit::PermuteOp>(def))
      return permuted(b, def->getLoc(), inner, permute.getPermutation());
    return viewAs(b, def->getLoc(), inner, shapeOf(value));
  }

  Value withoutScale(Value value, int depth) {
    return without(value, depth, [&](Value tensor) -> Value {
      auto map = tensor.getDefiningOp<dit::MapOp>();
      if (!map || map.getInputs().size() != 1 || map.getInputs()[0].getType() != map.getType() || !staysWide(tensor, keepRoundings))
        return {};
      std::optional<Scaled> scaled = scaledBy(Term::yieldedBy(map, keepRoundings));
      if (!scaled || scaled->of.tensor() != map.getInputs()[0])
        return {};
      scale *= scaled->factor;
      return map.getInputs()[0];
    });
  }

  Value withoutWidening(Value value, int depth) {
    return without(value, depth, [](Value tensor) -> Value {
      Value narrow = behindWidening(tensor);
      return narrow != tensor ? narrow : Value();
    });
  }

  dit::MatmulOp last;
  bool isTurned;
  SpelledSoftmax softmax;
  bool keepRoundings;
  OpBuilder b;
  Value mask;
  SmallVector<int64_t> batchShape;
  int64_t batch = 1, heads = 1;
  double scale = 1;
};

/// w where `product` is vᵀ wᵀ; null when its right side is not turned. Dimensions of one element may be anywhere.
Value turnedWeights(dit::MatmulOp product) {
  Value right = product.getRhs();
  if (product.getTransposeRhs())
    return right;
  ArrayRef<int64_t> turned = shapeOf(right).take_back(2);
  auto view = right.getDefiningOp<dit::ViewOp>();
  Value source = view ? Value(view.getInput()) : right;
  auto permute = source.getDefiningOp<dit::PermuteOp>();
  if (!permute || !right.hasOneUse() || !source.hasOneUse() || turned[0] == 1 || turned[1] == 1)
    return {};
  // The batch stays in order, and the last two change places.
  SmallVector<int64_t> order;
  for (int64_t dim : permute.getPermutation())
    if (shapeOf(permute.getInput())[dim] != 1)
      order.push_back(dim);
  ArrayRef<int64_t> weights = shapeOf(permute.getInput()).take_back(2);
  bool isTurned = order.size() >= 2 && weights[0] == turned[1] && weights[1] == turned[0] && order[order.size() - 2] == order.back() + 1;
  return isTurned && llvm::is_sorted(ArrayRef<int64_t>(order).drop_back(1)) ? permute.getInput() : Value();
}

class RecogniseAttention : public impl::RecogniseAttentionBase<RecogniseAttention> {
public:
  using RecogniseAttentionBase::RecogniseAttentionBase;

  void runOnOperation() override {
    SmallVector<dit::MatmulOp> products(getOperation().getOps<dit::MatmulOp>());
    for (dit::MatmulOp product : products) {
      if (product.getBias() || tensorType(product.getRhs()).getRank() != product.getType().getRank())
        continue;
      for (auto [weights, isTurned] : {std::pair<Value, bool>(product.getLhs(), false), {turnedWeights(product), true}}) {
        std::optional<SpelledSoftmax> softmax = weights ? spelledSoftmaxOf(weights, keepRoundings) : std::nullopt;
        if (softmax && Rewrite(product, isTurned, std::move(*softmax), keepRoundings).run())
          break;
      }
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(getOperation().getBody().front())))
      if (op.use_empty() && op.getName().getDialectNamespace() == "dit")
        op.erase();
  }
};

} // namespace
} // namespace ditc
