// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/sm90/GemmTiles.h"

#include "codegen/cuda/sm90/Hopper.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;

namespace ditc {

namespace {

struct Shape {
  int m, n, consumers, split;
  bool pingpong;
  int clusterM = 1;
  bool operator==(const Shape &) const = default;
};

/// Ping-pong tiles hide their epilogues; cooperative ones have small tails; split ones are for few tiles; pairs of blocks that
/// share an operand save energy, which is time once the board is at its power limit.
constexpr Shape kShapes[] = {
    {128, 192, 2, 1, true},     {128, 176, 2, 1, true},     {128, 144, 2, 1, true},     {128, 128, 2, 1, true},  {128, 64, 2, 1, true},
    {128, 256, 2, 1, false},    {128, 192, 2, 1, false},    {128, 176, 2, 1, false},    {128, 144, 2, 1, false}, {128, 128, 2, 1, false},
    {128, 96, 2, 1, false},     {128, 64, 2, 1, false},     {128, 64, 2, 2, false},     {128, 64, 2, 4, false},  {128, 96, 2, 2, false},
    {128, 128, 2, 2, false},    {128, 128, 2, 3, false},    {128, 144, 2, 3, false},    {128, 192, 2, 3, false}, {128, 192, 2, 4, false},
    {192, 192, 3, 1, false, 2}, {128, 192, 2, 1, true, 2},  {128, 128, 2, 1, true, 2},  {128, 256, 2, 1, false, 2}, {128, 144, 2, 1, true, 2},
};

/// None of the wider tiles above is as wide as a part of each weight: 2240 columns of each are 35 of 64.
bool needOtherWidths(ArrayRef<int64_t> weightColumns) {
  return !weightColumns.empty() && llvm::none_of(kShapes, [&](const Shape &shape) {
    return shape.n >= 128 && llvm::all_of(weightColumns, [&](int64_t columns) { return columns % shape.n == 0; });
  });
}

/// Tiles of whole heads, and of weights, for sizes that have few of those above, or none. Blocks that share one need not finish
/// equally many heads: warps begin with different blocks.
void addShapes(const GemmNeeds &needs, SmallVectorImpl<Shape> &shapes) {
  auto add = [&](Shape shape) {
    if (!llvm::is_contained(shapes, shape))
      shapes.push_back(shape);
  };
  bool otherHeads = needs.head % 32 != 0;
  if (!otherHeads && !needOtherWidths(needs.weightColumns))
    return;
  int64_t step = otherHeads ? narrowestTile(needs.head) : 16;
  for (int n = step; n <= 256; n += step) {
    add({128, n, 2, 1, false});
    if (n <= 192)
      add({128, n, 2, 1, true}), add({128, n, 2, 1, true, 2});
    for (int split : {2, 3, 4})
      add({128, n, 2, split, false});
  }
}

/// Columns of a staging box for a tile's results: 64, or an odd multiple of 16 or, for heads, of 8; 0 when there is none.
int boxOf(int width, const GemmNeeds &needs) {
  for (int box = needs.head; box > 0; box -= 8)
    if (needs.head % box == 0 && (box == 64 || box % 32 == 16 || box % 16 == 8))
      return box;
  for (int box : {64, 48, 80, 112, 144, 176, 16})
    if (width % box == 0 && llvm::all_of(needs.outputBegins, [&](int64_t begin) { return begin % box == 0; }))
      return box;
  return 0;
}

std::optional<GemmTiles> fit(const Shape &shape, int64_t steps, const GemmNeeds &needs) {
  int width = shape.n / (needs.gated ? 2 : 1);
  bool wholeHeads = needs.head == 0 || width % needs.head == 0;
  bool wholeWeights = llvm::all_of(needs.weightColumns, [&](int64_t columns) { return columns % shape.n == 0; });
  GemmTiles tiles{.m = shape.m, .n = shape.n, .stages = 8, .consumers = shape.consumers, .clusterM = shape.clusterM, .pingpong = shape.pingpong, .split = shape.split};
  tiles.box = boxOf(width, needs);
  if ((needs.gated && shape.split > 1) || !wholeHeads || !wholeWeights || tiles.box == 0 || width % tiles.box != 0 || (shape.split > 1 && steps < 2 * shape.split))
    return std::nullopt;
  int widest = needs.loadsRows ? needs.head > 0 ? 144 : 128 : shape.n; // wider ones would spill
  if (shape.pingpong && shape.n > widest)
    return std::nullopt;
  int rowsOfConsumer = shape.m / (shape.pingpong ? 1 : shape.consumers), boxesOfTile = shape.split > 1 ? tiles.finishedBy(tiles.box) / tiles.box : rowsOfConsumer / 64 * width / tiles.box;
  tiles.boxes = tiles.box > 64 ? 1 : std::min(needs.residual ? 4 : 2, boxesOfTile); // a residual's boxes are filled during the k loop
  while (tiles.sharedBytes() > kHopperSharedBytes && tiles.stages > 4)
    --tiles.stages;
  while (tiles.sharedBytes() > kHopperSharedBytes && tiles.boxes > 1)
    --tiles.boxes;
  while (tiles.sharedBytes() > kHopperSharedBytes && tiles.stages > 2)
    --tiles.stages;
  return tiles.sharedBytes() > kHopperSharedBytes || !tiles.exchangeFits(needs.chunk(tiles.box)) ? std::nullopt : std::optional(tiles);
}

/// Steps of k, 128 bytes of each operand: as long for 128 values of e4m3 as for 64 of bf16.
int64_t stepsOf(const GemmSize &size) { return llvm::divideCeil(size.k * size.operandBytes, 128); }

/// Blocks that run at the same time in clusters of so many: a part of the GPU whose blocks may be one holds 16 or so multiprocessors.
int blocksAtOnce(int cluster) {
  switch (cluster) {
  case 1:
  case 2:
    return kHopperMultiprocessors;
  case 3:
    return 117;
  case 4:
    return 120;
  case 5:
    return 110;
  default:
    return 96;
  }
}

/// Blocks of a cluster start later, meet, and take in what others have summed up, about 20 bytes a cycle.
double exchangeCost(const GemmTiles &t) { return 1.1 * (t.split - 1) + 4.0 * t.m * t.n * (t.split - 1) / t.split / 39e3; }

/// Microseconds on an H200, fitted to measured launches of 1 to 18 waves (tests/bench/results): a step takes the tensor cores
/// some time a column, or the copies of its operands; a launch fills its pipeline and finishes its last tiles; cooperative
/// tiles finish every wave unhidden. Copies count in short launches; in others the board is at its power limit, where the
/// multiprocessors' clock falls, but not that of the L2 cache.
double cost(ArrayRef<GemmSize> sizes, const GemmTiles &t, bool gated) {
  double blocks = static_cast<double>(tileCount(sizes, t)) * t.cluster(), waves = std::ceil(blocks / blocksAtOnce(t.cluster()));
  double steps = llvm::divideCeil(stepsOf(sizes.front()), t.split);
  double multiplication = (0.032 + 0.00206 * t.n) * t.m / 128, copies = waves > 2 ? 0 : 128.0 * (t.m + t.n) / 100e3;
  double finish = 0.009 * t.n;
  if (gated && t.n > 128) // measured 1 to 5 % behind the narrower ones, which plain products are not
    multiplication *= 1.03;
  if (t.clusterM * t.clusterN > 1) // of two products narrow tiles only: Q, K and V of two streams are 3 to 7 % faster
    multiplication *= waves > 2 && (sizes.size() == 1 || t.n <= 128) ? 0.97 : 1.03;
  double start = 2 + 0.01 * t.n, loop = steps * std::max(multiplication, copies);
  if (t.split > 1) // a cluster has one tile: waves share nothing
    return waves * (start + loop + exchangeCost(t));
  return start + waves * loop + (t.pingpong ? 0.6 : (waves - 1) * finish);
}

} // namespace

GemmNeeds GemmNeeds::of(const GemmKernel &kernel) {
  return {kernel.program.head, kernel.weightColumns(), kernel.outputBegins(), kernel.epilogue().residual.has_value(), kernel.program.gated, kernel.epilogue().loadsRows};
}

int64_t tileCount(ArrayRef<GemmSize> sizes, const GemmTiles &tiles) {
  int64_t count = 0;
  for (const GemmSize &size : sizes)
    count += llvm::divideCeil(size.rows, tiles.m * tiles.clusterM) * size.batches * llvm::divideCeil(size.columns, tiles.n * tiles.clusterN);
  return count;
}

double gemmMicroseconds(ArrayRef<GemmSize> sizes, const GemmNeeds &needs) { return cost(sizes, gemmCandidates(sizes, needs).front(), needs.gated); }

std::vector<GemmTiles> gemmCandidates(ArrayRef<GemmSize> sizes, const GemmNeeds &needs) {
  int64_t steps = stepsOf(sizes.front());
  std::vector<GemmTiles> fitting;
  std::vector<std::pair<double, size_t>> order; // time, number in `fitting`
  SmallVector<Shape> shapes(std::begin(kShapes), std::end(kShapes));
  addShapes(needs, shapes);
  for (const Shape &shape : shapes)
    if (std::optional<GemmTiles> tiles = fit(shape, steps, needs)) {
      order.emplace_back(cost(sizes, *tiles, needs.gated), fitting.size());
      fitting.push_back(*tiles);
    }
  llvm::sort(order);
  std::vector<GemmTiles> candidates;
  for (auto [time, i] : order)
    candidates.push_back(fitting[i]);
  return candidates;
}

} // namespace ditc
