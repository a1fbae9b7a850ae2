// SPDX-License-Identifier: Apache-2.0
//
// The 16-bit storage types as tags, and their conversions to and from fp32 by single instructions. Arithmetic is always
// in fp32; these types exist in memory only.
#pragma once

namespace ditc {

/// A value of a storage type, by its bits.
struct BF16 {
  unsigned short bits;
};
struct F16 {
  unsigned short bits;
};

/// Two values in one word, the first in the low half.
template <class Element>
struct Pair;

template <>
struct Pair<BF16> {
  __device__ static float low(unsigned word) { return __uint_as_float(word << 16); }
  __device__ static float high(unsigned word) { return __uint_as_float(word & 0xffff0000u); }
  __device__ static unsigned pack(float low, float high) {
    unsigned word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
  }
};

template <>
struct Pair<F16> {
  __device__ static float low(unsigned word) { return widen(word & 0xffffu); }
  __device__ static float high(unsigned word) { return widen(word >> 16); }
  __device__ static unsigned pack(float low, float high) {
    unsigned word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
  }

private:
  __device__ static float widen(unsigned bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<unsigned short>(bits)));
    return value;
  }
};

/// Two neighbouring values in global memory; `pointer` is 4-byte aligned and the memory is not written by this kernel.
template <class Element>
__device__ inline float2 loadPair(const Element *pointer) {
  unsigned word = __ldg(reinterpret_cast<const unsigned *>(pointer));
  return {Pair<Element>::low(word), Pair<Element>::high(word)};
}

}  // namespace ditc
