// SPDX-License-Identifier: Apache-2.0
#include "passes/RepeatedKeys.h"

#include "dialects/dit/Tensors.h"
#include "passes/Rearrangement.h"
#include "passes/Strided.h"
#include "passes/Terms.h"

using namespace mlir;

namespace ditc {
namespace {

/// Keys or values as they were before each batch was repeated.
struct Once {
  dit::ExpandOp repeated;
  Rearrangement behind; ///< without the repetition
  int64_t times;

  Value make(OpBuilder &b) { return behind.apply(b, repeated.getLoc(), repeated.getInput()); }
};

std::optional<Once> onceOf(Value operand) {
  std::optional<Rearrangement> whole = Rearrangement::of(operand);
  auto expand = whole ? whole->source().getDefiningOp<dit::ExpandOp>() : dit::ExpandOp();
  if (!expand)
    return std::nullopt;
  std::optional<size_t> dim;
  for (auto [i, sizes] : llvm::enumerate(llvm::zip(shapeOf(expand.getInput()), shapeOf(expand.getResult()))))
    if (std::get<0>(sizes) != std::get<1>(sizes)) {
      if (dim)
        return std::nullopt;
      dim = i;
    }
  if (!dim || !whole->isInnermost(*dim, 0))
    return std::nullopt;
  return Once{expand, whole->withoutInnermost(0), shapeOf(expand.getResult())[*dim]};
}

/// [B·F, H, N, D] to [B, H, F·N, D].
Value byGroups(OpBuilder &b, Value queries, int64_t times) {
  ArrayRef<int64_t> shape = shapeOf(queries);
  Location loc = queries.getLoc();
  Value apart = viewAs(b, loc, queries, {shape[0] / times, times, shape[1], shape[2], shape[3]});
  Value groups = viewAs(b, loc, permuted(b, loc, apart, {0, 2, 1, 3, 4}), {shape[0] / times, shape[1], times * shape[2], shape[3]});
  return inOneStep(b, groups);
}

/// Back again, by tokens in between as attention writes them.
Value byBatches(OpBuilder &b, Value result, int64_t times) {
  ArrayRef<int64_t> shape = shapeOf(result);
  Location loc = result.getLoc();
  Value tokens = viewAs(b, loc, permuted(b, loc, result, {0, 2, 1, 3}), {shape[0] * times, shape[2] / times, shape[1], shape[3]});
  return permuted(b, loc, tokens, {0, 2, 1, 3});
}

/// Would all batches see the same keys by the same rule?
bool isAlikeForAll(dit::AttentionOp op) {
  Value mask = op.getMask();
  return !op.getCausal() && !op.getWindow() && (!mask || (shapeOf(mask)[0] == 1 && shapeOf(mask)[2] == 1));
}

void share(dit::AttentionOp op) {
  std::optional<Once> keys = isAlikeForAll(op) ? onceOf(op.getKey()) : std::nullopt, values = keys ? onceOf(op.getValue()) : std::nullopt;
  if (!values || keys->times != values->times || keys->times == 1)
    return;
  OpBuilder b(op);
  Value queries = byGroups(b, op.getQuery(), keys->times);
  if (copiesFor(queries) > copiesFor(op.getQuery()))
    return;
  auto shared = cast<dit::AttentionOp>(b.clone(*op));
  b.setInsertionPoint(shared);
  shared.getKeyMutable().assign(keys->make(b));
  shared.getValueMutable().assign(values->make(b));
  shared.getQueryMutable().assign(queries);
  SmallVector<int64_t> shape(shapeOf(queries));
  shape.back() = op.getType().getShape().back();
  shared.getResult().setType(op.getType().clone(shape));
  b.setInsertionPointAfter(shared);
  op.getResult().replaceAllUsesWith(byBatches(b, shared.getResult(), keys->times));
  op.erase();
}

} // namespace

void shareRepeatedKeys(func::FuncOp function) {
  for (dit::AttentionOp op : llvm::make_early_inc_range(function.getBody().front().getOps<dit::AttentionOp>()))
    share(op);
}

} // namespace ditc
