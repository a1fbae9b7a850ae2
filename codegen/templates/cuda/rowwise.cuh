// SPDX-License-Identifier: Apache-2.0
//
// Rowwise kernels: maps, norms, reductions, lookups and layout changes as one pass over memory. A generated unit spells
// out what is computed; here is how elements move and how threads meet.
//
//   rows      GROUP threads compute one row; the columns of the row are dealt out in chunks of up to 8 neighbours:
//             chunk j = k * GROUP + t belongs to thread t, which holds its chunks k = 0, 1, ... in registers between
//             the phases (statistics, then the outputs). GROUP is a power of two up to 32, several rows in a block, or
//             the block, one row. Long rows of 16-bit elements are held as they lie in memory, in half the registers,
//             so that more rows are under way; each phase widens them anew.
//   flat      without statistics a thread computes one chunk of neighbouring output elements.
//
// Chunks are read and written by accesses of up to 16 bytes where the layout allows, and a permutation of the elements
// inside the accesses of a chunk (interleaved rotary embeddings) is free: pick<1, 0, 3, 2>(x).
//
// Mean and variance of a LayerNorm are joined in one exchange where threads have equally many values of the row, else in
// two that wait for each other.
//
// Shared memory: 512 bytes where a row is a block, else none; sums alternate between two places, so one barrier is
// enough for each. Registers: up to 8 per chunk and value that is kept; the emitter keeps at most 64 per value, and 80 of
// held elements.
//
// H200, bf16, with two exchanges: shares of a 1 GiB copy's rate, launch by launch and by programmatic dependent launch,
// beside a copy of the same bytes (small tensors do not reach the rate: a launch, the first loads and the last stores
// take 1.5 to 2.5 us):
//
//     LayerNorm, modulation   4608 x 3072   81 / 84 %   of 86 / 90      8858 x 2432   84 / 86 %   of 91 / 93
//                             8192 x 1152   76 / 78 %   of 81 / 86     32760 x 1536   95 / 96 %   of 96 / 97
//     residual, LayerNorm     4608 x 3072   90 / 92 %   of 93 / 95      8858 x 2432   93 / 94 %   of 95 / 97
//                             8192 x 1152   84 / 87 %   of 90 / 92     32760 x 1536   97 / 97 %   of 98 / 98
//
// Slower, everything else equal: rings of rows in shared memory filled by bulk copies, with bulk stores or without (by 5
// to 20 %), persistent blocks that prefetch the next row into registers (0 to 5 %), threads that own columns (15 to 40 %).
#pragma once

#include "common/special_functions.cuh"
#include "rowwise_chunk.cuh"
#include "rowwise_reduce.cuh"

namespace ditc {

// ---- memory -------------------------------------------------------------------------------------------------------

template <int BYTES>
struct Access;
template <>
struct Access<1> {
  using Type = unsigned char;
};
template <>
struct Access<2> {
  using Type = unsigned short;
};
template <>
struct Access<4> {
  using Type = unsigned;
};
template <>
struct Access<8> {
  using Type = uint2;
};
template <>
struct Access<16> {
  using Type = uint4;
};

#ifdef __CUDA_ARCH__
__device__ inline unsigned long long evictFirst() {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
#endif

/// One access, as its elements. The kernel does not write what it reads.
template <int BYTES, class Element>
__device__ inline Pack<Element, BYTES / sizeof(Element)> readOnly(const Element *p) {
  auto bits = __ldg(reinterpret_cast<const typename Access<BYTES>::Type *>(p));
  return __builtin_bit_cast(Pack<Element, BYTES / sizeof(Element)>, bits);
}

/// The same for a large tensor that is gone through once: first to leave the L2 cache, and not in the L1 cache at all.
/// Only where the kernel's stores do the same is it faster.
template <int BYTES, class Element>
__device__ inline Pack<Element, BYTES / sizeof(Element)> readOnce(const Element *p) {
#ifdef __CUDA_ARCH__
  if constexpr (BYTES == 16) {
    uint4 bits;
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
                 : "l"(p), "l"(evictFirst()));  // volatile: stays behind the wait for the kernel before
    return __builtin_bit_cast(Pack<Element, BYTES / sizeof(Element)>, bits);
  }
#endif
  return readOnly<BYTES>(p);
}

/// The element at p.
template <class Element>
__device__ inline Scalar<Element> load(const Element *p) {
  return static_cast<Scalar<Element>>(widen(readOnly<sizeof(Element)>(p).at[0]));
}

/// Floats of 16 and 8 bits, whose values are fp32.
template <class Element, class Value>
constexpr bool kIsSmall = sizeof(Value) == sizeof(float) && sizeof(Element) < sizeof(float);

/// COUNT neighbouring elements by accesses of WIDTH elements; p is a multiple of WIDTH elements.
template <int COUNT, int WIDTH, class Element>
__device__ inline Chunk<Scalar<Element>, COUNT> load(const Element *p) {
  Chunk<Scalar<Element>, COUNT> result;
#pragma unroll
  for (int first = 0; first < COUNT; first += WIDTH) {
    auto part = readOnly<WIDTH * sizeof(Element)>(p + first);
    if constexpr (kIsSmall<Element, Scalar<Element>> && WIDTH > 1) {  // widening by pairs takes fewer instructions
      auto words = __builtin_bit_cast(Pack<typename Pair<Element>::Word, WIDTH / 2>, part);
#pragma unroll
      for (int i = 0; i < WIDTH / 2; ++i) {
        result[first + 2 * i] = Pair<Element>::low(words.at[i]);
        result[first + 2 * i + 1] = Pair<Element>::high(words.at[i]);
      }
    } else {
#pragma unroll
      for (int e = 0; e < WIDTH; ++e)
        result[first + e] = static_cast<Scalar<Element>>(widen(part.at[e]));
    }
  }
  return result;
}

/// The elements at p + OFFSETS...
template <long long... OFFSETS, class Element>
__device__ inline Chunk<Scalar<Element>, sizeof...(OFFSETS)> loadAt(const Element *p) {
  return {{load(p + OFFSETS)...}};
}

/// N neighbouring elements of 16 bits as they lie in memory: half the registers of their values.
template <class Element, int N>
struct Held {
  Pack<unsigned, N / 2> words;
};

template <int N, class Element>
__device__ inline Held<Element, N> loadHeld(const Element *p) {
  return {__builtin_bit_cast(Pack<unsigned, N / 2>, readOnly<N * sizeof(Element)>(p))};
}

template <int N, class Element>
__device__ inline Held<Element, N> loadHeldOnce(const Element *p) {
  return {__builtin_bit_cast(Pack<unsigned, N / 2>, readOnce<N * sizeof(Element)>(p))};
}

/// What the loops of a kernel widen held elements with, from the kernel's parameters: the assembler, which does not know
/// the numbers, cannot keep the values from one loop to the next, which would undo the saving.
struct Widening {
  unsigned shift, high, all;  // 16, 0xffff0000, 0xffffffff
};
struct Widenings {
  Widening loop[4];  // neighbouring loops take different ones
};

/// The same number in a way that the assembler does not see, so that it computes anew what it could have kept.
__device__ inline float again(float x, const Widening &by) { return __uint_as_float(__float_as_uint(x) & by.all); }

template <int N>
__device__ inline Chunk<float, N> widened(const Held<BF16, N> &held, const Widening &by) {
  Chunk<float, N> result;
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    result[2 * i] = __uint_as_float(held.words.at[i] << by.shift);
    result[2 * i + 1] = __uint_as_float(held.words.at[i] & by.high);
  }
  return result;
}
template <int N>
__device__ inline Chunk<float, N> widened(const Held<F16, N> &held, const Widening &by) {
  Chunk<float, N> result;
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    unsigned word = held.words.at[i] & by.all;
    result[2 * i] = Pair<F16>::low(word);
    result[2 * i + 1] = Pair<F16>::high(word);
  }
  return result;
}

/// Rounds to the element type; integers wrap.
template <class Element, class Value>
__device__ inline void store(Element *p, Value value) {
  *p = narrow<Element>(value);
}

/// WIDTH elements from `first` on, as one access.
template <int WIDTH, class Element, class Value, int N>
__device__ inline auto packed(const Chunk<Value, N> &x, int first) {
  using Whole = typename Access<WIDTH * sizeof(Element)>::Type;
  if constexpr (kIsSmall<Element, Value> && WIDTH > 1) {  // two conversions at a time
    Pack<typename Pair<Element>::Word, WIDTH / 2> words;
#pragma unroll
    for (int i = 0; i < WIDTH / 2; ++i)
      words.at[i] = static_cast<typename Pair<Element>::Word>(
          Pair<Element>::pack(x[first + 2 * i], x[first + 2 * i + 1]));
    return __builtin_bit_cast(Whole, words);
  } else {
    Pack<Element, WIDTH> elements;
#pragma unroll
    for (int e = 0; e < WIDTH; ++e)
      elements.at[e] = narrow<Element>(x[first + e]);
    return __builtin_bit_cast(Whole, elements);
  }
}

/// Neighbouring elements by accesses of WIDTH elements; p is a multiple of WIDTH elements.
template <int WIDTH, class Element, class Value, int N>
__device__ inline void store(Element *p, const Chunk<Value, N> &x) {
#pragma unroll
  for (int first = 0; first < N; first += WIDTH) {
    auto whole = packed<WIDTH, Element>(x, first);
    *reinterpret_cast<decltype(whole) *>(p + first) = whole;
  }
}

/// The same for a large tensor: see readOnce.
template <int WIDTH, class Element, class Value, int N>
__device__ inline void storeOnce(Element *p, const Chunk<Value, N> &x) {
#pragma unroll
  for (int first = 0; first < N; first += WIDTH) {
    auto whole = packed<WIDTH, Element>(x, first);
#ifdef __CUDA_ARCH__
    if constexpr (sizeof(whole) == 16) {
      asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(p + first), "r"(whole.x),
                   "r"(whole.y), "r"(whole.z), "r"(whole.w), "l"(evictFirst())
                   : "memory");
      continue;
    }
#endif
    *reinterpret_cast<decltype(whole) *>(p + first) = whole;
  }
}

/// Element e at p + OFFSETS...
template <long long... OFFSETS, class Element, class Value, int N>
__device__ inline void storeAt(Element *p, const Chunk<Value, N> &x) {
  const long long offsets[] = {OFFSETS...};
#pragma unroll
  for (int e = 0; e < N; ++e)
    p[offsets[e]] = narrow<Element>(x[e]);
}

/// The value that the element type holds, where the roundings of the source graph are kept.
template <class Element, class Value>
__device__ inline Scalar<Element> rounded(Value value) {
  return static_cast<Scalar<Element>>(widen(narrow<Element>(value)));
}

/// 1 / (1 + e^2x), within 2 · 10^-7.
__device__ inline float logisticOfMinus2(float x) {
  return reciprocalApprox(exp2Approx(x * 2.885390082f) + 1.0f);
}

/// tanh without a branch, within 2.1 · 10^-7: of the library's two cases a warp mostly has both.
__device__ inline float hyperbolicTangent(float x) {
  float y = x * x, series = fmaf(1.57394409e-2f, y, -5.23039624e-2f);
  series = fmaf(fmaf(series, y, 1.33152977e-1f), y, -3.33327681e-1f);
  return fabsf(x) < 0.55f ? fmaf(series * y, x, x) : fmaf(-2.0f, logisticOfMinus2(x), 1.0f);
}

/// 1 + tanh x, whose sum would cancel below 0.
__device__ inline float onePlusTanh(float x) { return 2.0f * logisticOfMinus2(-x); }

}  // namespace ditc
