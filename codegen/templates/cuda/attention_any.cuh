// SPDX-License-Identifier: Apache-2.0
//
// What attention_simt.cuh and attention_mma.cuh share: the configuration of a kernel, work items, and masks.
//
//   struct Config {
//     using Query, Key, Value, Output;       // Tensor<...> of rank 4: [batch, head, token, column], any strides
//     using Mask;                            // Tensor<...> over [batch, head, query, key], stride 0 where it repeats;
//                                            // void for none. bool keeps where true, a float is added
//     static constexpr bool CAUSAL;          // query i sees keys 0 … i
//     static constexpr double SCALE;
//     …and the tile sizes of the template
//   };
//
// Scores are kept times log2(e), so that the softmax is a power of two. A masked score is -inf whatever it was before,
// and rows of V whose key no query of the tile sees are not read, so that NaN behind a mask stays there.
#pragma once

#include "common/tensor.cuh"

namespace ditc {

constexpr double kLog2E = 1.4426950408889634;

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

  /// Keys that some query of the tile may see.
  template <class Config, int ROWS>
  __device__ int keyEnd() const {
    int keys = Config::Key::size(2);
    return Config::CAUSAL ? min(keys, firstQuery + ROWS) : keys;
  }

  template <class T>
  __device__ i64 queryOffset() const { return batch * T::stride(0) + head * T::stride(1); }
  template <class T>
  __device__ i64 keyOffset() const { return batch * T::stride(0) + keyHead * T::stride(1); }
};

/// What a mask's element adds to a score, in units of log2(e).
template <class Value, class Element>
__device__ inline Value maskValue(Element mask) {
  return Value(widen(mask)) * Value(kLog2E);
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
