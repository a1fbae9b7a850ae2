// SPDX-License-Identifier: Apache-2.0
//
// The 16-bit storage types as tags, and their conversions to and from fp32 by single instructions. Arithmetic is always
// in fp32; these types exist in memory only. Where the file is compiled as plain C++ (tests on the CPU) the conversions
// are done on the bits, with the same rounding.
#pragma once

namespace ditc {

/// A value of a storage type, by its bits.
struct BF16 {
  unsigned short bits;
};
struct F16 {
  unsigned short bits;
};
/// fp8 with a fraction of 3 bits: up to 448, no infinity.
struct E4M3 {
  unsigned char bits;
};

#ifndef __CUDA_ARCH__
namespace plain {

/// Rounds to nearest, ties to even; NaN stays NaN.
inline unsigned brainFromFloat(float value) {
  unsigned bits = __float_as_uint(value);
  bool isNan = (bits & 0x7fffffffu) > 0x7f800000u;
  return isNan ? bits >> 16 | 0x40u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

inline float floatFromHalf(unsigned bits) {
  unsigned sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u)  // infinity and NaN
    return __uint_as_float(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  float scaled = __uint_as_float(magnitude << 13) * 0x1p112f;  // the exponents' bias differs by 112
  return __uint_as_float(sign | __float_as_uint(scaled));
}

inline unsigned halfFromFloat(float value) {
  unsigned bits = __float_as_uint(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return sign | 0x7e00u;
  if (magnitude >= 0x477ff000u)  // 65520 and more round to infinity
    return sign | 0x7c00u;
  if (magnitude < 0x38800000u)  // subnormal: the sum rounds at the right bit, and its low bits are the result
    return sign | (__float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3f000000u);
  return sign | (magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u) >> 13;
}

}  // namespace plain
#endif

/// Two values in one word, the first in the low half.
template <class Element>
struct Pair;

template <>
struct Pair<BF16> {
  __device__ static float low(unsigned word) { return __uint_as_float(word << 16); }
  __device__ static float high(unsigned word) { return __uint_as_float(word & 0xffff0000u); }
  __device__ static unsigned pack(float low, float high) {
#ifdef __CUDA_ARCH__
    unsigned word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
#else
    return plain::brainFromFloat(low) | plain::brainFromFloat(high) << 16;
#endif
  }
};

template <>
struct Pair<F16> {
  __device__ static float low(unsigned word) { return widen(word & 0xffffu); }
  __device__ static float high(unsigned word) { return widen(word >> 16); }
  __device__ static unsigned pack(float low, float high) {
#ifdef __CUDA_ARCH__
    unsigned word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
#else
    return plain::halfFromFloat(low) | plain::halfFromFloat(high) << 16;
#endif
  }

private:
  __device__ static float widen(unsigned bits) {
#ifdef __CUDA_ARCH__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<unsigned short>(bits)));
    return value;
#else
    return plain::floatFromHalf(bits);
#endif
  }
};

/// Two neighbouring values in global memory; `pointer` is 4-byte aligned and the memory is not written by this kernel.
template <class Element>
__device__ inline float2 loadPair(const Element *pointer) {
  unsigned word = __ldg(reinterpret_cast<const unsigned *>(pointer));
  return {Pair<Element>::low(word), Pair<Element>::high(word)};
}

}  // namespace ditc
