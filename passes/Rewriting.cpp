// SPDX-License-Identifier: Apache-2.0
#include "passes/Rewriting.h"

#include "dialects/dit/Tensors.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
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
