// SPDX-License-Identifier: Apache-2.0
//
// Attention of 8-bit numbers, as dit.attention with `quantized` says: scores of i8 rows of queries and keys, weights and
// values in e4m3. The numbers stay floats, which hold them and their products exactly, so that the blocks multiply as ever.
//
// For each key head the mean of the keys and the largest values of its channels come first. Weights are rounded against
// the row's largest score of all, so that blocks of keys are scored twice: for it, and for the weights. Keys and values are
// quantised anew for each block of queries: the scratch is a thread's stack and holds blocks alone.
#include "attention_kernel.h"

namespace ditc {
namespace {

constexpr float kSmallest = 1e-12f;                    ///< rows and channels of zeros have a scale too
constexpr float kLargestI8 = 127, kLargestF8 = 448;
constexpr float kWeightExponent = 15;                  ///< what that of the largest weight, rounded up, is in e4m3
constexpr float kLog2E = 1.4426950408889634f;

uint32_t magnitudeBits(float x) { return __builtin_bit_cast(uint32_t, x) & 0x7fffffff; }

/// The larger magnitude; a NaN is larger than all numbers.
float largerMagnitude(float a, float b) {
  uint32_t x = magnitudeBits(a), y = magnitudeBits(b);
  return __builtin_bit_cast(float, x > y ? x : y);
}

float largestOf(const float *row, int64_t n) {
  float largest = kSmallest;
  for (int64_t i = 0; i < n; ++i)
    largest = largerMagnitude(largest, row[i]);
  return largest;
}

/// What numbers are multiplied by again; NaN where one of them was none.
float scaleOf(float largest, float bound) { return largest < kInfinity<float> ? largest / bound : __builtin_nanf(""); }

/// To nearest, ties to even, below 2^22.
float roundedToInteger(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }

/// To the nearest number of e4m3, ties to even, of magnitudes that do not round to more than 448.
float roundedToF8(float x) {
  uint32_t bits = __builtin_bit_cast(uint32_t, x), magnitude = magnitudeBits(x);
  float normal = __builtin_bit_cast(float, (bits + 0x7ffff + ((bits >> 20) & 1)) & 0xfff00000);
  float small = __builtin_copysignf((__builtin_bit_cast(float, magnitude) + 0x1p14f) - 0x1p14f, x); // steps of 2^-9
  float rounded = magnitude < 0x3c800000 ? small : normal;
  return x == x ? rounded : x;
}

float ceiling(float x) {
  float nearest = magnitudeBits(x) < 0x4b000000 ? (x + 0x1.8p23f) - 0x1.8p23f : x;
  return nearest < x ? nearest + 1 : nearest;
}

/// The e4m3 number whose bits, as an integer, are nearest to 8 x, x below 16: 2^(x - 7) with a line between powers of two.
float onLine(float x) {
  float code = roundedToInteger(x > 0 ? 8 * x : 0);
  float normal = __builtin_bit_cast(float, (static_cast<uint32_t>(code) + 960) << 20); // its exponents' bias differs by 120
  return x == x ? (code < 8 ? code * 0x1p-9f : normal) : x;
}

class QuantizedAttention : Attention<float> {
public:
  QuantizedAttention(char *const *args, const AttentionDescriptor &d, char *scratch) : Attention(args, d, scratch) {
    auto *next = reinterpret_cast<float *>(scratch + attentionScratchBytes(d.dim, d.value_dim, sizeof(float)));
    auto take = [&](int64_t size) { return (next += size) - size; };
    mean = take(d.dim);
    value_largest = take(padded<float>(d.value_dim));
    query_scale = take(blocks.queries);
    key_scale = take(blocks.keys);
  }

  void run() {
    int64_t group = d.heads / d.key_heads;
    for (int64_t b = 0; b < d.batch; ++b)
      for (int64_t h = 0; h < d.heads; ++h) {
        if (h % group == 0)
          measureHead(b, h / group);
        for (int64_t first = 0; first < d.queries; first += blocks.queries)
          runQueries(b, h, first, smaller(blocks.queries, d.queries - first));
      }
  }

private:
  /// The mean of all keys, and the largest value of each channel. Sums are taken of blocks first.
  void measureHead(int64_t b, int64_t key_head) {
    int64_t lanes = padded<float>(d.value_dim);
    for (int64_t e = 0; e < d.dim; ++e)
      mean[e] = 0;
    for (int64_t e = 0; e < lanes; ++e)
      value_largest[e] = kSmallest;
    for (int64_t j = 0; j < d.keys; j += blocks.keys) {
      int64_t n = smaller(blocks.keys, d.keys - j);
      loadKeys(b, key_head, j, n);
      loadValues(b, key_head, j, n);
      for (int64_t p = 1; p < n; ++p)
        for (int64_t e = 0; e < d.dim; ++e)
          keys[e] += keys[p * d.dim + e];
      for (int64_t e = 0; e < d.dim; ++e)
        mean[e] += keys[e];
      for (int64_t p = 0; p < n; ++p)
        for (int64_t e = 0; e < lanes; ++e)
          value_largest[e] = largerMagnitude(value_largest[e], values[p * lanes + e]);
    }
    for (int64_t e = 0; e < d.dim; ++e)
      mean[e] /= static_cast<float>(d.keys);
  }

  void runQueries(int64_t b, int64_t h, int64_t first, int64_t count) {
    int64_t key_head = h / (d.heads / d.key_heads);
    loadQueries(b, h, first, count);
    quantizeQueries(count);
    clearSums();
    forKeyBlocks(first, count, [&](int64_t j, int64_t n) {
      computeScores(b, h, first, count, j, n);
      raiseTops(n);
    });
    forKeyBlocks(first, count, [&](int64_t j, int64_t n) {
      computeScores(b, h, first, count, j, n);
      weigh(n);
      loadValues(b, key_head, j, n);
      quantizeValues(n);
      addWeighted(values, padded<float>(d.value_dim), n, count);
    });
    scaleSums(count);
    storeResult(b, h, first, count);
  }

  /// Queries are columns.
  void quantizeQueries(int64_t count) {
    int64_t width = blocks.queries;
    for (int64_t i = 0; i < width; ++i)
      query_scale[i] = kSmallest;
    for (int64_t e = 0; e < d.dim; ++e)
      for (int64_t i = 0; i < width; ++i)
        query_scale[i] = largerMagnitude(query_scale[i], query[e * width + i]);
    for (int64_t i = 0; i < count; ++i)
      factor[i] = kLargestI8 / query_scale[i];
    for (int64_t i = count; i < width; ++i)
      factor[i] = 0;
    for (int64_t e = 0; e < d.dim; ++e)
      for (int64_t i = 0; i < width; ++i)
        query[e * width + i] = roundedToInteger(query[e * width + i] * factor[i]);
    for (int64_t i = 0; i < width; ++i)
      query_scale[i] = scaleOf(query_scale[i], kLargestI8);
  }

  void quantizeKeys(int64_t n) {
    for (int64_t p = 0; p < n; ++p) {
      float *key = keys + p * d.dim;
      for (int64_t e = 0; e < d.dim; ++e)
        key[e] -= mean[e];
      float largest = largestOf(key, d.dim), times = kLargestI8 / largest;
      for (int64_t e = 0; e < d.dim; ++e)
        key[e] = roundedToInteger(key[e] * times);
      key_scale[p] = scaleOf(largest, kLargestI8);
    }
  }

  void quantizeValues(int64_t n) {
    int64_t lanes = padded<float>(d.value_dim);
    for (int64_t e = 0; e < d.value_dim; ++e) {
      float times = kLargestF8 / value_largest[e];
      for (int64_t p = 0; p < n; ++p)
        values[p * lanes + e] = roundedToF8(values[p * lanes + e] * times);
    }
  }

  void computeScores(int64_t b, int64_t h, int64_t first, int64_t count, int64_t j, int64_t n) {
    loadKeys(b, h / (d.heads / d.key_heads), j, n);
    quantizeKeys(n);
    multiplyKeys(keys, d.dim, n);
    auto scale = static_cast<float>(d.scale);
    for (int64_t p = 0; p < n; ++p)
      for (int64_t i = 0; i < blocks.queries; ++i)
        scores[p * blocks.queries + i] = scores[p * blocks.queries + i] * key_scale[p] * query_scale[i] * scale;
    if (d.soft_cap > 0)
      capScores(n);
    hideKeys(b, h, first, count, j, n);
  }

  void raiseTops(int64_t n) {
    for (int64_t p = 0; p < n; ++p)
      for (int64_t i = 0; i < blocks.queries; ++i)
        top[i] = scores[p * blocks.queries + i] > top[i] ? scores[p * blocks.queries + i] : top[i];
  }

  /// Turns scores into weights, with the largest of their rows known.
  void weigh(int64_t n) {
    for (int64_t i = 0; i < blocks.queries; ++i)
      factor[i] = 1;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t i = 0; i < blocks.queries; ++i) {
        float largest = top[i] == -kInfinity<float> ? 0 : top[i], log = largest * kLog2E;
        float &score = scores[p * blocks.queries + i];
        score = onLine((score - largest) * kLog2E + (log - ceiling(log)) + kWeightExponent);
        total[i] += score;
      }
  }

  void scaleSums(int64_t count) {
    int64_t lanes = padded<float>(d.value_dim);
    for (int64_t i = 0; i < count; ++i)
      for (int64_t e = 0; e < d.value_dim; ++e)
        sums[i * lanes + e] = sums[i * lanes + e] * scaleOf(value_largest[e], kLargestF8);
  }

  float *mean, *value_largest;     ///< by channel of the key head at hand
  float *query_scale, *key_scale;
};

} // namespace

extern "C" void ditc_attention_quantized(char *const *args, const AttentionDescriptor *d, char *scratch) { QuantizedAttention(args, *d, scratch).run(); }

} // namespace ditc
