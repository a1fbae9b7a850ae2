// SPDX-License-Identifier: Apache-2.0
//
// The value of a symbolic size. Rationals are kept exact (a size may be 1/2 * s0), integers are 64 bits and
// never wrap, and Python's rules hold: floor division rounds down, true division gives a double.
#include "compiler/import/SymExpr.h"

#include "compiler/import/SymNumber.h"
#include "runtime/Error.h"
#include "runtime/Text.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>

namespace ditc {

using namespace sym;

namespace {

class Evaluator {
public:
  explicit Evaluator(const SymBindings &bindings) : bindings(bindings) {}

  Number eval(const SymExpr &expr);

private:
  using UnaryReal = double (*)(double);

  Number evalSymbol(const SymExpr &expr);
  Number evalArithmetic(const SymExpr &expr);
  Number evalIntegral(const SymExpr &expr);
  Number evalRounding(const SymExpr &expr);
  Number evalLogic(const SymExpr &expr);
  Number evalPiecewise(const SymExpr &expr);
  Number evalOpaque(const SymExpr &expr);

  // Arguments, checked: count and type.
  void needArgs(const SymExpr &expr, size_t count);
  Number number(const SymExpr &expr, size_t index);
  int64_t integer(const SymExpr &expr, const Number &value);
  int64_t integer(const SymExpr &expr, size_t index) { return integer(expr, eval(*expr.args[index])); }
  bool truth(const SymExpr &expr, size_t index);

  static bool isOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  const SymBindings &bindings;
};

Number Evaluator::eval(const SymExpr &expr) {
  const std::string &name = expr.function;
  if (name == "Integer")
    return exact(std::get<int64_t>(expr.value));
  if (name == "Float")
    return real(std::get<double>(expr.value));
  if (name == "true" || name == "false")
    return boolean(name == "true");
  if (name == "Symbol")
    return evalSymbol(expr);
  if (isOneOf(name, {"Add", "Mul", "Max", "Min", "Pow", "PowByNatural", "FloatPow", "Rational", "IntTrueDiv",
                     "FloatTrueDiv", "ToFloat", "Identity"}))
    return evalArithmetic(expr);
  if (isOneOf(name, {"FloorDiv", "CleanDiv", "CeilDiv", "Mod", "PythonMod", "ModularIndexing", "LShift", "RShift",
                     "BitwiseFn_bitwise_and", "BitwiseFn_bitwise_or", "BitwiseFn_bitwise_xor"}))
    return evalIntegral(expr);
  if (isOneOf(name, {"TruncToInt", "FloorToInt", "CeilToInt", "RoundToInt", "TruncToFloat", "RoundDecimal"}))
    return evalRounding(expr);
  if (name == "Piecewise" || name == "Where")
    return evalPiecewise(expr);
  if (name.starts_with("OpaqueUnaryFn_"))
    return evalOpaque(expr);
  return evalLogic(expr);
}

Number Evaluator::evalSymbol(const SymExpr &expr) {
  auto it = bindings.find(expr.text);
  if (it == bindings.end())
    reject("the symbol '{}' has no value; give it one, for example with a bucket that sets {}=...",
           printable(expr.text), printable(expr.text));
  if (const int64_t *value = std::get_if<int64_t>(&it->second))
    return exact(*value);
  if (const double *value = std::get_if<double>(&it->second))
    return real(*value);
  return boolean(std::get<bool>(it->second));
}

void Evaluator::needArgs(const SymExpr &expr, size_t count) {
  if (expr.args.size() != count)
    reject("{} has {} arguments, expected {}; the file is damaged, export the model again", printable(expr.function),
           expr.args.size(), count);
}

Number Evaluator::number(const SymExpr &expr, size_t index) {
  Number value = eval(*expr.args[index]);
  if (value.kind == Number::Kind::Bool)
    reject("{} takes numbers, not truth values; the file is damaged, export the model again", printable(expr.function));
  return value;
}

int64_t Evaluator::integer(const SymExpr &expr, const Number &value) {
  if (!value.isInteger())
    reject("{} takes integers only; the file is damaged, export the model again", printable(expr.function));
  return value.num;
}

bool Evaluator::truth(const SymExpr &expr, size_t index) {
  Number value = eval(*expr.args[index]);
  if (value.kind != Number::Kind::Bool)
    reject("{} takes truth values; the file is damaged, export the model again", printable(expr.function));
  return value.flag;
}

Number Evaluator::evalArithmetic(const SymExpr &expr) {
  const std::string &name = expr.function;
  if (name == "Add" || name == "Mul" || name == "Max" || name == "Min") {
    if (expr.args.empty())
      reject("{} has no arguments; the file is damaged, export the model again", name);
    Number result = number(expr, 0);
    for (size_t i = 1; i < expr.args.size(); ++i) {
      Number next = number(expr, i);
      if (name == "Add")
        result = add(result, next);
      else if (name == "Mul")
        result = multiply(result, next);
      else if (compare(next, result) == (name == "Max" ? 1 : -1))
        result = next;
    }
    return result;
  }
  if (name == "ToFloat" || name == "Identity") {
    needArgs(expr, 1);
    return name == "Identity" ? eval(*expr.args[0]) : real(toReal(number(expr, 0)));
  }
  needArgs(expr, 2);
  if (name == "Rational")
    return makeExact(integer(expr, 0), integer(expr, 1));
  Number a = number(expr, 0), b = number(expr, 1);
  if (name == "Pow")
    return power(a, b);
  if (name == "FloatPow")
    return power(real(toReal(a)), real(toReal(b)));
  if (name == "PowByNatural") {
    int64_t exponent = integer(expr, b);
    if (exponent < 0)
      reject("PowByNatural has the exponent {}; choose other sizes", exponent);
    return integerPower(exact(integer(expr, a)), exponent);
  }
  if (toReal(b) == 0)
    reject("division by zero; choose other sizes");
  if (a.isInteger() && b.isInteger()) // one rounding, as Python divides integers
    return real(static_cast<double>(static_cast<long double>(a.num) / static_cast<long double>(b.num)));
  return real(toReal(a) / toReal(b));
}

Number Evaluator::evalIntegral(const SymExpr &expr) {
  const std::string &name = expr.function;
  needArgs(expr, name == "ModularIndexing" ? 3 : 2);
  // NOTE: each argument is evaluated once; twice would be exponential in the depth.
  Number first = number(expr, 0), second = number(expr, 1);
  bool isExact = first.kind == Number::Kind::Exact && second.kind == Number::Kind::Exact;
  if (name == "FloorDiv" && isExact && !(first.isInteger() && second.isInteger())) { // 1/2 * s0 // 2
    Number quotient = makeExact(Wide(first.num) * second.den, Wide(first.den) * second.num);
    return exact(floorDivide(quotient.num, quotient.den));
  }
  int64_t a = integer(expr, first), b = integer(expr, second);
  if (name == "FloorDiv" || name == "CleanDiv")
    return exact(floorDivide(a, b));
  if (name == "CeilDiv")
    return exact(narrow(-Wide(floorDivide(narrow(-Wide(a)), b))));
  if (name == "Mod" || name == "PythonMod")
    return exact(floorModulo(a, b));
  if (name == "ModularIndexing")
    return exact(floorModulo(floorDivide(a, b), integer(expr, 2)));
  if (name == "BitwiseFn_bitwise_and")
    return exact(a & b);
  if (name == "BitwiseFn_bitwise_or")
    return exact(a | b);
  if (name == "BitwiseFn_bitwise_xor")
    return exact(a ^ b);
  if (b < 0 || b > 63)
    reject("a shift by {} bits; choose other sizes", b);
  return name == "LShift" ? exact(narrow(Wide(a) * (Wide(1) << b))) : exact(a >> b);
}

Number Evaluator::evalRounding(const SymExpr &expr) {
  const std::string &name = expr.function;
  needArgs(expr, name == "RoundDecimal" ? 2 : 1);
  Number value = number(expr, 0);
  if (name == "RoundDecimal") {
    int64_t digits = integer(expr, 1);
    if (digits < 0 || digits > 400)
      reject("RoundDecimal to {} digits is not supported", digits);
    // Printing rounds the exact value once, half to even, which is what Python's round does.
    return real(std::strtod(fmt::format("{:.{}f}", toReal(value), static_cast<int>(digits)).c_str(), nullptr));
  }
  if (name == "TruncToFloat")
    return real(std::trunc(toReal(value)));
  if (value.isInteger())
    return value;
  if (value.kind == Number::Kind::Exact && name != "RoundToInt") {
    int64_t floor = floorDivide(value.num, value.den);
    bool roundsUp = name == "CeilToInt" || (name == "TruncToInt" && value.num < 0);
    return exact(roundsUp ? narrow(Wide(floor) + 1) : floor);
  }
  double number = toReal(value);
  if (name == "FloorToInt")
    return exact(toInteger(std::floor(number)));
  if (name == "CeilToInt")
    return exact(toInteger(std::ceil(number)));
  // nearbyint rounds half to even in the default rounding mode, which ditc never changes.
  return exact(toInteger(name == "RoundToInt" ? std::nearbyint(number) : std::trunc(number)));
}

Number Evaluator::evalLogic(const SymExpr &expr) {
  const std::string &name = expr.function;
  if (name == "Not") {
    needArgs(expr, 1);
    return boolean(!truth(expr, 0));
  }
  if (name == "And" || name == "Or") { // in order and only as far as needed, as Python does
    for (size_t i = 0; i < expr.args.size(); ++i)
      if (truth(expr, i) == (name == "Or"))
        return boolean(name == "Or");
    return boolean(name == "And");
  }
  if (!isOneOf(name, {"Equality", "Unequality", "StrictLessThan", "LessThan", "StrictGreaterThan", "GreaterThan"}))
    reject("the function {} is not supported; export the model with fixed sizes in this place", printable(name));
  needArgs(expr, 2);
  Number a = eval(*expr.args[0]), b = eval(*expr.args[1]);
  if ((a.kind == Number::Kind::Bool) != (b.kind == Number::Kind::Bool))
    reject("{} compares a number with a truth value; the file is damaged, export the model again", name);
  int order = a.kind == Number::Kind::Bool ? a.flag - b.flag : compare(a, b);
  if (name == "Equality" || name == "Unequality")
    return boolean((order == 0) == (name == "Equality"));
  if (name == "StrictLessThan" || name == "LessThan")
    return boolean(order < 0 || (order == 0 && name == "LessThan"));
  return boolean(order > 0 || (order == 0 && name == "GreaterThan"));
}

Number Evaluator::evalPiecewise(const SymExpr &expr) {
  if (expr.function == "Where") {
    needArgs(expr, 3);
    return eval(*expr.args[truth(expr, 0) ? 1 : 2]);
  }
  for (const SymExprPtr &pair : expr.args) {
    if (pair->function != "ExprCondPair" || pair->args.size() != 2)
      reject("Piecewise takes pairs of value and condition; the file is damaged, export the model again");
    if (truth(*pair, 1))
      return eval(*pair->args[0]);
  }
  reject("no condition of Piecewise holds; choose other sizes");
}

Number Evaluator::evalOpaque(const SymExpr &expr) {
  struct Row {
    std::string_view name;
    UnaryReal function;
  };
  static constexpr Row kFunctions[] = {
      {"sqrt", std::sqrt}, {"exp", std::exp},   {"log", std::log},   {"log2", std::log2},   {"sin", std::sin},
      {"cos", std::cos},   {"tan", std::tan},   {"sinh", std::sinh}, {"cosh", std::cosh},   {"tanh", std::tanh},
      {"asin", std::asin}, {"acos", std::acos}, {"atan", std::atan}, {"asinh", std::asinh},
  };
  needArgs(expr, 1);
  std::string_view name = std::string_view(expr.function).substr(std::string_view("OpaqueUnaryFn_").size());
  for (const Row &row : kFunctions) {
    if (row.name != name)
      continue;
    double argument = toReal(number(expr, 0)), value = row.function(argument);
    if (!std::isfinite(value))
      reject("{} of {} has no finite value; choose other sizes", name, argument);
    return real(value);
  }
  reject("the function {} is not supported; export the model with fixed sizes in this place", printable(name));
}

} // namespace

SymValue evaluate(const SymExpr &expr, const SymBindings &bindings) {
  try {
    Number value = Evaluator(bindings).eval(expr);
    if (value.kind == Number::Kind::Bool)
      return value.flag;
    if (value.isInteger())
      return value.num;
    return toReal(value);
  } catch (const sym::Fault &fault) {
    fail("symbolic size '{}': {}", printable(toString(expr)), fault.what());
  }
}

int64_t evaluateInt(const SymExpr &expr, const SymBindings &bindings) {
  SymValue value = evaluate(expr, bindings);
  if (const int64_t *integer = std::get_if<int64_t>(&value))
    return *integer;
  if (const double *number = std::get_if<double>(&value))
    fail("symbolic size '{}': the value {} is not an integer; choose other sizes", printable(toString(expr)), *number);
  fail("symbolic size '{}': it is a truth value, expected an integer; the file is damaged, export the model again",
       printable(toString(expr)));
}

} // namespace ditc
