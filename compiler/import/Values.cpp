// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/Values.h"

#include "runtime/Error.h"

#include "mlir/IR/IRMapping.h"

#include <algorithm>

using namespace mlir;

namespace ditc {

Values::Id Values::addBase(Value value, Origin origin, std::string name) {
  Entry entry;
  entry.name = std::move(name);
  entry.origin = origin;
  entry.value = value;
  entries.push_back(std::move(entry));
  return entries.size() - 1;
}

Values::Id Values::addView(Id parent, Value value, std::string name) {
  Entry entry;
  entry.name = std::move(name);
  entry.value = value;
  entry.version = entry.stepsVersion = entries[rootOf(parent)].version;
  entry.isView = true;
  entry.parent = parent;
  Value source = read(parent), walk = value;
  while (walk != source) {
    Operation *step = walk.getDefiningOp();
    if (!step || !dit::isViewOp(step)) {
      entry.opaque = true;
      entry.steps.clear();
      break;
    }
    entry.steps.push_back(step);
    walk = step->getOperand(0);
  }
  std::reverse(entry.steps.begin(), entry.steps.end());
  entries.push_back(std::move(entry));
  return entries.size() - 1;
}

Values::Id Values::rootOf(Id id) const {
  while (entries[id].isView)
    id = entries[id].parent;
  return id;
}

Origin Values::originOf(Id id) const { return entries[rootOf(id)].origin; }

Value Values::read(Id id) {
  if (entries[id].isView && entries[id].version != entries[rootOf(id)].version)
    remake(id);
  return entries[id].value;
}

/// Makes a view again from what its parent is now.
void Values::remake(Id id) {
  if (entries[id].opaque)
    fail("'{}' views '{}', which was written since, in a way that cannot be followed; clone it first", entries[id].name,
         entries[entries[id].parent].name);
  Value value = read(entries[id].parent);
  for (Operation *&step : entries[id].steps) {
    IRMapping mapping;
    mapping.map(step->getOperand(0), value);
    step = emit.builder().clone(*step, mapping);
    value = step->getResult(0);
  }
  entries[id].value = value;
  entries[id].version = entries[id].stepsVersion = entries[rootOf(id)].version;
}

void Values::write(Id id, Value value) {
  Entry &entry = entries[id];
  if (!entry.isView) {
    if (entry.origin != Origin::Local && entry.origin != Origin::UserInput)
      fail("writes to '{}', a {} of the model, which is read-only in a package; make the forward pass free of "
           "side effects (eval mode, no caches in buffers)",
           entry.name,
           entry.origin == Origin::Parameter ? "parameter"
           : entry.origin == Origin::Buffer  ? "buffer"
                                             : "constant");
    entry.value = value;
    ++entry.version;
    return;
  }
  if (entry.opaque)
    fail("writes through '{}', a view that cannot be followed back to '{}'; call ep.run_decompositions({{}}) before "
         "saving",
         entry.name, entries[entry.parent].name);
  if (entry.stepsVersion != entries[rootOf(id)].version)
    remake(id);
  SmallVector<Value> before; // each step
  Value walk = read(entry.parent);
  for (Operation *step : entries[id].steps) {
    before.push_back(walk);
    walk = step->getResult(0);
  }
  Value updated = value;
  for (size_t i = before.size(); i-- > 0;)
    updated = undo(entries[id].steps[i], before[i], updated);
  write(entries[id].parent, updated);
  entries[id].value = value;
  entries[id].version = entries[rootOf(id)].version;
}

/// The operand of `step` after its result became `after`; `before` is the operand until now.
Value Values::undo(Operation *step, Value before, Value after) {
  if (isa<dit::ViewOp>(step))
    return emit.view(after, Emit::shapeOf(before));
  if (auto permute = dyn_cast<dit::PermuteOp>(step)) {
    SmallVector<int64_t> inverse(permute.getPermutation().size());
    for (auto [i, dim] : llvm::enumerate(permute.getPermutation()))
      inverse[dim] = i;
    return emit.permute(after, inverse);
  }
  if (auto slice = dyn_cast<dit::SliceOp>(step)) {
    int64_t sliced = -1;
    for (int64_t i = 0; i < Emit::rankOf(before); ++i) {
      if (Emit::shapeOf(before)[i] == Emit::shapeOf(after)[i])
        continue;
      if (sliced >= 0)
        failInternal("a view slices two dimensions at once");
      sliced = i;
    }
    return sliced < 0 ? after
                      : replaceSlice(emit, before, after, sliced, slice.getOffsets()[sliced], slice.getSteps()[sliced]);
  }
  fail("writes through an expanded tensor, whose elements share memory; clone it first");
}

/// The general case: rows of the dimension brought to the front are scattered.
static Value scatterRows(Emit &emit, Value base, Value update, int64_t dim, ArrayRef<int64_t> positions) {
  SmallVector<int64_t> toFront{dim}, back(Emit::rankOf(base));
  for (int64_t i = 0; i < Emit::rankOf(base); ++i)
    if (i != dim)
      toFront.push_back(i);
  for (auto [i, from] : llvm::enumerate(toFront))
    back[from] = i;
  Value indices = emit.integers({static_cast<int64_t>(positions.size())}, positions);
  Value result = emit.scatter(emit.permute(base, toFront), indices, emit.permute(update, toFront), /*add=*/false);
  return emit.permute(result, back);
}

Value replaceSlice(Emit &emit, Value base, Value update, int64_t dim, int64_t start, int64_t step) {
  int64_t size = Emit::shapeOf(base)[dim], count = Emit::shapeOf(update)[dim];
  if (count == size)
    return update;
  if (count == 0)
    return base;
  if (step == 1 || count == 1) {
    SmallVector<Value> pieces{emit.slice(base, dim, 0, start), update, emit.slice(base, dim, start + count, size)};
    return emit.concat(pieces, dim);
  }
  if (size % step == 0 && start < step && count == size / step) {
    // Columns of [.., n/step, step, ..]: writes of all columns then cancel to one concat.
    SmallVector<int64_t> split(Emit::shapeOf(base)), whole(Emit::shapeOf(base)), column(Emit::shapeOf(update));
    split[dim] = size / step;
    split.insert(split.begin() + dim + 1, step);
    column.insert(column.begin() + dim + 1, 1);
    Value table = emit.view(base, split);
    SmallVector<Value> pieces{emit.slice(table, dim + 1, 0, start), emit.view(update, column),
                              emit.slice(table, dim + 1, start + 1, step)};
    return emit.view(emit.concat(pieces, dim + 1), whole);
  }
  SmallVector<int64_t> positions;
  for (int64_t i = 0; i < count; ++i)
    positions.push_back(start + i * step);
  return scatterRows(emit, base, update, dim, positions);
}

} // namespace ditc
