// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusions.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace ditc {

dit::FusionOp makeFusion(OpBuilder &b, StringRef family, ArrayRef<Operation *> ops, ArrayRef<Value> results) {
  llvm::SmallPtrSet<Operation *, 16> members(ops.begin(), ops.end());
  llvm::SetVector<Value> inputs;
  SmallVector<Location> locations;
  for (Operation *op : ops) {
    locations.push_back(op->getLoc());
    for (Value operand : op->getOperands())
      if (!operand.getDefiningOp() || !members.contains(operand.getDefiningOp()))
        inputs.insert(operand);
  }
  auto fusion = dit::FusionOp::create(b, b.getFusedLoc(locations), ValueRange(results).getTypes(), family, inputs.getArrayRef());
  OpBuilder::InsertionGuard guard(b);
  Block *body = b.createBlock(&fusion.getBody());
  IRMapping mapping;
  for (Value input : inputs)
    mapping.map(input, body->addArgument(input.getType(), input.getLoc()));
  for (Operation *op : ops)
    b.clone(*op, mapping);
  SmallVector<Value> yielded;
  for (Value result : results)
    yielded.push_back(mapping.lookup(result));
  dit::YieldOp::create(b, fusion.getLoc(), yielded);
  for (auto [i, result] : llvm::enumerate(results))
    Value(result).replaceAllUsesWith(fusion.getResult(i));
  for (Operation *op : llvm::reverse(ops))
    op->erase();
  return fusion;
}

SmallVector<Value> resultsReadOutside(ArrayRef<Operation *> ops) {
  llvm::SmallPtrSet<Operation *, 16> members(ops.begin(), ops.end());
  SmallVector<Value> results;
  for (Operation *op : ops)
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) { return !members.contains(user); }))
        results.push_back(result);
  return results;
}

SmallVector<Operation *> inlineFusion(dit::FusionOp fusion) {
  Block &body = fusion.getBodyBlock();
  Operation *yield = body.getTerminator();
  for (auto [argument, input] : llvm::zip(body.getArguments(), fusion.getInputs()))
    argument.replaceAllUsesWith(input);
  SmallVector<Operation *> ops;
  for (Operation &op : llvm::make_early_inc_range(body.without_terminator())) {
    op.moveBefore(fusion);
    ops.push_back(&op);
  }
  for (auto [result, value] : llvm::zip(fusion.getResults(), yield->getOperands()))
    result.replaceAllUsesWith(value);
  fusion.erase();
  return ops;
}

static Value copyOf(OpBuilder &b, Value value, ArrayRef<Operation *> ops, IRMapping &mapping, SmallVectorImpl<Operation *> &made) {
  Operation *def = value.getDefiningOp();
  if (!def || !llvm::is_contained(ops, def) || mapping.contains(value))
    return mapping.lookupOrDefault(value);
  for (Value operand : def->getOperands())
    copyOf(b, operand, ops, mapping, made);
  made.push_back(b.clone(*def, mapping));
  return mapping.lookup(value);
}

Value copyOf(OpBuilder &b, Value value, ArrayRef<Operation *> ops, SmallVectorImpl<Operation *> &made) {
  IRMapping mapping;
  return copyOf(b, value, ops, mapping, made);
}

} // namespace ditc
