// SPDX-License-Identifier: Apache-2.0
//
// MarkInvariant: a denoising loop calls the model with the same positions, text and masks again and again.
// What depends on such inputs alone gives the same result in every step; those operations get the attribute
// `step_invariant`, which the report counts and a plan may hoist. Inputs are step-invariant when the importer
// was told so (`dit.invariant` on the argument).
//
// Before:
//   func.func @f(%ids: tensor<4xf32> {dit.invariant}, %x: tensor<4xf32>) -> tensor<4xf32> {
//     %c = dit.map(%ids) : (tensor<4xf32>) -> tensor<4xf32> {
//     ^bb0(%p: f32):
//       %q = math.cos %p : f32
//       dit.yield %q : f32
//     }
//     %y = dit.map(%c, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
//     ^bb0(%p: f32, %q: f32):
//       %r = arith.mulf %p, %q : f32
//       dit.yield %r : f32
//     }
//     return %y : tensor<4xf32>
//   }
// After:
//   func.func @f(%ids: tensor<4xf32> {dit.invariant}, %x: tensor<4xf32>) -> tensor<4xf32> {
//     %c = dit.map(%ids) {step_invariant} : (tensor<4xf32>) -> tensor<4xf32> {
//     ^bb0(%p: f32):
//       %q = math.cos %p : f32
//       dit.yield %q : f32
//     }
//     %y = dit.map(%c, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
//     ^bb0(%p: f32, %q: f32):
//       %r = arith.mulf %p, %q : f32
//       dit.yield %r : f32
//     }
//     return %y : tensor<4xf32>
//   }
#include "passes/MarkInvariant.h"

#include "passes/Passes.h"

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_MARKINVARIANT
#include "passes/Passes.h.inc"

llvm::DenseSet<Value> stepInvariantValues(func::FuncOp function) {
  llvm::DenseSet<Value> invariant;
  for (BlockArgument argument : function.getArguments())
    if (function.getArgAttr(argument.getArgNumber(), "dit.invariant"))
      invariant.insert(argument);
  for (Operation &op : function.getBody().front().without_terminator())
    if (llvm::all_of(op.getOperands(), [&](Value operand) { return invariant.contains(operand); }))
      invariant.insert(op.result_begin(), op.result_end());
  return invariant;
}

namespace {

class MarkInvariant : public impl::MarkInvariantBase<MarkInvariant> {
  void runOnOperation() override {
    llvm::DenseSet<Value> invariant = stepInvariantValues(getOperation());
    for (Operation &op : getOperation().getBody().front().without_terminator())
      if (!isa<dit::ConstantOp, dit::WeightOp>(op) && op.getNumResults() > 0 && invariant.contains(op.getResult(0)))
        op.setAttr("step_invariant", UnitAttr::get(&getContext()));
  }
};

} // namespace
} // namespace ditc
