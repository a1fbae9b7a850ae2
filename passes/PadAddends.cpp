// SPDX-License-Identifier: Apache-2.0
//
// PadAddends: FLUX.1 adds what a ControlNet gave to the image rows of a residual stream, behind each of its one-stream blocks, and puts
// text and image together again. The sum is one of all rows: what is added is padded, once for all blocks that add it. The sum then belongs
// to the epilogue of the block's last product, and nothing is put together.
//
// The border is -0: x + -0 is x for every x, with the sign of zeros. Only where the parts are all of one value, in order, which nothing else
// reads, and one of them is a sum.
//
// Before:
//   func.func @f(%x: tensor<6x8xf32>, %r: tensor<4x8xf32>) -> tensor<6x8xf32> {
//     %t = dit.slice %x offsets [0, 0] steps [1, 1] : tensor<6x8xf32> -> tensor<2x8xf32>
//     %i = dit.slice %x offsets [2, 0] steps [1, 1] : tensor<6x8xf32> -> tensor<4x8xf32>
//     %s = dit.map(%i, %r) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> {
//     ^bb0(%a: f32, %b: f32):
//       %c = arith.addf %a, %b : f32
//       dit.yield %c : f32
//     }
//     %y = dit.concat(%t, %s) axis 0 : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
//     return %y : tensor<6x8xf32>
//   }
// After:
//   func.func @f(%x: tensor<6x8xf32>, %r: tensor<4x8xf32>) -> tensor<6x8xf32> {
//     %p = dit.pad %r low [2, 0] high [0, 0] value -0.0 : f32 : tensor<4x8xf32> -> tensor<6x8xf32>
//     %y = dit.map(%x, %p) : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32> {
//     ^bb0(%a: f32, %b: f32):
//       %c = arith.addf %a, %b : f32
//       dit.yield %c : f32
//     }
//     return %y : tensor<6x8xf32>
//   }
#include "dialects/dit/Tensors.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_PADADDENDS
#include "passes/Passes.h.inc"

namespace {

/// A sum of a part of a value and something of the same shape.
struct Sum {
  dit::MapOp map;
  unsigned part; ///< which of the two operands is the part
};

/// What the parts of a concat are parts of, by the first that is nothing but a part; null when there is none.
Value wholeOf(dit::ConcatOp op) {
  for (Value input : op.getInputs())
    if (auto slice = input.getDefiningOp<dit::SliceOp>())
      return slice.getInput();
  return {};
}

/// The sum of a part of `whole` that `value` is, in the type of its operands: a cast in it would round the other rows as well.
std::optional<Sum> sumOfPart(Value value, Value whole) {
  auto map = value.getDefiningOp<dit::MapOp>();
  if (!map || !map->hasOneUse() || map.getInputs().size() != 2)
    return std::nullopt;
  Block &body = map.getBodyBlock();
  auto add = body.getTerminator()->getOperand(0).getDefiningOp<arith::AddFOp>();
  if (!add || add.getLhs() == add.getRhs() || !isa<BlockArgument>(add.getLhs()) || !isa<BlockArgument>(add.getRhs()))
    return std::nullopt;
  for (Value input : map.getInputs())
    if (input.getType() != value.getType())
      return std::nullopt;
  for (unsigned i : {0u, 1u})
    if (auto slice = map.getInputs()[i].getDefiningOp<dit::SliceOp>(); slice && slice.getInput() == whole)
      return Sum{map, i};
  return std::nullopt;
}

struct PadAddend : OpRewritePattern<dit::ConcatOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dit::ConcatOp op, PatternRewriter &rewriter) const override {
    Value whole = wholeOf(op);
    if (!whole || whole.getType() != op.getType() || !llvm::hasNItems(whole.getUsers(), op.getInputs().size()))
      return failure();
    std::optional<Sum> sum;
    int64_t start = 0, low = 0;
    for (Value input : op.getInputs()) {
      auto slice = input.getDefiningOp<dit::SliceOp>();
      if (!slice) {
        if (sum || !(sum = sumOfPart(input, whole)))
          return failure();
        slice = sum->map.getInputs()[sum->part].getDefiningOp<dit::SliceOp>();
        low = start;
      }
      if (!slice->hasOneUse() || slice.getInput() != whole || !isPart(slice, op, start))
        return failure();
      start += slice.getType().getDimSize(op.getAxis());
    }
    if (!sum)
      return failure();
    replace(op, *sum, whole, low, rewriter);
    return success();
  }

private:
  /// A range of `op`'s axis from `start` on, of everything else all.
  static bool isPart(dit::SliceOp slice, dit::ConcatOp op, int64_t start) {
    int64_t axis = op.getAxis();
    for (auto [dim, size] : llvm::enumerate(shapeOf(slice.getInput()))) {
      bool isAxis = static_cast<int64_t>(dim) == axis;
      if (slice.getSteps()[dim] != 1 || slice.getOffsets()[dim] != (isAxis ? start : 0) || (!isAxis && slice.getType().getDimSize(dim) != size))
        return false;
    }
    return true;
  }

  static void replace(dit::ConcatOp op, Sum sum, Value whole, int64_t start, PatternRewriter &rewriter) {
    Value addend = sum.map.getInputs()[1 - sum.part];
    auto type = tensorType(whole), part = tensorType(addend);
    SmallVector<int64_t> low(type.getRank(), 0), high(type.getRank(), 0);
    low[op.getAxis()] = start;
    high[op.getAxis()] = type.getDimSize(op.getAxis()) - start - part.getDimSize(op.getAxis());
    auto value = rewriter.getFloatAttr(type.getElementType(), -0.0);
    Value padded = dit::PadOp::create(rewriter, sum.map.getLoc(), type, addend, low, high, value);
    auto map = cast<dit::MapOp>(rewriter.clone(*sum.map));
    map.getInputsMutable()[sum.part].set(whole);
    map.getInputsMutable()[1 - sum.part].set(padded);
    map.getResult().setType(type);
    rewriter.replaceOp(op, map);
  }
};

class PadAddends : public impl::PadAddendsBase<PadAddends> {
public:
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<PadAddend>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace ditc
