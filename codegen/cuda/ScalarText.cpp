// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/ScalarText.h"

#include "dialects/dit/Tensors.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <charconv>
#include <cmath>
#include <fmt/format.h>

using namespace mlir;

namespace ditc {

//===-- Types and numbers ---------------------------------------------------------------------------===//

std::string scalarTypeName(Type type) {
  if (type.isF64())
    return "double";
  if (isa<FloatType>(type))
    return "float";
  return type.isInteger(1) ? "bool" : "long long";
}

std::string scalarLiteral(double value, bool isDouble) {
  if (!std::isfinite(value)) {
    std::string_view text = std::isnan(value) ? "quietNan()" : value < 0 ? "-infinity()" : "infinity()";
    return isDouble ? fmt::format("double({})", text) : std::string(text); // where types are deduced, that of values beside it
  }
  char digits[40];
  auto [end, error] =
      isDouble ? std::to_chars(digits, digits + sizeof digits, value) : std::to_chars(digits, digits + sizeof digits, static_cast<float>(value));
  std::string text(digits, end);
  if (text.find_first_of(".e") == std::string::npos)
    text += ".0";
  return isDouble ? text : text + "f";
}

std::string scalarLiteral(Attribute value) {
  if (auto number = dyn_cast<FloatAttr>(value))
    return scalarLiteral(number.getValueAsDouble(), number.getType().isF64());
  auto integer = cast<IntegerAttr>(value);
  if (integer.getType().isInteger(1))
    return integer.getValue().isZero() ? "false" : "true";
  auto type = dyn_cast<IntegerType>(integer.getType());
  int64_t number = type && type.isUnsigned() ? static_cast<int64_t>(integer.getValue().getZExtValue()) : integer.getValue().getSExtValue();
  if (number == std::numeric_limits<int64_t>::min())
    return "(-9223372036854775807ll - 1)";
  return std::to_string(number) + "ll";
}

namespace {

//===-- The table -----------------------------------------------------------------------------------===//

/// How tightly the text of an expression holds together.
enum Binding { Loose, Compare, Additive, Multiplicative, Unary, Tight };

/// An operation as text: $0, $1, $2 are its operands, which need the given binding or get parentheses; @ is "f" for
/// single precision.
struct Spelling {
  std::string text;
  Binding binding = Tight;
  Binding left = Loose, right = Loose;
};

Spelling call(std::string text) { return {std::move(text)}; }
Spelling infix(std::string text, Binding binding) { return {std::move(text), binding, binding, static_cast<Binding>(binding + 1)}; }
Spelling logical(std::string text) { return {std::move(text), Loose, Compare, Compare}; }
Spelling bitwise(std::string text) { return {std::move(text), Loose, Tight, Tight}; }
Spelling same() { return {"$0", Loose}; }

const llvm::StringMap<Spelling> &floatTable() {
  static const llvm::StringMap<Spelling> table = {
      {"arith.addf", infix("$0 + $1", Additive)},
      {"arith.subf", infix("$0 - $1", Additive)},
      {"arith.mulf", infix("$0 * $1", Multiplicative)},
      {"arith.divf", infix("$0 / $1", Multiplicative)},
      {"arith.negf", {"-$0", Unary, Tight, Tight}},
      {"arith.remf", call("fmod@($0, $1)")},
      {"arith.maximumf", call("maximum($0, $1)")},
      {"arith.minimumf", call("minimum($0, $1)")},
      {"arith.maxnumf", call("maximumNumber($0, $1)")},
      {"arith.minnumf", call("minimumNumber($0, $1)")},
      {"arith.fptosi", call("toInteger($0)")},
      {"arith.fptoui", call("toInteger($0)")},
      {"math.absf", call("fabs@($0)")},
      {"math.exp", call("exp@($0)")},
      {"math.exp2", call("exp2@($0)")},
      {"math.expm1", call("expm1@($0)")},
      {"math.log", call("log@($0)")},
      {"math.log2", call("log2@($0)")},
      {"math.log10", call("log10@($0)")},
      {"math.log1p", call("log1p@($0)")},
      {"math.sin", call("sin@($0)")},
      {"math.cos", call("cos@($0)")},
      {"math.tan", call("tan@($0)")},
      {"math.asin", call("asin@($0)")},
      {"math.acos", call("acos@($0)")},
      {"math.atan", call("atan@($0)")},
      {"math.sinh", call("sinh@($0)")},
      {"math.cosh", call("cosh@($0)")},
      {"math.tanh", call("tanh@($0)")},
      {"math.asinh", call("asinh@($0)")},
      {"math.acosh", call("acosh@($0)")},
      {"math.atanh", call("atanh@($0)")},
      {"math.atan2", call("atan2@($0, $1)")},
      {"math.sqrt", call("sqrt@($0)")},
      {"math.rsqrt", call("reciprocalRoot($0)")},
      {"math.cbrt", call("cbrt@($0)")},
      {"math.powf", call("pow@($0, $1)")},
      {"math.erf", call("erf@($0)")},
      {"math.erfc", call("erfc@($0)")},
      {"math.ceil", call("ceil@($0)")},
      {"math.floor", call("floor@($0)")},
      {"math.trunc", call("trunc@($0)")},
      {"math.round", call("round@($0)")},
      {"math.roundeven", call("rint@($0)")},
      {"math.copysign", call("copysign@($0, $1)")},
      {"math.fma", call("fma@($0, $1, $2)")},
      {"math.clampf", call("clamp($0, $1, $2)")},
      {"math.isnan", call("isNan($0)")},
      {"math.isinf", call("isInfinite($0)")},
      {"math.isfinite", call("isFinite($0)")},
      {"math.isnormal", call("isNormal($0)")},
  };
  return table;
}

const llvm::StringMap<Spelling> &integerTable() {
  static const llvm::StringMap<Spelling> table = {
      {"arith.addi", call("addWrapping($0, $1)")},
      {"arith.subi", call("subtractWrapping($0, $1)")},
      {"arith.muli", call("multiplyWrapping($0, $1)")},
      {"arith.divsi", call("divide($0, $1)")},
      {"arith.divui", call("divideUnsigned($0, $1)")},
      {"arith.remsi", call("remainder($0, $1)")},
      {"arith.remui", call("remainderUnsigned($0, $1)")},
      {"arith.floordivsi", call("divideDown($0, $1)")},
      {"arith.ceildivsi", call("divideTowardsUp($0, $1)")},
      {"arith.andi", bitwise("$0 & $1")},
      {"arith.ori", bitwise("$0 | $1")},
      {"arith.xori", bitwise("$0 ^ $1")},
      {"arith.shli", call("shiftLeft($0, $1)")},
      {"arith.shrsi", call("shiftRight($0, $1)")},
      {"arith.shrui", call("shiftRightUnsigned($0, $1)")},
      {"arith.maxsi", bitwise("$0 > $1 ? $0 : $1")},
      {"arith.minsi", bitwise("$0 < $1 ? $0 : $1")},
      {"arith.maxui", bitwise("belowUnsigned($0, $1) ? $1 : $0")},
      {"arith.minui", bitwise("belowUnsigned($0, $1) ? $0 : $1")},
      {"math.ipowi", call("integerPower($0, $1)")},
      {"math.absi", call("absolute($0)")},
  };
  return table;
}

const llvm::StringMap<Spelling> &boolTable() {
  static const llvm::StringMap<Spelling> table = {
      {"arith.addi", infix("$0 != $1", Compare)},
      {"arith.subi", infix("$0 != $1", Compare)},
      {"arith.muli", logical("$0 && $1")},
      {"arith.andi", logical("$0 && $1")},
      {"arith.ori", {"$0 || $1", Loose, Tight, Tight}},
      {"arith.xori", {"$0 != $1", Compare, Tight, Tight}},
      {"arith.maxsi", {"$0 || $1", Loose, Tight, Tight}},
      {"arith.maxui", {"$0 || $1", Loose, Tight, Tight}},
      {"arith.minsi", logical("$0 && $1")},
      {"arith.minui", logical("$0 && $1")},
  };
  return table;
}

Spelling compareFloats(arith::CmpFPredicate predicate) {
  using P = arith::CmpFPredicate;
  auto compare = [](const char *text) { return Spelling{text, Compare, Additive, Additive}; };
  switch (predicate) {
  case P::OEQ:
    return compare("$0 == $1");
  case P::OGT:
    return compare("$0 > $1");
  case P::OGE:
    return compare("$0 >= $1");
  case P::OLT:
    return compare("$0 < $1");
  case P::OLE:
    return compare("$0 <= $1");
  case P::UNE:
    return compare("$0 != $1");
  case P::ONE:
    return {"$0 < $1 || $0 > $1", Loose, Tight, Tight};
  case P::ORD:
    return logical("!isNan($0) && !isNan($1)");
  case P::UEQ:
    return call("!($0 < $1 || $0 > $1)");
  case P::UGT:
    return call("!($0 <= $1)");
  case P::UGE:
    return call("!($0 < $1)");
  case P::ULT:
    return call("!($0 >= $1)");
  case P::ULE:
    return call("!($0 > $1)");
  case P::UNO:
    return {"isNan($0) || isNan($1)", Loose, Tight, Tight};
  case P::AlwaysTrue:
    return call("true");
  default:
    return call("false");
  }
}

/// A signed i1 is 0 or -1, so true is below false.
Spelling compareIntegers(arith::CmpIPredicate predicate, bool isBool) {
  using P = arith::CmpIPredicate;
  auto compare = [](const char *text) { return Spelling{text, Compare, Additive, Additive}; };
  switch (predicate) {
  case P::eq:
    return compare("$0 == $1");
  case P::ne:
    return compare("$0 != $1");
  case P::slt:
    return compare(isBool ? "$0 > $1" : "$0 < $1");
  case P::sle:
    return compare(isBool ? "$0 >= $1" : "$0 <= $1");
  case P::sgt:
    return compare(isBool ? "$0 < $1" : "$0 > $1");
  case P::sge:
    return compare(isBool ? "$0 <= $1" : "$0 >= $1");
  case P::ult:
    return isBool ? compare("$0 < $1") : call("belowUnsigned($0, $1)");
  case P::ule:
    return isBool ? compare("$0 <= $1") : call("!belowUnsigned($1, $0)");
  case P::ugt:
    return isBool ? compare("$0 > $1") : call("belowUnsigned($1, $0)");
  case P::uge:
    return isBool ? compare("$0 >= $1") : call("!belowUnsigned($0, $1)");
  }
  return {};
}

/// The storage type of a narrow scalar, in device code.
std::string narrowTypeName(Type type, bool isUnsigned) {
  if (type.isBF16())
    return "BF16";
  if (type.isF16())
    return "F16";
  if (is8BitFloat(type))
    return "E4M3";
  switch (type.getIntOrFloatBitWidth()) {
  case 8:
    return isUnsigned ? "unsigned char" : "signed char";
  case 16:
    return isUnsigned ? "unsigned short" : "short";
  case 32:
    return isUnsigned ? "unsigned" : "int";
  default:
    return "";
  }
}

Spelling bitcast(Type from, Type to) {
  if (from.isF64() || from.isF32())
    return call("bitsOf($0)");
  if (to.isF64())
    return call("doubleFromBits($0)");
  if (to.isF32())
    return call("floatFromBits($0)");
  if (isSmallFloat(from) && isa<IntegerType>(to))
    return call("lowBits<" + narrowTypeName(to, false) + ">(narrow<" + narrowTypeName(from, false) + ">($0).bits)");
  if (isa<IntegerType>(from) && isSmallFloat(to))
    return call("widen(" + narrowTypeName(to, false) + "{static_cast<" + narrowTypeName(from, true) + ">($0)})");
  return from == to ? same() : Spelling{};
}

Spelling convertFloat(Type from, Type to) {
  if (isSmallFloat(to))
    return call("rounded<" + narrowTypeName(to, false) + ">($0)");
  if (from.isF64() == to.isF64())
    return same();
  return call("static_cast<" + scalarTypeName(to) + ">($0)");
}

Spelling extendInteger(Type from, Type to, bool isSigned) {
  if (from.isInteger(1))
    return isSigned ? Spelling{"-static_cast<" + scalarTypeName(to) + ">($0)", Unary} : call("static_cast<" + scalarTypeName(to) + ">($0)");
  if (isSigned || from.isInteger(64))
    return same();
  return call("lowBits<" + narrowTypeName(from, true) + ">($0)");
}

Spelling truncateInteger(Type to) {
  if (to.isInteger(1))
    return {"($0 & 1) != 0", Compare, Tight, Tight};
  std::string name = narrowTypeName(to, false);
  return name.empty() ? same() : call("lowBits<" + name + ">($0)");
}

Spelling conversion(Operation *op, Type from, Type to) {
  StringRef name = op->getName().getStringRef();
  if (name == "arith.extf" || name == "arith.truncf")
    return convertFloat(from, to);
  if (name == "arith.bitcast")
    return bitcast(from, to);
  if (name == "arith.extsi" || name == "arith.extui")
    return extendInteger(from, to, name == "arith.extsi");
  if (name == "arith.trunci")
    return truncateInteger(to);
  if (name == "arith.sitofp")
    return from.isInteger(1) ? extendInteger(from, to, true) : call("static_cast<" + scalarTypeName(to) + ">($0)");
  if (name == "arith.uitofp")
    return call(from.isInteger(1) ? "static_cast<" + scalarTypeName(to) + ">($0)" : "fromUnsigned<" + scalarTypeName(to) + ">($0)");
  return {};
}

/// Empty text when there is none.
Spelling spellingOf(Operation *op) {
  if (op->getNumResults() != 1 || op->getNumOperands() == 0)
    return {};
  Type from = op->getOperand(0).getType(), to = op->getResult(0).getType();
  if (auto compare = dyn_cast<arith::CmpFOp>(op))
    return compareFloats(compare.getPredicate());
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    return compareIntegers(compare.getPredicate(), from.isInteger(1));
  if (isa<arith::SelectOp>(op))
    return {"$0 ? $1 : $2", Loose, Compare, Compare};
  if (isa<math::FPowIOp>(op))
    return call("pow@($0, static_cast<" + scalarTypeName(to) + ">($1))");
  if (Spelling converted = conversion(op, from, to); !converted.text.empty())
    return converted;
  StringRef name = op->getName().getStringRef();
  if (isa<FloatType>(from)) {
    if (!from.isF32() && !from.isF64())
      return {};
    Spelling found = floatTable().lookup(name);
    if (to.isInteger(1) && !found.text.empty() && name.starts_with("arith.fpto"))
      return {"$0 != 0", Compare, Additive};
    return found;
  }
  if (from.isInteger(1)) {
    if (Spelling found = boolTable().lookup(name); !found.text.empty())
      return found;
    Spelling wide = integerTable().lookup(name);
    return wide.text.empty() ? wide : Spelling{"((" + wide.text + ") & 1) != 0", Compare, Tight, Tight};
  }
  return from.isInteger(64) ? integerTable().lookup(name) : Spelling{};
}

//===-- Printing ------------------------------------------------------------------------------------===//

/// Longer expressions get a name of their own.
constexpr size_t kMaxExpression = 70;

/// x / (c + exp(y)) in f32, c a positive number: the divisor is neither 0 nor so small that it has no reciprocal.
bool isSigmoidDivision(Operation *op) {
  auto division = dyn_cast<arith::DivFOp>(op);
  auto sum = division && division.getType().isF32() ? division.getRhs().getDefiningOp<arith::AddFOp>() : nullptr;
  if (!sum)
    return false;
  auto isExp = [](Value value) { return value.getDefiningOp<math::ExpOp>() != nullptr; };
  auto isPositive = [](Value value) {
    auto constant = value.getDefiningOp<arith::ConstantOp>();
    auto number = constant ? dyn_cast<FloatAttr>(constant.getValue()) : FloatAttr();
    return number && number.getValueAsDouble() >= 1e-3 && number.getValueAsDouble() <= 1e3;
  };
  return (isExp(sum.getLhs()) && isPositive(sum.getRhs())) || (isPositive(sum.getLhs()) && isExp(sum.getRhs()));
}

class FunctionPrinter {
public:
  explicit FunctionPrinter(SigmoidDivision division) : division(division) {}

  std::string print(StringRef name, Block &body) {
    std::string head = "__device__ inline " + scalarTypeName(body.getTerminator()->getOperand(0).getType()) + " " + name.str() + "(";
    for (auto [i, argument] : llvm::enumerate(body.getArguments())) {
      std::string letter = i < 26 ? std::string(1, static_cast<char>('a' + i)) : "a" + std::to_string(i);
      head += (i ? ", " : "") + scalarTypeName(argument.getType()) + " " + letter;
      known[argument] = {letter, Tight};
    }
    for (Operation &op : body.without_terminator())
      add(&op);
    std::string result = "return " + operand(body.getTerminator()->getOperand(0), Loose) + ";";
    if (statements.empty() && head.size() + result.size() < 114)
      return head + ") { " + result + " }\n";
    return head + ") {\n" + statements + "  " + result + "\n}\n";
  }

private:
  struct Text {
    std::string text;
    Binding binding;
  };

  std::string operand(Value value, Binding needed) {
    const Text &text = known.find(value)->second;
    return text.binding < needed ? "(" + text.text + ")" : text.text;
  }

  void add(Operation *op) {
    Value result = op->getResult(0);
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      std::string literal = scalarLiteral(constant.getValue());
      known[result] = {literal, literal.front() == '-' ? Unary : Tight};
      return;
    }
    Spelling spelling = division == SigmoidDivision::Approximate && isSigmoidDivision(op) ? call("divideApprox($0, $1)") : spellingOf(op);
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      if (StringRef(spelling.text).count("$" + std::to_string(i)) > 1)
        giveName(op->getOperand(i));
    std::string text = fill(op, spelling);
    Binding binding = spelling.text == "$0" ? known[op->getOperand(0)].binding : spelling.binding;
    known[result] = {text, binding};
    bool repeated = !result.hasOneUse() && !result.use_empty();
    if ((repeated && !isName(text)) || text.size() > kMaxExpression)
      giveName(result);
  }

  static bool isName(StringRef text) {
    return llvm::all_of(text, [](char c) { return llvm::isAlnum(c); }) && !llvm::isDigit(text.front());
  }

  void giveName(Value value) {
    Text &text = known[value];
    if (isName(text.text) || (text.binding == Tight && llvm::isDigit(text.text.front())))
      return;
    std::string name = "v" + std::to_string(nameCount++);
    statements += "  const " + scalarTypeName(value.getType()) + " " + name + " = " + text.text + ";\n";
    text = {name, Tight};
  }

  std::string fill(Operation *op, const Spelling &spelling) {
    std::string text;
    for (size_t i = 0; i < spelling.text.size(); ++i) {
      char c = spelling.text[i];
      if (c == '@') {
        text += op->getResult(0).getType().isF64() ? "" : "f";
      } else if (c == '$') {
        unsigned number = spelling.text[++i] - '0';
        text += operand(op->getOperand(number), spelling.text == "$0" ? Loose : number == 0 ? spelling.left : spelling.right);
      } else {
        text += c;
      }
    }
    return text;
  }

  SigmoidDivision division;
  llvm::DenseMap<Value, Text> known;
  std::string statements;
  unsigned nameCount = 0;
};

} // namespace

Operation *firstUnprintableScalar(Block &body) {
  for (Operation &op : body.without_terminator())
    if (!isa<arith::ConstantOp>(op) && spellingOf(&op).text.empty())
      return &op;
  return nullptr;
}

std::string printScalarFunction(StringRef name, Block &body, SigmoidDivision division) { return FunctionPrinter(division).print(name, body); }

} // namespace ditc
