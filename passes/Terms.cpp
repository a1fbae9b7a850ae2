// SPDX-License-Identifier: Apache-2.0
#include "passes/Terms.h"

#include "dialects/dit/Tensors.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ditc {

static bool isWidening(dit::MapOp map) {
  Type from = elementOf(map.getInputs()[0]), to = map.getType().getElementType();
  bool grows = isa<FloatType>(from) && isa<FloatType>(to) && to.getIntOrFloatBitWidth() > from.getIntOrFloatBitWidth();
  return grows && dit::computeType(from) == dit::computeType(to);
}

Term::Term(Value tensor, bool keepRoundings) : keepRoundings(keepRoundings) { resolve(tensor); }

Term Term::yieldedBy(dit::MapOp map, bool keepRoundings) {
  Term term;
  term.keepRoundings = keepRoundings;
  term.resolve(map.getBodyBlock().getTerminator()->getOperand(0));
  return term;
}

bool Term::isTransparent(dit::MapOp map) const { return map.isIdentity() ? isWidening(map) : staysWide(map.getResult(), keepRoundings); }

/// From an argument of a body to the tensor behind it, and from a tensor into the map that makes it.
void Term::resolve(Value value) {
  while (true) {
    if (auto argument = dyn_cast<BlockArgument>(value); argument && !isa<RankedTensorType>(value.getType())) {
      value = cast<dit::MapOp>(argument.getOwner()->getParentOp()).getInputs()[argument.getArgNumber()];
      continue;
    }
    if (!isa<RankedTensorType>(value.getType()))
      break;
    if (!outermost)
      outermost = value;
    auto map = value.getDefiningOp<dit::MapOp>();
    if (!map || !isTransparent(map))
      break;
    value = map.getBodyBlock().getTerminator()->getOperand(0);
  }
  scalar = value;
}

Term Term::operand(unsigned index) const {
  Term term;
  term.keepRoundings = keepRoundings;
  term.resolve(op()->getOperand(index));
  return term;
}

std::optional<double> Term::constant() const {
  FloatAttr attr;
  return !isLeaf() && matchPattern(scalar, m_Constant(&attr)) ? std::optional(attr.getValueAsDouble()) : std::nullopt;
}

bool staysWide(Value tensor, bool keepRoundings) {
  Type element = elementOf(tensor);
  return element == dit::computeType(element) || (!keepRoundings && !is8BitFloat(element));
}

Value behindWidening(Value value) {
  auto map = value.getDefiningOp<dit::MapOp>();
  bool sameShape = map && map.isIdentity() && isWidening(map) && cast<RankedTensorType>(map.getInputs()[0].getType()).getShape() == map.getType().getShape();
  return sameShape ? map.getInputs()[0] : value;
}

std::optional<int64_t> trailingAxes(dit::ReduceOp reduce) {
  int64_t rank = cast<RankedTensorType>(reduce.getInput().getType()).getRank(), count = reduce.getAxes().size();
  for (int64_t i = 0; i < count; ++i)
    if (!llvm::is_contained(reduce.getAxes(), rank - 1 - i))
      return std::nullopt;
  return count > 0 ? std::optional(count) : std::nullopt;
}

Value behindBatchView(Value value) {
  while (auto view = value.getDefiningOp<dit::ViewOp>()) {
    ArrayRef<int64_t> from = cast<RankedTensorType>(view.getInput().getType()).getShape(), to = view.getType().getShape();
    if (from.size() < 2 || to.size() < 2 || from.take_back(2) != to.take_back(2))
      break;
    value = view.getInput();
  }
  return value;
}

Value viewAs(OpBuilder &b, Location loc, Value value, ArrayRef<int64_t> shape) {
  return b.createOrFold<dit::ViewOp>(loc, cast<RankedTensorType>(value.getType()).clone(shape), value);
}

Value permuted(OpBuilder &b, Location loc, Value value, ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> shape;
  for (int64_t dim : permutation)
    shape.push_back(cast<RankedTensorType>(value.getType()).getDimSize(dim));
  return b.createOrFold<dit::PermuteOp>(loc, cast<RankedTensorType>(value.getType()).clone(shape), value, permutation);
}

} // namespace ditc
