// SPDX-License-Identifier: Apache-2.0
//
// How many threads compute a row, and how many a block has. A row wants a few chunks in every thread, which are loads
// under way at a time; idle threads and registers cost.
#include "codegen/cuda/rowwise/Emitter.h"

using namespace mlir;

namespace ditc::rowwise {

/// Chunks of a row that a warp takes; longer rows are whole blocks.
constexpr int64_t kChunksOfWarp = 160;
/// Threads of a held row at least: they read whole cache lines.
constexpr int64_t kLeastOfHeld = 8;
/// Rows that a thread with few chunks of each takes.
constexpr int64_t kRowsEach = 4;
/// Fewer rows do not fill a GPU: a row gets as many threads as it can use.
constexpr int64_t kFewRows = 264;
/// Fewer rows are all under way at once with a warp each: what a thread does in turn counts, not what it leaves idle.
constexpr int64_t kSomeRows = 4224;

int64_t chunkWidth(int64_t size, int64_t limit) {
  int64_t width = 1;
  while (width * 2 <= limit && size > 0 && size % (width * 2) == 0)
    width *= 2;
  return width;
}

static int64_t chunksOf(const Part &part) { return part.longestRow / chunkWidth(part.longestRow, part.width); }

static bool isBlockRow(const Part &part) { return part.hasRows && chunksOf(part) > (part.rows < kFewRows ? 32 : kChunksOfWarp); }

/// Latency counts, not throughput.
static bool isShort(const Part &part) { return part.hasRows && part.rows < (isBlockRow(part) ? kFewRows : kSomeRows); }

/// Idle threads and registers that a group of this many threads costs, 1 when nothing is wasted.
static double costOfGroup(const Part &part, int64_t group) {
  int64_t chunks = chunksOf(part), rounds = (chunks + group - 1) / group, values = rounds * chunkWidth(part.longestRow, part.width);
  double cost = static_cast<double>(rounds * group) / static_cast<double>(chunks);
  if (isShort(part))
    return cost * static_cast<double>(rounds + 1);
  if (part.isHeld && values <= kMostHeld) { // the more rows are under way the better, and idle threads cost little
    double each = static_cast<double>(chunks) / static_cast<double>(group), few = 0.07 * std::max(0.0, 3 - each);
    double many = group > 32 ? 0.005 * std::max(0.0, each - 3.5) : rounds > 10 ? 0.1 : 0;
    return 0.98 + 0.02 * cost + few + many;
  }
  if (values > kMostKept)
    return cost * 2;
  return cost * (rounds == 1 ? 1.03 : rounds <= 3 ? 1 : rounds == 4 ? 1.01 : rounds <= 6 ? 1.05 : 1.1);
}

/// A thread with few chunks of a row takes several rows, so that enough loads are under way.
static int64_t chooseRowsEach(const Part &part, int64_t threads) {
  int64_t chunks = (chunksOf(part) + part.group - 1) / part.group, rows = threads / part.group * kRowsEach;
  bool helps = part.hasRows && part.group < 32 && chunks <= 2 && part.rows % rows == 0 && part.rows / rows >= 4 * kFewRows;
  return helps ? kRowsEach : 1;
}

std::optional<Part> withOneChunk(const Part &part) {
  if (part.rowsEach == 1 || part.group > 16 || chunksOf(part) != 2 * part.group)
    return std::nullopt;
  Part wider = part;
  wider.group *= 2;
  return wider;
}

int64_t chooseThreads(MutableArrayRef<Part> parts) {
  // Short launches spread over all multiprocessors by small blocks (DiT-XL/2 256²: 1.3 us less of 3.8 for a LayerNorm).
  int64_t threads = llvm::all_of(parts, isShort) ? 64 : llvm::any_of(parts, [](const Part &part) { return part.hasRows; }) ? 128 : 256;
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
    part.group = part.isHeld ? kLeastOfHeld : 1;
    if (isBlockRow(part))
      part.group = threads;
    else if (part.hasRows)
      for (int64_t candidate = 2 * part.group; candidate <= 32; candidate *= 2)
        if (costOfGroup(part, candidate) < costOfGroup(part, part.group))
          part.group = candidate;
    part.rowsEach = chooseRowsEach(part, threads);
  }
  return threads;
}

/// Blocks that a multiprocessor should hold at least, which bounds the registers: enough of them for what a thread keeps.
int64_t residentBlocks(ArrayRef<Part> parts, int64_t threads) {
  int64_t residentThreads = 1024;
  for (const Part &part : parts)
    if (part.hasRows) {
      int64_t width = chunkWidth(part.longestRow, part.width), values = chunksPerThread(part.longestRow, width, part.group) * width * part.rowsEach;
      int64_t registers = (values / 2 + 35) / 8 * 8;
      int64_t fit = isShort(part) ? 256 : part.isHeld ? 65536 / registers : values <= 16 ? 1024 : values <= 24 ? 768 : values <= 40 ? 640 : 512;
      residentThreads = std::min(residentThreads, fit);
    }
  return std::max<int64_t>(residentThreads / threads, 1);
}

} // namespace ditc::rowwise
