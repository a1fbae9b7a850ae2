// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/sm90/GemmTiles.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;

namespace ditc {

namespace {

constexpr int64_t kMultiprocessors = 132; // H100 SXM, H200

/// A tile with the rate of its inner loop, relative to the best.
struct Candidate {
  GemmTiles tiles;
  double rate;
};

/// Ping-pong tiles hide their epilogues; cooperative ones have small tails. Rates are those of long products.
const Candidate kCandidates[] = {
    {{.m = 128, .n = 192, .stages = 4, .pingpong = true}, 1.0},
    {{.m = 128, .n = 128, .stages = 6, .pingpong = true}, 0.97},
    {{.m = 128, .n = 64, .stages = 8, .pingpong = true}, 0.75},
    {{.m = 128, .n = 128, .stages = 6, .pingpong = false}, 0.90},
    {{.m = 128, .n = 64, .stages = 8, .pingpong = false}, 0.65},
};

/// Time of all tiles in units of a full-rate multiply-add per multiprocessor and step. A ping-pong block has two tiles
/// under way at half the rate each, so its last tile takes twice as long as it would alone.
double cost(ArrayRef<GemmSize> sizes, const Candidate &candidate) {
  const GemmTiles &t = candidate.tiles;
  double tiles = tileCount(sizes, t), perTile = static_cast<double>(t.m) * t.n / candidate.rate;
  double steps = llvm::divideCeil(sizes.front().k, 64);
  constexpr double kFixedSteps = 6; // filling the pipeline, and the epilogue where nothing hides it
  double waves = std::ceil(tiles / kMultiprocessors);
  double fixed = t.pingpong && waves > 1 ? kFixedSteps : kFixedSteps * waves;
  return perTile * (waves * steps + fixed);
}

} // namespace

int64_t tileCount(ArrayRef<GemmSize> sizes, const GemmTiles &tiles) {
  int64_t count = 0;
  for (const GemmSize &size : sizes)
    count += llvm::divideCeil(size.rows, tiles.m * tiles.clusterM) * size.batches * llvm::divideCeil(size.columns, tiles.n * tiles.clusterN);
  return count;
}

GemmTiles chooseGemmTiles(ArrayRef<GemmSize> sizes, int64_t head, ArrayRef<int64_t> multiples, bool residual) {
  const Candidate *best = nullptr;
  auto fits = [&](int64_t width) { return (head == 0 || width % head == 0) && llvm::all_of(multiples, [&](int64_t columns) { return columns % width == 0; }); };
  for (const Candidate &candidate : kCandidates)
    if (fits(candidate.tiles.n) && (!best || cost(sizes, candidate) < cost(sizes, *best)))
      best = &candidate;
  GemmTiles tiles = best->tiles;
  if (head == 96)
    tiles.box = 48;
  if (residual) { // its boxes are filled during the k loop: a warp's share of the tile
    tiles.boxes = 4;
    while (tiles.sharedBytes() > 232448)
      --tiles.stages;
  }
  return tiles;
}

} // namespace ditc
