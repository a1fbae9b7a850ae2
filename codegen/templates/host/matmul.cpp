// SPDX-License-Identifier: Apache-2.0
//
// Matrix products that no BLAS takes: integers, and types and strides outside the usual.
//
//   out[b..., m, n] = Σ a[b..., m, k] · b[b..., k, n]
//
// Layout: any strides; batch dimensions repeat where a stride is 0. Tiles of a and b are converted to dense blocks
// of the compute type, and their product is summed in a dense tile.
// Accuracy: products are summed in the order of k in the compute type; integers wrap in 64 bits.
#include "block_product.h"
#include "blocks.h"
#include "nest.h"

namespace ditc {
namespace {

constexpr int64_t kRows = 32, kColumns = 64, kDepth = 128;

template <class T> class Matmul {
public:
  Matmul(char *const *args, const MatmulDescriptor &d) : d(d), a(args[0]), b(args[1]), out(args[2]) {}

  void run() {
    forEachElement(d.batch, [&](const Offsets &at) {
      for (int64_t m = 0; m < d.m; m += kRows)
        for (int64_t n = 0; n < d.n; n += kColumns)
          runTile(at, m, n, smaller(kRows, d.m - m), smaller(kColumns, d.n - n));
    });
  }

private:
  void runTile(const Offsets &at, int64_t m, int64_t n, int64_t rows, int64_t columns) {
    T sum[kRows * kColumns] = {}, left[kRows * kDepth], right[kDepth * kColumns];
    for (int64_t k = 0; k < d.k; k += kDepth) {
      int64_t depth = smaller(kDepth, d.k - k);
      for (int64_t r = 0; r < rows; ++r)
        loadBlock(left + r * kDepth, elementAt(a, d.type_a, at.at[0] + (m + r) * d.stride_a[0] + k * d.stride_a[1]), d.stride_a[1], depth, d.type_a);
      for (int64_t p = 0; p < depth; ++p) {
        loadBlock(right + p * kColumns, elementAt(b, d.type_b, at.at[1] + (k + p) * d.stride_b[0] + n * d.stride_b[1]), d.stride_b[1], columns, d.type_b);
        for (int64_t c = columns; c < kColumns; ++c)
          right[p * kColumns + c] = 0;
      }
      multiplyBlock(sum, kColumns, left, kDepth, int64_t(1), right, kColumns, rows, padded<T>(columns), depth);
    }
    for (int64_t r = 0; r < rows; ++r)
      storeBlock(elementAt(out, d.type_out, at.at[2] + (m + r) * d.stride_out[0] + n * d.stride_out[1]), sum + r * kColumns, d.stride_out[1], columns, d.type_out);
  }

  const MatmulDescriptor &d;
  char *a, *b, *out;
};

} // namespace

extern "C" void ditc_matmul_f32(char *const *args, const MatmulDescriptor *d) { Matmul<float>(args, *d).run(); }
extern "C" void ditc_matmul_f64(char *const *args, const MatmulDescriptor *d) { Matmul<double>(args, *d).run(); }
extern "C" void ditc_matmul_i64(char *const *args, const MatmulDescriptor *d) { Matmul<int64_t>(args, *d).run(); }

} // namespace ditc
