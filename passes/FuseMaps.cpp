// SPDX-License-Identifier: Apache-2.0
//
// FuseMaps: a map that feeds a map becomes part of it, so that an element-wise chain reads and writes
// memory once.
//
// A producer moves into its only reader, or into every reader when it is cheaper to compute again than to
// load (casts, a few additions). A producer that its reader repeats along a dimension stays: it would be
// computed once per repetition. Intermediate roundings disappear, as values that do not cross kernels stay
// in the compute type, except those that the model asks for by a cast; `keep-roundings` keeps all.
//
// Before:
//   func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
//     %a = dit.map(%x) : (tensor<4xf32>) -> tensor<4xf32> {
//     ^bb0(%p: f32):
//       %q = math.exp %p : f32
//       dit.yield %q : f32
//     }
//     %b = dit.map(%a, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
//     ^bb0(%p: f32, %q: f32):
//       %r = arith.mulf %p, %q : f32
//       dit.yield %r : f32
//     }
//     return %b : tensor<4xf32>
//   }
// After:
//   func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
//     %b = dit.map(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
//     ^bb0(%p: f32, %q: f32):
//       %e = math.exp %p : f32
//       %r = arith.mulf %e, %q : f32
//       dit.yield %r : f32
//     }
//     return %b : tensor<4xf32>
//   }
#include "passes/Passes.h"

#include "dialects/dit/Tensors.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_FUSEMAPS
#include "passes/Passes.h.inc"

namespace {

/// Kernels take a bounded number of operands.
constexpr size_t kMaxOperands = 16;
/// A producer with at most this many cheap scalar ops is computed again in each reader.
constexpr size_t kMaxRecomputedOps = 2;
/// Bodies above this size gain nothing from growing further.
constexpr size_t kMaxBodyOps = 256;

bool isCheap(dit::MapOp map) {
  Block &body = map.getBodyBlock();
  if (map.getInputs().size() > 1)
    return false;
  size_t count = 0;
  for (Operation &op : body.without_terminator()) {
    if (op.getDialect()->getNamespace() == "math" || isa<arith::DivFOp, arith::RemFOp>(op))
      return false;
    count += !isa<arith::ConstantOp>(op);
  }
  return count <= kMaxRecomputedOps;
}

bool canFuse(dit::MapOp producer, dit::MapOp consumer) {
  if (producer.getType().getShape() != consumer.getType().getShape() && !(producer.isIdentity()))
    return false;
  if (!producer->hasOneUse() && !isCheap(producer))
    return false;
  if (producer.getInputs().size() + consumer.getInputs().size() - 1 > kMaxOperands)
    return false;
  return producer.getBodyBlock().getOperations().size() + consumer.getBodyBlock().getOperations().size() <= kMaxBodyOps;
}

/// The value as it would be after a store and a load of `element`: exact for the compute type itself.
Value roundTo(OpBuilder &b, Location loc, Value value, Type element, bool keepRoundings) {
  Type compute = value.getType();
  if (element == compute)
    return value;
  if (isa<FloatType>(element)) {
    if (!keepRoundings && !is8BitFloat(element))
      return value;
    Value narrow = arith::TruncFOp::create(b, loc, element, value);
    return arith::ExtFOp::create(b, loc, compute, narrow);
  }
  // Narrow integers wrap, with or without roundings kept.
  auto signless = IntegerType::get(b.getContext(), element.getIntOrFloatBitWidth());
  Value narrow = arith::TruncIOp::create(b, loc, signless, value);
  if (element.isUnsignedInteger())
    return arith::ExtUIOp::create(b, loc, compute, narrow);
  return arith::ExtSIOp::create(b, loc, compute, narrow);
}

/// Clones `map`'s body at the builder's position with `arguments`; the value that it yields.
Value inlineBody(OpBuilder &b, dit::MapOp map, ValueRange arguments) {
  IRMapping mapping;
  mapping.map(map.getBodyBlock().getArguments(), arguments);
  for (Operation &op : map.getBodyBlock().without_terminator())
    b.clone(op, mapping);
  return mapping.lookupOrDefault(map.getBodyBlock().getTerminator()->getOperand(0));
}

/// Replaces `consumer` by a map that computes `producer` (its operand `index`) inside. The producer's operands
/// take the place of its result.
dit::MapOp fuse(dit::MapOp producer, dit::MapOp consumer, unsigned index, bool keepRoundings) {
  OpBuilder b(consumer);
  Location loc = b.getFusedLoc({producer.getLoc(), consumer.getLoc()});
  size_t count = producer.getInputs().size();
  SmallVector<Value> inputs(consumer.getInputs().take_front(index));
  llvm::append_range(inputs, producer.getInputs());
  llvm::append_range(inputs, consumer.getInputs().drop_front(index + 1));
  auto fused = dit::MapOp::create(b, loc, consumer.getType(), inputs);
  Block *body = b.createBlock(&fused.getBody());
  for (Value input : inputs)
    body->addArgument(dit::computeType(cast<RankedTensorType>(input.getType()).getElementType()), loc);

  auto arguments = body->getArguments();
  Value produced = inlineBody(b, producer, arguments.slice(index, count));
  SmallVector<Value> consumed(arguments.take_front(index));
  bool isCast = producer.isIdentity();
  consumed.push_back(roundTo(b, producer.getLoc(), produced, producer.getType().getElementType(), keepRoundings || isCast));
  llvm::append_range(consumed, arguments.drop_front(index + count));
  Value result = inlineBody(b, consumer, consumed);
  dit::YieldOp::create(b, loc, result);

  consumer.replaceAllUsesWith(fused.getResult());
  consumer.erase();
  if (producer.use_empty())
    producer.erase();
  return fused;
}

class FuseMaps : public impl::FuseMapsBase<FuseMaps> {
public:
  using FuseMapsBase::FuseMapsBase;

  void runOnOperation() override {
    SmallVector<dit::MapOp> maps;
    getOperation().walk([&](dit::MapOp map) { maps.push_back(map); });
    for (dit::MapOp map : maps) // in program order: a producer is complete before its reader is visited
      while (auto fused = fuseOneOperand(map))
        map = fused;
  }

private:
  dit::MapOp fuseOneOperand(dit::MapOp consumer) {
    for (auto [i, input] : llvm::enumerate(consumer.getInputs()))
      if (auto producer = input.getDefiningOp<dit::MapOp>(); producer && canFuse(producer, consumer))
        return fuse(producer, consumer, i, keepRoundings);
    return {};
  }
};

} // namespace
} // namespace ditc
