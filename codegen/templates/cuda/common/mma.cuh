// SPDX-License-Identifier: Apache-2.0
//
// Tensor cores of every GPU since sm_80 behind names: mma.sync on 16×8 tiles over 32 bytes of k (16 values of 16 bits, or
// 32 of E4M3 since sm_89), ldmatrix, and asynchronous copies of 4 to 16 bytes. Beside each instruction stands what it does
// as plain C++ with shuffles, for machines without a GPU.
//
//   one tile, lane = 4 row + pair            A 16×16                    B 16×8 (k by column)      C 16×8, fp32
//     row  = lane / 4    (0 … 7)      a[0] (row,   2 pair)       b[0] (2 pair,   row)      c[0], c[1] (row,   2 pair)
//     pair = lane % 4    (0 … 3)      a[1] (row+8, 2 pair)       b[1] (2 pair+8, row)      c[2], c[3] (row+8, 2 pair)
//                                     a[2] (row,   2 pair+8)     each word holds two neighbours along k
//                                     a[3] (row+8, 2 pair+8)     (of E4M3 four: 4 pair, and 16 further)
#pragma once

#include "common/elements.cuh"
#include "common/special_functions.cuh"

namespace ditc {

using MmaWord = unsigned int;

constexpr unsigned kWholeWarp = 0xffffffffu;

// ---- matrices from shared memory ----------------------------------------------------------------------------------

#ifdef __CUDA_ARCH__

__device__ inline MmaWord sharedWord(const void *pointer) {
  return static_cast<MmaWord>(__cvta_generic_to_shared(pointer));
}

/// Four 8×8 matrices: lane l gives the row l % 8 of matrix l / 8 and gets of each the pair l % 4 of row l / 4.
__device__ inline void loadMatrices4(MmaWord (&m)[4], const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(sharedWord(row))
               : "memory");
}

/// The same of the transposed matrices.
__device__ inline void loadMatrices4Transposed(MmaWord (&m)[4], const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(sharedWord(row))
               : "memory");
}

/// c += a · b
template <class Element>
__device__ void mma16x8(float (&c)[4], const MmaWord (&a)[4], MmaWord b0, MmaWord b1);

#define DITC_MMA(ELEMENT, SHAPE_AND_TYPES)                                                                              \
  template <>                                                                                                           \
  __device__ inline void mma16x8<ELEMENT>(float (&c)[4], const MmaWord (&a)[4], MmaWord b0, MmaWord b1) {               \
    asm("mma.sync.aligned." SHAPE_AND_TYPES " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"          \
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                                \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                                \
  }

DITC_MMA(BF16, "m16n8k16.row.col.f32.bf16.bf16.f32")
DITC_MMA(F16, "m16n8k16.row.col.f32.f16.f16.f32")
#if __CUDA_ARCH__ >= 890
DITC_MMA(E4M3, "m16n8k32.row.col.f32.e4m3.e4m3.f32")
#endif
#undef DITC_MMA

#else

__device__ inline unsigned long long rowOfLane(const void *row, int lane) {
  return __shfl_sync(kWholeWarp, reinterpret_cast<unsigned long long>(row), lane);
}

__device__ inline void loadMatrices4(MmaWord (&m)[4], const void *row) {
  int lane = threadIdx.x % 32;
  for (int i = 0; i < 4; ++i)
    m[i] = reinterpret_cast<const MmaWord *>(rowOfLane(row, 8 * i + lane / 4))[lane % 4];
}

__device__ inline void loadMatrices4Transposed(MmaWord (&m)[4], const void *row) {
  int lane = threadIdx.x % 32;
  for (int i = 0; i < 4; ++i) {
    auto low = reinterpret_cast<const unsigned short *>(rowOfLane(row, 8 * i + lane % 4 * 2))[lane / 4];
    auto high = reinterpret_cast<const unsigned short *>(rowOfLane(row, 8 * i + lane % 4 * 2 + 1))[lane / 4];
    m[i] = low | MmaWord(high) << 16;
  }
}

/// The products of a word's values, two or four.
template <class Element>
__device__ inline float dotWord(MmaWord a, MmaWord b, float sum) {
  using P = Pair<Element>;
  for (int i = 0; i < 4; i += 2 * static_cast<int>(sizeof(Element)), a >>= 16, b >>= 16)
    sum = sum + P::low(a) * P::low(b) + P::high(a) * P::high(b);
  return sum;
}

template <class Element>
__device__ inline void mma16x8(float (&c)[4], const MmaWord (&a)[4], MmaWord b0, MmaWord b1) {
  using Two = unsigned long long;
  int lane = threadIdx.x % 32, row = lane / 4, column = lane % 4 * 2;
  for (int pair = 0; pair < 4; ++pair) {  // of k
    Two top = __shfl_sync(kWholeWarp, a[0] | Two(a[2]) << 32, 4 * row + pair);
    Two bottom = __shfl_sync(kWholeWarp, a[1] | Two(a[3]) << 32, 4 * row + pair);
    for (int i = 0; i < 2; ++i) {
      Two b = __shfl_sync(kWholeWarp, b0 | Two(b1) << 32, 4 * (column + i) + pair);
      c[i] = dotWord<Element>(top, b, dotWord<Element>(top >> 32, b >> 32, c[i]));
      c[2 + i] = dotWord<Element>(bottom, b, dotWord<Element>(bottom >> 32, b >> 32, c[2 + i]));
    }
  }
}

#endif

// ---- exchange in a quad -------------------------------------------------------------------------------------------

/// Word i of lane q of a quad becomes word q of lane i.
__device__ inline void transposeInQuad(MmaWord (&word)[4]) {
  bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    MmaWord got = __shfl_xor_sync(kWholeWarp, odd ? word[i] : word[i + 1], 1);
    word[i] = odd ? got : word[i], word[i + 1] = odd ? word[i + 1] : got;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    MmaWord got = __shfl_xor_sync(kWholeWarp, high ? word[i] : word[i + 2], 2);
    word[i] = high ? got : word[i], word[i + 2] = high ? word[i + 2] : got;
  }
}

// ---- asynchronous copies ------------------------------------------------------------------------------------------

/// BYTES (4, 8 or 16) from global to shared memory, zeros when the source does not exist (its address has to be valid
/// all the same). Complete after copyWait and a barrier. CACHED: the level 1 cache keeps it, for what is read again soon.
template <int BYTES, bool CACHED = BYTES < 16>
__device__ inline void copyAsync(void *shared, const void *global, bool exists) {
  static_assert((BYTES == 4 || BYTES == 8 || BYTES == 16) && (CACHED || BYTES == 16), "4, 8 or 16 bytes; 16 past the cache");
#ifdef __CUDA_ARCH__
  int bytes = exists ? BYTES : 0;
  if constexpr (!CACHED)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(sharedWord(shared)), "l"(global), "r"(bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(sharedWord(shared)), "l"(global), "n"(BYTES),
                 "r"(bytes)
                 : "memory");
#else
  for (int i = 0; i < BYTES / 4; ++i)
    static_cast<MmaWord *>(shared)[i] = exists ? static_cast<const MmaWord *>(global)[i] : 0u;
#endif
}

/// Closes a group of copies.
__device__ inline void copyCommit() {
#ifdef __CUDA_ARCH__
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until all but the last PENDING groups of this thread have arrived.
template <int PENDING>
__device__ inline void copyWait() {
#ifdef __CUDA_ARCH__
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

}  // namespace ditc
