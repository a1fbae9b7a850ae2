// SPDX-License-Identifier: Apache-2.0
//
// Conversions between element types in memory and blocks of a compute type.
//
//   load:  bf16 -> float is a shift; f16 and fp8 -> float are exact; integers widen (ui8 with zeros); bool is 0 or 1
//   store: float -> bf16, f16 and fp8 round to nearest even, a NaN stays a quiet NaN; f64 goes to them by way of f32,
//          as in torch; fp8 (e4m3fn) has no infinity, and NaN stands for what is too large; integers wrap
//
// Each pair of types is one loop that LLVM vectorises; the unit stride has its own copy of it.
#include "blocks.h"

namespace ditc {
namespace {

struct F64 {
  using Storage = double;
  static double load(Storage x) { return x; }
  template <class T> static Storage store(T x) { return static_cast<double>(x); }
};
struct F32 {
  using Storage = float;
  static float load(Storage x) { return x; }
  template <class T> static Storage store(T x) { return static_cast<float>(x); }
};
struct F16 {
  using Storage = _Float16;
  static float load(Storage x) { return x; }
  template <class T> static Storage store(T x) { return static_cast<_Float16>(static_cast<float>(x)); }
};
struct BF16 {
  using Storage = uint16_t;
  static float load(Storage x) { return __builtin_bit_cast(float, static_cast<uint32_t>(x) << 16); }
  template <class T> static Storage store(T x) {
    float value = static_cast<float>(x);
    uint32_t bits = __builtin_bit_cast(uint32_t, value);
    uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
    return static_cast<uint16_t>((value != value ? bits | 0x400000 : rounded) >> 16);
  }
};
struct F8 {
  using Storage = uint8_t;
  static float load(Storage x) {
    uint32_t magnitude = x & 0x7f, sign = static_cast<uint32_t>(x & 0x80) << 24;
    uint32_t normal = (magnitude << 20) + ((127 - 7) << 23);
    uint32_t subnormal = __builtin_bit_cast(uint32_t, static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-9f);
    uint32_t bits = magnitude < 8 ? subnormal : normal;
    return __builtin_bit_cast(float, sign | (magnitude == 0x7f ? 0x7fc00000 : bits));
  }
  /// As f16: normal results round by carrying; below 2^-6 the sum with 2^14 rounds at the last place of fp8.
  template <class T> static Storage store(T x) {
    uint32_t bits = __builtin_bit_cast(uint32_t, static_cast<float>(x)), magnitude = bits & 0x7fffffff;
    uint32_t normal = (magnitude - ((127 - 7) << 23) + 0x7ffff + ((magnitude >> 20) & 1)) >> 20;
    uint32_t subnormal = __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, magnitude) + 0x1p14f) - 0x46800000;
    uint32_t rounded = magnitude < 0x3c800000 ? subnormal : normal;
    return static_cast<Storage>((rounded < 0x7f ? rounded : 0x7f) | ((bits >> 24) & 0x80));
  }
};
template <class S> struct Integer {
  using Storage = S;
  static int64_t load(Storage x) { return x; }
  template <class T> static Storage store(T x) { return static_cast<Storage>(static_cast<int64_t>(x)); }
};
struct Bool {
  using Storage = uint8_t;
  static int64_t load(Storage x) { return x != 0; }
  template <class T> static Storage store(T x) { return x != 0; }
};

/// Calls `f` with the element type that `type` names, among those that convert to and from T.
template <class T, class F> void withElement(int64_t type, F f) {
  if constexpr (__is_same(T, int64_t))
    switch (type) {
    case kI64: return f(Integer<int64_t>());
    case kI32: return f(Integer<int32_t>());
    case kI16: return f(Integer<int16_t>());
    case kI8: return f(Integer<int8_t>());
    case kU8: return f(Integer<uint8_t>());
    default: return f(Bool());
    }
  else
    switch (type) {
    case kF64: return f(F64());
    case kF32: return f(F32());
    case kF16: return f(F16());
    case kBF16: return f(BF16());
    case kF8: return f(F8());
    default: return f(Bool());
    }
}

/// `body(i)` for all i. The dense loop vectorises; the strided one stays small.
template <class Body> void forEachPlace(int64_t n, int64_t stride, Body body) {
  if (stride == 1) {
    for (int64_t i = 0; i < n; ++i)
      body(i, i);
    return;
  }
#pragma clang loop vectorize(disable) unroll(disable)
  for (int64_t i = 0; i < n; ++i)
    body(i, i * stride);
}

template <class T> void load(T *__restrict to, const char *from, int64_t stride, int64_t n, int64_t type) {
  withElement<T>(type, [=](auto element) {
    using E = decltype(element);
    const auto *__restrict x = reinterpret_cast<const typename E::Storage *>(from);
    forEachPlace(n, stride, [=](int64_t i, int64_t at) { to[i] = static_cast<T>(E::load(x[at])); });
  });
}

template <class T> void store(char *to, const T *__restrict from, int64_t stride, int64_t n, int64_t type) {
  withElement<T>(type, [=](auto element) {
    using E = decltype(element);
    auto *__restrict y = reinterpret_cast<typename E::Storage *>(to);
    forEachPlace(n, stride, [=](int64_t i, int64_t at) { y[at] = E::store(from[i]); });
  });
}

template <class S> void copy(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t n) {
  auto *__restrict y = reinterpret_cast<S *>(to);
  const auto *__restrict x = reinterpret_cast<const S *>(from);
  if (to_stride == 1 && from_stride == 1)
    __builtin_memcpy(to, from, static_cast<uint64_t>(n) * sizeof(S));
  else if (to_stride == 1 && from_stride == 0)
    for (int64_t i = 0; i < n; ++i)
      y[i] = x[0];
  else
#pragma clang loop vectorize(disable) unroll(disable)
    for (int64_t i = 0; i < n; ++i)
      y[i * to_stride] = x[i * from_stride];
}

} // namespace

void loadBlock(float *to, const char *from, int64_t stride, int64_t n, int64_t type) { load(to, from, stride, n, type); }
void loadBlock(double *to, const char *from, int64_t stride, int64_t n, int64_t type) { load(to, from, stride, n, type); }
void loadBlock(int64_t *to, const char *from, int64_t stride, int64_t n, int64_t type) { load(to, from, stride, n, type); }
void storeBlock(char *to, const float *from, int64_t stride, int64_t n, int64_t type) { store(to, from, stride, n, type); }
void storeBlock(char *to, const double *from, int64_t stride, int64_t n, int64_t type) { store(to, from, stride, n, type); }
void storeBlock(char *to, const int64_t *from, int64_t stride, int64_t n, int64_t type) { store(to, from, stride, n, type); }

void copyElements(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t n, int64_t bytes) {
  switch (bytes) {
  case 1: return copy<uint8_t>(to, to_stride, from, from_stride, n);
  case 2: return copy<uint16_t>(to, to_stride, from, from_stride, n);
  case 4: return copy<uint32_t>(to, to_stride, from, from_stride, n);
  default: return copy<uint64_t>(to, to_stride, from, from_stride, n);
  }
}

} // namespace ditc
