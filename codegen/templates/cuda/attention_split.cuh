// SPDX-License-Identifier: Apache-2.0
//
// Which work a block of attention_sm90.cuh does, and the sharing of the last tiles.
//
// Tiles take equally long, so that with T of them on G multiprocessors the last round leaves G - T mod G idle: 7 rounds
// for 6.55 rounds of work at 1×24×4608×128. The host may declare the last `splitTiles` (< G) tiles shared: their key
// blocks, in one line, are dealt out evenly, and a block gets a stretch of at most two tiles.
//
//     tile 0            tile 1            tile 2
//   ├─────────────────┼─────────────────┼─────────────────┤     key blocks of the shared tiles
//   │ block 0   │ block 1   │ block 2   │ block 3   │ … │
//
// Each stretch of a tile leaves its unnormalised O, m and sum in device memory; the warpgroup that finishes last adds
// the parts in the order of their keys, whoever it is, so that the result does not depend on timing. Shared tiles come
// first: their traffic hides behind the whole tiles, and all blocks end together.
#pragma once

#include "attention_masks.cuh"

namespace ditc::attention_sm90 {

/// Where parts of shared tiles meet. `counters` holds CONSUMERS words per shared tile, zero before the first launch and
/// again after each; `parts` holds 2 · G · CONSUMERS slots of 128 · (SUMS + 4) floats.
struct Sharing {
  float *parts;
  u32 *counters;
};

enum class WorkKind { Nothing, Whole, Part };

struct WorkItem {
  WorkKind kind;
  WorkTile tile;
  BlockRange range;
  int shared;  // number of the shared tile, for Part
};

/// The line of key blocks of all shared tiles, and who has which stretch of it.
struct Stretches {
  int blocks;  // key blocks per tile
  u32 units;   // of all shared tiles; times the grid it fits 31 bits up to 16 million keys
  u32 sharers; // blocks that get some: all, unless there are fewer units

  __device__ Stretches(int splitTiles, int blocks)
      : blocks(blocks), units(splitTiles * blocks), sharers(units < gridDim.x ? units : gridDim.x) {}
  __device__ int begin(u32 block) const { return (block < sharers ? block : sharers) * units / sharers; }
  __device__ int firstTile(int block) const { return begin(block) / blocks; }
  __device__ int owner(int unit) const { return ((unit + 1) * sharers - 1) / units; }
  __device__ int slot(int block, int tile) const { return 2 * block + tile - firstTile(block); }
};

/// The number of the whole tile that this block computes in its `round`-th turn. Where late rows see more keys than
/// early ones, the order of blocks is turned around every round, so that no block gets the longest tile every time.
template <class Mask>
__device__ int tileNumber(int round) {
  int place = Mask::GROWS && round % 2 == 1 ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  return round * gridDim.x + place;
}

/// Tiles of one head are neighbours, so that blocks running at the same time share its K and V in the L2 cache; where
/// late rows see more keys, all heads' latest rows come first instead, and the short tiles fill the gaps at the end.
template <class L, class Mask, class Params>
__device__ WorkTile workTile(const Params &p, int number) {
  int rowTiles = ceilDiv(p.queries, L::BLOCK_M), problems = p.heads * p.batch;
  int problem = Mask::GROWS ? number % problems : number / rowTiles;
  int rowTile = Mask::GROWS ? rowTiles - 1 - number / problems : number % rowTiles;
  return {problem / p.heads, problem % p.heads, rowTile * L::BLOCK_M};
}

/// A stretch spans two tiles at most, so a GPU with fewer blocks than the host counted on computes all tiles whole.
template <class Params>
__device__ int sharedTiles(const Params &p) {
  return p.splitTiles <= int(gridDim.x) ? p.splitTiles : 0;
}

/// The item of this block's `step`-th turn; false after the last. Producer and consumers walk the same list.
template <class L, class Mask, class Params>
__device__ bool workItem(const Params &p, const Mask &mask, int step, WorkItem &item) {
  int wholeTiles = ceilDiv(p.queries, L::BLOCK_M) * p.heads * p.batch;
  if constexpr (Mask::EVEN && L::SHARES) {
    int splitTiles = sharedTiles(p);
    wholeTiles -= splitTiles;
    if (splitTiles > 0 && step < 2) {
      Stretches line(splitTiles, ceilDiv(p.keys, L::BLOCK_N));
      item.shared = line.firstTile(blockIdx.x) + step;
      int start = item.shared * line.blocks;
      int first = line.begin(blockIdx.x) - start, last = line.begin(blockIdx.x + 1) - start;
      item.range = {first > 0 ? first : 0, last < line.blocks ? last : line.blocks};
      if (item.range.first >= item.range.last) {
        item.kind = WorkKind::Nothing;
        return true;
      }
      item.tile = workTile<L, Mask>(p, wholeTiles + item.shared);
      item.kind = item.range.last - item.range.first == line.blocks ? WorkKind::Whole : WorkKind::Part;
      return true;
    }
    if (splitTiles > 0)
      step -= 2;
  }
  int number = tileNumber<Mask>(step);
  if (number >= wholeTiles)
    return false;
  item.tile = workTile<L, Mask>(p, number);
  item.range = mask.template range<L::BLOCK_M, L::BLOCK_N>(item.tile, p.keys);
  item.kind = WorkKind::Whole;
  return true;
}

/// Leaves a part behind and adds up all parts if this warpgroup was the last; says whether `output` is complete now.
template <class L, class Softmax, class Params>
__device__ bool joinParts(const Params &p, int sharedTile, int warpgroup, float (&output)[L::SUMS], Softmax &softmax) {
  constexpr int ROWS = L::SUMS + 4;  // floats per thread
  Stretches line(p.splitTiles, ceilDiv(p.keys, L::BLOCK_N));
  int thread = threadIdx.x % 128;
  auto part = [&](int block) {
    return p.sharing.parts + ((long long)line.slot(block, sharedTile) * L::CONSUMERS + warpgroup) * (128 * ROWS) +
           4 * thread;
  };
  int first = line.owner(sharedTile * line.blocks), last = line.owner((sharedTile + 1) * line.blocks - 1);

  float *mine = part(blockIdx.x);
  *reinterpret_cast<float4 *>(mine) = softmax.state();
#pragma unroll
  for (int i = 0; i < L::SUMS; i += 4)
    *reinterpret_cast<float4 *>(mine + 128 * (i + 4)) =
        make_float4(output[i], output[i + 1], output[i + 2], output[i + 3]);

  // All threads' parts are in memory before one thread counts this warpgroup in.
  __threadfence();
  int barrier = 1 + L::CONSUMERS + warpgroup;
  namedSync(barrier, 128);
  u32 *counter = p.sharing.counters + sharedTile * L::CONSUMERS + warpgroup;
  bool complete = thread == 0 && atomicAdd(counter, 1) == u32(last - first);
  if (!namedAny(barrier, 128, complete))
    return false;
  __threadfence();
  if (thread == 0)
    *counter = 0;

  float top[2] = {negativeInfinity(), negativeInfinity()};
  for (int block = first; block <= last; ++block) {
    float4 state = __ldcg(reinterpret_cast<const float4 *>(part(block)));
    top[0] = fmaxf(top[0], state.x);
    top[1] = fmaxf(top[1], state.y);
  }
  softmax.top[0] = top[0];
  softmax.top[1] = top[1];
  softmax.clearSums();
#pragma unroll
  for (int i = 0; i < L::SUMS; ++i)
    output[i] = 0.0f;
  for (int block = first; block <= last; ++block) {
    float4 state = __ldcg(reinterpret_cast<const float4 *>(part(block)));
    float factor[2] = {Softmax::correction(state.x, top[0], p.scaleLog2),
                       Softmax::correction(state.y, top[1], p.scaleLog2)};
    softmax.addSums(state, factor);
#pragma unroll
    for (int i = 0; i < L::SUMS; i += 4) {
      float4 values = __ldcg(reinterpret_cast<const float4 *>(part(block) + 128 * (i + 4)));
      output[i] = __fmaf_rn(values.x, factor[0], output[i]);
      output[i + 1] = __fmaf_rn(values.y, factor[0], output[i + 1]);
      output[i + 2] = __fmaf_rn(values.z, factor[1], output[i + 2]);
      output[i + 3] = __fmaf_rn(values.w, factor[1], output[i + 3]);
    }
  }
  return true;
}

}  // namespace ditc::attention_sm90
