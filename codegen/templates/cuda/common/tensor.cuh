// SPDX-License-Identifier: Apache-2.0
//
// Arguments of a kernel as types: element, sizes, strides and alignment are constants of the unit, so that index
// arithmetic folds. Arithmetic runs in the compute type of an element: double for double, float for other floats,
// 64-bit integers for integers and booleans.
#pragma once

#include "common/elements.cuh"

namespace ditc {

using i64 = long long;

/// A list of constants.
template <i64... VALUES>
struct Dims {
  static constexpr int RANK = sizeof...(VALUES);
  __host__ __device__ static constexpr i64 at(int i) {
    const i64 values[] = {VALUES..., 0};
    return values[i];
  }
};

/// How an argument lies in memory. Strides count elements; 0 repeats a dimension. Every row (the last dimension) starts
/// at a multiple of ALIGNMENT bytes, a power of two up to 16.
template <class ElementType, class SizeList, class StrideList, int ALIGNMENT = sizeof(ElementType)>
struct Tensor {
  using Element = ElementType;
  static constexpr int RANK = SizeList::RANK;
  __host__ __device__ static constexpr i64 size(int dim) { return SizeList::at(dim); }
  __host__ __device__ static constexpr i64 stride(int dim) { return StrideList::at(dim); }
  static constexpr i64 UNIT = RANK == 0 ? 0 : StrideList::at(RANK - 1);
  /// Elements that one access takes when it starts at a multiple of as many elements of a row.
  static constexpr int VECTOR = UNIT == 1 ? ALIGNMENT / int(sizeof(Element)) : 1;

  /// Offset of element `index` in row-major order over all dimensions but `SKIP`.
  template <int SKIP = -1>
  __device__ static i64 offset(i64 index) {
    i64 sum = 0;
#pragma unroll
    for (int dim = RANK - 1; dim >= 0; --dim)
      if (dim != SKIP && size(dim) > 1) {
        sum += index % size(dim) * stride(dim);
        index /= size(dim);
      }
    return sum;
  }

  /// The same over the first COUNT dimensions alone.
  template <int COUNT>
  __device__ static i64 leadingOffset(i64 index) {
    i64 sum = 0;
#pragma unroll
    for (int dim = COUNT - 1; dim >= 0; --dim)
      if (size(dim) > 1) {
        sum += index % size(dim) * stride(dim);
        index /= size(dim);
      }
    return sum;
  }

  /// Elements of all dimensions but `SKIP`.
  template <int SKIP = -1>
  __host__ __device__ static constexpr i64 count() {
    i64 product = 1;
    for (int dim = 0; dim < RANK; ++dim)
      product *= dim == SKIP ? 1 : size(dim);
    return product;
  }
};

/// An operand that may be absent: void stands for it, and is then its element type as well.
template <class T>
struct Operand {
  static constexpr bool PRESENT = true;
  using Element = typename T::Element;
  template <class>
  using Or = T;
};
template <>
struct Operand<void> {
  static constexpr bool PRESENT = false;
  using Element = void;
  template <class Other>
  using Or = Other;
};
template <class T>
using ElementOf = typename Operand<T>::Element;

// ---- compute types ------------------------------------------------------------------------------------------------

template <class Element>
struct Number {
  using Compute = i64;
  __device__ static i64 widen(Element x) { return static_cast<i64>(x); }
  __device__ static Element narrow(i64 x) { return static_cast<Element>(x); }
};
template <>
struct Number<bool> {
  using Compute = i64;
  __device__ static i64 widen(bool x) { return x; }
  __device__ static bool narrow(i64 x) { return x != 0; }
};
template <>
struct Number<float> {
  using Compute = float;
  __device__ static float widen(float x) { return x; }
  __device__ static float narrow(float x) { return x; }
};
template <>
struct Number<double> {
  using Compute = double;
  __device__ static double widen(double x) { return x; }
  __device__ static double narrow(double x) { return x; }
};
template <>
struct Number<BF16> {
  using Compute = float;
  __device__ static float widen(BF16 x) { return Pair<BF16>::low(x.bits); }
  __device__ static BF16 narrow(float x) { return {static_cast<unsigned short>(Pair<BF16>::pack(x, 0.0f))}; }
};
template <>
struct Number<F16> {
  using Compute = float;
  __device__ static float widen(F16 x) { return Pair<F16>::low(x.bits); }
  __device__ static F16 narrow(float x) { return {static_cast<unsigned short>(Pair<F16>::pack(x, 0.0f))}; }
};
template <>
struct Number<E4M3> {
  using Compute = float;
  __device__ static float widen(E4M3 x) { return Pair<E4M3>::low(x.bits); }
  __device__ static E4M3 narrow(float x) { return {static_cast<unsigned char>(Pair<E4M3>::pack(x, 0.0f))}; }
};

template <class Element>
using ComputeOf = typename Number<Element>::Compute;

template <class Element>
__device__ inline ComputeOf<Element> widen(Element x) {
  return Number<Element>::widen(x);
}

/// Rounds to the storage type; integers wrap.
template <class Element, class Value>
__device__ inline Element narrow(Value x) {
  return Number<Element>::narrow(static_cast<ComputeOf<Element>>(x));
}

// ---- vectors ------------------------------------------------------------------------------------------------------

/// COUNT elements that one access moves.
template <class Element, int COUNT>
struct alignas(sizeof(Element) * COUNT) Pack {
  Element at[COUNT];
};

template <int COUNT, class Element>
__device__ inline Pack<Element, COUNT> loadPack(const Element *pointer) {
  return *reinterpret_cast<const Pack<Element, COUNT> *>(pointer);
}
template <int COUNT, class Element>
__device__ inline void storePack(Element *pointer, const Pack<Element, COUNT> &pack) {
  *reinterpret_cast<Pack<Element, COUNT> *>(pointer) = pack;
}

/// The unit of dynamic shared memory.
struct alignas(32) SharedChunk {
  unsigned char bytes[32];
};

/// The largest power of two that divides both.
__host__ __device__ constexpr int commonPower(i64 a, i64 b) {
  int power = 1;
  while (power < 16 && a % (2 * power) == 0 && b % (2 * power) == 0)
    power *= 2;
  return power;
}

__host__ __device__ constexpr i64 divideUp(i64 a, i64 b) { return (a + b - 1) / b; }

// ---- order of kernels ---------------------------------------------------------------------------------------------

/// With programmatic dependent launch a kernel starts while the one before it still runs. Called before the first
/// access to memory: the one behind may start as well, and what the one before wrote is visible.
__device__ inline void followPreviousKernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// 0, which the assembler learns behind the wait only: the topmost bit of the clock. It takes loads by ld.global.nc for those
/// of memory that nobody writes while the kernel runs, and moved some in front of the wait. Added to the pointers of inputs
/// it keeps them behind.
__device__ inline int nothingYet() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  unsigned long long clock;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(clock));
  return static_cast<int>(clock >> 63);
#else
  return 0;
#endif
}

}  // namespace ditc
