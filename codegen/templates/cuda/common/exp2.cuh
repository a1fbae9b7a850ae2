// SPDX-License-Identifier: Apache-2.0
//
// 2^x by the special function unit: what softmax and activations are made of. Exact where the file is compiled as plain
// C++. Results below the smallest normal number are 0, 2^-inf is 0.
#pragma once

namespace ditc {

__device__ inline float exp2Approx(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

}  // namespace ditc
