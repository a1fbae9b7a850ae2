// SPDX-License-Identifier: Apache-2.0
#include "passes/LinearForms.h"

#include "dialects/dit/Tensors.h"

#include "mlir/IR/Matchers.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;

namespace ditc {

/// No rotation has as many.
static constexpr size_t kMostTerms = 16;

using MaybeForm = std::optional<LinearForm>;

bool holdsExactly(Type wide, Type narrow) {
  return isa<FloatType>(wide) && isa<FloatType>(narrow) && (wide == narrow || wide.getIntOrFloatBitWidth() > narrow.getIntOrFloatBitWidth());
}

static MaybeForm sum(const MaybeForm &a, const MaybeForm &b, double sign) {
  if (!a || !b || a->size() + b->size() > kMostTerms)
    return std::nullopt;
  LinearForm result(*a);
  for (LinearTerm term : *b) {
    term.factor *= sign;
    result.push_back(term);
  }
  return result;
}

static MaybeForm product(const MaybeForm &a, const MaybeForm &b) {
  if (!a || !b || a->size() * b->size() > kMostTerms)
    return std::nullopt;
  LinearForm result;
  for (const LinearTerm &x : *a)
    for (const LinearTerm &y : *b) {
      if ((x.element && y.element) || (x.coefficient && y.coefficient))
        return std::nullopt;
      result.push_back({x.factor * y.factor, x.element ? x.element : y.element, x.coefficient ? x.coefficient : y.coefficient});
    }
  return result;
}

/// What one operation of a body makes of its operands.
static MaybeForm formOf(Operation *op, ArrayRef<MaybeForm> operands, Type element) {
  FloatAttr constant;
  if (matchPattern(op, m_Constant(&constant)))
    return LinearForm{{constant.getValueAsDouble(), std::nullopt, std::nullopt}};
  return llvm::TypeSwitch<Operation *, MaybeForm>(op)
      .Case([&](arith::AddFOp) { return sum(operands[0], operands[1], 1); })
      .Case([&](arith::SubFOp) { return sum(operands[0], operands[1], -1); })
      .Case([&](arith::NegFOp) { return sum(LinearForm(), operands[0], -1); })
      .Case([&](arith::MulFOp) { return product(operands[0], operands[1]); })
      .Case([&](math::FmaOp) { return sum(product(operands[0], operands[1]), operands[2], 1); })
      .Case<arith::ExtFOp, arith::TruncFOp>([&](Operation *cast) { return holdsExactly(cast->getResult(0).getType(), element) ? operands[0] : std::nullopt; })
      .Default(MaybeForm());
}

MaybeForm formOf(dit::MapOp map, ArrayRef<MaybeForm> arguments, Type element) {
  llvm::SmallDenseMap<Value, MaybeForm> known;
  for (auto [argument, form] : llvm::zip(map.getBodyBlock().getArguments(), arguments))
    known[argument] = form;
  for (Operation &op : map.getBodyBlock().without_terminator()) {
    if (op.getNumResults() != 1)
      return std::nullopt;
    auto operands = llvm::map_to_vector(op.getOperands(), [&](Value operand) { return known.lookup(operand); });
    known[op.getResult(0)] = formOf(&op, operands, element);
  }
  return holdsExactly(elementOf(map.getResult()), element) ? known.lookup(map.getBodyBlock().getTerminator()->getOperand(0)) : std::nullopt;
}

/// False when the element is to have another value as well.
static bool assign(TableValues &values, const TableElement &element, double value) {
  auto [known, isNew] = values[element.table].try_emplace(element.place, value);
  return isNew || known->second == value;
}

bool solveForElement(const LinearForm &form, int64_t element, TableValues &values) {
  auto isOwn = [&](const LinearTerm &term) { return term.element == element; };
  auto isScaledOwn = [&](const LinearTerm &term) { return isOwn(term) && term.coefficient; };
  bool isPlain = llvm::count_if(form, [&](const LinearTerm &term) { return isOwn(term) && !term.coefficient; }) == 1;
  if (!isPlain && llvm::count_if(form, isScaledOwn) != 1)
    return false;
  return llvm::all_of(form, [&](const LinearTerm &term) {
    if (!term.coefficient)
      return term.factor == (isOwn(term) ? 1 : 0);
    if (isScaledOwn(term) && !isPlain)
      return std::abs(term.factor) == 1 && assign(values, *term.coefficient, term.factor);
    return assign(values, *term.coefficient, 0);
  });
}

} // namespace ditc
