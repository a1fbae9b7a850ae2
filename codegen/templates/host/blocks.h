// SPDX-License-Identifier: Apache-2.0
//
// Blocks: how templates read and write arguments. A template computes on short dense arrays of its compute type
// (float, double or int64_t); these functions convert from and to any element type and stride, so that the type of
// an argument costs one switch per block and no template is instantiated per element type.
#pragma once

#include "descriptors.h"

namespace ditc {

constexpr int64_t kBlock = 512; ///< elements of a usual block

inline int64_t elementBytes(int64_t type) {
  switch (type) {
  case kF64:
  case kI64: return 8;
  case kF32:
  case kI32: return 4;
  case kF16:
  case kBF16:
  case kI16: return 2;
  default: return 1;
  }
}

/// Element `index` of an argument of this type.
inline char *elementAt(char *base, int64_t type, int64_t index) { return base + index * elementBytes(type); }

/// Converts `n` elements, `stride` apart, to the compute type: floats and bool to float and double, integers and bool
/// to int64_t.
void loadBlock(float *to, const char *from, int64_t stride, int64_t n, int64_t type);
void loadBlock(double *to, const char *from, int64_t stride, int64_t n, int64_t type);
void loadBlock(int64_t *to, const char *from, int64_t stride, int64_t n, int64_t type);

/// Rounds `n` values to nearest even (integers wrap, a bool is "not zero") and stores them `stride` apart.
void storeBlock(char *to, const float *from, int64_t stride, int64_t n, int64_t type);
void storeBlock(char *to, const double *from, int64_t stride, int64_t n, int64_t type);
void storeBlock(char *to, const int64_t *from, int64_t stride, int64_t n, int64_t type);

/// Copies `n` elements of 1, 2, 4 or 8 bytes between strided places; a source stride of 0 fills.
void copyElements(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t n, int64_t bytes);

inline bool isNative(int64_t type, float) { return type == kF32; }
inline bool isNative(int64_t type, double) { return type == kF64; }
inline bool isNative(int64_t type, int64_t) { return type == kI64; }

/// The elements as a dense array: where they lie when they are one already, else converted into `scratch`.
template <class T> const T *viewBlock(T *scratch, const char *from, int64_t stride, int64_t n, int64_t type) {
  if (stride == 1 && isNative(type, T()))
    return reinterpret_cast<const T *>(from);
  loadBlock(scratch, from, stride, n, type);
  return scratch;
}

inline int64_t loadIndex(const char *base, int64_t type, int64_t index) {
  int64_t value = 0;
  loadBlock(&value, base + index * elementBytes(type), 1, 1, type);
  return value;
}

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

} // namespace ditc
