// SPDX-License-Identifier: Apache-2.0
//
// The product of small dense blocks, on which attention, convolution and the generic matrix product stand:
//
//   C[rows × cols] += A[rows × k] · B[k × cols]
//
// B and C are row-major with a multiple of kLanes columns; A has any strides, since its elements are read one by one.
// Four rows by kLanes columns of C stay in registers over the whole k. Each element is a chain of fused
// multiply-adds (separate ones where the target has none), in the order of k.
#pragma once

#include <stdint.h>

namespace ditc {

/// 64 bytes: two AVX2 registers, four of SSE or NEON.
template <class T> constexpr int64_t kLanes = 64 / static_cast<int64_t>(sizeof(T));

template <class T> struct Lanes {
  typedef T Vector __attribute__((ext_vector_type(64 / sizeof(T))));
  Vector v;

  static Lanes load(const T *from) {
    Lanes lanes;
    __builtin_memcpy(&lanes.v, from, sizeof(Vector));
    return lanes;
  }
  void store(T *to) const { __builtin_memcpy(to, &v, sizeof(Vector)); }
};


template <class T, int ROWS> void multiplyRows(T *c, int64_t ldc, const T *a, int64_t a_row, int64_t a_k, const T *b, int64_t ldb, int64_t cols, int64_t k) {
#pragma clang fp contract(fast)
  for (int64_t j = 0; j < cols; j += kLanes<T>) {
    Lanes<T> sum[ROWS];
#pragma clang loop unroll(full)
    for (int r = 0; r < ROWS; ++r)
      sum[r] = Lanes<T>::load(c + r * ldc + j);
    for (int64_t p = 0; p < k; ++p) {
      Lanes<T> row = Lanes<T>::load(b + p * ldb + j);
#pragma clang loop unroll(full)
      for (int r = 0; r < ROWS; ++r)
        sum[r].v += a[r * a_row + p * a_k] * row.v;
    }
#pragma clang loop unroll(full)
    for (int r = 0; r < ROWS; ++r)
      sum[r].store(c + r * ldc + j);
  }
}

/// C += A · B; see above.
template <class T> void multiplyBlock(T *c, int64_t ldc, const T *a, int64_t a_row, int64_t a_k, const T *b, int64_t ldb, int64_t rows, int64_t cols, int64_t k) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4)
    multiplyRows<T, 4>(c + r * ldc, ldc, a + r * a_row, a_row, a_k, b, ldb, cols, k);
  for (; r < rows; ++r)
    multiplyRows<T, 1>(c + r * ldc, ldc, a + r * a_row, a_row, a_k, b, ldb, cols, k);
}

/// The next multiple of kLanes.
template <class T> constexpr int64_t padded(int64_t n) { return (n + kLanes<T> - 1) / kLanes<T> * kLanes<T>; }

} // namespace ditc
