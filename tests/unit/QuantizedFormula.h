// SPDX-License-Identifier: Apache-2.0
//
// Attention of 8-bit numbers once more, in double and one element after another, as docs/quantization.md has it: what the
// reference evaluator and the host's kernel are compared with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace ditc::test {

/// Of one batch; tensors are dense, [heads, tokens, channels].
struct QuantizedFormula {
  int64_t heads, keyHeads, queries, keys, dim, valueDim;
  double scale, softCap = 0;
  std::function<double(int64_t head, int64_t query, int64_t key)> bias = [](int64_t, int64_t, int64_t) { return 0.0; }; ///< -inf hides

  std::vector<double> evaluate(const std::vector<double> &q, const std::vector<double> &k, const std::vector<double> &v, bool isQuantized) const {
    std::vector<double> result;
    for (int64_t h = 0; h < heads; ++h) {
      int64_t source = h / (heads / keyHeads);
      Matrix query = part(q, h, queries, dim), key = part(k, source, keys, dim), value = part(v, source, keys, valueDim);
      std::vector<double> queryScale(queries, 1), keyScale(keys, 1), valueScale(valueDim, 1);
      if (isQuantized) {
        removeMean(key);
        for (int64_t i = 0; i < queries; ++i)
          queryScale[i] = quantizeLine(query[i], 127, [](double x) { return std::nearbyint(x); });
        for (int64_t j = 0; j < keys; ++j)
          keyScale[j] = quantizeLine(key[j], 127, [](double x) { return std::nearbyint(x); });
        for (int64_t e = 0; e < valueDim; ++e)
          valueScale[e] = quantizeColumn(value, e);
      }
      for (int64_t i = 0; i < queries; ++i) {
        std::vector<double> weights(keys);
        for (int64_t j = 0; j < keys; ++j)
          weights[j] = score(dot(query[i], key[j]) * keyScale[j] * queryScale[i]) + bias(h, i, j);
        double sum = isQuantized ? weigh(weights) : exponentiate(weights);
        for (int64_t e = 0; e < valueDim; ++e) {
          double total = 0;
          for (int64_t j = 0; j < keys; ++j)
            total += weights[j] * value[j][e];
          result.push_back(sum == 0 ? 0 : total * valueScale[e] / sum);
        }
      }
    }
    return result;
  }

  /// The nearest of 2^e · (1 + m / 8), ties to even, and of multiples of 2^-9 below 2^-6.
  static double roundToE4m3(double x) {
    if (x == 0 || !std::isfinite(x))
      return x;
    double step = std::ldexp(1.0, std::max(std::ilogb(x), -6) - 3);
    return std::nearbyint(x / step) * step;
  }

private:
  using Matrix = std::vector<std::vector<double>>;

  static Matrix part(const std::vector<double> &all, int64_t index, int64_t rows, int64_t columns) {
    Matrix matrix;
    for (int64_t row = index * rows; row < (index + 1) * rows; ++row)
      matrix.emplace_back(all.begin() + row * columns, all.begin() + (row + 1) * columns);
    return matrix;
  }

  static double dot(const std::vector<double> &a, const std::vector<double> &b) {
    double sum = 0;
    for (size_t e = 0; e < a.size(); ++e)
      sum += a[e] * b[e];
    return sum;
  }

  void removeMean(Matrix &key) const {
    for (int64_t e = 0; e < dim; ++e) {
      double mean = 0;
      for (const auto &row : key)
        mean += row[e] / keys;
      for (auto &row : key)
        row[e] -= mean;
    }
  }

  /// The scale; NaN where a number is none or infinite. Numbers are multiplied by a rounded reciprocal in f32, or ties of 16-bit
  /// numbers would round elsewhere.
  template <typename Round> static double quantizeLine(std::vector<double> &line, double bound, Round round) {
    double largest = 1e-12;
    for (double x : line)
      largest = std::isfinite(x) ? std::max(largest, std::abs(x)) : std::numeric_limits<double>::quiet_NaN();
    for (double &x : line)
      x = round(static_cast<float>(x) * static_cast<float>(bound / largest));
    return largest / bound;
  }

  static double quantizeColumn(Matrix &value, int64_t channel) {
    std::vector<double> column;
    for (const auto &row : value)
      column.push_back(row[channel]);
    double scale = quantizeLine(column, 448, roundToE4m3);
    for (size_t j = 0; j < value.size(); ++j)
      value[j][channel] = column[j];
    return scale;
  }

  double score(double product) const { return softCap > 0 ? softCap * std::tanh(product * scale / softCap) : product * scale; }

  /// 2^t between powers of two is a line, on which e4m3 has eight numbers; below 2^-14 of the power of two that is not below
  /// the largest the steps are fixed.
  static double weigh(std::vector<double> &scores) {
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (double x : scores)
      top = std::max(top, x);
    double exponent = std::ceil(top / std::log(2.0));
    for (double &x : scores) {
      double t = x / std::log(2.0) - exponent, eighths = std::nearbyint(8 * (t + 15)), power = std::floor(eighths / 8);
      x = std::isinf(x) || eighths <= 0 ? 0 : power < 1 ? eighths / 8 * std::exp2(-14.0) : std::exp2(power - 15) * (1 + eighths / 8 - power);
      sum += x;
    }
    return sum;
  }

  static double exponentiate(std::vector<double> &scores) {
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (double x : scores)
      top = std::max(top, x);
    for (double &x : scores)
      sum += x = top == -std::numeric_limits<double>::infinity() ? 0 : std::exp(x - top);
    return sum;
  }
};

/// Of all elements, |a - b| / |b|.
inline double relativeL2(const std::vector<double> &got, const std::vector<double> &expected) {
  double error = 0, all = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += (got[i] - expected[i]) * (got[i] - expected[i]);
    all += expected[i] * expected[i];
  }
  return std::sqrt(error / all);
}

} // namespace ditc::test
