// SPDX-License-Identifier: Apache-2.0
//
// Exact attention with an online softmax: out = softmax(scale · q kᵀ + mask) v, without an array of queries × keys.
//
// For kQueries queries of one head, over blocks of kKeys keys:
//
//   s[key][query] = scale · k · qᵀ          keys are rows, so that k is used as it lies and every step of the
//   s = cap(s) + mask, or -inf              softmax works on whole lanes of queries
//   m' = max(m, s);  p = exp(s - m');  l = l · exp(m - m') + Σ p;  o = o · exp(m - m') + pᵀ v
//
// and at the end out = o / l, or 0 where l = 0 (no key, or only keys at -inf).
//
// Layout: any strides; q is transposed once per query block into the scratch memory, k and v are used in place
// when they are dense and of the compute type, else converted block by block. Several query heads may share a key
// head. The mask is boolean (true keeps) or added, of any float type, and repeats where its size is 1.
// Accuracy: everything in float (double for f64); sums of p are taken per block. A NaN score gives a NaN row.
#pragma once

#include "attention_blocks.h"
#include "block_product.h"
#include "blocks.h"
#include "functions.h"

namespace ditc {

template <class T> constexpr T kInfinity = static_cast<T>(__builtin_inff());

/// tanh x; of doubles as exact as scores need it, relative to 1.
inline float tangent(float x) { return hyperbolicTangent(x); }
inline double tangent(double x) {
  double y = x > 20 ? 20 : x < -20 ? -20 : x; // NaN stays
  return 1 - 2 / (exponential(2 * y) + 1);
}

template <class T> class Attention {
public:
  Attention(char *const *args, const AttentionDescriptor &d, char *scratch)
      : d(d), q(args[0]), k(args[1]), v(args[2]), mask(d.arg_mask < 0 ? nullptr : args[d.arg_mask]), out(args[d.arg_out]),
        blocks(attentionBlocks(d.dim, d.value_dim, sizeof(T))) {
    T *next = reinterpret_cast<T *>(scratch);
    auto take = [&](int64_t size) { return (next += size) - size; };
    query = take(d.dim * blocks.queries);
    keys = take(blocks.keys * d.dim);
    values = take(blocks.keys * padded<T>(d.value_dim));
    scores = take(blocks.keys * blocks.queries);
    sums = take(blocks.queries * padded<T>(d.value_dim));
    top = take(blocks.queries);
    total = take(blocks.queries);
    factor = take(blocks.queries);
    row = take(blocks.keys > d.dim ? blocks.keys : d.dim);
  }

  void run() {
    for (int64_t b = 0; b < d.batch; ++b)
      for (int64_t h = 0; h < d.heads; ++h)
        for (int64_t first = 0; first < d.queries; first += blocks.queries)
          runQueries(b, h, first, smaller(blocks.queries, d.queries - first));
  }

protected:
  static int64_t offset(const int64_t *stride, int64_t b, int64_t h, int64_t n) { return b * stride[0] + h * stride[1] + n * stride[2]; }

  void runQueries(int64_t b, int64_t h, int64_t first, int64_t count) {
    int64_t key_head = h / (d.heads / d.key_heads);
    loadQueries(b, h, first, count);
    clearSums();
    forKeyBlocks(first, count, [&](int64_t j, int64_t n) {
      computeScores(b, key_head, j, n);
      hideKeys(b, h, first, count, j, n);
      updateSoftmax(n);
      accumulateValues(b, key_head, j, n, count);
    });
    storeResult(b, h, first, count);
  }

  void clearSums() {
    for (int64_t i = 0; i < blocks.queries; ++i) {
      top[i] = -kInfinity<T>;
      total[i] = 0;
    }
    for (int64_t i = 0; i < blocks.queries * padded<T>(d.value_dim); ++i)
      sums[i] = 0;
  }

  /// Calls f(first key, number) for the blocks of keys that any of the queries sees.
  template <class F> void forKeyBlocks(int64_t first, int64_t count, F f) {
    int64_t key_end = smaller(d.keys, first + count + d.after);
    int64_t key_begin = first > d.before ? (first - d.before) / blocks.keys * blocks.keys : 0;
    for (int64_t j = key_begin; j < key_end; j += blocks.keys)
      f(j, smaller(blocks.keys, key_end - j));
  }

  void hideKeys(int64_t b, int64_t h, int64_t first, int64_t count, int64_t j, int64_t n) {
    if (mask)
      applyMask(b, h, first, count, j, n);
    if (j + n > first + d.after + 1 || j + d.before < first + count - 1)
      applyWindow(first, j, n);
  }

  /// query[dim][queries]; lanes behind `count` hold zeros.
  void loadQueries(int64_t b, int64_t h, int64_t first, int64_t count) {
    for (int64_t i = 0; i < blocks.queries; ++i) {
      if (i < count)
        loadBlock(row, elementAt(q, d.type_q, offset(d.stride_q, b, h, first + i)), d.stride_q[3], d.dim, d.type_q);
      for (int64_t e = 0; e < d.dim; ++e)
        query[e * blocks.queries + i] = i < count ? row[e] : T(0);
    }
  }

  void computeScores(int64_t b, int64_t key_head, int64_t j, int64_t n) {
    const T *a = keys;
    int64_t a_row = d.dim;
    if (isNative(d.type_k, T()) && d.stride_k[3] == 1) {
      a = reinterpret_cast<const T *>(k) + offset(d.stride_k, b, key_head, j);
      a_row = d.stride_k[2];
    } else {
      loadKeys(b, key_head, j, n);
    }
    multiplyKeys(a, a_row, n);
    T scale = static_cast<T>(d.scale);
    for (int64_t i = 0; i < n * blocks.queries; ++i)
      scores[i] *= scale;
    if (d.soft_cap > 0)
      capScores(n);
  }

  void loadKeys(int64_t b, int64_t key_head, int64_t j, int64_t n) {
    for (int64_t p = 0; p < n; ++p)
      loadBlock(keys + p * d.dim, elementAt(k, d.type_k, offset(d.stride_k, b, key_head, j + p)), d.stride_k[3], d.dim, d.type_k);
  }

  void multiplyKeys(const T *rows, int64_t row_step, int64_t n) {
    for (int64_t i = 0; i < n * blocks.queries; ++i)
      scores[i] = 0;
    multiplyBlock(scores, blocks.queries, rows, row_step, int64_t(1), query, blocks.queries, n, blocks.queries, d.dim);
  }

  void applyMask(int64_t b, int64_t h, int64_t first, int64_t count, int64_t j, int64_t n) {
    const int64_t *stride = d.stride_mask;
    bool shared = stride[2] == 0; // one row of the mask serves all queries
    for (int64_t i = 0; i < (shared ? 1 : count); ++i) {
      int64_t start = offset(stride, b, h, first + i) + j * stride[3];
      loadBlock(row, elementAt(mask, d.type_mask, start), stride[3], n, d.type_mask);
      for (int64_t p = 0; p < n; ++p)
        for (int64_t c = i; c < (shared ? count : i + 1); ++c) {
          T &score = scores[p * blocks.queries + c];
          if (d.type_mask == kBool)
            score = row[p] != T(0) ? score : -kInfinity<T>;
          else
            score += row[p];
        }
    }
  }

  void capScores(int64_t n) {
    T cap = static_cast<T>(d.soft_cap), inverse = static_cast<T>(1 / d.soft_cap);
    for (int64_t i = 0; i < n * blocks.queries; ++i)
      scores[i] = cap * tangent(scores[i] * inverse);
  }

  /// Hides the keys that lie too far from their queries.
  void applyWindow(int64_t first, int64_t j, int64_t n) {
    for (int64_t p = 0; p < n; ++p)
      for (int64_t i = 0; i < blocks.queries; ++i)
        if (j + p > first + i + d.after || j + p + d.before < first + i)
          scores[p * blocks.queries + i] = -kInfinity<T>;
  }

  /// Turns scores into weights. While nothing but -inf was seen the maximum stands in as 0, so that no inf - inf arises.
  void updateSoftmax(int64_t n) {
    T *__restrict s = scores;
    int64_t width = blocks.queries;
    for (int64_t i = 0; i < width; ++i)
      factor[i] = top[i];
    for (int64_t p = 0; p < n; ++p)
      for (int64_t i = 0; i < width; ++i)
        top[i] = s[p * width + i] > top[i] ? s[p * width + i] : top[i];
    T base[kMaxQueries], sum[kMaxQueries];
    for (int64_t i = 0; i < width; ++i) {
      base[i] = top[i] == -kInfinity<T> ? T(0) : top[i];
      factor[i] = exponential(factor[i] - base[i]);
      sum[i] = 0;
    }
    for (int64_t p = 0; p < n; ++p)
      for (int64_t i = 0; i < width; ++i) {
        T weight = exponential(s[p * width + i] - base[i]);
        s[p * width + i] = weight;
        sum[i] += weight;
      }
    for (int64_t i = 0; i < width; ++i)
      total[i] = total[i] * factor[i] + sum[i];
  }

  void accumulateValues(int64_t b, int64_t key_head, int64_t j, int64_t n, int64_t count) {
    int64_t lanes = padded<T>(d.value_dim), b_row = lanes;
    const T *rows = values;
    if (isNative(d.type_v, T()) && d.stride_v[3] == 1 && lanes == d.value_dim) {
      rows = reinterpret_cast<const T *>(v) + offset(d.stride_v, b, key_head, j);
      b_row = d.stride_v[2];
    } else {
      loadValues(b, key_head, j, n);
    }
    addWeighted(rows, b_row, n, count);
  }

  void loadValues(int64_t b, int64_t key_head, int64_t j, int64_t n) {
    int64_t lanes = padded<T>(d.value_dim);
    for (int64_t p = 0; p < n; ++p) {
      loadBlock(values + p * lanes, elementAt(v, d.type_v, offset(d.stride_v, b, key_head, j + p)), d.stride_v[3], d.value_dim, d.type_v);
      for (int64_t e = d.value_dim; e < lanes; ++e)
        values[p * lanes + e] = 0;
    }
  }

  void addWeighted(const T *rows, int64_t row_step, int64_t n, int64_t count) {
    int64_t lanes = padded<T>(d.value_dim);
    for (int64_t i = 0; i < count; ++i)
      for (int64_t e = 0; e < lanes; ++e)
        sums[i * lanes + e] *= factor[i];
    multiplyBlock(sums, lanes, scores, int64_t(1), blocks.queries, rows, row_step, count, lanes, n);
  }

  void storeResult(int64_t b, int64_t h, int64_t first, int64_t count) {
    int64_t lanes = padded<T>(d.value_dim);
    for (int64_t i = 0; i < count; ++i) {
      T *result = sums + i * lanes;
      for (int64_t e = 0; e < d.value_dim; ++e)
        result[e] = total[i] == T(0) ? T(0) : result[e] / total[i];
      storeBlock(elementAt(out, d.type_out, offset(d.stride_out, b, h, first + i)), result, d.stride_out[3], d.value_dim, d.type_out);
    }
  }

  const AttentionDescriptor &d;
  char *q, *k, *v, *mask, *out;
  AttentionBlocks blocks;
  T *query, *keys, *values, *scores, *sums; ///< [dim][queries], [keys][dim], [keys][value], [keys][queries], [queries][value]
  T *top, *total, *factor, *row;            ///< per query: maximum, sum, correction; and a row of an argument
};

} // namespace ditc
