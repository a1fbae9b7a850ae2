// SPDX-License-Identifier: Apache-2.0
//
// LayerNorm and RMSNorm over any set of elements (the "row").
//
//   layer: y = (x - mean) / sqrt(var + eps) · weight + bias      var = mean((x - mean)²)
//   rms:   y = x / sqrt(mean(x²) + eps) · weight + bias
//
// Layout: `rows` walks x and out over rows, `inner` walks x, weight, bias and out inside one row; any strides.
// A row of up to kNormRow elements is read once into a dense array, and weight and bias once for all rows; a longer
// one is read three times in blocks.
// Accuracy: two passes (the variance is of differences from the mean, so nothing cancels). Differences and squares are
// taken in the compute type, sums and the reciprocal root in double, rounded once.
#include "blocks.h"
#include "nest.h"

namespace ditc {
namespace {

template <class T> double sumOf(const T *x, int64_t n) {
#pragma clang fp reassociate(on)
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += x[i];
  return sum;
}

template <class T> double squaresOf(const T *x, int64_t n, T mean) {
#pragma clang fp reassociate(on)
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += (x[i] - mean) * (x[i] - mean);
  return sum;
}

template <class T> void normalise(T *__restrict y, const T *x, int64_t n, T mean, T scale, const T *weight, const T *bias) {
  if (weight && bias)
    for (int64_t i = 0; i < n; ++i)
      y[i] = (x[i] - mean) * scale * weight[i] + bias[i];
  else if (weight)
    for (int64_t i = 0; i < n; ++i)
      y[i] = (x[i] - mean) * scale * weight[i];
  else if (bias)
    for (int64_t i = 0; i < n; ++i)
      y[i] = (x[i] - mean) * scale + bias[i];
  else
    for (int64_t i = 0; i < n; ++i)
      y[i] = (x[i] - mean) * scale;
}

template <class T> T inverseDeviation(double squares, const NormDescriptor &d) {
  return static_cast<T>(1.0 / __builtin_sqrt(squares / static_cast<double>(d.count) + d.eps));
}

template <class T> class Norm {
public:
  Norm(char *const *args, const NormDescriptor &d) : d(d), x(args[0]), out(args[d.arg_out]) {
    weight = d.arg_weight < 0 ? nullptr : args[d.arg_weight];
    bias = d.arg_bias < 0 ? nullptr : args[d.arg_bias];
  }

  void shortRows() {
    T x_row[kNormRow], y_row[kNormRow], weight_row[kNormRow], bias_row[kNormRow];
    const T *w = weight ? gather(weight_row, weight, d.type_weight, 1, 0) : nullptr;
    const T *b = bias ? gather(bias_row, bias, d.type_bias, 2, 0) : nullptr;
    forEachElement(d.rows, [&](const Offsets &row) {
      const T *values = gather(x_row, x, d.type_x, 0, row.at[0]);
      T mean = d.rms ? T(0) : static_cast<T>(sumOf(values, d.count) / static_cast<double>(d.count));
      T scale = inverseDeviation<T>(squaresOf(values, d.count, mean), d);
      normalise(y_row, values, d.count, mean, scale, w, b);
      scatter(y_row, row.at[1]);
    });
  }

  void longRows() {
    forEachElement(d.rows, [&](const Offsets &row) {
      double sum = 0, squares = 0;
      if (!d.rms)
        forEachBlock(row, [&](const T *values, const Offsets &, int64_t n, const int64_t *) { sum += sumOf(values, n); });
      T mean = static_cast<T>(sum / static_cast<double>(d.count));
      forEachBlock(row, [&](const T *values, const Offsets &, int64_t n, const int64_t *) { squares += squaresOf(values, n, mean); });
      T scale = inverseDeviation<T>(squares, d);
      forEachBlock(row, [&](const T *values, const Offsets &at, int64_t n, const int64_t *strides) {
        T y[kBlock], weight_block[kBlock], bias_block[kBlock];
        const T *w = weight ? viewBlock(weight_block, elementAt(weight, d.type_weight, at.at[1]), strides[1], n, d.type_weight) : nullptr;
        const T *b = bias ? viewBlock(bias_block, elementAt(bias, d.type_bias, at.at[2]), strides[2], n, d.type_bias) : nullptr;
        normalise(y, values, n, mean, scale, w, b);
        storeBlock(elementAt(out, d.type_out, row.at[1] + at.at[3]), y, strides[3], n, d.type_out);
      });
    });
  }

private:
  /// Argument `k` of `inner` as a dense row that starts at element `first`.
  const T *gather(T *row, char *base, int64_t type, int k, int64_t first) {
    if (d.inner.rank <= 1 && isNative(type, T()) && (d.inner.rank == 0 || d.inner.stride[0][k] == 1))
      return reinterpret_cast<const T *>(elementAt(base, type, first));
    T *next = row;
    forEachRun(d.inner, [&](const Offsets &at, int64_t n, const int64_t *strides) {
      loadBlock(next, elementAt(base, type, first + at.at[k]), strides[k], n, type);
      next += n;
    });
    return row;
  }

  void scatter(const T *row, int64_t first) {
    const T *next = row;
    forEachRun(d.inner, [&](const Offsets &at, int64_t n, const int64_t *strides) {
      storeBlock(elementAt(out, d.type_out, first + at.at[3]), next, strides[3], n, d.type_out);
      next += n;
    });
  }

  /// Calls `visit(values, offsets of the block, n, strides)` for blocks of x in one row.
  template <class Visit> void forEachBlock(const Offsets &row, Visit visit) {
    forEachRun(d.inner, [&](Offsets at, int64_t size, const int64_t *strides) {
      for (int64_t first = 0; first < size; first += kBlock) {
        T scratch[kBlock];
        int64_t n = smaller(kBlock, size - first);
        visit(viewBlock(scratch, elementAt(x, d.type_x, row.at[0] + at.at[0]), strides[0], n, d.type_x), at, n, strides);
        for (int k = 0; k < kMaxOperands; ++k)
          at.at[k] += n * strides[k];
      }
    });
  }

  const NormDescriptor &d;
  char *x, *weight, *bias, *out;
};

} // namespace

extern "C" void ditc_norm_short_f32(char *const *args, const NormDescriptor *d) { Norm<float>(args, *d).shortRows(); }
extern "C" void ditc_norm_short_f64(char *const *args, const NormDescriptor *d) { Norm<double>(args, *d).shortRows(); }
extern "C" void ditc_norm_long_f32(char *const *args, const NormDescriptor *d) { Norm<float>(args, *d).longRows(); }
extern "C" void ditc_norm_long_f64(char *const *args, const NormDescriptor *d) { Norm<double>(args, *d).longRows(); }

} // namespace ditc
