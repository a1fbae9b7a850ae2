// SPDX-License-Identifier: Apache-2.0
#include "compiler/padding/KnownScalars.h"

#include "dialects/reference/Elements.h"
#include "dialects/reference/ScalarKernels.h"

#include <array>

using namespace mlir;

namespace ditc {

namespace {

/// A scalar as the evaluator holds it: double, float, int64_t or (i1) uint8_t.
using Held = std::array<uint8_t, 8>;

template <typename T> Held hold(T number) {
  Held held = {};
  std::memcpy(held.data(), &number, sizeof(T));
  return held;
}

template <typename T> T numberIn(const Held &held) {
  T number;
  std::memcpy(&number, held.data(), sizeof(T));
  return number;
}

/// Calls `visit` with a number of the type in which scalars of the compute type are held.
template <typename Visit> auto withHeldType(Type scalar, Visit visit) {
  if (scalar.isF64())
    return visit(double());
  if (isa<FloatType>(scalar))
    return visit(float());
  if (scalar.isInteger(1))
    return visit(uint8_t());
  return visit(int64_t());
}

dit::TensorValue oneElement(Attribute element) {
  auto typed = cast<TypedAttr>(element);
  return dit::fromElements(DenseElementsAttr::get(RankedTensorType::get({1}, typed.getType()), ArrayRef<Attribute>(element)));
}

Held load(Attribute element, Type scalar) {
  dit::TensorValue value = oneElement(element);
  return withHeldType(scalar, [&](auto number) {
    dit::loadElements(value.bytes->data(), dit::kindOf(value.type.getElementType()), 1, &number);
    return hold(number);
  });
}

Attribute store(const Held &held, Type scalar, Type elementType) {
  dit::TensorValue value = dit::TensorValue::zeros(RankedTensorType::get({1}, elementType));
  withHeldType(scalar, [&](auto number) {
    number = numberIn<decltype(number)>(held);
    dit::storeElements(&number, dit::kindOf(elementType), 1, value.bytes->data());
    return 0;
  });
  return cast<DenseElementsAttr>(dit::toElements(value)).getSplatValue<Attribute>();
}

class BodyWalk {
public:
  /// False when an operation's result is not known; it then stays out of the table.
  void run(Operation &op) {
    std::optional<Held> result = fromOneOperand(op);
    if (!result)
      result = fromAll(op);
    if (result)
      known[op.getResult(0)] = *result;
  }

  std::optional<Held> find(Value value) const {
    auto found = known.find(value);
    return found == known.end() ? std::nullopt : std::optional(found->second);
  }

  llvm::DenseMap<Value, Held> known;

private:
  std::optional<Held> fromOneOperand(Operation &op) const {
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      if (auto number = dyn_cast<FloatAttr>(constant.getValue()))
        return number.getType().isF64() ? hold(number.getValueAsDouble()) : hold(static_cast<float>(number.getValueAsDouble()));
      auto number = cast<IntegerAttr>(constant.getValue());
      return number.getType().isInteger(1) ? hold(static_cast<uint8_t>(!number.getValue().isZero())) : hold(number.getValue().getSExtValue());
    }
    if (auto select = dyn_cast<arith::SelectOp>(op)) {
      std::optional<Held> condition = find(select.getCondition());
      return condition ? find(numberIn<uint8_t>(*condition) ? select.getTrueValue() : select.getFalseValue()) : std::nullopt;
    }
    if (isa<arith::AndIOp, arith::OrIOp>(op) && op.getResult(0).getType().isInteger(1))
      for (Value operand : op.getOperands())
        if (std::optional<Held> held = find(operand); held && numberIn<uint8_t>(*held) == (isa<arith::OrIOp>(op) ? 1 : 0))
          return held;
    return std::nullopt;
  }

  std::optional<Held> fromAll(Operation &op) const {
    SmallVector<Held, 3> held;
    for (Value operand : op.getOperands()) {
      std::optional<Held> one = find(operand);
      if (!one)
        return std::nullopt;
      held.push_back(*one);
    }
    dit::ScalarKernel kernel = op.getNumResults() == 1 ? dit::scalarKernel(&op) : nullptr;
    if (!kernel)
      return std::nullopt;
    SmallVector<const void *, 3> pointers;
    for (const Held &one : held)
      pointers.push_back(one.data());
    Held result = {};
    kernel(1, result.data(), pointers.data());
    return result;
  }
};

} // namespace

Attribute evaluateKnown(dit::MapOp map, ArrayRef<Attribute> operands) {
  BodyWalk walk;
  for (auto [argument, operand] : llvm::zip(map.getBodyBlock().getArguments(), operands))
    if (operand)
      walk.known[argument] = load(operand, argument.getType());
  for (Operation &op : map.getBodyBlock().without_terminator())
    walk.run(op);
  Value yielded = map.getBodyBlock().getTerminator()->getOperand(0);
  std::optional<Held> result = walk.find(yielded);
  return result ? store(*result, yielded.getType(), map.getResult().getType().getElementType()) : Attribute();
}

Attribute elementAttr(Type elementType, double number) {
  return store(hold(number), Float64Type::get(elementType.getContext()), elementType);
}

double numberOf(Attribute element) {
  dit::TensorValue value = oneElement(element);
  return value.at(0);
}

} // namespace ditc
