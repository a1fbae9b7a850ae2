// SPDX-License-Identifier: Apache-2.0
//
// Exact arithmetic by way of 128-bit intermediates: what does not fit into 64 bits in the end is a fault, and
// nothing wraps on the way.
#include "compiler/import/SymNumber.h"

#include <cmath>
#include <limits>

namespace ditc::sym {

int64_t narrow(Wide value) {
  if (value > std::numeric_limits<int64_t>::max() || value < std::numeric_limits<int64_t>::min())
    reject("the value overflows 64 bits; choose smaller sizes");
  return static_cast<int64_t>(value);
}

Number makeExact(Wide num, Wide den) {
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

Number add(const Number &a, const Number &b) {
  if (a.kind == Number::Kind::Double || b.kind == Number::Kind::Double)
    return real(toReal(a) + toReal(b));
  if (a.den == 1 && b.den == 1)
    return exact(narrow(Wide(a.num) + b.num));
  // Each product is below 2^126, so the sum cannot overflow 128 bits.
  return makeExact(Wide(a.num) * b.den + Wide(b.num) * a.den, Wide(a.den) * b.den);
}

Number multiply(const Number &a, const Number &b) {
  if (a.kind == Number::Kind::Double || b.kind == Number::Kind::Double)
    return real(toReal(a) * toReal(b));
  return makeExact(Wide(a.num) * b.num, Wide(a.den) * b.den);
}

Number integerPower(const Number &base, int64_t exponent) {
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

Number power(const Number &base, const Number &exponent) {
  if (base.kind == Number::Kind::Exact && exponent.isInteger())
    return integerPower(base, exponent.num);
  double value = std::pow(toReal(base), toReal(exponent));
  if (std::isnan(value) || (std::isinf(value) && std::isfinite(toReal(base)) && std::isfinite(toReal(exponent))))
    reject("a power has no finite value; choose other sizes");
  return real(value);
}

int64_t floorDivide(int64_t a, int64_t b) {
  if (b == 0)
    reject("division by zero; choose other sizes");
  Wide quotient = Wide(a) / b;
  bool isInexact = Wide(a) % b != 0;
  return narrow(quotient - (isInexact && (a < 0) != (b < 0) ? 1 : 0));
}

int64_t toInteger(double value) {
  // 2^63 is a double, INT64_MAX is not.
  if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0))
    reject("the value {} does not fit into a 64-bit integer; choose smaller sizes", value);
  return static_cast<int64_t>(value);
}

int compare(const Number &a, const Number &b) {
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

double toReal(const Number &value) {
  if (value.kind == Number::Kind::Double)
    return value.real;
  return static_cast<double>(static_cast<long double>(value.num) / static_cast<long double>(value.den));
}

int64_t floorModulo(int64_t a, int64_t b) { return static_cast<int64_t>(a - Wide(floorDivide(a, b)) * b); }

} // namespace ditc::sym
