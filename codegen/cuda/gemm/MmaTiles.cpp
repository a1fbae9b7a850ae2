// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/gemm/MmaTiles.h"

#include "codegen/cuda/families/FamilyUnit.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;

namespace ditc {

namespace {

/// A tile with the rate of its inner loop, relative to the best: how many products a matrix read from shared memory
/// serves, and how many warps hide each other's waits.
struct Candidate {
  MmaTiles tiles;
  double rate;
  int blocksPerSm;
};

/// Widths of a warp are those of most chunks: 64, 96 or 128 columns.
const Candidate kCandidates[] = {
    {{.m = 128, .n = 128, .k = 32, .warpsM = 2, .warpsN = 2}, 1.0, 2},  // a warp: 64 x 64
    {{.m = 128, .n = 128, .k = 32, .warpsM = 4, .warpsN = 1}, 0.95, 2}, // 32 x 128
    {{.m = 128, .n = 96, .k = 32, .warpsM = 4, .warpsN = 1}, 0.9, 2},   // 32 x 96
    {{.m = 128, .n = 64, .k = 32, .warpsM = 4, .warpsN = 1}, 0.85, 2},  // 32 x 64
    {{.m = 64, .n = 128, .k = 32, .warpsM = 2, .warpsN = 2}, 0.85, 2},  // 32 x 64
    {{.m = 64, .n = 128, .k = 32, .warpsM = 4, .warpsN = 1}, 0.75, 2},  // 16 x 128
    {{.m = 64, .n = 96, .k = 32, .warpsM = 4, .warpsN = 1}, 0.7, 2},    // 16 x 96
    {{.m = 64, .n = 64, .k = 64, .warpsM = 4, .warpsN = 1}, 0.65, 2},   // 16 x 64
};

/// Tiles of whole chunks whose size is none of those.
void addChunkTiles(int64_t columns, SmallVectorImpl<Candidate> &candidates) {
  int64_t step = narrowestTile(columns);
  if (columns % 32 == 0)
    return;
  for (int n = step; n <= 256; n += step) {
    if (n <= 144) // accumulators
      candidates.push_back({{.m = 128, .n = n, .k = 32, .warpsM = 4, .warpsN = 1}, n > 96 ? 0.95 : 0.9, 2});
    candidates.push_back({{.m = 64, .n = n, .k = 32, .warpsM = 4, .warpsN = 1}, n > 96 ? 0.75 : 0.7, 2});
  }
}

/// Of the GPUs of data centres, or the largest of a generation.
int multiprocessorsOf(const CudaArch &arch) {
  if (arch.isPortable())
    return 108;
  switch (arch.number) {
  case 80: return 108;
  case 86: return 84;
  case 89: return 142;
  case 90: return 132;
  case 100: return 148;
  default: return 170;
  }
}

/// Time of all tiles in units of a full-rate multiply-add per multiprocessor.
double cost(ArrayRef<GemmSize> sizes, const Candidate &candidate, int multiprocessors) {
  const MmaTiles &t = candidate.tiles;
  constexpr double kFixed = 192; // values of k that take as long as filling the pipeline and the epilogue
  double steps = kFixed + llvm::alignTo(sizes.front().k * sizes.front().operandBytes / 2, t.k);
  double perSm = std::ceil(static_cast<double>(tileCount(sizes, t)) / multiprocessors);
  double alone = perSm < candidate.blocksPerSm ? 0.75 : 1; // nothing hides its waits
  return perSm * steps * t.m * t.n / (candidate.rate * alone);
}

} // namespace

int64_t tileCount(ArrayRef<GemmSize> sizes, const MmaTiles &tiles) {
  int64_t count = 0;
  for (const GemmSize &size : sizes)
    count += llvm::divideCeil(size.rows, tiles.m) * size.batches * llvm::divideCeil(size.columns, tiles.n);
  return count;
}

std::vector<MmaTiles> mmaCandidates(const CudaArch &arch, ArrayRef<GemmSize> sizes, int64_t columns, ArrayRef<int64_t> multiples) {
  int multiprocessors = multiprocessorsOf(arch);
  auto fits = [&](const MmaTiles &t) { return t.n / t.warpsN % columns == 0 && llvm::all_of(multiples, [&](int64_t width) { return width % t.n == 0; }); };
  std::vector<std::pair<double, MmaTiles>> found;
  SmallVector<Candidate> all(std::begin(kCandidates), std::end(kCandidates));
  addChunkTiles(columns, all);
  for (const Candidate &candidate : all) {
    if (!fits(candidate.tiles))
      continue;
    MmaTiles tiles = candidate.tiles;
    constexpr int kMaxStages = 5;
    uint32_t perBlock = sharedBytesOf(arch) / candidate.blocksPerSm - kBlockOverhead;
    tiles.stages = std::min<int>(kMaxStages, perBlock / tiles.stageBytes());
    found.emplace_back(cost(sizes, candidate, multiprocessors), tiles);
  }
  llvm::stable_sort(found, [](const auto &a, const auto &b) { return a.first < b.first; });
  std::vector<MmaTiles> candidates;
  for (const auto &[time, tiles] : found)
    candidates.push_back(tiles);
  return candidates;
}

MmaTiles chooseMmaTiles(const CudaArch &arch, ArrayRef<GemmSize> sizes, int64_t columns, ArrayRef<int64_t> multiples) {
  return mmaCandidates(arch, sizes, columns, multiples).front();
}

} // namespace ditc
