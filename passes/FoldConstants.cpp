// SPDX-License-Identifier: Apache-2.0
//
// FoldConstants: computes everything that depends on constants only, so that position tables, RoPE tables
// and masks that are known at compile time become data.
//
// Only values that the rest of the function needs are computed and kept; what lies between is evaluated on
// the way and dropped. Weights are not constants: they may be swapped after compilation. Views stay views
// (an expanded table is not stored expanded), and a table above `max-bytes` is left to run time, unless it is smaller than
// what it is made of (a table in f64 that is used in bf16): that would have to be stored otherwise. What an expanded table is
// made of is the table that is expanded. What would take long to compute, or more memory than a compiler has, is left as well.
// A table of one number is that number, expanded, unless it is small: zeros that a concat puts beside something are not stored.
//
// Before:
//   func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
//     %a = dit.constant dense<[1.0, 2.0]> : tensor<2xf32>
//     %b = dit.map(%a) : (tensor<2xf32>) -> tensor<2xf32> {
//     ^bb0(%p: f32):
//       %q = arith.addf %p, %p : f32
//       dit.yield %q : f32
//     }
//     %c = dit.map(%x, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> {
//     ^bb0(%p: f32, %q: f32):
//       %r = arith.mulf %p, %q : f32
//       dit.yield %r : f32
//     }
//     return %c : tensor<2xf32>
//   }
// After:
//   func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
//     %b = dit.constant dense<[2.0, 4.0]> : tensor<2xf32>
//     %c = dit.map(%x, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> {
//     ^bb0(%p: f32, %q: f32):
//       %r = arith.mulf %p, %q : f32
//       dit.yield %r : f32
//     }
//     return %c : tensor<2xf32>
//   }
#include "passes/Passes.h"

#include "dialects/fusion/Cost.h"
#include "dialects/reference/Evaluate.h"

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_FOLDCONSTANTS
#include "passes/Passes.h.inc"

namespace {

/// Bytes that the evaluator may have at once for one operation, and what it may compute: some ten seconds.
constexpr double kMostBytes = 1LL << 32, kMostFlops = 1LL << 33;
/// Tables of one number up to this are stored as they are.
constexpr int64_t kSmallTable = 1 << 16;

class FoldConstants : public impl::FoldConstantsBase<FoldConstants> {
public:
  using FoldConstantsBase::FoldConstantsBase;

  void runOnOperation() override {
    llvm::DenseSet<Operation *> foldable = findFoldable();
    for (Operation &op : getOperation().getBody().front())
      if (foldable.contains(&op) && !dit::isViewOp(&op) && !isa<dit::ConstantOp>(op) && isNeeded(&op, foldable))
        if (failed(foldOne(&op)))
          return signalPassFailure();
    removeDead();
    for (auto constant : llvm::make_early_inc_range(getOperation().getOps<dit::ConstantOp>()))
      expandNumber(constant);
  }
private:
  /// Operations all of whose operands are known, and whose results are small enough to keep, or smaller than what would be kept
  /// for them.
  llvm::DenseSet<Operation *> findFoldable() {
    llvm::DenseSet<Operation *> foldable;
    for (Operation &op : getOperation().getBody().front()) {
      if (op.getName().getDialectNamespace() != "dit" || isa<dit::WeightOp>(op))
        continue;
      bool known = llvm::all_of(op.getOperands(), [&](Value operand) { return operand.getDefiningOp() && foldable.contains(operand.getDefiningOp()); });
      if (known && (isa<dit::ConstantOp>(op) || dit::isViewOp(&op) || (isAffordable(&op) && isWorthKeeping(&op))))
        foldable.insert(&op);
    }
    return foldable;
  }

  bool isWorthKeeping(Operation *op) {
    int64_t stored = 0;
    for (Value operand : op->getOperands())
      stored += std::min(bytesOf(operand), bytesOf(dit::behindViews(operand)));
    return stored > bytesOf(op->getResults()) || llvm::all_of(op->getResults(), [&](Value result) { return bytesOf(result) <= maxBytes; });
  }

  static bool isAffordable(Operation *op) {
    return static_cast<double>(bytesOf(op->getOperands()) + bytesOf(op->getResults())) <= kMostBytes && workOf(op).flops() <= kMostFlops;
  }

  static int64_t bytesOf(ValueRange values) {
    int64_t bytes = 0;
    for (Value value : values)
      bytes += dit::tensorBytes(cast<RankedTensorType>(value.getType()));
    return bytes;
  }

  /// True when something that is not folded reads a result, directly or through views.
  static bool isNeeded(Operation *op, const llvm::DenseSet<Operation *> &foldable) {
    return llvm::any_of(op->getUsers(), [&](Operation *user) { return !foldable.contains(user) || (dit::isViewOp(user) && isNeeded(user, foldable)); });
  }

  LogicalResult foldOne(Operation *op) {
    FailureOr<SmallVector<dit::TensorValue>> results = evaluate(op);
    if (failed(results))
      return op->emitError("cannot be evaluated at compile time");
    OpBuilder builder(op);
    for (auto [result, value] : llvm::zip(op->getResults(), *results))
      result.replaceAllUsesWith(dit::ConstantOp::create(builder, op->getLoc(), dit::toElements(value)));
    return success();
  }

  FailureOr<SmallVector<dit::TensorValue>> evaluate(Operation *op) {
    if (auto constant = dyn_cast<dit::ConstantOp>(op))
      return SmallVector<dit::TensorValue>{dit::fromElements(constant.getValue())};
    if (auto known = cache.find(op); known != cache.end())
      return known->second;
    SmallVector<dit::TensorValue> operands;
    for (Value operand : op->getOperands()) {
      FailureOr<SmallVector<dit::TensorValue>> values = evaluate(operand.getDefiningOp());
      if (failed(values))
        return failure();
      operands.push_back((*values)[cast<OpResult>(operand).getResultNumber()]);
    }
    FailureOr<SmallVector<dit::TensorValue>> results = dit::evaluateOp(op, operands);
    if (succeeded(results))
      cache[op] = *results;
    return results;
  }

  static void expandNumber(dit::ConstantOp constant) {
    auto values = dyn_cast<DenseElementsAttr>(constant.getValue());
    auto type = cast<RankedTensorType>(constant.getType());
    if (!values || !values.isSplat() || dit::tensorBytes(type) <= kSmallTable)
      return;
    OpBuilder builder(constant);
    auto one = type.clone(SmallVector<int64_t>(type.getRank(), 1));
    Value number = dit::ConstantOp::create(builder, constant.getLoc(), DenseElementsAttr::get(one, values.getSplatValue<Attribute>()));
    constant.replaceAllUsesWith(dit::ExpandOp::create(builder, constant.getLoc(), type, number).getResult());
    constant.erase();
  }

  void removeDead() {
    cache.clear();
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(getOperation().getBody().front())))
      if (op.use_empty() && op.getName().getDialectNamespace() == "dit")
        op.erase();
  }

  llvm::DenseMap<Operation *, SmallVector<dit::TensorValue>> cache;
};

} // namespace
} // namespace ditc
