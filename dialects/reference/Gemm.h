// SPDX-License-Identifier: Apache-2.0
//
// A matrix product for the evaluator: portable code that compilers vectorise, sums in a fixed order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ditc::dit {

/// The right-hand side of products, K x N, copied into panels of kColumns columns.
template <typename T> class PackedMatrix {
public:
  static constexpr int64_t kColumns = 8;

  /// Element (k, n) of the matrix is data[k * strideK + n * strideN].
  PackedMatrix(const T *data, int64_t k, int64_t n, int64_t strideK, int64_t strideN)
      : rows(k), columns(n), panels((n + kColumns - 1) / kColumns * kColumns * k) {
    for (int64_t column = 0; column < n; ++column)
      for (int64_t row = 0; row < k; ++row)
        panels[panelOffset(column) + row * kColumns + column % kColumns] = data[row * strideK + column * strideN];
  }

  /// result[m, n] = sum over k of lhs[m, k] * (k, n); both are dense row-major.
  void multiply(const T *lhs, int64_t m, T *result) const {
    for (int64_t column = 0; column < columns; column += kColumns)
      for (int64_t row = 0; row < m; row += kRows)
        tile(lhs + row * rows, std::min(kRows, m - row), column, result + row * columns + column);
  }

private:
  static constexpr int64_t kRows = 4;
  static constexpr int64_t kDepth = 512; // partial sums over so many products, to lose less to rounding

  int64_t panelOffset(int64_t column) const { return column / kColumns * kColumns * rows; }

  void tile(const T *lhs, int64_t m, int64_t column, T *result) const {
    T total[kRows][kColumns] = {};
    const T *left[kRows];
    for (int64_t i = 0; i < kRows; ++i)
      left[i] = lhs + std::min(i, m - 1) * rows;
    for (int64_t first = 0; first < rows; first += kDepth) {
      T sum[kRows][kColumns] = {};
      const T *right = panels.data() + panelOffset(column) + first * kColumns;
      for (int64_t k = first; k < std::min(rows, first + kDepth); ++k, right += kColumns)
        for (int64_t i = 0; i < kRows; ++i)
          for (int64_t j = 0; j < kColumns; ++j)
            sum[i][j] += left[i][k] * right[j];
      for (int64_t i = 0; i < kRows; ++i)
        for (int64_t j = 0; j < kColumns; ++j)
          total[i][j] += sum[i][j];
    }
    for (int64_t i = 0; i < m; ++i)
      std::copy_n(total[i], std::min(kColumns, columns - column), result + i * columns);
  }

  int64_t rows, columns;
  std::vector<T> panels;
};

} // namespace ditc::dit
