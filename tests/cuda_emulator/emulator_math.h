// SPDX-License-Identifier: Apache-2.0
//
// CUDA's arithmetic functions by the compiler's built-ins. Approximate intrinsics (__expf, __fdividef) are exact here.
#pragma once

#define EMULATOR_FUNCTION1(name)                                                                                       \
  inline float name##f(float x) { return __builtin_##name##f(x); }                                                     \
  inline double name(double x) { return __builtin_##name(x); }                                                         \
  inline float name(float x) { return __builtin_##name##f(x); }
#define EMULATOR_FUNCTION2(name)                                                                                       \
  inline float name##f(float x, float y) { return __builtin_##name##f(x, y); }                                         \
  inline double name(double x, double y) { return __builtin_##name(x, y); }                                            \
  inline float name(float x, float y) { return __builtin_##name##f(x, y); }

EMULATOR_FUNCTION1(acos)
EMULATOR_FUNCTION1(acosh)
EMULATOR_FUNCTION1(asin)
EMULATOR_FUNCTION1(asinh)
EMULATOR_FUNCTION1(atan)
EMULATOR_FUNCTION1(atanh)
EMULATOR_FUNCTION1(cbrt)
EMULATOR_FUNCTION1(ceil)
EMULATOR_FUNCTION1(cos)
EMULATOR_FUNCTION1(cosh)
EMULATOR_FUNCTION1(erf)
EMULATOR_FUNCTION1(erfc)
EMULATOR_FUNCTION1(exp)
EMULATOR_FUNCTION1(exp2)
EMULATOR_FUNCTION1(expm1)
EMULATOR_FUNCTION1(fabs)
EMULATOR_FUNCTION1(floor)
EMULATOR_FUNCTION1(lgamma)
EMULATOR_FUNCTION1(log)
EMULATOR_FUNCTION1(log10)
EMULATOR_FUNCTION1(log1p)
EMULATOR_FUNCTION1(log2)
EMULATOR_FUNCTION1(nearbyint)
EMULATOR_FUNCTION1(rint)
EMULATOR_FUNCTION1(round)
EMULATOR_FUNCTION1(sin)
EMULATOR_FUNCTION1(sinh)
EMULATOR_FUNCTION1(sqrt)
EMULATOR_FUNCTION1(tan)
EMULATOR_FUNCTION1(tanh)
EMULATOR_FUNCTION1(tgamma)
EMULATOR_FUNCTION1(trunc)
EMULATOR_FUNCTION2(atan2)
EMULATOR_FUNCTION2(copysign)
EMULATOR_FUNCTION2(fdim)
EMULATOR_FUNCTION2(fmax)
EMULATOR_FUNCTION2(fmin)
EMULATOR_FUNCTION2(fmod)
EMULATOR_FUNCTION2(hypot)
EMULATOR_FUNCTION2(nextafter)
EMULATOR_FUNCTION2(pow)
EMULATOR_FUNCTION2(remainder)

inline float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float rsqrtf(float x) { return float(1 / __builtin_sqrt(x)); }
inline double rsqrt(double x) { return 1 / __builtin_sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline float ldexpf(float x, int exponent) { return __builtin_ldexpf(x, exponent); }
inline double ldexp(double x, int exponent) { return __builtin_ldexp(x, exponent); }
inline void sincosf(float x, float *sine, float *cosine) { *sine = sinf(x), *cosine = cosf(x); }
inline void sincos(double x, double *sine, double *cosine) { *sine = sin(x), *cosine = cos(x); }
inline long long llrintf(float x) { return __builtin_llrintf(x); }
inline long long llrint(double x) { return __builtin_llrint(x); }

inline bool isnan(float x) { return __builtin_isnan(x); }
inline bool isnan(double x) { return __builtin_isnan(x); }
inline bool isinf(float x) { return __builtin_isinf(x); }
inline bool isinf(double x) { return __builtin_isinf(x); }
inline bool isfinite(float x) { return __builtin_isfinite(x); }
inline bool isfinite(double x) { return __builtin_isfinite(x); }
inline bool signbit(float x) { return __builtin_signbit(x); }
inline bool signbit(double x) { return __builtin_signbit(x); }

// min and max of floats give the number when one is NaN, as in CUDA.
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline double min(float a, double b) { return fmin(double(a), b); }
inline double min(double a, float b) { return fmin(a, double(b)); }
inline double max(float a, double b) { return fmax(double(a), b); }
inline double max(double a, float b) { return fmax(a, double(b)); }
#define EMULATOR_MIN_MAX(A, B, R)                                                                                      \
  constexpr R min(A a, B b) { return emulator::smaller<R>(a, b); }                                                     \
  constexpr R max(A a, B b) { return emulator::larger<R>(a, b); }
EMULATOR_MIN_MAX(int, int, int)
EMULATOR_MIN_MAX(unsigned, unsigned, unsigned)
EMULATOR_MIN_MAX(int, unsigned, unsigned)
EMULATOR_MIN_MAX(unsigned, int, unsigned)
EMULATOR_MIN_MAX(long, long, long)
EMULATOR_MIN_MAX(unsigned long, unsigned long, unsigned long)
EMULATOR_MIN_MAX(long long, long long, long long)
EMULATOR_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
#define EMULATOR_ABS(T, name)                                                                                          \
  constexpr T name(T x) { return x < 0 ? -x : x; }
EMULATOR_ABS(int, abs)
EMULATOR_ABS(long, abs)
EMULATOR_ABS(long long, abs)
EMULATOR_ABS(long long, llabs)
inline float abs(float x) { return fabsf(x); }
inline double abs(double x) { return fabs(x); }

// ---- intrinsics
// -------------------------------------------------------------------------------------------------------

inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return powf(10, x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline float __tanhf(float x) { return tanhf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __saturatef(float x) { return isnan(x) ? 0.f : fminf(fmaxf(x, 0.f), 1.f); }
inline float __frcp_rn(float x) { return 1 / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __drcp_rn(double x) { return 1 / x; }
inline double __dsqrt_rn(double x) { return sqrt(x); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }

#define EMULATOR_CAST(name, From, To)                                                                                  \
  inline To name(From value) { return __builtin_bit_cast(To, value); }
EMULATOR_CAST(__float_as_int, float, int)
EMULATOR_CAST(__float_as_uint, float, unsigned)
EMULATOR_CAST(__int_as_float, int, float)
EMULATOR_CAST(__uint_as_float, unsigned, float)
EMULATOR_CAST(__double_as_longlong, double, long long)
EMULATOR_CAST(__longlong_as_double, long long, double)

/// Float to integer as the hardware does it: out of range gives the nearest, NaN gives 0 (the lowest with 64 bits).
#define EMULATOR_TO_INTEGER(name, From, To, function, lowest, highest, limit, nan)                                     \
  inline To name(From x) {                                                                                             \
    x = function(x);                                                                                                   \
    return isnan(x) ? nan : x <= From(lowest) ? lowest : x >= From(limit) ? highest : static_cast<To>(x);              \
  }
#define EMULATOR_ROUNDINGS(name, From, To, lowest, highest, limit, nan)                                                \
  EMULATOR_TO_INTEGER(name##_rn, From, To, rint, lowest, highest, limit, nan)                                          \
  EMULATOR_TO_INTEGER(name##_rz, From, To, trunc, lowest, highest, limit, nan)                                         \
  EMULATOR_TO_INTEGER(name##_rd, From, To, floor, lowest, highest, limit, nan)                                         \
  EMULATOR_TO_INTEGER(name##_ru, From, To, ceil, lowest, highest, limit, nan)
#define EMULATOR_LOWEST (-9223372036854775807ll - 1)
EMULATOR_ROUNDINGS(__float2int, float, int, -2147483647 - 1, 2147483647, 2147483648.0, 0)
EMULATOR_ROUNDINGS(__float2uint, float, unsigned, 0u, 4294967295u, 4294967296.0, 0u)
EMULATOR_ROUNDINGS(__float2ll, float, long long, EMULATOR_LOWEST, 9223372036854775807ll, 0x1p63, EMULATOR_LOWEST)
EMULATOR_ROUNDINGS(__double2int, double, int, -2147483647 - 1, 2147483647, 2147483648.0, 0)
EMULATOR_ROUNDINGS(__double2ll, double, long long, EMULATOR_LOWEST, 9223372036854775807ll, 0x1p63, EMULATOR_LOWEST)
inline float __int2float_rn(int x) { return float(x); }
inline int __vimax3_s32(int a, int b, int c) { return a > b ? (a > c ? a : c) : (b > c ? b : c); }
inline float __uint2float_rn(unsigned x) { return float(x); }
inline float __ll2float_rn(long long x) { return float(x); }
inline double __int2double_rn(int x) { return x; }
inline double __ll2double_rn(long long x) { return double(x); }
inline float __double2float_rn(double x) { return float(x); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
/// Bytes of b:a picked by the nibbles of the selector; bit 3 of a nibble repeats the sign.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  unsigned long long bytes = (unsigned long long)b << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    unsigned pick = selector >> 4 * i & 15, byte = unsigned(bytes >> 8 * (pick & 7)) & 255;
    result |= (pick & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
  }
  return result;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned(((unsigned long long)high << 32 | low) >> (shift & 31));
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return unsigned(((unsigned long long)high << 32 | low) << (shift & 31) >> 32);
}
