// SPDX-License-Identifier: Apache-2.0
//
// NarrowTables: activations of at most 32 bits that are made f64 only to meet f64 tables (rotary frequencies in complex128), and are
// rounded to at most 32 bits behind a few sums and products, are computed in f32; the tables are rounded once they are finished.
// Kernels for products compute in f32, and an f64 epilogue would be a launch of its own.
//
// A finished table is what the same in every step is when it meets an activation: angles, their sines and cosines stay f64. Sums
// and products whose rounded result a sine or cosine is taken of (positions times frequencies) stay as well. The result differs by
// the rounding of a table and of each product, 2^-24 of them. Sums with a table itself, in which an activation could get lost, and
// constants that f32 has not stay f64; tables beyond f32's range are not looked for. Not with `--numerics eager`.
//
// Before:
//   func.func @f(%x: tensor<4x8xbf16>, %t: tensor<4x8xf64> {dit.invariant}) -> tensor<4x8xbf16> {
//     %w = dit.map(%x) : (tensor<4x8xbf16>) -> tensor<4x8xf64> {
//     ^bb0(%a: f32):
//       %b = arith.extf %a : f32 to f64
//       dit.yield %b : f64
//     }
//     %m = dit.map(%w, %t) : (tensor<4x8xf64>, tensor<4x8xf64>) -> tensor<4x8xf64> {
//     ^bb0(%a: f64, %b: f64):
//       %c = arith.mulf %a, %b : f64
//       dit.yield %c : f64
//     }
//     %y = dit.map(%m) : (tensor<4x8xf64>) -> tensor<4x8xbf16> {
//     ^bb0(%a: f64):
//       %b = arith.truncf %a : f64 to f32
//       dit.yield %b : f32
//     }
//     return %y : tensor<4x8xbf16>
//   }
// After:
//   func.func @f(%x: tensor<4x8xbf16>, %t: tensor<4x8xf64> {dit.invariant}) -> tensor<4x8xbf16> {
//     %n = dit.map(%t) : (tensor<4x8xf64>) -> tensor<4x8xf32> {
//     ^bb0(%a: f64):
//       %b = arith.truncf %a : f64 to f32
//       dit.yield %b : f32
//     }
//     %w = dit.map(%x) : (tensor<4x8xbf16>) -> tensor<4x8xf32> {
//     ^bb0(%a: f32):
//       dit.yield %a : f32
//     }
//     %m = dit.map(%w, %n) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> {
//     ^bb0(%a: f32, %b: f32):
//       %c = arith.mulf %a, %b : f32
//       dit.yield %c : f32
//     }
//     %y = dit.map(%m) : (tensor<4x8xf32>) -> tensor<4x8xbf16> {
//     ^bb0(%a: f32):
//       dit.yield %a : f32
//     }
//     return %y : tensor<4x8xbf16>
//   }
#include "dialects/dit/Tensors.h"
#include "passes/MarkInvariant.h"
#include "passes/Passes.h"
#include "passes/Rewriting.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_NARROWTABLES
#include "passes/Passes.h.inc"

namespace {

bool isDouble(Value value) { return elementOf(value).isF64(); }

/// A number that f32 has, too, up to rounding.
bool isNumberOfF32(Operation &op) {
  auto constant = dyn_cast<arith::ConstantOp>(op);
  auto number = constant ? dyn_cast<FloatAttr>(constant.getValue()) : FloatAttr();
  if (!number)
    return false;
  double size = std::abs(number.getValueAsDouble());
  return size == 0 || (size >= std::numeric_limits<float>::min() && size <= std::numeric_limits<float>::max());
}

/// Sums and products of floats, whose results in f32 are those in f64 up to rounding. `isTable`: of an operand. Where a table
/// itself is added, what it was added to may be lost beside it.
bool hasPlainBody(dit::MapOp map, llvm::function_ref<bool(Value)> isTable) {
  llvm::DenseSet<Value> tables;
  for (auto [argument, operand] : llvm::zip(map.getBodyBlock().getArguments(), map.getInputs()))
    if (isTable(operand))
      tables.insert(argument);
  for (Operation &op : map.getBodyBlock().without_terminator()) {
    bool isPlain = isNumberOfF32(op) || isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::NegFOp, arith::ExtFOp, arith::TruncFOp>(op);
    bool isOfTables = llvm::all_of(op.getOperands(), [&](Value operand) { return tables.contains(operand); });
    bool addsTable = isa<arith::AddFOp, arith::SubFOp>(op) && !isOfTables && llvm::any_of(op.getOperands(), [&](Value operand) { return tables.contains(operand); });
    if (!isPlain || addsTable)
      return false;
    if (isOfTables)
      tables.insert(op.getResult(0));
  }
  return true;
}

/// Whose result tells small differences of large numbers.
bool isPeriodic(Operation &op) { return isa<math::SinOp, math::CosOp, math::TanOp, arith::RemFOp, math::FloorOp, math::CeilOp, math::TruncOp, math::RoundOp, math::RoundEvenOp, arith::FPToSIOp>(op); }

/// True when a sine or cosine is taken of what is made of `value`: it is an angle.
bool isAngle(Value value) {
  llvm::SetVector<Value> reached;
  reached.insert(value);
  for (size_t next = 0; next < reached.size(); ++next)
    for (Operation *user : reached[next].getUsers()) {
      auto map = dyn_cast<dit::MapOp>(user);
      if (map && llvm::any_of(map.getBodyBlock(), isPeriodic))
        return true;
      reached.insert(user->result_begin(), user->result_end());
    }
  return false;
}

class Narrower {
public:
  explicit Narrower(func::FuncOp function) : function(function), invariant(stepInvariantValues(function)) {}

  void run() {
    for (Operation &op : function.getBody().front().without_terminator())
      if (isCandidate(&op))
        chain.insert(&op);
    while (chain.remove_if([&](Operation *op) { return !mayNarrow(op); })) {
    }
    for (Operation *op : chain)
      narrow(op);
    eraseDead(function.getBody().front()); // the chain
  }

private:
  /// One that has f64 operands or an f64 result, and makes f32 of f32 as well.
  bool isCandidate(Operation *op) const {
    if (op->getNumResults() != 1 || invariant.contains(op->getResult(0)) || !isa<FloatType>(elementOf(op->getResult(0))))
      return false;
    auto map = dyn_cast<dit::MapOp>(op);
    bool hasDoubles = isDouble(op->getResult(0)) || llvm::any_of(op->getOperands(), isDouble);
    bool isPlain = map ? hasPlainBody(map, [&](Value operand) { return invariant.contains(operand); }) : dit::isViewOp(op) || isa<dit::ConcatOp>(op);
    return hasDoubles && isPlain && (isDouble(op->getResult(0)) || !isAngle(op->getResult(0)));
  }

  /// True when all f64 operands are tables or of the chain, and all that reads an f64 result is of it.
  bool mayNarrow(Operation *op) const {
    bool hasOperands = llvm::all_of(op->getOperands(), [&](Value operand) { return !isDouble(operand) || invariant.contains(operand) || chain.contains(operand.getDefiningOp()); });
    return hasOperands && (!isDouble(op->getResult(0)) || llvm::all_of(op->getUsers(), [&](Operation *user) { return chain.contains(user); }));
  }

  void narrow(Operation *op) {
    OpBuilder b(op);
    Value result = op->getResult(0);
    auto operands = llvm::map_to_vector(op->getOperands(), [&](Value operand) { return narrowed(operand); });
    auto map = dyn_cast<dit::MapOp>(op);
    known[result] = map ? narrowMap(b, map, operands) : narrowCopy(b, op, operands);
    if (!isDouble(result))
      result.replaceAllUsesWith(known[result]);
  }

  static RankedTensorType narrowType(Value value) { return tensorType(value).clone(isDouble(value) ? Float32Type::get(value.getContext()) : elementOf(value)); }

  /// The same value in at most 32 bits: of the chain, or a table that is rounded as it is read. Parts of one (cosines and sines of
  /// complex numbers) are then stored one by one, as kernels read them.
  Value narrowed(Value value) {
    if (!isDouble(value))
      return value;
    if (Value seen = known.lookup(value))
      return seen;
    OpBuilder b(value.getContext());
    b.setInsertionPointAfterValue(value);
    return known[value] = rounded(b, value);
  }

  static Value rounded(OpBuilder &b, Value value) {
    return mapOf(b, value.getLoc(), narrowType(value), value, [](OpBuilder &b, Location loc, ValueRange in) -> Value { return arith::TruncFOp::create(b, loc, b.getF32Type(), in[0]); });
  }

  static Value narrowCopy(OpBuilder &b, Operation *op, ValueRange operands) {
    Operation *copy = b.clone(*op);
    copy->setOperands(operands);
    copy->getResult(0).setType(narrowType(op->getResult(0)));
    return copy->getResult(0);
  }

  static Value narrowMap(OpBuilder &b, dit::MapOp map, ValueRange operands) {
    auto copy = dit::MapOp::create(b, map.getLoc(), narrowType(map.getResult()), operands);
    OpBuilder::InsertionGuard guard(b);
    Block *body = b.createBlock(&copy.getBody());
    IRMapping narrow;
    for (BlockArgument argument : map.getBodyBlock().getArguments())
      narrow.map(argument, body->addArgument(b.getF32Type(), argument.getLoc()));
    for (Operation &op : map.getBodyBlock())
      cloneNarrow(b, &op, narrow);
    return copy.getResult();
  }

  /// One operation of a body, of which f64 values become f32; conversions between the two vanish.
  static void cloneNarrow(OpBuilder &b, Operation *op, IRMapping &narrow) {
    if (op->hasTrait<OpTrait::IsTerminator>()) {
      b.clone(*op, narrow);
      return;
    }
    Value result = op->getResult(0);
    Type type = result.getType().isF64() ? b.getF32Type() : result.getType();
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      double value = cast<FloatAttr>(constant.getValue()).getValueAsDouble();
      narrow.map(result, arith::ConstantOp::create(b, op->getLoc(), FloatAttr::get(type, value)).getResult());
    } else if (isa<arith::ExtFOp, arith::TruncFOp>(op) && narrow.lookup(op->getOperand(0)).getType() == type) {
      narrow.map(result, narrow.lookup(op->getOperand(0)));
    } else {
      b.clone(*op, narrow)->getResult(0).setType(type);
    }
  }

  func::FuncOp function;
  llvm::DenseSet<Value> invariant;
  llvm::SetVector<Operation *> chain; ///< what becomes f32, in program order
  llvm::DenseMap<Value, Value> known; ///< f64 values as f32
};

class NarrowTables : public impl::NarrowTablesBase<NarrowTables> {
  void runOnOperation() override { Narrower(getOperation()).run(); }
};

} // namespace
} // namespace ditc
