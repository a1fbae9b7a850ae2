// SPDX-License-Identifier: Apache-2.0
//
// RecogniseLinearAttention: two f32 products of which the first sums over the tokens, (V Kᵀ) Q or Q (Kᵀ V), become
// dit.linear_state and dit.linear_apply. Keys and queries may be cut at 0, which the operations take over; a row of ones
// below V, whose sums divide the result, becomes their normaliser. Operands that were only widened are read as they were,
// and a result that is only narrowed is written so. Left alone are products of other types, more than 128 channels, fewer
// tokens than channels, and what is read elsewhere as well.
//
// The tokens are cut into parts, so that few heads still make work for a whole GPU.
//
// Before:
//   func.func @f(%q: tensor<1x2x8x64xf32>, %k: tensor<1x2x64x8xf32>, %v: tensor<1x2x8x64xf32>) -> tensor<1x2x8x64xf32> {
//     %p = dit.pad %v low [0, 0, 0, 0] high [0, 0, 1, 0] value 1.000000e+00 : f32 : tensor<1x2x8x64xf32> -> tensor<1x2x9x64xf32>
//     %s = dit.matmul %p, %k : (tensor<1x2x9x64xf32>, tensor<1x2x64x8xf32>) -> tensor<1x2x9x8xf32>
//     %y = dit.matmul %s, %q : (tensor<1x2x9x8xf32>, tensor<1x2x8x64xf32>) -> tensor<1x2x9x64xf32>
//     %n = dit.slice %y offsets [0, 0, 0, 0] steps [1, 1, 1, 1] : tensor<1x2x9x64xf32> -> tensor<1x2x8x64xf32>
//     %d = dit.slice %y offsets [0, 0, 8, 0] steps [1, 1, 1, 1] : tensor<1x2x9x64xf32> -> tensor<1x2x1x64xf32>
//     %r = dit.map(%n, %d) : (tensor<1x2x8x64xf32>, tensor<1x2x1x64xf32>) -> tensor<1x2x8x64xf32> {
//     ^bb0(%a: f32, %b: f32):
//       %c = arith.divf %a, %b : f32
//       dit.yield %c : f32
//     }
//     return %r : tensor<1x2x8x64xf32>
//   }
// After:
//   func.func @f(%q: tensor<1x2x8x64xf32>, %k: tensor<1x2x64x8xf32>, %v: tensor<1x2x8x64xf32>) -> tensor<1x2x8x64xf32> {
//     %vt = dit.permute %v [0, 1, 3, 2] : tensor<1x2x8x64xf32> -> tensor<1x2x64x8xf32>
//     %qt = dit.permute %q [0, 1, 3, 2] : tensor<1x2x8x64xf32> -> tensor<1x2x64x8xf32>
//     %s = dit.linear_state %k, %vt normaliser : (tensor<1x2x64x8xf32>, tensor<1x2x64x8xf32>) -> tensor<1x1x2x9x8xf32>
//     %y = dit.linear_apply %qt, %s normaliser epsilon 0.000000e+00 : (tensor<1x2x64x8xf32>, tensor<1x1x2x9x8xf32>) -> tensor<1x2x64x8xf32>
//     %r = dit.permute %y [0, 1, 3, 2] : tensor<1x2x64x8xf32> -> tensor<1x2x8x64xf32>
//     return %r : tensor<1x2x8x64xf32>
//   }
#include "dialects/dit/Tensors.h"
#include "passes/Passes.h"
#include "passes/Rewriting.h"
#include "passes/Terms.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

#include <cmath>

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_RECOGNISELINEARATTENTION
#include "passes/Passes.h.inc"

namespace {

/// More channels are products that a library does well.
constexpr int64_t kMaxChannels = 128;
/// As many parts as leave each this many tokens, but no more than are worth adding up.
constexpr int64_t kTokensOfPart = 128, kMostParts = 8;

int64_t partsOf(int64_t tokens) {
  int64_t parts = kMostParts;
  while (parts > 1 && (tokens % parts != 0 || tokens / parts < kTokensOfPart))
    parts /= 2;
  return parts;
}

/// The single scalar operation of a map's body beside constants, which it yields; null where there is none or more.
template <typename Op> Op onlyOperation(dit::MapOp map) {
  auto yield = cast<dit::YieldOp>(map.getBody().front().getTerminator());
  auto op = yield.getOperand(0).getDefiningOp<Op>();
  auto others = llvm::count_if(map.getBody().front().without_terminator(), [](Operation &other) { return !isa<arith::ConstantOp>(other); });
  return op && others == 1 ? op : Op();
}

std::optional<double> numberIn(Value scalar) {
  FloatAttr attr;
  return matchPattern(scalar, m_Constant(&attr)) ? std::optional(attr.getValueAsDouble()) : std::nullopt;
}

/// max(x, 0)
bool isRelu(dit::MapOp map) {
  auto max = onlyOperation<arith::MaximumFOp>(map);
  return max && map.getInputs().size() == 1 && isa<BlockArgument>(max.getLhs()) && numberIn(max.getRhs()) == 0.0;
}

/// x + c, with c, a number of fp32, in `epsilon`.
bool addsNumber(dit::MapOp map, double &epsilon) {
  auto sum = onlyOperation<arith::AddFOp>(map);
  std::optional<double> number = sum && map.getInputs().size() == 1 && isa<BlockArgument>(sum.getLhs()) ? numberIn(sum.getRhs()) : std::nullopt;
  if (!number || !std::isfinite(static_cast<float>(*number)))
    return false;
  epsilon = *number;
  return true;
}

/// The tensor of a row of ones below `value`, along `axis`; null where it is something else.
Value aboveOnes(Value value, int64_t axis) {
  auto pad = value.getDefiningOp<dit::PadOp>();
  auto one = pad ? dyn_cast<FloatAttr>(pad.getValue()) : FloatAttr();
  if (!one || one.getValueAsDouble() != 1.0 || llvm::any_of(pad.getLow(), [](int64_t low) { return low != 0; }))
    return {};
  for (auto [dim, high] : llvm::enumerate(pad.getHigh()))
    if (high != (static_cast<int64_t>(dim) == axis))
      return {};
  return pad.getInput();
}

class Rewrite {
public:
  /// `state` is on the left of `last`: its result has channels before tokens.
  Rewrite(dit::MatmulOp last, dit::MatmulOp state, bool isTurned) : last(last), state(state), isTurned(isTurned), b(last) {}

  bool run() {
    if (!areBatchedProducts())
      return false;
    chooseOperands();
    int64_t d = shapeOf(key).back(), e = shapeOf(value).back(), tokens = shapeOf(key)[2];
    if (std::max(d, e) > kMaxChannels || tokens < std::max(d, e))
      return false;
    replaced = last.getResult();
    if (hasOnes && !findDivision())
      return false;
    build(d, e, tokens);
    return true;
  }

private:
  /// f32, of one batch, without a bias.
  bool areBatchedProducts() {
    size_t rank = last.getType().getRank();
    ArrayRef<int64_t> batch = last.getType().getShape().drop_back(2);
    auto fits = [&](Value operand) { return shapeOf(operand).size() == rank && shapeOf(operand).drop_back(2) == batch && elementOf(operand).isF32(); };
    auto isBatched = [&](dit::MatmulOp op) { return !op.getBias() && llvm::all_of(op->getOperands(), fits) && fits(op.getResult()); };
    return (rank == 3 || rank == 4) && isBatched(last) && isBatched(state);
  }

  /// The sides of the products as [B, H, tokens, channels], without what the operations do themselves.
  void chooseOperands() {
    bool valueByKey = isTurned || last.getTransposeRhs(); // the state is [E, D], else [D, E]
    Value left = state.getLhs(), right = state.getRhs();  // [·, tokens]; [tokens, ·], or turned
    int64_t rank = last.getType().getRank(), rightAxis = state.getTransposeRhs() ? rank - 2 : rank - 1;
    Value ofValue = valueByKey ? left : right;
    if (Value above = aboveOnes(ofValue, valueByKey ? rank - 2 : rightAxis))
      hasOnes = true, (valueByKey ? left : right) = above;
    left = tokensFirst(left, true), right = tokensFirst(right, state.getTransposeRhs());
    value = narrowest(valueByKey ? left : right, nullptr);
    bool reluOfKey = false, reluOfQuery = false;
    key = narrowest(valueByKey ? right : left, &reluOfKey);
    Value asks = isTurned ? tokensFirst(last.getRhs(), !last.getTransposeRhs()) : tokensFirst(last.getLhs(), false);
    query = narrowest(asks, &reluOfQuery);
    stateRelu = reluOfKey, applyRelu = reluOfQuery;
  }

  Value tokensFirst(Value operand, bool turn) {
    ArrayRef<int64_t> shape = shapeOf(operand);
    if (shape.size() == 3)
      operand = viewAs(b, last.getLoc(), operand, {1, shape[0], shape[1], shape[2]});
    return turn ? permuted(b, last.getLoc(), operand, {0, 1, 3, 2}) : operand;
  }

  /// Behind widening casts and, where `relu` takes it, a cut at 0, through views.
  Value narrowest(Value operand, bool *relu) {
    Value before = behindWidening(operand);
    if (before != operand)
      return narrowest(before, relu);
    if (Operation *view = operand.getDefiningOp(); isa_and_present<dit::ViewOp, dit::PermuteOp>(view)) {
      Value inner = narrowest(view->getOperand(0), relu);
      return inner == view->getOperand(0) ? operand : viewOf(b, view, inner);
    }
    auto map = operand.getDefiningOp<dit::MapOp>();
    if (!relu || !map || !isRelu(map) || tensorType(operand) != tensorType(map.getInputs()[0]))
      return operand;
    *relu = true;
    return narrowest(map.getInputs()[0], relu);
  }

  /// All rows but the last, divided by the last, to which a number may be added. Of all tokens, heads and batches: a slice may
  /// leave some out, and a map repeats what it divides by.
  bool findDivision() {
    if (!last.getResult().hasNUses(2))
      return false;
    int64_t rows = shapeOf(replaced)[rowAxis()];
    Value above, below;
    for (Operation *user : last->getUsers())
      if (auto slice = dyn_cast<dit::SliceOp>(user); slice && slice->hasOneUse()) {
        above = isRows(slice, 0, rows - 1) ? slice.getResult() : above;
        below = isRows(slice, rows - 1, 1) ? slice.getResult() : below;
      }
    if (!above || !below)
      return false;
    Value divisor = below;
    if (auto sum = dyn_cast<dit::MapOp>(*below.user_begin()); sum && sum.getType() == below.getType() && addsNumber(sum, epsilon))
      divisor = sum.getResult();
    auto quotient = divisor.hasOneUse() ? dyn_cast<dit::MapOp>(*divisor.user_begin()) : dit::MapOp();
    if (!quotient || quotient.getInputs().size() != 2 || quotient.getInputs()[0] != above || quotient.getInputs()[1] != divisor || quotient.getType() != above.getType())
      return false;
    auto division = onlyOperation<arith::DivFOp>(quotient);
    if (!division || division.getLhs() != quotient.getBody().getArgument(0) || division.getRhs() != quotient.getBody().getArgument(1))
      return false;
    replaced = quotient.getResult();
    return true;
  }

  /// The dimension of the last product's result that has channels and the row of ones.
  size_t rowAxis() { return last.getType().getRank() - (isTurned ? 2 : 1); }

  bool isRows(dit::SliceOp slice, int64_t first, int64_t count) {
    SmallVector<int64_t> shape(last.getType().getShape()), offsets(shape.size(), 0);
    shape[rowAxis()] = count, offsets[rowAxis()] = first;
    return shapeOf(slice.getResult()) == ArrayRef(shape) && slice.getOffsets() == ArrayRef(offsets);
  }

  void build(int64_t d, int64_t e, int64_t tokens) {
    Location loc = last.getLoc();
    ArrayRef<int64_t> q = shapeOf(query);
    auto type = RankedTensorType::get({partsOf(tokens), q[0], q[1], e + hasOnes, d}, b.getF32Type());
    Value kept = dit::LinearStateOp::create(b, state.getLoc(), type, key, value, flag(stateRelu), flag(hasOnes));
    Type element = roundedTo();
    type = RankedTensorType::get({q[0], q[1], q[2], e}, element);
    Value result = dit::LinearApplyOp::create(b, loc, type, query, kept, b.getF64FloatAttr(epsilon), flag(applyRelu), flag(hasOnes));
    if (isTurned)
      result = permuted(b, loc, result, {0, 1, 3, 2});
    result = viewAs(b, loc, result, shapeOf(replaced));
    if (element.isF32())
      replaced.replaceAllUsesWith(result);
    else
      replaceRounded(b, replaced, result);
  }

  UnitAttr flag(bool value) { return value ? b.getUnitAttr() : UnitAttr(); }

  /// The type of 16 bits that all of the result is rounded to, which the operation does itself; else f32.
  Type roundedTo() {
    for (Type element : {Type(b.getBF16Type()), Type(b.getF16Type())})
      if (isRounded(replaced, element))
        return element;
    return b.getF32Type();
  }

  dit::MatmulOp last, state;
  bool isTurned, hasOnes = false, stateRelu = false, applyRelu = false;
  double epsilon = 0;
  Value query, key, value, replaced;
  OpBuilder b;
};

class RecogniseLinearAttention : public impl::RecogniseLinearAttentionBase<RecogniseLinearAttention> {
  void runOnOperation() override {
    SmallVector<dit::MatmulOp> products(getOperation().getOps<dit::MatmulOp>());
    for (dit::MatmulOp product : products)
      for (bool isTurned : {true, false}) {
        auto state = (isTurned ? product.getLhs() : product.getRhs()).getDefiningOp<dit::MatmulOp>();
        if (state && state->hasOneUse() && Rewrite(product, state, isTurned).run())
          break;
      }
    eraseDead(getOperation().getBody().front());
  }
};

} // namespace
} // namespace ditc
