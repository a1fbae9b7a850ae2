// SPDX-License-Identifier: Apache-2.0
#include "passes/MaskParts.h"

#include "dialects/dit/Tensors.h"
#include "passes/Rewriting.h"
#include "passes/Strided.h"
#include "passes/Terms.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ditc {

namespace {

//===-- Rearranged parts --------------------------------------------------------------------------===//

/// The shape of `part`, which is repeated to `from`, when `from` is viewed as `to`.
std::optional<SmallVector<int64_t>> viewedShape(ArrayRef<int64_t> part, ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  SmallVector<int64_t> shape(to.size(), 1);
  if (llvm::is_contained(from, 0))
    return std::nullopt;
  for (auto [firstFrom, endFrom, firstTo, endTo] : reshapeGroups(from, to)) {
    ArrayRef<int64_t> mine = part.slice(firstFrom, endFrom - firstFrom);
    if (mine == from.slice(firstFrom, endFrom - firstFrom))
      llvm::copy(to.slice(firstTo, endTo - firstTo), shape.begin() + firstTo);
    else if (llvm::any_of(mine, [](int64_t size) { return size != 1; }))
      return std::nullopt;
  }
  return shape;
}

/// A range of one dimension.
struct Range {
  int64_t axis, offset, step, size;
};

/// Where the value is made, a range may be known: of tokens that were padded, for one.
Value cut(OpBuilder &b, Value value, Range range) {
  Operation *def = value.getDefiningOp();
  SmallVector<int64_t> shape(shapeOf(value));
  if (shape[range.axis] == range.size)
    return value;
  shape[range.axis] = range.size;
  if (auto permute = dyn_cast_if_present<dit::PermuteOp>(def)) {
    Value part = cut(b, permute.getInput(), {permute.getPermutation()[range.axis], range.offset, range.step, range.size});
    return permuted(b, permute.getLoc(), part, permute.getPermutation());
  }
  if (auto view = dyn_cast_if_present<dit::ViewOp>(def))
    if (std::optional<int64_t> axis = keptAxis(shapeOf(value), shapeOf(view.getInput()), range.axis))
      return viewAs(b, view.getLoc(), cut(b, view.getInput(), {*axis, range.offset, range.step, range.size}), shape);
  if (auto map = dyn_cast_if_present<dit::MapOp>(def); map && map.getInputs().size() == 1 && shapeOf(map.getInputs()[0]) == shapeOf(value)) {
    IRMapping operands;
    operands.map(map.getInputs()[0], cut(b, map.getInputs()[0], range));
    Operation *copy = b.clone(*map, operands);
    copy->getResult(0).setType(map.getType().clone(shape));
    return copy->getResult(0);
  }
  SmallVector<int64_t> offsets(shape.size(), 0), steps(shape.size(), 1);
  offsets[range.axis] = range.offset, steps[range.axis] = range.step;
  return b.createOrFold<dit::SliceOp>(value.getLoc(), tensorType(value).clone(shape), value, offsets, steps);
}

//===-- Numbers that are true or not --------------------------------------------------------------===//

bool isBoolean(Value tensor);

/// Is a scalar in the body of a map 0 or 1?
bool isBoolean(dit::MapOp map, Value scalar) {
  if (scalar.getType().isInteger(1))
    return true;
  if (auto argument = dyn_cast<BlockArgument>(scalar))
    return isBoolean(map.getInputs()[argument.getArgNumber()]);
  Operation *op = scalar.getDefiningOp();
  if (isa<arith::ExtUIOp, arith::UIToFPOp>(op))
    return op->getOperand(0).getType().isInteger(1);
  return isa<arith::MulIOp, arith::MulFOp>(op) && isBoolean(map, op->getOperand(0)) && isBoolean(map, op->getOperand(1));
}

bool isBoolean(Value tensor) {
  while (tensor.getDefiningOp() && dit::isViewOp(tensor.getDefiningOp()))
    tensor = tensor.getDefiningOp()->getOperand(0);
  auto map = tensor.getDefiningOp<dit::MapOp>();
  return elementOf(tensor).isInteger(1) || (map && isBoolean(map, map.getBodyBlock().getTerminator()->getOperand(0)));
}

bool isZero(Value scalar) { return matchPattern(scalar, m_Zero()) || matchPattern(scalar, m_AnyZeroFloat()); }

Value isNotZero(OpBuilder &b, Location loc, Value scalar) {
  Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(scalar.getType()));
  if (isa<FloatType>(scalar.getType()))
    return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, scalar, zero);
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, scalar, zero);
}

/// Where x is not 0: x; null where `scalar` is no such comparison.
Value comparedWithZero(Operation *op) {
  auto integers = dyn_cast<arith::CmpIOp>(op);
  auto floats = dyn_cast<arith::CmpFOp>(op);
  bool isUnequal = (integers && integers.getPredicate() == arith::CmpIPredicate::ne) ||
                   (floats && (floats.getPredicate() == arith::CmpFPredicate::UNE || floats.getPredicate() == arith::CmpFPredicate::ONE));
  return isUnequal && isZero(op->getOperand(1)) ? op->getOperand(0) : Value();
}

/// The scalars all of which are not 0 where `scalar` is not. (A number and NaN differ from 0 as each comparison has it, so
/// that only numbers which are 0 or 1 are looked through.)
void collectFactors(dit::MapOp map, Value scalar, SmallVectorImpl<Value> &factors) {
  Operation *op = scalar.getDefiningOp();
  bool multiplies = op && isa<arith::AndIOp, arith::MulIOp, arith::MulFOp>(op) && isBoolean(map, scalar);
  if (multiplies || (isa_and_present<arith::AndIOp>(op) && scalar.getType().isInteger(1))) {
    collectFactors(map, op->getOperand(0), factors);
    return collectFactors(map, op->getOperand(1), factors);
  }
  Value compared = op ? comparedWithZero(op) : Value();
  if (compared && isBoolean(map, compared))
    return collectFactors(map, compared, factors);
  if (isa_and_present<arith::ExtUIOp, arith::UIToFPOp>(op) && op->getOperand(0).getType().isInteger(1))
    return collectFactors(map, op->getOperand(0), factors);
  factors.push_back(scalar);
}

//===-- Parts -------------------------------------------------------------------------------------===//

SmallVector<int64_t> broadcastShape(ArrayRef<MaskPart> parts, size_t rank) {
  SmallVector<int64_t> shape(rank, 1);
  for (const MaskPart &part : parts)
    for (auto [size, other] : llvm::zip(shape, part.shape))
      size = std::max(size, other);
  return shape;
}

class Parts {
public:
  /// Those of a value of booleans, or of numbers that are 0 or 1, which are true where they are 1.
  SmallVector<MaskPart> of(Value value) {
    if (auto known = parts.find(value); known != parts.end())
      return known->second;
    SmallVector<MaskPart> found = find(value);
    if (found.size() > kMostParts)
      found = {whole(value)};
    return parts[value] = found;
  }

private:
  /// No model has as many.
  static constexpr size_t kMostParts = 8;

  static MaskPart whole(Value value) {
    return {SmallVector<int64_t>(shapeOf(value)), [=](OpBuilder &) { return value; }};
  }

  SmallVector<MaskPart> find(Value value) {
    if (auto map = value.getDefiningOp<dit::MapOp>())
      return ofMap(map);
    Operation *def = value.getDefiningOp();
    if (!def || !dit::isViewOp(def))
      return {whole(value)};
    SmallVector<MaskPart> result;
    for (const MaskPart &part : of(def->getOperand(0))) {
      std::optional<MaskPart> moved = rearranged(def, part);
      if (!moved)
        return {whole(value)};
      result.push_back(*moved);
    }
    return result;
  }

  SmallVector<MaskPart> ofMap(dit::MapOp map) {
    SmallVector<Value> factors;
    collectFactors(map, map.getBodyBlock().getTerminator()->getOperand(0), factors);
    SmallVector<MaskPart> result;
    for (Value factor : factors) {
      auto argument = dyn_cast<BlockArgument>(factor);
      if (argument && isBoolean(map, factor))
        llvm::append_range(result, of(map.getInputs()[argument.getArgNumber()]));
      else
        result.push_back(termOf(map, factor));
    }
    return result;
  }

  /// A scalar in the body of a map, as a map of those operands that it reads.
  static MaskPart termOf(dit::MapOp map, Value scalar) {
    SetVector<Operation *> needed;
    SmallVector<Value> arguments;
    collectNeeded(scalar, needed, arguments);
    SmallVector<MaskPart> operands = llvm::map_to_vector(arguments, [&](Value argument) { return unrepeated(map.getInputs()[cast<BlockArgument>(argument).getArgNumber()]); });
    SmallVector<int64_t> shape = broadcastShape(operands, map.getType().getRank());
    return {shape, [=, body = scalar.getParentBlock()](OpBuilder &b) {
              SmallVector<Value> inputs = llvm::map_to_vector(operands, [&](const MaskPart &operand) { return operand.make(b); });
              auto type = RankedTensorType::get(shape, scalar.getType());
              return mapOf(b, scalar.getLoc(), type, inputs, [&](OpBuilder &inner, Location, ValueRange scalars) {
                IRMapping copies;
                copies.map(arguments, scalars);
                for (Operation &op : *body)
                  if (needed.contains(&op))
                    inner.clone(op, copies);
                return copies.lookup(scalar);
              });
            }};
  }

  static void collectNeeded(Value scalar, SetVector<Operation *> &needed, SmallVectorImpl<Value> &arguments) {
    SmallVector<Value> pending{scalar};
    while (!pending.empty()) {
      Value next = pending.pop_back_val();
      if (isa<BlockArgument>(next)) {
        if (!llvm::is_contained(arguments, next))
          arguments.push_back(next);
      } else if (needed.insert(next.getDefiningOp()))
        llvm::append_range(pending, next.getDefiningOp()->getOperands());
    }
  }

  /// A value of any type without the dimensions that it is repeated along.
  static MaskPart unrepeated(Value value) {
    Operation *def = value.getDefiningOp();
    if (!def || !dit::isViewOp(def))
      return whole(value);
    std::optional<MaskPart> moved = rearranged(def, unrepeated(def->getOperand(0)));
    return moved ? *moved : whole(value);
  }

  DenseMap<Value, SmallVector<MaskPart>> parts;
};

} // namespace

SmallVector<MaskPart> partsOfMask(Value mask) { return Parts().of(mask); }

std::optional<MaskPart> rearranged(Operation *op, const MaskPart &part) {
  if (isa<dit::ExpandOp>(op))
    return part;
  if (auto permute = dyn_cast<dit::PermuteOp>(op)) {
    SmallVector<int64_t> shape = llvm::map_to_vector(permute.getPermutation(), [&](int64_t dim) { return part.shape[dim]; });
    return MaskPart{shape, [=](OpBuilder &b) mutable { return permuted(b, permute.getLoc(), part.make(b), permute.getPermutation()); }};
  }
  if (auto view = dyn_cast<dit::ViewOp>(op)) {
    std::optional<SmallVector<int64_t>> shape = viewedShape(part.shape, shapeOf(view.getInput()), view.getType().getShape());
    if (!shape)
      return std::nullopt;
    return MaskPart{*shape, [=](OpBuilder &b) mutable { return viewAs(b, view.getLoc(), part.make(b), *shape); }};
  }
  auto slice = cast<dit::SliceOp>(op);
  SmallVector<Range> ranges;
  SmallVector<int64_t> shape(part.shape);
  for (int64_t dim = 0; dim < static_cast<int64_t>(shape.size()); ++dim)
    if (part.shape[dim] != 1) {
      shape[dim] = slice.getType().getDimSize(dim);
      ranges.push_back({dim, slice.getOffsets()[dim], slice.getSteps()[dim], shape[dim]});
    }
  return MaskPart{shape, [=](OpBuilder &b) {
                    Value value = part.make(b);
                    for (Range range : ranges)
                      value = cut(b, value, range);
                    return value;
                  }};
}

MaskPart allOf(Location loc, ArrayRef<MaskPart> parts) {
  SmallVector<int64_t> shape = broadcastShape(parts, parts[0].shape.size());
  return {shape, [=, all = SmallVector<MaskPart>(parts)](OpBuilder &b) {
            SmallVector<Value> inputs = llvm::map_to_vector(all, [&](const MaskPart &part) { return part.make(b); });
            if (inputs.size() == 1 && elementOf(inputs[0]).isInteger(1))
              return inputs[0];
            return mapOf(b, loc, RankedTensorType::get(shape, b.getI1Type()), inputs, [](OpBuilder &inner, Location at, ValueRange scalars) {
              Value conjunction;
              for (Value scalar : scalars) {
                Value isSet = scalar.getType().isInteger(1) ? scalar : isNotZero(inner, at, scalar);
                conjunction = conjunction ? arith::AndIOp::create(inner, at, conjunction, isSet).getResult() : isSet;
              }
              return conjunction;
            });
          }};
}

} // namespace ditc
