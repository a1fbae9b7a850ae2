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
#include "passes/Passes.h"
#include "passes/Rewriting.h"

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

class LegalizeForHost : public impl::LegalizeForHostBase<LegalizeForHost> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<MatmulForBlas>(&getContext());
    walkAndApplyPatterns(getOperation(), std::move(patterns));
  }
};

} // namespace
} // namespace ditc
