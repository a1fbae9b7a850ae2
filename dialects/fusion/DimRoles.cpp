// SPDX-License-Identifier: Apache-2.0
#include "dialects/fusion/DimRoles.h"

#include "dialects/dit/Tensors.h"

using namespace mlir;

namespace ditc {

void RoleMap::addAnchor(Operation *anchor) {
  auto norm = dyn_cast<dit::NormOp>(anchor);
  auto reduce = dyn_cast<dit::ReduceOp>(anchor);
  int64_t columns = norm ? norm.getAxes() : reduce ? std::max<int64_t>(reduce.getAxes().size(), 1) : 1;
  for (Value result : anchor->getResults()) {
    ArrayRef<int64_t> shape = shapeOf(result);
    DimRoles roles;
    for (auto [i, size] : llvm::enumerate(shape))
      roles.push_back(size == 1 ? DimRole::Unit : static_cast<int64_t>(i) + columns >= static_cast<int64_t>(shape.size()) ? DimRole::Column : DimRole::Row);
    known[result] = roles;
  }
}

/// True when dimension `i` is inside of one of columns, with nothing of rows behind it.
static bool endsColumns(const DimRoles &roles, size_t i) {
  if (llvm::is_contained(ArrayRef(roles).drop_front(i), DimRole::Row))
    return false;
  while (i > 0 && roles[i - 1] == DimRole::Unit)
    --i;
  return i > 0 && roles[i - 1] == DimRole::Column;
}

const DimRoles *RoleMap::find(Value value) & {
  if (auto entry = known.find(value); entry != known.end())
    return &entry->second;
  Operation *def = value.getDefiningOp();
  if (!def || !cluster.contains(def))
    return nullptr;
  if (cluster.isAnchor(def))
    addAnchor(def);
  else
    visit(def);
  auto entry = known.find(value);
  return entry == known.end() ? nullptr : &entry->second;
}

/// A reshape cuts runs of dimensions anew. A run of rows stays rows and a run of columns stays columns; a run
/// that has both would move elements between rows.
Verdict RoleMap::visitView(dit::ViewOp op, const DimRoles &roles) {
  ArrayRef<int64_t> from = shapeOf(op.getInput()), to = shapeOf(op.getResult());
  DimRoles result(to.size(), DimRole::Unit);
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    size_t firstTo = j;
    int64_t left = i < from.size() ? from[i] : 1, right = j < to.size() ? to[j] : 1;
    DimRole role = i < from.size() ? roles[i] : DimRole::Unit;
    ++i, ++j;
    while (left != right) {
      bool growLeft = left < right;
      if (growLeft ? i >= from.size() : j >= to.size())
        return {Reason::CrossesRows, op.getInput()};
      if (growLeft) {
        if (roles[i] != DimRole::Unit) {
          if (role != DimRole::Unit && role != roles[i])
            return {Reason::CrossesRows, op.getInput()};
          role = roles[i];
        }
        left *= from[i++];
      } else {
        right *= to[j++];
      }
    }
    for (size_t k = firstTo; k < std::min(j, to.size()); ++k)
      result[k] = to[k] == 1 ? DimRole::Unit : role;
  }
  known[op.getResult()] = result;
  return {};
}

Verdict RoleMap::visitConcat(dit::ConcatOp op) {
  DimRoles result;
  for (Value input : op.getInputs()) {
    const DimRoles *roles = find(input);
    if (!roles)
      return {Reason::NoSlot, input}; // a part that the tile does not hold
    result = *roles;
    for (auto [i, role] : llvm::enumerate(*roles))
      if (role == DimRole::Row && i == op.getAxis())
        return {Reason::CrossesRows, input};
  }
  result[op.getAxis()] = DimRole::Column;
  known[op.getResult()] = result;
  return {};
}

/// True when what `map` repeats are slices of as many elements as it has: the two halves of a rotation,
/// written as `table[..., 0] * x[..., 0] + table[..., 1] * x[..., 1]` over pairs. Its columns are those of x.
bool RoleMap::restoresColumns(Operation *map) {
  int64_t count = cast<RankedTensorType>(map->getResult(0).getType()).getNumElements();
  return llvm::all_of(map->getOperands(), [&](Value operand) {
    if (!find(operand) || shapeOf(operand) == shapeOf(map->getResult(0)))
      return true;
    while (auto view = operand.getDefiningOp<dit::ViewOp>())
      operand = view.getInput();
    auto slice = operand.getDefiningOp<dit::SliceOp>();
    return slice && find(slice.getInput()) && cast<RankedTensorType>(slice.getInput().getType()).getNumElements() == count;
  });
}

Verdict RoleMap::visit(Operation *op) {
  if (auto concat = dyn_cast<dit::ConcatOp>(op))
    return visitConcat(concat);
  std::optional<DimRoles> roles; // of the operand of the cluster that repeats the fewest dimensions
  for (Value operand : op->getOperands())
    if (const DimRoles *found = find(operand); found && (!roles || llvm::count(*found, DimRole::Unit) < llvm::count(*roles, DimRole::Unit)))
      roles = *found;
  if (!roles)
    return {Reason::NoSlot, op->getOperand(0)};
  if (auto view = dyn_cast<dit::ViewOp>(op))
    return visitView(view, *roles);
  DimRoles result = *roles;
  if (auto permute = dyn_cast<dit::PermuteOp>(op)) {
    for (auto [i, dim] : llvm::enumerate(permute.getPermutation()))
      result[i] = (*roles)[dim];
  } else if (auto slice = dyn_cast<dit::SliceOp>(op)) {
    for (auto [i, size] : llvm::enumerate(slice.getType().getShape()))
      if (result[i] == DimRole::Row && size != shapeOf(slice.getInput())[i])
        return {Reason::CrossesRows, slice.getInput()};
  } else if (!isa<dit::MapOp, dit::NormOp>(op)) {
    return {Reason::NoSlot, op->getOperand(0)};
  }
  bool isRestored = isa<dit::MapOp>(op) && restoresColumns(op);
  for (auto [i, size] : llvm::enumerate(shapeOf(op->getResult(0))))
    if (size == 1)
      result[i] = DimRole::Unit;
    else if (result[i] == DimRole::Unit && isRestored && endsColumns(result, i))
      result[i] = DimRole::Column;
    else if (result[i] == DimRole::Unit)
      return {Reason::ShapeMismatch, op->getResult(0)};
  known[op->getResult(0)] = result;
  return {};
}

} // namespace ditc
