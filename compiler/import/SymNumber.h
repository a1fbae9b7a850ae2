// SPDX-License-Identifier: Apache-2.0
//
// The numbers that symbolic sizes are made of, with arithmetic that never wraps. Private to the evaluator.
#pragma once

#include <cstdint>
#include <fmt/format.h>
#include <stdexcept>

namespace ditc::sym {

/// An exact rational (den > 0, reduced; an integer when den is 1), a double, or a bool.
struct Number {
  enum class Kind { Exact, Double, Bool };
  Kind kind = Kind::Exact;
  int64_t num = 0, den = 1;
  double real = 0;
  bool flag = false;

  bool isInteger() const { return kind == Kind::Exact && den == 1; }
};

/// What is wrong with a value; `evaluate` adds the expression and makes it an Error.
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <typename... Args> [[noreturn]] void reject(fmt::format_string<Args...> format, Args &&...args) {
  throw Fault(fmt::format(format, std::forward<Args>(args)...));
}

using Wide = __int128;

inline Number exact(int64_t value) { return {Number::Kind::Exact, value, 1, 0, false}; }
inline Number real(double value) { return {Number::Kind::Double, 0, 1, value, false}; }
inline Number boolean(bool value) { return {Number::Kind::Bool, 0, 1, 0, value}; }

/// num / den, reduced.
Number makeExact(Wide num, Wide den);
int64_t narrow(Wide value);
/// `value` must be integral, as floor and its like return it.
int64_t toInteger(double value);
/// Of an exact number or a double.
double toReal(const Number &value);

Number add(const Number &a, const Number &b);
Number multiply(const Number &a, const Number &b);
Number power(const Number &base, const Number &exponent);
/// `base` is exact.
Number integerPower(const Number &base, int64_t exponent);
int64_t floorDivide(int64_t a, int64_t b);
/// The remainder of floorDivide: it has the sign of b, as in Python.
int64_t floorModulo(int64_t a, int64_t b);
/// -1, 0 or 1.
int compare(const Number &a, const Number &b);

} // namespace ditc::sym
