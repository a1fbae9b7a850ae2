// SPDX-License-Identifier: Apache-2.0
#include "passes/RowFunction.h"

#include "dialects/dit/Tensors.h"
#include "passes/Strided.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace ditc {

static int64_t placeOf(ArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  int64_t place = 0;
  for (auto [i, size] : llvm::zip(index, shape))
    place = place * size + i;
  return place;
}

ElementIndex indexOf(int64_t place, ArrayRef<int64_t> shape) {
  ElementIndex index(shape.size());
  for (size_t dim = shape.size(); dim-- > 0; place /= shape[dim])
    index[dim] = place % shape[dim];
  return index;
}

/// The dimension of operand `number` of `op` whose elements are those of dimension `axis` of the result, each on its own.
static std::optional<int64_t> operandAxis(Operation *op, unsigned number, int64_t axis) {
  ArrayRef<int64_t> from = shapeOf(op->getOperand(number)), to = shapeOf(op->getResult(0));
  if (auto permute = dyn_cast<dit::PermuteOp>(op))
    return permute.getPermutation()[axis];
  if (isa<dit::ViewOp>(op))
    return keptAxis(to, from, axis);
  bool isKept = isa<dit::MapOp, dit::ExpandOp, dit::SliceOp, dit::ConcatOp>(op) && from[axis] == to[axis];
  auto concat = dyn_cast<dit::ConcatOp>(op);
  auto slice = dyn_cast<dit::SliceOp>(op);
  return isKept && !(concat && concat.getAxis() == static_cast<uint64_t>(axis)) && !(slice && slice.getSteps()[axis] != 1) ? std::optional(axis) : std::nullopt;
}

bool Rows::isCut(Value value, int64_t dim) const {
  auto slice = value.getDefiningOp<dit::SliceOp>();
  return slice && slice.getInput() == whole && dim == axis && slice.getOffsets()[axis] == begin && slice.getSteps()[axis] == 1 && slice.getType().getDimSize(axis) == count;
}

std::optional<Rows> rowsBehindViews(Value value, int64_t axis) {
  Operation *def = value.getDefiningOp();
  if (!def || !dit::isViewOp(def))
    return std::nullopt;
  auto slice = dyn_cast<dit::SliceOp>(def);
  int64_t count = shapeOf(value)[axis];
  if (slice && count != shapeOf(slice.getInput())[axis])
    return slice.getSteps()[axis] == 1 ? std::optional(Rows{slice.getInput(), axis, slice.getOffsets()[axis], count}) : std::nullopt;
  std::optional<int64_t> inner = operandAxis(def, 0, axis);
  return inner ? rowsBehindViews(def->getOperand(0), *inner) : std::nullopt;
}

RowFunction::RowFunction(Rows rows, Value result, int64_t axis) : rows(rows), result(result) { isOfRows = follow(result, axis) && keepsRows(); }

/// Whether `value` is made of the rows, which are its dimension `axis`. What cannot be followed counts as a table.
bool RowFunction::follow(Value value, int64_t axis) {
  if (auto known = axes.find(value); known != axes.end())
    return known->second == axis;
  Operation *def = value.getDefiningOp();
  Operation *first = rows.whole.getDefiningOp();
  if (!def || (first && !first->isBeforeInBlock(def)))
    return false;
  bool isFollowed = rows.isCut(value, axis);
  if (!isFollowed && isa<dit::MapOp, dit::ViewOp, dit::PermuteOp, dit::SliceOp, dit::ExpandOp, dit::ConcatOp>(def))
    for (unsigned i = 0; i < def->getNumOperands(); ++i)
      if (std::optional<int64_t> inner = operandAxis(def, i, axis))
        isFollowed |= follow(def->getOperand(i), *inner);
  axes[value] = isFollowed ? std::optional(axis) : std::nullopt;
  return isFollowed;
}

/// False where a value is read whose rows are not those of the result.
bool RowFunction::keepsRows() const {
  return llvm::all_of(axes, [&](const auto &entry) {
    Operation *def = entry.first.getDefiningOp();
    return !entry.second || isCut(entry.first) || llvm::all_of(def->getOpOperands(), [&](OpOperand &operand) {
      return !axisOf(operand.get()) || operandAxis(def, operand.getOperandNumber(), *entry.second) == axisOf(operand.get());
    });
  });
}

bool RowFunction::isOnlyFor(Operation *reader) const {
  return llvm::all_of(axes, [&](const auto &entry) {
    Operation *def = entry.first.getDefiningOp();
    return !entry.second || dit::isViewOp(def) || llvm::all_of(def->getUsers(), [&](Operation *user) { return user == reader || (user->getNumResults() == 1 && axisOf(user->getResult(0))); });
  });
}

std::optional<int64_t> RowFunction::sourceOf(int64_t axis, Dims &dims) const {
  std::optional<int64_t> source;
  dims.insert({result, axis});
  for (size_t next = 0; next < dims.size(); ++next) {
    auto [value, dim] = dims[next];
    if (isCut(value)) {
      bool isWhole = dim == rows.axis || shapeOf(value)[dim] == shapeOf(rows.whole)[dim];
      if (!isWhole || (source && source != dim))
        return std::nullopt;
      source = dim;
      continue;
    }
    for (OpOperand &operand : value.getDefiningOp()->getOpOperands()) {
      if (!axisOf(operand.get()))
        continue;
      std::optional<int64_t> inner = operandAxis(operand.getOwner(), operand.getOperandNumber(), dim);
      if (!inner)
        return std::nullopt;
      dims.insert({operand.get(), *inner});
    }
  }
  return source;
}

/// A value from elsewhere with something for each row.
bool RowFunction::isTableOf(Operation *op, Value operand) const {
  return isa<dit::MapOp>(op) && !axisOf(operand) && shapeOf(operand)[*axisOf(op->getResult(0))] == rows.count && rows.count > 1;
}

bool RowFunction::hasSameDims(Value a, Value b) const {
  return axisOf(a) == axisOf(b) && llvm::all_of(llvm::seq<int64_t>(0, shapeOf(a).size()), [&](int64_t dim) { return parallel.contains({a, dim}) == parallel.contains({b, dim}); });
}

bool RowFunction::allTables(llvm::function_ref<bool(Value table, Value combined)> mayGrow) const {
  llvm::DenseMap<Value, Value> readers;
  return llvm::all_of(axes, [&](const auto &entry) {
    Operation *def = entry.first.getDefiningOp();
    return !entry.second || llvm::all_of(def->getOperands(), [&](Value operand) {
      return !isTableOf(def, operand) || (mayGrow(operand, entry.first) && hasSameDims(readers.try_emplace(operand, entry.first).first->second, entry.first));
    });
  });
}

std::optional<LinearForm> RowFunction::at(Value value, ElementIndex index, size_t &looked) const {
  constexpr size_t kMostLooked = 512; // a rotation, however it is spelled, has some fifty
  if (++looked > kMostLooked)
    return std::nullopt;
  Operation *def = value.getDefiningOp();
  if (auto map = dyn_cast<dit::MapOp>(def))
    return atMap(map, index, looked);
  if (auto concat = dyn_cast<dit::ConcatOp>(def))
    return atConcat(concat, index, looked);
  Value input = def->getOperand(0);
  ElementIndex inner(index);
  if (auto slice = dyn_cast<dit::SliceOp>(def)) {
    for (auto [i, offset, step] : llvm::zip(inner, slice.getOffsets(), slice.getSteps()))
      i = i * step + offset;
    if (isCut(value)) {
      inner[rows.axis] = 0;
      return LinearForm{{1, placeOf(inner, shapeOf(input)), std::nullopt}};
    }
  } else if (auto permute = dyn_cast<dit::PermuteOp>(def)) {
    for (auto [i, dim] : llvm::zip(index, permute.getPermutation()))
      inner[dim] = i;
  } else if (isa<dit::ViewOp>(def)) {
    inner = indexOf(placeOf(index, shapeOf(value)), shapeOf(input));
  } else {
    for (auto [i, size] : llvm::zip(inner, shapeOf(input)))
      i = size == 1 ? 0 : i;
  }
  return at(input, inner, looked);
}

std::optional<LinearForm> RowFunction::atConcat(dit::ConcatOp concat, ElementIndex index, size_t &looked) const {
  for (Value input : concat.getInputs()) {
    int64_t size = shapeOf(input)[concat.getAxis()];
    if (index[concat.getAxis()] < size)
      return axisOf(input) ? at(input, index, looked) : std::nullopt;
    index[concat.getAxis()] -= size;
  }
  return std::nullopt;
}

std::optional<LinearForm> RowFunction::atMap(dit::MapOp map, ArrayRef<int64_t> index, size_t &looked) const {
  SmallVector<std::optional<LinearForm>> arguments;
  for (Value operand : map.getInputs()) {
    ElementIndex inner(index);
    for (auto [i, size] : llvm::zip(inner, shapeOf(operand)))
      i = size == 1 ? 0 : i;
    if (axisOf(operand))
      arguments.push_back(at(operand, inner, looked));
    else if (isTableOf(map, operand))
      arguments.push_back(LinearForm{{1, std::nullopt, TableElement{operand, placeOf(inner, shapeOf(operand))}}});
    else
      arguments.push_back(std::nullopt);
  }
  return formOf(map, arguments, elementOf(rows.whole));
}

/// A row of `values`, which are the same along parallel dimensions.
DenseElementsAttr RowFunction::oneRow(Value table, Value combined, const TableValues &values) const {
  auto type = tensorType(table);
  ElementIndex shape(type.getShape());
  for (size_t dim = 0; dim < shape.size(); ++dim)
    if (parallel.contains({combined, dim}))
      shape[dim] = 1;
  auto known = values.find(table);
  SmallVector<APFloat> elements;
  auto rowType = type.clone(shape);
  for (int64_t i = 0; i < rowType.getNumElements(); ++i) {
    double value = known == values.end() ? 0 : known->second.lookup(placeOf(indexOf(i, shape), type.getShape()));
    elements.push_back(cast<FloatAttr>(FloatAttr::get(type.getElementType(), value)).getValue());
  }
  return DenseElementsAttr::get(rowType, elements);
}

/// A table of the rows that are there, with rows in front of them and behind them.
GrownTable RowFunction::withAllRows(Value table, Value combined, int64_t begin, int64_t count, const TableValues &values) const {
  int64_t axis = *axisOf(combined), front = rows.begin - begin;
  Location loc = table.getLoc();
  OpBuilder b(table.getContext());
  b.setInsertionPointAfterValue(table);
  auto withRows = [&](int64_t number) {
    ElementIndex shape(shapeOf(table));
    shape[axis] = number;
    return tensorType(table).clone(shape);
  };
  SmallVector<Value> parts;
  auto addRows = [&](int64_t added) {
    if (added > 0)
      parts.push_back(dit::ExpandOp::create(b, loc, withRows(added), dit::ConstantOp::create(b, loc, oneRow(table, combined, values))));
  };
  addRows(front);
  parts.push_back(table);
  addRows(count - front - rows.count);
  return {table, {dit::ConcatOp::create(b, loc, withRows(count), parts, axis), axis, front, rows.count}};
}

Value RowFunction::ofAllRows(OpBuilder &b, int64_t begin, int64_t count, const TableValues &values, SmallVectorImpl<GrownTable> &grown) const {
  SmallVector<Operation *> ops;
  for (const auto &[value, axis] : axes)
    if (axis)
      ops.push_back(value.getDefiningOp());
  llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  IRMapping all;
  for (Operation *op : ops) {
    for (Value operand : op->getOperands())
      if (isTableOf(op, operand) && !all.contains(operand)) {
        grown.push_back(withAllRows(operand, op->getResult(0), begin, count, values));
        all.map(operand, grown.back().rows.whole);
      }
    Operation *copy = b.clone(*op, all);
    auto type = tensorType(op->getResult(0));
    ElementIndex shape(type.getShape());
    shape[*axisOf(op->getResult(0))] = count;
    copy->getResult(0).setType(type.clone(shape));
    if (isCut(op->getResult(0))) {
      SmallVector<int64_t> offsets(cast<dit::SliceOp>(op).getOffsets());
      offsets[rows.axis] = begin;
      cast<dit::SliceOp>(copy).setOffsets(offsets);
    }
  }
  return all.lookup(result);
}

} // namespace ditc
