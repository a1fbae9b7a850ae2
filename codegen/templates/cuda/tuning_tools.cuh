// SPDX-License-Identifier: Apache-2.0
//
// What `ditc-run tune` needs on the GPU beside the kernels that it measures: random values, since a GPU draws less power
// and so runs faster on zeros, and comparison of results where they are.
//
//   fill      out[i] = scale · normal(seed, i)                            a thread per element, grid-stride
//   compare   part[block] = Σ (a - b)², Σ b², number of elements where just a is NaN, where just b is
//
// Elements where both are NaN were written by neither kernel: gaps between rows of a result.
#pragma once

#include "common/elements.cuh"
#include "common/words.cuh"

namespace ditc::tuning_tools {

constexpr int kThreads = 256;
constexpr u32 kBF16 = 0, kF16 = 1, kF32 = 2, kF64 = 3, kE4M3 = 4;  // how elements are stored

__device__ inline u64 mix(u64 x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

__device__ inline float normal(u64 index, u32 seed) {
  u64 bits = mix(index + (u64(seed) << 40) + 0x9e3779b97f4a7c15ull);
  float first = (float(u32(bits) >> 8) + 0.5f) * 0x1p-24f, second = float(u32(bits >> 32) >> 8) * 0x1p-24f;
  return sqrtf(-2.f * logf(first)) * cosf(6.2831853f * second);
}

__device__ inline float read(const void *from, u64 i, u32 kind) {
  switch (kind) {
  case kBF16: return Pair<BF16>::low(static_cast<const u16 *>(from)[i]);
  case kF16: return Pair<F16>::low(static_cast<const u16 *>(from)[i]);
  case kF32: return static_cast<const float *>(from)[i];
  case kE4M3: return Pair<E4M3>::low(static_cast<const u8 *>(from)[i]);
  default: return float(static_cast<const double *>(from)[i]);
  }
}

__device__ inline void write(void *to, u64 i, u32 kind, float value) {
  switch (kind) {
  case kBF16: static_cast<u16 *>(to)[i] = u16(Pair<BF16>::pack(value, 0)); break;
  case kF16: static_cast<u16 *>(to)[i] = u16(Pair<F16>::pack(value, 0)); break;
  case kF32: static_cast<float *>(to)[i] = value; break;
  case kE4M3: static_cast<u8 *>(to)[i] = u8(Pair<E4M3>::pack(value, 0)); break;
  default: static_cast<double *>(to)[i] = value;
  }
}

__device__ inline void fill(void *out, u64 count, u32 kind, u32 seed, float scale) {
  u64 step = u64(gridDim.x) * kThreads;
  for (u64 i = u64(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step)
    write(out, i, kind, scale * normal(i, seed));
}

__device__ inline void compare(const void *a, const void *b, double *parts, u64 count, u32 kind) {
  constexpr int kSums = 4;
  __shared__ double sums[kSums][kThreads];
  double differences = 0, squares = 0, onlyA = 0, onlyB = 0;
  u64 step = u64(gridDim.x) * kThreads;
  for (u64 i = u64(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    float x = read(a, i, kind), y = read(b, i, kind);
    bool xIsNan = x != x, yIsNan = y != y;
    if (xIsNan || yIsNan) {
      onlyA += xIsNan && !yIsNan, onlyB += yIsNan && !xIsNan;
    } else {
      differences += double(x - y) * double(x - y);
      squares += double(y) * double(y);
    }
  }
  int thread = threadIdx.x;
  sums[0][thread] = differences, sums[1][thread] = squares, sums[2][thread] = onlyA, sums[3][thread] = onlyB;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half)
      for (int i = 0; i < kSums; ++i)
        sums[i][thread] += sums[i][thread + half];
  }
  if (thread == 0)
    for (int i = 0; i < kSums; ++i)
      parts[kSums * blockIdx.x + i] = sums[i][0];
}

}  // namespace ditc::tuning_tools
