// SPDX-License-Identifier: Apache-2.0
#include "passes/Rewriting.h"

#include "dialects/dit/Tensors.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace ditc {

Value mapOf(OpBuilder &b, Location loc, RankedTensorType type, ValueRange inputs, MapBody body) {
  auto map = dit::MapOp::create(b, loc, type, inputs);
  OpBuilder::InsertionGuard guard(b);
  Block *block = b.createBlock(&map.getBody());
  for (Value input : inputs)
    block->addArgument(dit::computeType(elementOf(input)), loc);
  dit::YieldOp::create(b, loc, body(b, loc, block->getArguments()));
  return map.getResult();
}

Value castTo(OpBuilder &b, Location loc, Value value, Type element) {
  return elementOf(value) == element ? value : mapOf(b, loc, tensorType(value).clone(element), value, [](OpBuilder &, Location, ValueRange in) -> Value { return in[0]; });
}

Value viewOf(OpBuilder &b, Operation *view, Value input) {
  IRMapping map;
  map.map(view->getOperand(0), input);
  Operation *copy = b.clone(*view, map);
  copy->getResult(0).setType(tensorType(view->getResult(0)).clone(elementOf(input)));
  return copy->getResult(0);
}

static bool isCastTo(Operation *op, Type element) {
  auto map = dyn_cast<dit::MapOp>(op);
  return map && map.isIdentity() && map.getInputs()[0].getType() == map.getType().clone(elementOf(map.getInputs()[0])) && elementOf(map.getResult()) == element;
}

bool isRounded(Value value, Type element) {
  return !value.use_empty() && llvm::all_of(value.getUsers(), [&](Operation *user) { return isCastTo(user, element) || (dit::isViewOp(user) && isRounded(user->getResult(0), element)); });
}

void replaceRounded(OpBuilder &b, Value value, Value narrow) {
  for (Operation *user : llvm::make_early_inc_range(value.getUsers())) {
    b.setInsertionPoint(user);
    if (dit::isViewOp(user))
      replaceRounded(b, user->getResult(0), viewOf(b, user, narrow));
    else
      user->getResult(0).replaceAllUsesWith(narrow);
    user->erase();
  }
}

Value reducedRows(OpBuilder &b, Location loc, Value input, dit::ReduceKind kind) {
  SmallVector<int64_t> shape(shapeOf(input));
  int64_t axis = static_cast<int64_t>(shape.size()) - 1;
  shape.back() = 1;
  return dit::ReduceOp::create(b, loc, RankedTensorType::get(shape, b.getF32Type()), input, kind, b.getDenseI64ArrayAttr({axis}));
}

Value numberOf(OpBuilder &b, Location loc, double value) { return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(static_cast<float>(value))); }

void eraseDead(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

} // namespace ditc
