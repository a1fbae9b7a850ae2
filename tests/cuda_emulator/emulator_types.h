// SPDX-License-Identifier: Apache-2.0
//
// CUDA's built-in vector types, with their alignments, and make_*.
#pragma once

using size_t = decltype(sizeof 0);

namespace emulator {
template <class T> struct SameOf {
  using Type = T;
};
/// T, without taking part in template deduction.
template <class T> using Same = typename SameOf<T>::Type;

template <class T> constexpr T smaller(T a, T b) { return a < b ? a : b; }
template <class T> constexpr T larger(T a, T b) { return a < b ? b : a; }
constexpr unsigned firstOf(unsigned first = 0, unsigned = 0, unsigned = 0) { return first; }
} // namespace emulator

#define EMULATOR_VECTOR(T, name)                                                                                       \
  struct name##1 { T x; };                                                                                             \
  struct alignas(2 * sizeof(T)) name##2 { T x, y; };                                                                   \
  struct name##3 { T x, y, z; };                                                                                       \
  struct alignas(sizeof(T) < 4 ? 4 * sizeof(T) : 16) name##4 { T x, y, z, w; };                                        \
  inline name##1 make_##name##1(T x) { return {x}; }                                                                   \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                                           \
  inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                                                   \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
EMULATOR_VECTOR(signed char, char)
EMULATOR_VECTOR(unsigned char, uchar)
EMULATOR_VECTOR(short, short)
EMULATOR_VECTOR(unsigned short, ushort)
EMULATOR_VECTOR(int, int)
EMULATOR_VECTOR(unsigned, uint)
EMULATOR_VECTOR(long, long)
EMULATOR_VECTOR(unsigned long, ulong)
EMULATOR_VECTOR(long long, longlong)
EMULATOR_VECTOR(unsigned long long, ulonglong)
EMULATOR_VECTOR(float, float)
EMULATOR_VECTOR(double, double)

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
