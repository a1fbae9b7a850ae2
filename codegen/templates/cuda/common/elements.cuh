// SPDX-License-Identifier: Apache-2.0
//
// The storage types of 16 and 8 bits as tags, and their conversions to and from fp32 by single instructions. Arithmetic is
// always in fp32; these types exist in memory only. Where the file is compiled as plain C++ (tests on the CPU) the conversions
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
/// An integer of 8 bits.
struct S8 {
  signed char bits;
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
  using Word = unsigned;
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
  using Word = unsigned;
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

/// What rounds to more than 448 becomes NaN, which the instruction would make 448.
template <>
struct Pair<E4M3> {
  using Word = unsigned short;
  __device__ static unsigned pack(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    constexpr float LAST = 464.0f;  // halfway to the number that would follow
    unsigned short word;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(word) : "f"(high), "f"(low));
    return word | (fabsf(low) <= LAST ? 0u : 0x7fu) | (fabsf(high) <= LAST ? 0u : 0x7f00u);
#else
    return round(low) | round(high) << 8;
#endif
  }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  __device__ static float low(unsigned word) { return Pair<F16>::low(halves(word)); }
  __device__ static float high(unsigned word) { return Pair<F16>::high(halves(word)); }

private:
  __device__ static unsigned halves(unsigned word) {
    unsigned both;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(both) : "h"(static_cast<unsigned short>(word)));
    return both;
  }
#else
  __device__ static float low(unsigned word) { return widen(word & 0xffu); }
  __device__ static float high(unsigned word) { return widen(word >> 8 & 0xffu); }

private:
  /// By way of f16, whose exponent has one bit more and a bias that differs by 8.
  __device__ static float widen(unsigned bits) {
    unsigned sign = bits & 0x80u, magnitude = bits & 0x7fu;
    float value = Pair<F16>::low(sign << 8 | magnitude << 7) * 256.0f;
    return magnitude == 0x7fu ? __uint_as_float(sign << 24 | 0x7fc00000u) : value;
  }
  __device__ static unsigned round(float value) {
    unsigned bits = __float_as_uint(value), sign = bits >> 24 & 0x80u, magnitude = bits & 0x7fffffffu;
    if (magnitude < 0x3c800000u)  // subnormal: the sum rounds at the right bit, and its low bits are the result
      return sign | (__float_as_uint(__uint_as_float(magnitude) + 16384.0f) - 0x46800000u);
    unsigned rounded = (magnitude + 0x7ffffu + (magnitude >> 20 & 1u) - 0x3c000000u) >> 20;
    return sign | (rounded < 0x7fu ? rounded : 0x7fu);
  }
#endif
};

/// Two neighbouring values of 16 bits in global memory; `pointer` is 4-byte aligned and the memory is not written by this kernel.
template <class Element>
__device__ inline float2 loadPair(const Element *pointer) {
  unsigned word = __ldg(reinterpret_cast<const unsigned *>(pointer));
  return {Pair<Element>::low(word), Pair<Element>::high(word)};
}

}  // namespace ditc
