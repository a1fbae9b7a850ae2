// SPDX-License-Identifier: Apache-2.0
//
// ConvToMatmul: a convolution whose windows do not overlap (patch embedding: window = stride, no padding) or
// that has windows of one element (1x1) is a matrix product over windows. The result is made as tokens by
// channels and permuted, so that the flatten and transpose that follow a patch embedding cancel.
//
// Before:
//   func.func @f(%x: tensor<2x4x8x6xf32>, %w: tensor<16x4x2x2xf32>, %b: tensor<16xf32>) -> tensor<2x16x4x3xf32> {
//     %y = dit.conv %x, %w bias %b {dilations = array<i64: 1, 1>, groups = 1 : i64, padding_high = array<i64: 0, 0>, padding_low = array<i64: 0, 0>, strides = array<i64: 2, 2>} : (tensor<2x4x8x6xf32>, tensor<16x4x2x2xf32>, tensor<16xf32>) -> tensor<2x16x4x3xf32>
//     return %y : tensor<2x16x4x3xf32>
//   }
// After:
//   func.func @f(%x: tensor<2x4x8x6xf32>, %w: tensor<16x4x2x2xf32>, %b: tensor<16xf32>) -> tensor<2x16x4x3xf32> {
//     %a = dit.view %x : tensor<2x4x8x6xf32> -> tensor<2x4x4x2x3x2xf32>
//     %p = dit.permute %a [0, 2, 4, 1, 3, 5] : tensor<2x4x4x2x3x2xf32> -> tensor<2x4x3x4x2x2xf32>
//     %t = dit.view %p : tensor<2x4x3x4x2x2xf32> -> tensor<2x12x16xf32>
//     %v = dit.view %w : tensor<16x4x2x2xf32> -> tensor<16x16xf32>
//     %m = dit.matmul %t, %v bias %b transpose_rhs : (tensor<2x12x16xf32>, tensor<16x16xf32>, tensor<16xf32>) -> tensor<2x12x16xf32>
//     %c = dit.permute %m [0, 2, 1] : tensor<2x12x16xf32> -> tensor<2x16x12xf32>
//     %y = dit.view %c : tensor<2x16x12xf32> -> tensor<2x16x4x3xf32>
//     return %y : tensor<2x16x4x3xf32>
//   }
#include "dialects/dit/Tensors.h"
#include "passes/Passes.h"
#include "passes/Terms.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_CONVTOMATMUL
#include "passes/Passes.h.inc"

namespace {

bool hasDisjointWindows(dit::ConvOp op) {
  if (op.getGroups() != 1 || op.getType().getNumElements() == 0)
    return false;
  ArrayRef<int64_t> window = tensorType(op.getFilter()).getShape().drop_front(2);
  for (auto [i, size] : llvm::enumerate(window))
    if (op.getPaddingLow()[i] != 0 || op.getPaddingHigh()[i] != 0 || (size != 1 && (size != op.getStrides()[i] || op.getDilations()[i] != 1)))
      return false;
  return true;
}

/// The elements of the input that lie in a window: an edge that fills none is cut off, 1x1 windows may skip some.
Value takenBy(OpBuilder &b, dit::ConvOp op) {
  auto type = tensorType(op.getInput());
  SmallVector<int64_t> shape(type.getShape()), offsets(shape.size(), 0), steps(shape.size(), 1);
  for (size_t i = 2; i < shape.size(); ++i) {
    int64_t window = tensorType(op.getFilter()).getDimSize(i);
    shape[i] = op.getType().getDimSize(i) * window;
    steps[i] = window == 1 ? op.getStrides()[i - 2] : 1;
  }
  return b.createOrFold<dit::SliceOp>(op.getLoc(), type.clone(shape), op.getInput(), offsets, steps);
}

/// [N, windows, C * window], where the input is [N, C, spatial...].
Value windowsOf(OpBuilder &b, dit::ConvOp op) {
  ArrayRef<int64_t> window = tensorType(op.getFilter()).getShape().drop_front(2), count = op.getType().getShape().drop_front(2);
  int64_t batch = op.getType().getDimSize(0), channels = tensorType(op.getInput()).getDimSize(1);
  int64_t windows = ShapedType::getNumElements(count), size = ShapedType::getNumElements(window);
  Value input = takenBy(b, op);
  if (size == 1)
    return permuted(b, op.getLoc(), viewAs(b, op.getLoc(), input, {batch, channels, windows}), {0, 2, 1});
  SmallVector<int64_t> split{batch, channels}, order{0}, inner{1};
  for (auto [number, length] : llvm::zip(count, window)) {
    order.push_back(split.size());
    inner.push_back(split.size() + 1);
    split.append({number, length});
  }
  order.append(inner);
  Value apart = permuted(b, op.getLoc(), viewAs(b, op.getLoc(), input, split), order);
  return viewAs(b, op.getLoc(), apart, {batch, windows, channels * size});
}

void rewrite(dit::ConvOp op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  Value windows = windowsOf(b, op);
  int64_t batch = tensorType(windows).getDimSize(0), count = tensorType(windows).getDimSize(1), depth = tensorType(windows).getDimSize(2);
  int64_t channels = op.getType().getDimSize(1);
  Value filter = viewAs(b, loc, op.getFilter(), {channels, depth});
  Value product = dit::MatmulOp::create(b, loc, op.getType().clone({batch, count, channels}), windows, filter, op.getBias(), /*transpose_rhs=*/true);
  op.replaceAllUsesWith(viewAs(b, loc, permuted(b, loc, product, {0, 2, 1}), op.getType().getShape()));
  op.erase();
}

class ConvToMatmul : public impl::ConvToMatmulBase<ConvToMatmul> {
  void runOnOperation() override {
    for (dit::ConvOp op : llvm::make_early_inc_range(getOperation().getOps<dit::ConvOp>()))
      if (hasDisjointWindows(op))
        rewrite(op);
  }
};

} // namespace
} // namespace ditc
