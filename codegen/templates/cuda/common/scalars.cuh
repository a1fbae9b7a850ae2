// SPDX-License-Identifier: Apache-2.0
//
// Scalar operations of map bodies where CUDA C++ has no operator or function with the dialect's meaning: integers wrap,
// division by zero gives 0 (and the dividend as remainder), shifts by the width or more are defined, conversions to
// integers saturate, maximum and minimum keep NaN. The rest is printed as operators and functions of the C library.
#pragma once

namespace ditc {

// ---- integers -----------------------------------------------------------------------------------------------------

__device__ inline long long addWrapping(long long a, long long b) {
  return static_cast<long long>(static_cast<unsigned long long>(a) + static_cast<unsigned long long>(b));
}
__device__ inline long long subtractWrapping(long long a, long long b) {
  return static_cast<long long>(static_cast<unsigned long long>(a) - static_cast<unsigned long long>(b));
}
__device__ inline long long multiplyWrapping(long long a, long long b) {
  return static_cast<long long>(static_cast<unsigned long long>(a) * static_cast<unsigned long long>(b));
}
__device__ inline long long divide(long long a, long long b) {
  return b == 0 ? 0 : b == -1 ? subtractWrapping(0, a) : a / b;
}
__device__ inline long long remainder(long long a, long long b) { return b == 0 ? a : b == -1 ? 0 : a % b; }
__device__ inline long long divideUnsigned(long long a, long long b) {
  return b == 0 ? 0 : static_cast<long long>(static_cast<unsigned long long>(a) / static_cast<unsigned long long>(b));
}
__device__ inline long long remainderUnsigned(long long a, long long b) {
  return b == 0 ? a : static_cast<long long>(static_cast<unsigned long long>(a) % static_cast<unsigned long long>(b));
}
__device__ inline long long divideDown(long long a, long long b) {
  return b == 0 ? 0 : divide(a, b) - (remainder(a, b) != 0 && (a < 0) != (b < 0));
}
__device__ inline long long divideTowardsUp(long long a, long long b) {
  return b == 0 ? 0 : divide(a, b) + (remainder(a, b) != 0 && (a < 0) == (b < 0));
}
__device__ inline long long shiftLeft(long long a, long long b) {
  return static_cast<unsigned long long>(b) < 64 ? static_cast<long long>(static_cast<unsigned long long>(a) << b) : 0;
}
__device__ inline long long shiftRight(long long a, long long b) {
  return a >> (static_cast<unsigned long long>(b) < 64 ? b : 63);
}
__device__ inline long long shiftRightUnsigned(long long a, long long b) {
  return static_cast<unsigned long long>(b) < 64 ? static_cast<long long>(static_cast<unsigned long long>(a) >> b) : 0;
}
__device__ inline bool belowUnsigned(long long a, long long b) {
  return static_cast<unsigned long long>(a) < static_cast<unsigned long long>(b);
}
__device__ inline long long absolute(long long a) { return a < 0 ? subtractWrapping(0, a) : a; }

/// By squaring. A negative exponent gives the reciprocal as an integer: 0 but for 1 and -1.
__device__ inline long long integerPower(long long base, long long exponent) {
  if (exponent < 0)
    return base == 1 ? 1 : base != -1 ? 0 : exponent & 1 ? -1 : 1;
  long long power = 1;
  for (long long square = base; exponent > 0; exponent >>= 1, square = multiplyWrapping(square, square))
    if (exponent & 1)
      power = multiplyWrapping(power, square);
  return power;
}

/// Low bits, sign extended; of an unsigned type zero extended.
template <class Narrow>
__device__ inline long long lowBits(long long a) {
  return static_cast<long long>(static_cast<Narrow>(a));
}

// ---- floats -------------------------------------------------------------------------------------------------------

template <class Value>
__device__ inline bool isNan(Value x) {
  return x != x;
}
__device__ inline float infinity() { return __uint_as_float(0x7f800000u); }
__device__ inline float quietNan() { return __uint_as_float(0x7fc00000u); }
__device__ inline bool isFinite(float x) { return fabsf(x) < infinity(); }
__device__ inline bool isFinite(double x) { return fabs(x) < infinity(); }
__device__ inline bool isInfinite(float x) { return fabsf(x) == infinity(); }
__device__ inline bool isInfinite(double x) { return fabs(x) == infinity(); }
__device__ inline bool isNormal(float x) { return isFinite(x) && fabsf(x) >= 0x1p-126f; }
__device__ inline bool isNormal(double x) { return isFinite(x) && fabs(x) >= 0x1p-1022; }

/// NaN wins, -0 is below +0.
template <class Value>
__device__ inline Value maximum(Value a, Value b) {
  return isNan(a) ? a : isNan(b) ? b : a == b ? (1 / a < 0 ? b : a) : a > b ? a : b;
}
template <class Value>
__device__ inline Value minimum(Value a, Value b) {
  return isNan(a) ? a : isNan(b) ? b : a == b ? (1 / a < 0 ? a : b) : a < b ? a : b;
}
#ifdef __CUDA_ARCH__
template <>
__device__ inline float maximum(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
template <>
__device__ inline float minimum(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
#endif
/// The number where one is NaN.
template <class Value>
__device__ inline Value maximumNumber(Value a, Value b) {
  return isNan(a) ? b : isNan(b) ? a : maximum(a, b);
}
template <class Value>
__device__ inline Value minimumNumber(Value a, Value b) {
  return isNan(a) ? b : isNan(b) ? a : minimum(a, b);
}
template <class Value>
__device__ inline Value clamp(Value x, Value low, Value high) {
  return minimum(maximum(x, low), high);
}

__device__ inline float reciprocalRoot(float x) {
#ifdef __CUDA_ARCH__
  return rsqrtf(x);
#else
  return 1 / sqrtf(x);
#endif
}
__device__ inline double reciprocalRoot(double x) { return 1 / sqrt(x); }

/// Towards zero; saturates, and NaN gives 0.
template <class Value>
__device__ inline long long toInteger(Value x) {
  constexpr Value LIMIT = 9223372036854775808.0;  // 2^63
  constexpr long long LARGEST = 0x7fffffffffffffffll;
  if (x >= -LIMIT && x < LIMIT)
    return static_cast<long long>(x);
  return isNan(x) ? 0 : x < 0 ? -LARGEST - 1 : LARGEST;
}
template <class Value>
__device__ inline Value fromUnsigned(long long x) {
  return static_cast<Value>(static_cast<unsigned long long>(x));
}

/// The bits of a value as another type of the same width; narrow integers are sign extended.
__device__ inline long long bitsOf(double x) { return __double_as_longlong(x); }
__device__ inline long long bitsOf(float x) { return __float_as_int(x); }
__device__ inline double doubleFromBits(long long x) { return __longlong_as_double(x); }
__device__ inline float floatFromBits(long long x) { return __int_as_float(static_cast<int>(x)); }

// ---- indices ------------------------------------------------------------------------------------------------------

/// An index clamped to a table of `rows` rows.
__device__ inline long long clampIndex(long long index, long long rows) {
  return index < 0 ? 0 : index >= rows ? rows - 1 : index;
}

}  // namespace ditc
