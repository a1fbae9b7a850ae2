// SPDX-License-Identifier: Apache-2.0
//
// How many queries and keys the attention template works on at a time, and the scratch memory that this takes. The
// compiler reserves the scratch, so it asks the same function. Wide heads get smaller blocks: all arrays stay in
// the second-level cache, and the scratch fits a thread's stack.
#pragma once

#include <stdint.h>

namespace ditc {

constexpr int64_t kMaxQueries = 64;
constexpr int64_t kMaxHeadDim = 2048;

struct AttentionBlocks {
  int64_t queries, keys;
};

constexpr AttentionBlocks attentionBlocks(int64_t dim, int64_t value_dim, int64_t bytes) {
  int64_t widest = dim > value_dim ? dim : value_dim;
  if (widest * bytes <= 512)
    return {64, 64};
  if (widest * bytes <= 2048)
    return {32, 32};
  return {16, 16};
}

/// Bytes of scratch: queries, keys, values, scores, results, and a few rows.
constexpr int64_t attentionScratchBytes(int64_t dim, int64_t value_dim, int64_t bytes) {
  AttentionBlocks blocks = attentionBlocks(dim, value_dim, bytes);
  int64_t value_lanes = (value_dim + 15) / 16 * 16;
  int64_t elements = (dim + value_lanes) * (blocks.queries + blocks.keys) + blocks.keys * blocks.queries + 3 * blocks.queries + blocks.keys + dim;
  return elements * bytes;
}

/// With what quantised attention holds beside: the mean of keys, the largest values, scales of queries and keys.
constexpr int64_t quantizedAttentionScratchBytes(int64_t dim, int64_t value_dim) {
  AttentionBlocks blocks = attentionBlocks(dim, value_dim, 4);
  return attentionScratchBytes(dim, value_dim, 4) + (dim + (value_dim + 15) / 16 * 16 + blocks.queries + blocks.keys) * 4;
}

} // namespace ditc
