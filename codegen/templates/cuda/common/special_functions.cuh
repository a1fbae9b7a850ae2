// SPDX-License-Identifier: Apache-2.0
//
// The special function unit's 2^x, 1/x and tanh: what softmax and activations are made of. Exact where the file is
// compiled as plain C++. Results of 2^x and 1/x below the smallest normal number are 0, 2^-inf is 0.
#pragma once

namespace ditc {

__device__ inline float negativeInfinity() { return __int_as_float(0xff800000); }

__device__ inline float exp2Approx(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

__device__ inline float reciprocalApprox(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1.f / x;
#endif
}

__device__ inline float tanhApprox(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return tanhf(x);
#endif
}

}  // namespace ditc
