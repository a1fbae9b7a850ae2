// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/Elementwise.h"

#include "runtime/Error.h"

using namespace mlir;

namespace ditc {

std::optional<Operand> optionalOperand(OpContext &op, std::string_view name) {
  const Argument *argument = op.node.find(name);
  if (!argument || argument->kind == Argument::Kind::None)
    return std::nullopt;
  if (argument->kind == Argument::Kind::Tensor)
    return Operand(op.tensor(name));
  return Operand(op.scalar(name));
}

Operand operandOf(OpContext &op, std::string_view name) {
  std::optional<Operand> operand = optionalOperand(op, name);
  if (!operand)
    fail("argument '{}' is missing", name);
  return *operand;
}

Operand conditionOf(OpContext &op, std::string_view name) {
  Value tensor = op.tensor(name);
  return {tensor, dit::computeType(Emit::elementOf(tensor))};
}

//===-- Promotion ---------------------------------------------------------------------------------===//

/// 0 bool, 1 integer, 2 float.
static int categoryOf(Type element) {
  if (isa<FloatType>(element))
    return 2;
  return element.isInteger(1) ? 0 : 1;
}

/// The wider of two types of one category.
static Type wider(Type a, Type b) {
  if (a == b)
    return a;
  unsigned widthA = a.getIntOrFloatBitWidth(), widthB = b.getIntOrFloatBitWidth();
  if (widthA != widthB)
    return widthA > widthB ? a : b;
  if (isa<FloatType>(a)) // f16 and bf16
    return Float32Type::get(a.getContext());
  return IntegerType::get(a.getContext(), 16); // i8 and ui8
}

static Type promote(Type a, Type b) {
  if (!a || !b)
    return a ? a : b;
  int categoryA = categoryOf(a), categoryB = categoryOf(b);
  if (categoryA != categoryB)
    return categoryA > categoryB ? a : b;
  return wider(a, b);
}

/// `high` unless `low` is of a higher category.
static Type combineRanks(Type high, Type low) {
  if (!high || !low)
    return high ? high : low;
  return categoryOf(low) > categoryOf(high) ? low : high;
}

Type promotedType(Emit &emit, ArrayRef<Operand> operands) {
  Type sized, scalars, numbers;
  for (const Operand &operand : operands) {
    if (!operand.tensor) {
      Scalar::Kind kind = operand.number.kind;
      OpBuilder &b = emit.builder();
      Type type = kind == Scalar::Kind::Float ? Type(b.getF32Type())
                  : kind == Scalar::Kind::Int ? Type(b.getI64Type())
                                              : Type(b.getI1Type());
      numbers = promote(numbers, type);
    } else if (Emit::rankOf(operand.tensor) == 0) {
      scalars = promote(scalars, Emit::elementOf(operand.tensor));
    } else {
      sized = promote(sized, Emit::elementOf(operand.tensor));
    }
  }
  return combineRanks(sized, combineRanks(scalars, numbers));
}

static double roundedNumber(double number, FloatType type) {
  APFloat value(static_cast<float>(number));
  bool lossy = false;
  value.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lossy);
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
  return value.convertToDouble();
}

Operand roundedTo(Emit &emit, Operand operand, Type element) {
  auto floatType = dyn_cast<FloatType>(element);
  if (!floatType || floatType.getWidth() != 16)
    return operand;
  if (operand.tensor)
    operand.tensor = emit.cast(operand.tensor, element);
  else
    operand.number = Scalar::of(roundedNumber(operand.number.number, floatType));
  return operand;
}

//===-- Maps --------------------------------------------------------------------------------------===//

Value elementwise(Emit &emit, ArrayRef<Operand> operands, Type compute, Type element, const NumBody &body) {
  std::vector<Value> tensors;
  for (const Operand &operand : operands)
    if (operand.tensor)
      tensors.push_back(operand.tensor);
  if (tensors.empty()) // all are numbers: a 0-dim result
    tensors.push_back(emit.full({}, element, operands.front().number));
  return emit.map(tensors, element, [&](ImplicitLocOpBuilder &b, ValueRange arguments) {
    SmallVector<Num> numbers;
    size_t next = 0;
    for (const Operand &operand : operands) {
      Type type = operand.compute ? operand.compute : compute;
      if (operand.tensor)
        numbers.push_back(Num(b, arguments[next++]).to(type));
      else
        numbers.push_back({b, Emit::scalar(b, type, operand.number)});
    }
    return body(numbers).value();
  });
}

void ElementwiseRows::row(Targets targets, OpImport import, Aliasing aliasing) {
  for (std::string_view target : targets)
    rows.push_back({target, import, aliasing});
}

void ElementwiseRows::addUnary(Targets targets, std::function<Num(OpContext &, Num)> f) {
  row(targets, [f](OpContext &op) -> std::vector<Value> {
    Type element = op.resultElement();
    return {elementwise(op.emit, operandOf(op, "self"), dit::computeType(element), element, [&](ArrayRef<Num> x) { return f(op, x[0]); })};
  });
}

void ElementwiseRows::test(Targets targets, std::function<Num(Num)> f) {
  row(targets, [f](OpContext &op) -> std::vector<Value> {
    Operand self = operandOf(op, "self");
    Type compute = dit::computeType(Emit::elementOf(self.tensor));
    return {elementwise(op.emit, self, compute, op.resultElement(), [&](ArrayRef<Num> x) { return f(x[0]); })};
  });
}

/// True for a number, or a 0-dim tensor beside larger ones.
static bool isNumber(const Operand &operand, const Operand &other) {
  return !operand.tensor || (Emit::rankOf(operand.tensor) == 0 && other.tensor && Emit::rankOf(other.tensor) > 0);
}

void ElementwiseRows::addBinary(Targets targets, Numbers numbers, std::function<Num(OpContext &, Num, Num)> f) {
  row(targets, [f, numbers](OpContext &op) -> std::vector<Value> {
    Type element = op.resultElement();
    Operand self = operandOf(op, "self"), other = operandOf(op, "other");
    bool exact = numbers == Numbers::Exact;
    Operand x = exact && isNumber(self, other) ? self : roundedTo(op.emit, self, element);
    Operand y = exact && isNumber(other, self) ? other : roundedTo(op.emit, other, element);
    return {elementwise(op.emit, {x, y}, dit::computeType(element), element, [&](ArrayRef<Num> n) { return f(op, n[0], n[1]); })};
  });
}

void ElementwiseRows::compare(Targets targets, std::function<Num(Num, Num)> f) {
  row(targets, [f](OpContext &op) -> std::vector<Value> {
    Operand self = operandOf(op, "self"), other = operandOf(op, "other");
    Type common = promotedType(op.emit, {self, other});
    Operand x = roundedTo(op.emit, self, common), y = roundedTo(op.emit, other, common);
    return {elementwise(op.emit, {x, y}, dit::computeType(common), op.resultElement(), [&](ArrayRef<Num> n) { return f(n[0], n[1]); })};
  });
}

} // namespace ditc
