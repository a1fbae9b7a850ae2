// SPDX-License-Identifier: Apache-2.0
//
// exp, tanh and erf without branches, tables or calls, so that loops over them vectorise. Each error is below 1.5
// units in the last place of f32 (tests/unit/host_functions_test.cpp); NaN stays NaN and zeros keep their sign.
//
// exp:  x = n · ln 2 + r, |r| ≤ ln 2 / 2;  exp(x) = 2^n · (1 + r + r²/2! + ... + r⁷/7!)
//       ln 2 is taken in two parts, so that r is exact to the last place. 2^n is applied in two halves: subnormal
//       results round once and large ones overflow to infinity.
// tanh: a = |x|;  a + a³ · P(a²) below 0.6, else 1 - 2 / (exp(2a) + 1)
// erf:  a = |x|;  a + a · P(a²) below 0.93, else 1 - exp(-Q(a)), where Q fits -log(erfc(a)) up to 4; there erf is 1
//
// The polynomials are least-squares fits with reweighting towards equal extremes; their own errors are below 3e-9.
#pragma once

#include <stdint.h>

namespace ditc {

inline float powerOfTwo(int32_t n) { return __builtin_bit_cast(float, (n + 127) << 23); }

/// c[0] + c[1] x + ... by Horner's rule.
template <int N> inline float polynomial(const float (&c)[N], float x) {
#pragma clang fp contract(fast)
  float sum = c[N - 1];
#pragma clang loop unroll(full)
  for (int i = N - 2; i >= 0; --i)
    sum = sum * x + c[i];
  return sum;
}

inline float exponential(float x) {
#pragma clang fp contract(fast)
  constexpr float kRound = 0x1.8p23f; // adding and subtracting it rounds to an integer, on every target
  constexpr float kSeries[] = {0.5f, 1.0f / 6, 1.0f / 24, 1.0f / 120, 1.0f / 720, 1.0f / 5040};
  float clamped = x > 89.0f ? 89.0f : x;
  clamped = clamped < -104.0f ? -104.0f : clamped;
  float n = (clamped * 0x1.715476p+0f + kRound) - kRound;
  float r = clamped - n * 0x1.62e4p-1f;
  r = r - n * 0x1.7f7d1cp-20f;
  float p = polynomial(kSeries, r) * (r * r) + r;
  int32_t whole = static_cast<int32_t>(n), half = whole >> 1;
  float result = (p + 1.0f) * powerOfTwo(half) * powerOfTwo(whole - half);
  return x == x ? result : x;
}

inline double exponential(double x) { return __builtin_exp(x); }

inline float hyperbolicTangent(float x) {
#pragma clang fp contract(fast)
  constexpr float kSmall[] = {-0x1.55553cp-2f, 0x1.110954p-3f, -0x1.b88a84p-5f, 0x1.5449a2p-6f, -0x1.801696p-8f};
  float a = __builtin_fabsf(x), z = a * a;
  float small = polynomial(kSmall, z) * (z * a) + a;
  float large = 1.0f - 2.0f / (exponential(2.0f * a) + 1.0f);
  return __builtin_copysignf(a < 0.6f ? small : large, x);
}

inline float errorFunction(float x) {
#pragma clang fp contract(fast)
  constexpr float kSmall[] = {0x1.06eba8p-3f, -0x1.812742p-2f, 0x1.ce2e02p-4f, -0x1.b80dc4p-6f, 0x1.54bea8p-8f, -0x1.a9e1c6p-11f, 0x1.5b81d4p-14f};
  constexpr float kLarge[] = {-0x1.65afcap-13f, 0x1.212698p+0f, 0x1.444b3ep-1f, 0x1.bb5668p-4f, -0x1.9b199ap-6f, 0x1.10aa7p-8f, -0x1.c54ecap-12f, 0x1.5ecfd4p-16f};
  float a = __builtin_fabsf(x), clamped = a > 4.0f ? 4.0f : a;
  float small = polynomial(kSmall, a * a) * a + a;
  float large = 1.0f - exponential(-polynomial(kLarge, clamped));
  return __builtin_copysignf(a < 0.93f ? small : large, x);
}

} // namespace ditc
