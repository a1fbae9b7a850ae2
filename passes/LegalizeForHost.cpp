// SPDX-License-Identifier: Apache-2.0
//
// LegalizeForHost: the BLAS multiplies f32 and f64 matrices and adds no bias. A product of another float
// type, or one with a bias, becomes casts, an f32 product, and a map that adds the bias and rounds once.
// The map is an ordinary one: what follows it fuses into it. Casts of weights run once, when weights are
// bound.
//
// Before:
//   func.func @f(%x: tensor<4x8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xbf16>) -> tensor<4x16xbf16> {
//     %y = dit.matmul %x, %w bias %b transpose_rhs : (tensor<4x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<4x16xbf16>
//     return %y : tensor<4x16xbf16>
//   }
// After:
//   func.func @f(%x: tensor<4x8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xbf16>) -> tensor<4x16xbf16> {
//     %x32 = dit.map(%x) : (tensor<4x8xbf16>) -> tensor<4x8xf32> {
//     ^bb0(%p: f32):
//       dit.yield %p : f32
//     }
//     %w32 = dit.map(%w) : (tensor<16x8xbf16>) -> tensor<16x8xf32> {
//     ^bb0(%p: f32):
//       dit.yield %p : f32
//     }
//     %m = dit.matmul %x32, %w32 transpose_rhs : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
//     %b2 = dit.view %b : tensor<16xbf16> -> tensor<1x16xbf16>
//     %y = dit.map(%m, %b2) : (tensor<4x16xf32>, tensor<1x16xbf16>) -> tensor<4x16xbf16> {
//     ^bb0(%p: f32, %q: f32):
//       %s = arith.addf %p, %q : f32
//       dit.yield %s : f32
//     }
//     return %y : tensor<4x16xbf16>
//   }
#include "dialects/dit/Tensors.h"
#include "passes/Passes.h"
#include "passes/Rewriting.h"
#include "passes/Terms.h"

#include "mlir/Transforms/WalkPatternRewriteDriver.h"

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_LEGALIZEFORHOST
#include "passes/Passes.h.inc"

namespace {

/// A map over `inputs` that adds them.
Value sumMap(OpBuilder &b, Location loc, ValueRange inputs, RankedTensorType type) {
  return mapOf(b, loc, type, inputs, [](OpBuilder &b, Location loc, ValueRange in) {
    Value sum = in[0];
    for (Value term : in.drop_front())
      sum = arith::AddFOp::create(b, loc, sum, term);
    return sum;
  });
}

struct MatmulForBlas : OpRewritePattern<dit::MatmulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dit::MatmulOp op, PatternRewriter &b) const override {
    auto type = cast<RankedTensorType>(op.getType());
    Type element = cast<RankedTensorType>(op.getLhs().getType()).getElementType();
    if (!isa<FloatType>(element))
      return failure();
    Type compute = dit::computeType(element);
    if (element == compute && type.getElementType() == compute && !op.getBias())
      return failure();
    Location loc = op.getLoc();
    Value lhs = castTo(b, loc, op.getLhs(), compute), rhs = castTo(b, loc, op.getRhs(), compute);
    Value product = dit::MatmulOp::create(b, loc, type.clone(compute), lhs, rhs, Value(), op.getTransposeRhs());
    SmallVector<Value> terms{product};
    if (op.getBias()) {
      SmallVector<int64_t> shape(type.getRank(), 1);
      shape.back() = type.getShape().back();
      auto biasType = cast<RankedTensorType>(op.getBias().getType());
      terms.push_back(dit::ViewOp::create(b, loc, biasType.clone(shape), op.getBias()));
    }
    b.replaceOp(op, sumMap(b, loc, terms, type));
    return success();
  }
};

/// φ of keys or queries in f32.
Value featuresOf(OpBuilder &b, Location loc, Value x, bool relu) {
  auto type = tensorType(x).clone(b.getF32Type());
  if (!relu)
    return castTo(b, loc, x, b.getF32Type());
  return mapOf(b, loc, type, x, [](OpBuilder &b, Location loc, ValueRange in) -> Value { return arith::MaximumFOp::create(b, loc, in[0], numberOf(b, loc, 0)); });
}

/// [B, H, N, C] as [parts, B, H, N / parts, C].
Value inParts(OpBuilder &b, Location loc, Value x, int64_t parts) {
  ArrayRef<int64_t> shape = shapeOf(x);
  Value cut = viewAs(b, loc, x, {shape[0], shape[1], parts, shape[2] / parts, shape[3]});
  return permuted(b, loc, cut, {2, 0, 1, 3, 4});
}

/// The product of values and keys of each part.
struct LinearStateAsProduct : OpRewritePattern<dit::LinearStateOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dit::LinearStateOp op, PatternRewriter &b) const override {
    Location loc = op.getLoc();
    auto type = tensorType(op.getState());
    Value key = inParts(b, loc, featuresOf(b, loc, op.getKey(), op.getRelu()), type.getDimSize(0));
    Value value = castTo(b, loc, op.getValue(), b.getF32Type());
    if (op.getNormaliser()) {
      SmallVector<int64_t> shape(shapeOf(value));
      shape.back() += 1;
      value = dit::PadOp::create(b, loc, tensorType(value).clone(shape), value, b.getDenseI64ArrayAttr({0, 0, 0, 0}), b.getDenseI64ArrayAttr({0, 0, 0, 1}), b.getF32FloatAttr(1));
    }
    value = permuted(b, loc, inParts(b, loc, value, type.getDimSize(0)), {0, 1, 2, 4, 3});
    b.replaceOp(op, dit::MatmulOp::create(b, loc, type, value, key, Value(), /*transpose_rhs=*/false).getResult());
    return success();
  }
};

/// The sum over parts, the product with the queries, and the division.
struct LinearApplyAsProduct : OpRewritePattern<dit::LinearApplyOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dit::LinearApplyOp op, PatternRewriter &b) const override {
    Location loc = op.getLoc();
    auto type = tensorType(op.getResult()), state = tensorType(op.getState());
    SmallVector<int64_t> shape(state.getShape());
    shape[0] = 1;
    Value sum = dit::ReduceOp::create(b, loc, state.clone(shape), op.getState(), dit::ReduceKind::Sum, b.getDenseI64ArrayAttr({0}));
    sum = viewAs(b, loc, sum, ArrayRef(shape).drop_front());
    shape.assign(type.getShape().begin(), type.getShape().end());
    shape.back() = state.getDimSize(3);
    Value query = featuresOf(b, loc, op.getQuery(), op.getRelu());
    Value product = dit::MatmulOp::create(b, loc, RankedTensorType::get(shape, b.getF32Type()), query, sum, Value(), /*transpose_rhs=*/true);
    if (!op.getNormaliser()) {
      b.replaceOp(op, castTo(b, loc, product, type.getElementType()));
      return success();
    }
    auto columns = [&](int64_t begin, int64_t count) {
      shape.back() = count;
      return dit::SliceOp::create(b, loc, RankedTensorType::get(shape, b.getF32Type()), product, ArrayRef<int64_t>{0, 0, 0, begin}, ArrayRef<int64_t>{1, 1, 1, 1});
    };
    int64_t e = type.getDimSize(3);
    Value above = columns(0, e), below = columns(e, 1);
    double epsilon = op.getEpsilon().convertToDouble();
    b.replaceOp(op, mapOf(b, loc, type, {above, below}, [&](OpBuilder &b, Location loc, ValueRange in) -> Value {
      return arith::DivFOp::create(b, loc, in[0], arith::AddFOp::create(b, loc, in[1], numberOf(b, loc, epsilon)));
    }));
    return success();
  }
};

class LegalizeForHost : public impl::LegalizeForHostBase<LegalizeForHost> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<LinearStateAsProduct, LinearApplyAsProduct, MatmulForBlas>(&getContext());
    walkAndApplyPatterns(getOperation(), std::move(patterns));
  }
};

} // namespace
} // namespace ditc
