// SPDX-License-Identifier: Apache-2.0
//
// What attention_simt.cuh and attention_mma.cuh share: the configuration of a kernel, work items, and masks.
//
//   struct Config {
//     using Query, Key, Value, Output;       // Tensor<...> of rank 4: [batch, head, token, column], any strides
//     using Mask;                            // Tensor<...> over [batch, head, query, key], stride 0 where it repeats;
//                                            // void for none. bool keeps where true, a float is added
//     static constexpr int KEYS_BEFORE, KEYS_AFTER;  // query i sees keys i - KEYS_BEFORE … i + KEYS_AFTER; kAllKeys for all
//     static constexpr double SCALE;
//     static constexpr double SOFT_CAP;      // above 0: scaled scores x become SOFT_CAP · tanh(x / SOFT_CAP)
//     …and the tile sizes of the template
//   };
//
// Scores are kept times log2(e), so that the softmax is a power of two. A masked score is -inf whatever it was before,
// and rows of K and V whose key a mask hides from all queries are not read, so that NaN behind such a mask stays there.
#pragma once

#include "common/tensor.cuh"

namespace ditc {

constexpr double kLog2E = 1.4426950408889634;
constexpr int kAllKeys = 1 << 30;

template <class Value>
__device__ inline Value negativeInfinityOf() {
  return -static_cast<Value>(__int_as_float(0x7f800000));
}

/// One tile of query rows of one head.
struct AttentionTile {
  int batch, head, keyHead, firstQuery;

  template <class Config, int ROWS>
  __device__ static AttentionTile of(unsigned block) {
    constexpr unsigned TILES = divideUp(Config::Query::size(2), ROWS), HEADS = Config::Query::size(1);
    constexpr int SHARED_BY = HEADS / Config::Key::size(1);
    int head = block / TILES % HEADS;
    return {int(block / TILES / HEADS), head, head / SHARED_BY, int(block % TILES) * ROWS};
  }

  /// Keys that some query of the tile may see; the first of them in whole blocks.
  template <class Config, int ROWS>
  __device__ int keyEnd() const {
    int keys = Config::Key::size(2);
    return Config::KEYS_AFTER < kAllKeys ? min(keys, firstQuery + ROWS + Config::KEYS_AFTER) : keys;
  }
  template <class Config, int BLOCK_N>
  __device__ int keyBegin() const {
    return Config::KEYS_BEFORE < kAllKeys ? max(0, firstQuery - Config::KEYS_BEFORE) / BLOCK_N * BLOCK_N : 0;
  }

  template <class T>
  __device__ i64 queryOffset() const { return batch * T::stride(0) + head * T::stride(1); }
  template <class T>
  __device__ i64 keyOffset() const { return batch * T::stride(0) + keyHead * T::stride(1); }
};

/// Whether a query sees a key by their places.
template <class Config>
__device__ inline bool seesKey(int query, int key) {
  return (Config::KEYS_AFTER == kAllKeys || key <= query + Config::KEYS_AFTER) &&
         (Config::KEYS_BEFORE == kAllKeys || key >= query - Config::KEYS_BEFORE);
}

/// A product of query and key as a score in units of log2(e).
__device__ inline float tangent(float x) { return tanhf(x); }
__device__ inline double tangent(double x) { return tanh(x); }
template <class Config, class Value>
__device__ inline Value scoreOf(Value product) {
  if constexpr (Config::SOFT_CAP > 0)
    return Value(Config::SOFT_CAP * kLog2E) * tangent(product * Value(Config::SCALE / Config::SOFT_CAP));
  return product * Value(Config::SCALE * kLog2E);
}

/// The place of a row's ln Σ exp(score) in a dense (batch, head, query).
template <class Config>
__device__ inline i64 sumOffset(const AttentionTile &tile, int query) {
  return (i64(tile.batch) * Config::Query::size(1) + tile.head) * Config::Query::size(2) + query;
}

/// What a mask's element adds to a score, in units of log2(e).
template <class Value, class Element>
__device__ inline Value maskValue(Element mask) {
  Value value = Value(widen(mask)), scaled = value * Value(kLog2E);
  // The lowest numbers of a type stay finite, so that a row of nothing else is averaged, as softmax says.
  return scaled == negativeInfinityOf<Value>() && value != scaled ? value : scaled;
}
template <class Value>
__device__ inline Value maskValue(bool keeps) {
  return keeps ? Value(0) : negativeInfinityOf<Value>();
}

/// The mask of one head.
template <class MaskTensor>
struct HeadMask {
  using Element = typename MaskTensor::Element;
  static constexpr bool PRESENT = true;
  static constexpr bool PER_QUERY = MaskTensor::stride(2) != 0, PER_KEY = MaskTensor::stride(3) != 0;
  const Element *base;

  __device__ HeadMask(const Element *mask, const AttentionTile &tile)
      : base(mask + tile.queryOffset<MaskTensor>()) {}

  __device__ const Element *address(int query, int key) const {
    return base + query * MaskTensor::stride(2) + key * MaskTensor::stride(3);
  }
  __device__ Element at(int query, int key) const { return *address(query, key); }

  /// False only where no query of any tile sees the key; then K and V of the key are not read.
  __device__ bool keepsKey(int key) const {
    return PER_QUERY || maskValue<float>(at(0, key)) != negativeInfinityOf<float>();
  }
};

/// No mask.
template <>
struct HeadMask<void> {
  static constexpr bool PRESENT = false, PER_QUERY = false, PER_KEY = false;
  __device__ HeadMask(const void *, const AttentionTile &) {}
  __device__ bool keepsKey(int) const { return true; }
};

/// score + mask, where -inf of the mask wins over NaN.
template <class Value>
__device__ inline Value addMask(Value score, Value added) {
  return added == negativeInfinityOf<Value>() ? added : score + added;
}

}  // namespace ditc
