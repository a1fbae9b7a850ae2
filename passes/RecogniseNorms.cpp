// SPDX-License-Identifier: Apache-2.0
//
// RecogniseNorms: an RMSNorm that the model spells out (square, mean, add eps, reciprocal root, multiply, with
// casts where it has them) becomes one dit.norm, so that kernels see it as what it is. Runs before maps
// are fused, while each operation of the source is still a map of its own.
//
// Before:
//   func.func @f(%x: tensor<2x64xbf16>) -> tensor<2x64xf32> {
//     %x32 = dit.map(%x) : (tensor<2x64xbf16>) -> tensor<2x64xf32> {
//     ^bb0(%a: f32):
//       dit.yield %a : f32
//     }
//     %s = dit.map(%x32) : (tensor<2x64xf32>) -> tensor<2x64xf32> {
//     ^bb0(%a: f32):
//       %m = arith.mulf %a, %a : f32
//       dit.yield %m : f32
//     }
//     %v = dit.reduce mean %s axes [1] : (tensor<2x64xf32>) -> tensor<2x1xf32>
//     %e = dit.map(%v) : (tensor<2x1xf32>) -> tensor<2x1xf32> {
//     ^bb0(%a: f32):
//       %c = arith.constant 1.000000e-06 : f32
//       %m = arith.addf %a, %c : f32
//       dit.yield %m : f32
//     }
//     %r = dit.map(%e) : (tensor<2x1xf32>) -> tensor<2x1xf32> {
//     ^bb0(%a: f32):
//       %m = math.rsqrt %a : f32
//       dit.yield %m : f32
//     }
//     %y = dit.map(%x, %r) : (tensor<2x64xbf16>, tensor<2x1xf32>) -> tensor<2x64xf32> {
//     ^bb0(%a: f32, %b: f32):
//       %m = arith.mulf %a, %b : f32
//       dit.yield %m : f32
//     }
//     return %y : tensor<2x64xf32>
//   }
// After:
//   func.func @f(%x: tensor<2x64xbf16>) -> tensor<2x64xf32> {
//     %y = dit.norm rms %x axes 1 eps 9.9999999747524271E-7 : (tensor<2x64xbf16>) -> tensor<2x64xf32>
//     return %y : tensor<2x64xf32>
//   }
#include "passes/Passes.h"

#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_RECOGNISENORMS
#include "passes/Passes.h.inc"

namespace {

RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }

/// The scalar operation of a map whose body is that operation alone, beside constants.
Operation *onlyOp(dit::MapOp map) {
  Operation *found = nullptr;
  for (Operation &op : map.getBodyBlock().without_terminator()) {
    if (isa<arith::ConstantOp>(op))
      continue;
    if (found)
      return nullptr;
    found = &op;
  }
  return found && map.getBodyBlock().getTerminator()->getOperand(0).getDefiningOp() == found ? found : nullptr;
}

/// Behind casts that lose nothing: f32(bf16 x) is x for a norm, which computes in f32.
Value behindWidening(Value value) {
  auto map = value.getDefiningOp<dit::MapOp>();
  if (!map || !map.isIdentity())
    return value;
  Type from = tensorType(map.getInputs()[0]).getElementType(), to = map.getType().getElementType();
  bool widens = isa<FloatType>(from) && isa<FloatType>(to) && to.getIntOrFloatBitWidth() > from.getIntOrFloatBitWidth();
  return widens && dit::computeType(from) == dit::computeType(to) ? map.getInputs()[0] : value;
}

std::optional<double> constantOf(Value scalar) {
  FloatAttr attr;
  return matchPattern(scalar, m_Constant(&attr)) ? std::optional(attr.getValueAsDouble()) : std::nullopt;
}

/// x when `value` is x·x or x².
Value squaredOperand(Value value) {
  auto map = value.getDefiningOp<dit::MapOp>();
  Operation *op = map && map.getInputs().size() == 1 ? onlyOp(map) : nullptr;
  if (!op)
    return {};
  bool product = isa<arith::MulFOp>(op) && op->getOperand(0) == op->getOperand(1);
  bool power = isa<math::PowFOp>(op) && constantOf(op->getOperand(1)) == 2.0;
  return product || power ? map.getInputs()[0] : Value();
}

/// Where `value` is 1 / sqrt(v + eps): v and eps.
std::optional<std::pair<Value, double>> rootOf(Value value) {
  auto root = behindWidening(value).getDefiningOp<dit::MapOp>();
  Operation *op = root && root.getInputs().size() == 1 ? onlyOp(root) : nullptr;
  if (!op || !(isa<math::RsqrtOp>(op) || (isa<math::PowFOp>(op) && constantOf(op->getOperand(1)) == -0.5)))
    return std::nullopt;
  auto sum = root.getInputs()[0].getDefiningOp<dit::MapOp>();
  Operation *add = sum && sum.getInputs().size() == 1 ? onlyOp(sum) : nullptr;
  if (!add || !isa<arith::AddFOp>(add))
    return std::nullopt;
  for (Value operand : add->getOperands())
    if (std::optional<double> eps = constantOf(operand))
      return std::pair(sum.getInputs()[0], *eps);
  return std::nullopt;
}

/// x · 1/sqrt(mean(x²) + eps)
struct RmsNorm : OpRewritePattern<dit::MapOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dit::MapOp op, PatternRewriter &rewriter) const override {
    Operation *product = op.getInputs().size() == 2 ? onlyOp(op) : nullptr;
    if (!product || !isa<arith::MulFOp>(product) || product->getOperand(0) == product->getOperand(1))
      return failure();
    for (unsigned i : {0u, 1u})
      if (auto root = rootOf(op.getInputs()[1 - i]))
        if (succeeded(rewrite(op, op.getInputs()[i], root->first, root->second, rewriter)))
          return success();
    return failure();
  }

  LogicalResult rewrite(dit::MapOp op, Value input, Value meanSquare, double eps, PatternRewriter &rewriter) const {
    auto mean = behindWidening(meanSquare).getDefiningOp<dit::ReduceOp>();
    if (!mean || mean.getKind() != dit::ReduceKind::Mean || tensorType(input).getShape() != op.getType().getShape())
      return failure();
    int64_t rank = op.getType().getRank(), axes = mean.getAxes().size();
    for (int64_t i = 0; i < axes; ++i)
      if (!llvm::is_contained(mean.getAxes(), rank - 1 - i))
        return failure();
    Value squared = squaredOperand(behindWidening(mean.getInput()));
    if (!squared || behindWidening(squared) != behindWidening(input))
      return failure();
    rewriter.replaceOpWithNewOp<dit::NormOp>(op, op.getType(), behindWidening(input), Value(), Value(), dit::NormKind::Rms, axes, APFloat(eps));
    return success();
  }
};

class RecogniseNorms : public impl::RecogniseNormsBase<RecogniseNorms> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<RmsNorm>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace ditc
