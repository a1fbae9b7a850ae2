// SPDX-License-Identifier: Apache-2.0
//
// What generated epilogues are written with: loads that widen to fp32, sums over the four threads that hold a row, and
// functions of the special function unit.
#pragma once

#include "common/epilogue.cuh"
#include "common/scalars.cuh"

namespace ditc {

/// One value; the memory is not written by this kernel.
template <class Element>
__device__ inline float loadOne(const Element *pointer) {
  return Pair<Element>::low(__ldg(&pointer->bits));
}
__device__ inline float loadOne(const float *pointer) { return __ldg(pointer); }
__device__ inline float2 loadPair(const float *pointer) { return __ldg(reinterpret_cast<const float2 *>(pointer)); }
/// 1 for true.
__device__ inline float loadOne(const bool *pointer) { return __ldg(reinterpret_cast<const unsigned char *>(pointer)) != 0; }
__device__ inline float2 loadPair(const bool *pointer) {
  unsigned both = __ldg(reinterpret_cast<const unsigned short *>(pointer));
  return make_float2((both & 0xffu) != 0, both > 0xffu);
}

/// One of the two values of a word of the residual.
template <class Element>
__device__ inline float residualOf(u32 word, int high) {
  return high ? Pair<Element>::high(word) : Pair<Element>::low(word);
}

/// The value that the type holds: a rounding which the model asks for.
template <class Element>
__device__ inline float rounded(float value) {
  return Pair<Element>::low(Pair<Element>::pack(value, 0.f));
}

/// Over the four threads that hold the columns of a row.
__device__ inline float quadSum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}
/// A choice between two values that are both computed.
__device__ inline float either(bool takesFirst, float first, float second) { return takesFirst ? first : second; }

__device__ inline float square(float x) { return x * x; }

/// For divisors that have a normal reciprocal, or are infinite.
__device__ inline float divideApprox(float a, float b) { return a * reciprocalApprox(b); }
__device__ inline float fastExp(float x) { return exp2Approx(x * 1.442695041f); }

/// For bf16 the hardware's tanh (error 2^-11) lies below the rounding of the result; fp16 takes two special functions.
template <class Element>
__device__ inline float fastTanh(float x) {
  return 1.f - 2.f * reciprocalApprox(1.f + exp2Approx(x * 2.885390082f));
}
template <>
__device__ inline float fastTanh<BF16>(float x) {
  return tanhApprox(x);
}

}  // namespace ditc
