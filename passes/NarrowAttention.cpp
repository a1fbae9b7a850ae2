// SPDX-License-Identifier: Apache-2.0
//
// NarrowAttention: attention on f32 copies of 16-bit queries, keys and values, whose result is made 16 bits again (U-ViT's
// `qkv.float()`), reads what was copied. Its products of 16-bit numbers are exact in f32 either way, and sums and softmax are
// in f32 in every attention; no copies are made, and the kernels for 16 bits take it. So does attention on 16-bit operands whose f32
// result is only rounded, which core ATen graphs have. Not with `--numerics eager`.
//
// Before:
//   func.func @f(%x: tensor<1x2x6x8xbf16>) -> tensor<1x6x2x8xbf16> {
//     %c = dit.map(%x) : (tensor<1x2x6x8xbf16>) -> tensor<1x2x6x8xf32> {
//     ^bb0(%a: f32):
//       dit.yield %a : f32
//     }
//     %o = dit.attention %c, %c, %c scale 1.0 : (tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32>) -> tensor<1x2x6x8xf32>
//     %p = dit.permute %o [0, 2, 1, 3] : tensor<1x2x6x8xf32> -> tensor<1x6x2x8xf32>
//     %y = dit.map(%p) : (tensor<1x6x2x8xf32>) -> tensor<1x6x2x8xbf16> {
//     ^bb0(%a: f32):
//       dit.yield %a : f32
//     }
//     return %y : tensor<1x6x2x8xbf16>
//   }
// After:
//   func.func @f(%x: tensor<1x2x6x8xbf16>) -> tensor<1x6x2x8xbf16> {
//     %o = dit.attention %x, %x, %x scale 1.0 : (tensor<1x2x6x8xbf16>, tensor<1x2x6x8xbf16>, tensor<1x2x6x8xbf16>) -> tensor<1x2x6x8xbf16>
//     %p = dit.permute %o [0, 2, 1, 3] : tensor<1x2x6x8xbf16> -> tensor<1x6x2x8xbf16>
//     return %p : tensor<1x6x2x8xbf16>
//   }
#include "dialects/dit/Tensors.h"
#include "passes/Passes.h"
#include "passes/Rewriting.h"
#include "passes/Terms.h"

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_NARROWATTENTION
#include "passes/Passes.h.inc"

namespace {

/// The 16-bit type that `value` is a copy of, behind views; null when it is none.
Type narrowTypeOf(Value value) {
  Operation *def = value.getDefiningOp();
  if (Value source = behindWidening(value); source != value)
    return is16BitFloat(elementOf(source)) ? elementOf(source) : Type();
  return def && dit::isViewOp(def) ? narrowTypeOf(def->getOperand(0)) : Type();
}

/// What a value is a copy of, through the same views.
Value narrowed(OpBuilder &b, Value value) {
  Value source = behindWidening(value);
  return source != value ? source : viewOf(b, value.getDefiningOp(), narrowed(b, value.getDefiningOp()->getOperand(0)));
}

class NarrowAttention : public impl::NarrowAttentionBase<NarrowAttention> {
public:
  void runOnOperation() override {
    for (dit::AttentionOp op : llvm::make_early_inc_range(getOperation().getOps<dit::AttentionOp>())) {
      bool readsNarrow = is16BitFloat(elementOf(op.getQuery()));
      Type element = readsNarrow ? elementOf(op.getQuery()) : narrowTypeOf(op.getQuery());
      if (!elementOf(op.getResult()).isF32() || !element || !isRounded(op.getResult(), element))
        continue;
      if (!readsNarrow && (narrowTypeOf(op.getKey()) != element || narrowTypeOf(op.getValue()) != element))
        continue;
      OpBuilder b(op);
      auto narrow = cast<dit::AttentionOp>(b.clone(*op));
      b.setInsertionPoint(narrow);
      if (!readsNarrow)
        for (OpOperand *operand : {&narrow.getQueryMutable(), &narrow.getKeyMutable(), &narrow.getValueMutable()})
          operand->set(narrowed(b, operand->get()));
      narrow.getResult().setType(op.getType().clone(element));
      replaceRounded(b, op.getResult(), narrow.getResult());
      op.erase();
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(getOperation().getBody().front())))
      if (op.use_empty() && (isa<dit::MapOp>(op) || dit::isViewOp(&op)))
        op.erase();
  }
};

} // namespace
} // namespace ditc
