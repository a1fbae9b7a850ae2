// SPDX-License-Identifier: Apache-2.0
//
// How many threads compute a row, and how many a block has. A row wants a few chunks in every thread, which are loads
// under way at a time; idle threads and registers cost.
#include "codegen/cuda/rowwise/Spaces.h"

using namespace mlir;

namespace ditc::rowwise {

/// Chunks of a row that a warp takes; longer rows are whole blocks.
constexpr int64_t kChunksOfWarp = 160;
/// Fewer rows do not fill a GPU: a row gets as many threads as it can use.
constexpr int64_t kFewRows = 264;

int64_t chunkWidth(int64_t size, int64_t limit) {
  int64_t width = 1;
  while (width * 2 <= limit && size > 0 && size % (width * 2) == 0)
    width *= 2;
  return width;
}

static int64_t chunksOf(const Part &part) { return part.longestRow / chunkWidth(part.longestRow, part.width); }

/// Idle threads and registers that a group of this many threads costs, 1 when nothing is wasted.
static double costOfGroup(const Part &part, int64_t group) {
  int64_t chunks = chunksOf(part), rounds = (chunks + group - 1) / group, values = rounds * chunkWidth(part.longestRow, part.width);
  double cost = static_cast<double>(rounds * group) / static_cast<double>(chunks);
  if (part.rows < kFewRows) // latency counts, not throughput
    return cost * static_cast<double>(rounds + 1);
  if (values > 64)
    return cost * 2;
  return cost * (rounds == 1 ? 1.03 : rounds <= 3 ? 1 : rounds == 4 ? 1.01 : rounds <= 6 ? 1.05 : 1.1);
}

static bool isBlockRow(const Part &part) { return part.hasRows && chunksOf(part) > (part.rows < kFewRows ? 32 : kChunksOfWarp); }

int64_t chooseThreads(MutableArrayRef<Part> parts) {
  int64_t threads = llvm::any_of(parts, [](const Part &part) { return part.hasRows; }) ? 128 : 256;
  if (llvm::any_of(parts, isBlockRow)) {
    double best = -1;
    for (int64_t candidate = 64; candidate <= 1024; candidate += 32) {
      double cost = candidate > 512 ? 0.1 : 0;
      for (const Part &part : parts)
        if (isBlockRow(part))
          cost += costOfGroup(part, candidate) * static_cast<double>(part.rows) * static_cast<double>(part.longestRow);
      if (best < 0 || cost < best * 0.999) {
        best = cost;
        threads = candidate;
      }
    }
  }
  for (Part &part : parts) {
    part.group = 1;
    if (isBlockRow(part))
      part.group = threads;
    else if (part.hasRows)
      for (int64_t candidate = 2; candidate <= 32; candidate *= 2)
        if (costOfGroup(part, candidate) < costOfGroup(part, part.group))
          part.group = candidate;
  }
  return threads;
}

/// Blocks that a multiprocessor should hold at least, which bounds the registers: enough of them for what a thread keeps.
int64_t residentBlocks(ArrayRef<Part> parts, int64_t threads) {
  int64_t values = 0;
  for (const Part &part : parts)
    if (part.hasRows)
      values =
          std::max(values, chunksPerThread(part.longestRow, chunkWidth(part.longestRow, part.width), part.group) * chunkWidth(part.longestRow, part.width));
  int64_t residentThreads = values <= 16 ? 1024 : values <= 40 ? 768 : 512;
  return std::max<int64_t>(residentThreads / threads, 1);
}

} // namespace ditc::rowwise
