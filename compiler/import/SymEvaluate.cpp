// SPDX-License-Identifier: Apache-2.0
//
// The value of a symbolic size. Rationals are kept exact (a size may be 1/2 * s0), integers are 64 bits and
// never wrap, and Python's rules hold: floor division rounds down, true division gives a double.
#include "compiler/import/SymExpr.h"

#include "runtime/Error.h"
#include "runtime/Text.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <limits>
#include <numeric>

namespace ditc {

namespace {

/// An exact rational (den > 0, reduced; an integer when den is 1), a double, or a bool.
struct Number {
  enum class Kind { Exact, Double, Bool };
  Kind kind = Kind::Exact;
  int64_t num = 0, den = 1;
  double real = 0;
  bool flag = false;

  bool isInteger() const { return kind == Kind::Exact && den == 1; }
};

Number exact(int64_t value) { return {Number::Kind::Exact, value, 1, 0, false}; }
Number real(double value) { return {Number::Kind::Double, 0, 1, value, false}; }
Number boolean(bool value) { return {Number::Kind::Bool, 0, 1, 0, value}; }

using Wide = __int128;

class Evaluator {
public:
  Evaluator(const SymExpr &root, const SymBindings &bindings) : root(root), bindings(bindings) {}

  Number eval(const SymExpr &expr);

private:
  using UnaryReal = double (*)(double);

  template <typename... Args> [[noreturn]] void reject(fmt::format_string<Args...> format, Args &&...args) {
    fail("symbolic size '{}': {}", printable(toString(root)), fmt::format(format, std::forward<Args>(args)...));
  }

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
  int64_t integer(const SymExpr &expr, size_t index);
  bool truth(const SymExpr &expr, size_t index);

  Number makeExact(Wide num, Wide den);
  int64_t narrow(Wide value);
  double toReal(const Number &value) { return value.kind == Number::Kind::Exact ? ratio(value) : value.real; }
  static double ratio(const Number &value) {
    return static_cast<double>(static_cast<long double>(value.num) / static_cast<long double>(value.den));
  }

  Number add(const Number &a, const Number &b);
  Number multiply(const Number &a, const Number &b);
  Number power(const Number &base, const Number &exponent);
  Number integerPower(const Number &base, int64_t exponent);
  int64_t floorDivide(int64_t a, int64_t b);
  int64_t floorModulo(int64_t a, int64_t b) { return static_cast<int64_t>(a - Wide(floorDivide(a, b)) * b); }
  int compare(const Number &a, const Number &b);
  int64_t toInteger(double value);
  static bool isOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  const SymExpr &root;
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

int64_t Evaluator::integer(const SymExpr &expr, size_t index) {
  Number value = eval(*expr.args[index]);
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

int64_t Evaluator::narrow(Wide value) {
  if (value > std::numeric_limits<int64_t>::max() || value < std::numeric_limits<int64_t>::min())
    reject("the value overflows 64 bits; choose smaller sizes");
  return static_cast<int64_t>(value);
}

Number Evaluator::makeExact(Wide num, Wide den) {
  if (den == 0)
    reject("division by zero; choose other sizes");
  Wide a = num < 0 ? -num : num, b = den < 0 ? -den : den;
  while (b != 0) {
    Wide rest = a % b;
    a = b;
    b = rest;
  }
  Wide divisor = a == 0 ? 1 : a;
  if (den < 0)
    divisor = -divisor;
  return {Number::Kind::Exact, narrow(num / divisor), narrow(den / divisor), 0, false};
}

Number Evaluator::add(const Number &a, const Number &b) {
  if (a.kind == Number::Kind::Double || b.kind == Number::Kind::Double)
    return real(toReal(a) + toReal(b));
  if (a.den == 1 && b.den == 1)
    return exact(narrow(Wide(a.num) + b.num));
  // Each product is below 2^126, so the sum cannot overflow 128 bits.
  return makeExact(Wide(a.num) * b.den + Wide(b.num) * a.den, Wide(a.den) * b.den);
}

Number Evaluator::multiply(const Number &a, const Number &b) {
  if (a.kind == Number::Kind::Double || b.kind == Number::Kind::Double)
    return real(toReal(a) * toReal(b));
  return makeExact(Wide(a.num) * b.num, Wide(a.den) * b.den);
}

Number Evaluator::integerPower(const Number &base, int64_t exponent) {
  if (exponent < 0) {
    if (base.num == 0)
      reject("division by zero; choose other sizes");
    return integerPower(makeExact(base.den, base.num), narrow(-Wide(exponent)));
  }
  Number result = exact(1), factor = base;
  for (int64_t left = exponent; left > 0; left >>= 1) {
    if (left & 1)
      result = multiply(result, factor);
    bool isSettled = factor.den == 1 && (factor.num == 0 || factor.num == 1 || factor.num == -1);
    if (left > 1 && !isSettled)
      factor = multiply(factor, factor);
    else if (left > 1 && factor.num == -1)
      factor = exact(1);
  }
  return result;
}

Number Evaluator::power(const Number &base, const Number &exponent) {
  if (base.kind == Number::Kind::Exact && exponent.isInteger())
    return integerPower(base, exponent.num);
  double value = std::pow(toReal(base), toReal(exponent));
  if (std::isnan(value) || (std::isinf(value) && std::isfinite(toReal(base)) && std::isfinite(toReal(exponent))))
    reject("a power has no finite value; choose other sizes");
  return real(value);
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
    if (integer(expr, 1) < 0)
      reject("PowByNatural has the exponent {}; choose other sizes", integer(expr, 1));
    return integerPower(exact(integer(expr, 0)), integer(expr, 1));
  }
  if (toReal(b) == 0)
    reject("division by zero; choose other sizes");
  if (a.isInteger() && b.isInteger()) // one rounding, as Python divides integers
    return real(static_cast<double>(static_cast<long double>(a.num) / static_cast<long double>(b.num)));
  return real(toReal(a) / toReal(b));
}

int64_t Evaluator::floorDivide(int64_t a, int64_t b) {
  if (b == 0)
    reject("division by zero; choose other sizes");
  Wide quotient = Wide(a) / b;
  bool isInexact = Wide(a) % b != 0;
  return narrow(quotient - (isInexact && (a < 0) != (b < 0) ? 1 : 0));
}

Number Evaluator::evalIntegral(const SymExpr &expr) {
  const std::string &name = expr.function;
  needArgs(expr, name == "ModularIndexing" ? 3 : 2);
  if (name == "FloorDiv") { // of exact fractions too: 1/2 * s0 // 2
    Number a = number(expr, 0), b = number(expr, 1);
    bool isExact = a.kind == Number::Kind::Exact && b.kind == Number::Kind::Exact;
    if (isExact && !(a.isInteger() && b.isInteger())) {
      if (b.num == 0)
        reject("division by zero; choose other sizes");
      Number quotient = makeExact(Wide(a.num) * b.den, Wide(a.den) * b.num);
      return exact(floorDivide(quotient.num, quotient.den));
    }
  }
  int64_t a = integer(expr, 0), b = integer(expr, 1);
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

int64_t Evaluator::toInteger(double value) {
  // 2^63 is a double, INT64_MAX is not.
  if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0))
    reject("the value {} does not fit into a 64-bit integer; choose smaller sizes", value);
  return static_cast<int64_t>(value);
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

int Evaluator::compare(const Number &a, const Number &b) {
  if (a.kind == Number::Kind::Exact && b.kind == Number::Kind::Exact) {
    Wide left = Wide(a.num) * b.den, right = Wide(b.num) * a.den;
    return left < right ? -1 : left > right ? 1 : 0;
  }
  // long double holds both a double and a 64-bit integer exactly on x86.
  auto wide = [](const Number &n) {
    return n.kind == Number::Kind::Double ? static_cast<long double>(n.real)
                                          : static_cast<long double>(n.num) / static_cast<long double>(n.den);
  };
  return wide(a) < wide(b) ? -1 : wide(a) > wide(b) ? 1 : 0;
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
      {"sqrt", std::sqrt}, {"exp", std::exp},   {"log", std::log},     {"log2", std::log2}, {"sin", std::sin},
      {"cos", std::cos},   {"tan", std::tan},   {"sinh", std::sinh},   {"cosh", std::cosh}, {"tanh", std::tanh},
      {"asin", std::asin}, {"acos", std::acos}, {"atan", std::atan},   {"asinh", std::asinh},
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
  Number value = Evaluator(expr, bindings).eval(expr);
  if (value.isInteger())
    return value.num;
  if (value.kind == Number::Kind::Bool)
    return value.flag;
  if (value.kind == Number::Kind::Double)
    return value.real;
  return static_cast<double>(static_cast<long double>(value.num) / static_cast<long double>(value.den));
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
