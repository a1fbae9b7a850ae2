// SPDX-License-Identifier: Apache-2.0
//
// CUDA C++ as host C++: included before a unit that ditc generated, it gives meaning to what our kernels use of CUDA,
// so that the unit compiles into a shared object whose kernels run on the CPU (Engine.h). __CUDA_ARCH__ stays
// undefined; device code keeps inline PTX behind it.
//
//   threads          fibers, one after another; a barrier or warp collective is where they change
//   __shared__       static variables in one section, which the engine fills with 0xFF before every block
//   extern __shared__  becomes EMULATOR_DYNAMIC_SHARED by rewriting the text (UnitText.h)
//
// Values that CUDA leaves undefined (a shuffle from a lane that is not there) are all ones: NaN, -1.
#pragma once

#include "abi.h"
#include "emulator_types.h"

#include "emulator_math.h"

#define DITC_CUDA_EMULATOR 1

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __assume(condition) __builtin_assume(condition)
#define __shared__ static __attribute__((section("emulator_shared")))

static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
constexpr int warpSize = 32;

namespace emulator {

static Scheduler *scheduler;
static unsigned lane; // of the running thread in its warp

constexpr unsigned long long DYNAMIC_CAPACITY = 232448; // the most that any architecture has
alignas(1024) static char dynamicShared[DYNAMIC_CAPACITY];

template <class T> auto &dynamicSharedAs() {
  return reinterpret_cast<T(&)[DYNAMIC_CAPACITY / sizeof(T)]>(dynamicShared);
}

template <class T> T fromBits(unsigned long long bits) {
  T value;
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}
template <class T> unsigned long long toBits(T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "warp shuffles move values of 4 or 8 bytes");
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return bits;
}

template <class T> T shuffle(const char *name, unsigned mask, T value, unsigned source) {
  return fromBits<T>(scheduler->collective(name, Collective::Shuffle, mask, toBits(value), source));
}

template <class T> struct Lanes {
  T of[32];
};

/// The values of all lanes in the mask, for fallbacks of warp-wide instructions; the others are all ones.
template <class T> Lanes<T> allLanes(unsigned mask, const T &mine) {
  Lanes<T> all;
  __builtin_memset(static_cast<void *>(&all), 0xFF, sizeof all);
  auto address = reinterpret_cast<unsigned long long>(&mine);
  auto gathered = reinterpret_cast<const unsigned long long *>(
      scheduler->collective("allLanes", Collective::Gather, mask, address, 0));
  for (int i = 0; i < 32; ++i)
    if (gathered[i])
      __builtin_memcpy(static_cast<void *>(&all.of[i]), reinterpret_cast<const void *>(gathered[i]), sizeof(T));
  scheduler->collective("allLanes", Collective::Sync, mask, 0, 0); // before anybody's value changes
  return all;
}

} // namespace emulator

// ---- barriers and warp collectives ----------------------------------------------------------------------------------

inline void __syncthreads() { emulator::scheduler->barrier("__syncthreads", false); }
inline int __syncthreads_count(int set) { return emulator::scheduler->barrier("__syncthreads_count", set); }
inline int __syncthreads_or(int set) { return emulator::scheduler->barrier("__syncthreads_or", set) > 0; }
inline int __syncthreads_and(int set) { return emulator::scheduler->barrier("__syncthreads_and", !set) == 0; }

inline void __syncwarp(unsigned mask = ~0u) {
  emulator::scheduler->collective("__syncwarp", emulator::Collective::Sync, mask, 0, 0);
}
inline unsigned __activemask() { return emulator::scheduler->activeLanes(); }

template <class T> T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  unsigned first = emulator::lane & ~(width - 1u);
  return emulator::shuffle("__shfl_sync", mask, value, first | (unsigned(source) & (width - 1u)));
}
template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32) {
  unsigned lane = emulator::lane, first = lane & ~(width - 1u);
  return emulator::shuffle("__shfl_up_sync", mask, value, lane - first >= distance ? lane - distance : lane);
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32) {
  unsigned lane = emulator::lane, last = lane | (width - 1u);
  return emulator::shuffle("__shfl_down_sync", mask, value, distance <= last - lane ? lane + distance : lane);
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  unsigned lane = emulator::lane, last = lane | (width - 1u), other = lane ^ unsigned(lanes);
  return emulator::shuffle("__shfl_xor_sync", mask, value, other <= last ? other : lane);
}

inline unsigned __ballot_sync(unsigned mask, int set) {
  return unsigned(emulator::scheduler->collective("__ballot_sync", emulator::Collective::Ballot, mask, set != 0, 0));
}
inline int __any_sync(unsigned mask, int set) {
  return emulator::scheduler->collective("__any_sync", emulator::Collective::Ballot, mask, set != 0, 0) != 0;
}
inline int __all_sync(unsigned mask, int set) {
  return emulator::scheduler->collective("__all_sync", emulator::Collective::Ballot, mask, set == 0, 0) == 0;
}

template <class T, class Combine> T emulatorReduce(unsigned mask, T value, Combine combine) {
  emulator::Lanes<T> all = emulator::allLanes(mask, value);
  int first = __builtin_ctz(mask);
  T result = all.of[first];
  for (int i = first + 1; i < 32; ++i)
    if (mask >> i & 1)
      result = combine(result, all.of[i]);
  return result;
}
#define EMULATOR_REDUCE(T)                                                                                             \
  inline T __reduce_add_sync(unsigned m, T v) {                                                                        \
    return emulatorReduce(m, v, [](T a, T b) { return T(a + b); });                                                    \
  }                                                                                                                    \
  inline T __reduce_min_sync(unsigned m, T v) {                                                                        \
    return emulatorReduce(m, v, [](T a, T b) { return b < a ? b : a; });                                               \
  }                                                                                                                    \
  inline T __reduce_max_sync(unsigned m, T v) {                                                                        \
    return emulatorReduce(m, v, [](T a, T b) { return a < b ? b : a; });                                               \
  }
EMULATOR_REDUCE(int)
EMULATOR_REDUCE(unsigned)

template <class T> unsigned __match_any_sync(unsigned mask, T value) {
  emulator::Lanes<T> all = emulator::allLanes(mask, value);
  unsigned equal = 0;
  for (int i = 0; i < 32; ++i)
    if (mask >> i & 1 && all.of[i] == value)
      equal |= 1u << i;
  return equal;
}

// ---- memory: threads run one at a time, so that every access is atomic and ordered --------------------------------

inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned) { emulator::scheduler->yield(); }
inline unsigned long long __cvta_generic_to_shared(const void *p) { return reinterpret_cast<unsigned long long>(p); }

#define EMULATOR_LOAD(name)                                                                                            \
  template <class T> T name(const T *pointer) { return *pointer; }
EMULATOR_LOAD(__ldg)
EMULATOR_LOAD(__ldca)
EMULATOR_LOAD(__ldcg)
EMULATOR_LOAD(__ldcs)
EMULATOR_LOAD(__ldlu)
EMULATOR_LOAD(__ldcv)
#define EMULATOR_STORE(name)                                                                                           \
  template <class T> void name(T *pointer, emulator::Same<T> value) { *pointer = value; }
EMULATOR_STORE(__stwb)
EMULATOR_STORE(__stcg)
EMULATOR_STORE(__stcs)
EMULATOR_STORE(__stwt)

#define EMULATOR_ATOMIC(name, expression)                                                                              \
  template <class T> T name(T *pointer, emulator::Same<T> value) {                                                     \
    T old = *pointer;                                                                                                  \
    *pointer = expression;                                                                                             \
    return old;                                                                                                        \
  }
EMULATOR_ATOMIC(atomicAdd, old + value)
EMULATOR_ATOMIC(atomicSub, old - value)
EMULATOR_ATOMIC(atomicMax, old < value ? value : old)
EMULATOR_ATOMIC(atomicMin, value < old ? value : old)
EMULATOR_ATOMIC(atomicAnd, old &value)
EMULATOR_ATOMIC(atomicOr, old | value)
EMULATOR_ATOMIC(atomicXor, old ^ value)
EMULATOR_ATOMIC(atomicExch, value)
EMULATOR_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
template <class T> T atomicCAS(T *pointer, emulator::Same<T> expected, emulator::Same<T> value) {
  T old = *pointer;
  if (old == expected)
    *pointer = value;
  return old;
}

extern "C" int printf(const char *, ...);
[[noreturn]] inline void __trap() { emulator::scheduler->fail("__trap"); }
#define assert(condition) ((condition) ? void() : emulator::scheduler->fail("assert(" #condition ")"))

// ---- what the rewritten text uses -----------------------------------------------------------------------------------

#define EMULATOR_TYPE(...) __VA_ARGS__ // a type may have commas
#define EMULATOR_DYNAMIC_SHARED(T, name) [[maybe_unused]] static auto &name = emulator::dynamicSharedAs<T>()

namespace emulator {

/// Calls a kernel with the parameters as cuLaunchKernel has them.
template <auto KERNEL, class Signature = decltype(KERNEL)> struct Call;
template <auto KERNEL, class... Parameters> struct Call<KERNEL, void (*)(Parameters...)> {
  static constexpr unsigned COUNT = sizeof...(Parameters);
  static constexpr unsigned SIZES[COUNT + 1] = {sizeof(Parameters)..., 0};
  static void run(void **parameters) { withIndices(parameters, __make_integer_seq<Numbers, int, int(COUNT)>()); }

private:
  template <class, int...> struct Numbers {};
  template <int... I> static void withIndices([[maybe_unused]] void **parameters, Numbers<int, I...>) {
    KERNEL(*static_cast<Parameters *>(parameters[I])...);
  }
};

} // namespace emulator

extern "C" [[gnu::weak, gnu::visibility("hidden")]] char __start_emulator_shared[], __stop_emulator_shared[];

#define EMULATOR_KERNEL(name, ...)                                                                                     \
  {#name, emulator::Call<&name>::run, emulator::Call<&name>::COUNT, emulator::Call<&name>::SIZES,                      \
   emulator::firstOf(__VA_ARGS__)}
#define EMULATOR_UNIT(arch, ...)                                                                                       \
  static const emulator::KernelEntry emulatorKernels[] = {__VA_ARGS__{}};                                              \
  extern "C" [[gnu::visibility("default")]] const emulator::UnitTable emulator_unit = {                                \
      reinterpret_cast<emulator::Index *>(&threadIdx),                                                                 \
      reinterpret_cast<emulator::Index *>(&blockIdx),                                                                  \
      reinterpret_cast<emulator::Index *>(&blockDim),                                                                  \
      reinterpret_cast<emulator::Index *>(&gridDim),                                                                   \
      &emulator::lane,                                                                                                 \
      &emulator::scheduler,                                                                                            \
      __start_emulator_shared,                                                                                         \
      __stop_emulator_shared,                                                                                          \
      emulator::dynamicShared,                                                                                         \
      emulator::DYNAMIC_CAPACITY,                                                                                      \
      arch,                                                                                                            \
      emulatorKernels,                                                                                                 \
      sizeof emulatorKernels / sizeof *emulatorKernels - 1}
