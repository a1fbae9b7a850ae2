// SPDX-License-Identifier: Apache-2.0
//
// exp without branches, so that loops over it vectorise.
//
//   x = n · ln 2 + r, |r| ≤ ln 2 / 2;   exp(x) = 2^n · (1 + r + r²/2! + ... + r⁷/7!)
//
// ln 2 is taken in two parts, so that r is exact to the last place. 2^n is applied in two halves: results in the
// subnormal range round once and large ones overflow to infinity. The error is below 1 unit in the last place
// (0.5 from the final rounding, the series cut at r⁷ adds 1e-8 relative). exp(-inf) = 0, NaN stays NaN.
#pragma once

#include <stdint.h>

namespace ditc {

inline float powerOfTwo(int32_t n) { return __builtin_bit_cast(float, (n + 127) << 23); }

inline float exponential(float x) {
#pragma clang fp contract(fast)
  float clamped = x > 89.0f ? 89.0f : x;
  clamped = clamped < -104.0f ? -104.0f : clamped;
  float n = __builtin_roundevenf(clamped * 0x1.715476p+0f);
  float r = clamped - n * 0x1.62e4p-1f;
  r = r - n * 0x1.7f7d1cp-20f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * (r * r) + r;
  int32_t whole = static_cast<int32_t>(n), half = whole >> 1;
  float result = (p + 1.0f) * powerOfTwo(half) * powerOfTwo(whole - half);
  return x == x ? result : x;
}

inline double exponential(double x) { return __builtin_exp(x); }

} // namespace ditc
