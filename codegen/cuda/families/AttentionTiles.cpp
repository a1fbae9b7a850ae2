// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/families/AttentionTiles.h"

#include "codegen/cuda/families/FamilyUnit.h"

#include <algorithm>

namespace ditc {

/// As attention_mma.cuh computes it.
int64_t MmaAttentionTile::sharedBytes(const AttentionSizes &p) const {
  int64_t pitch = llvm::alignTo(p.dim, 16) + 8, valuePitch = llvm::alignTo(p.valueDim, 16) + 8;
  return 2 * (rows() * pitch + stages * keys * (pitch + valuePitch));
}

namespace {

bool fitsTwice(const MmaAttentionTile &tile, const AttentionSizes &p, const CudaArch &arch) { return 2 * (tile.sharedBytes(p) + kBlockOverhead) <= sharedBytesOf(arch); }

/// The most keys a step that leave no register spilled, but for a few bytes of odd head sizes, where warps have two bands of
/// 16 rows; 0 where one band does.
int64_t mostKeysOfPairs(int64_t columns, Hidden hidden, int64_t stages) {
  if (columns > 128 || hidden == Hidden::ByQuery)
    return 0;
  if (hidden == Hidden::ByKey) // a step's part of the mask takes registers, too
    return columns <= 48 ? 80 : columns <= 80 ? 64 : columns <= 96 ? 48 : 0;
  return columns <= 48 ? 128 : columns <= 96 ? 96 : stages == 2 && hidden == Hidden::None ? 64 : 48;
}

/// No more steps than the most keys would take, as equally full as multiples of 16 allow.
int64_t evenKeys(const AttentionSizes &p, int64_t most) {
  int64_t keys = std::max<int64_t>(p.keys, 1);
  return llvm::alignTo(llvm::divideCeil(keys, llvm::divideCeil(keys, most)), 16);
}

} // namespace

/// Two blocks of two-band warps where a multiprocessor has room for them: they hide each other's waits, which is worth more
/// than many keys a step. Else, for wide heads on small multiprocessors, one block of eight one-band warps
/// (attention_mma.cuh has the times). Masks by query take the registers of the second band.
MmaAttentionTile chooseMmaAttentionTile(const AttentionSizes &p, const CudaArch &arch, Hidden hidden) {
  constexpr int64_t kFewBlocks = 100, kFewKeys = 32, kMostKeys = 64;
  int64_t columns = llvm::alignTo(std::max(p.dim, p.valueDim), 16);
  bool pairs = mostKeysOfPairs(columns, hidden, 1) > 0 && p.queries > 64 && p.blocks(128) >= kFewBlocks;
  if (pairs && columns > 96) // wide heads gain by two stages
    if (MmaAttentionTile tile{4, 2, evenKeys(p, mostKeysOfPairs(columns, hidden, 2)), 2}; fitsTwice(tile, p, arch))
      return tile;
  for (int64_t keys = pairs ? mostKeysOfPairs(columns, hidden, 1) : 0; keys >= kFewKeys; keys -= 16)
    if (MmaAttentionTile tile{4, 2, evenKeys(p, keys), 1}; fitsTwice(tile, p, arch))
      return tile;
  int64_t warps = pairs ? 8 : 4; // of blocks that are alone
  while (warps > 1 && 16 * warps / 2 >= p.queries)
    warps /= 2;
  MmaAttentionTile best{};
  for (int64_t keys = kMostKeys; keys > 0; keys -= 16) {
    MmaAttentionTile tile{warps, 1, evenKeys(p, keys), 1};
    if (tile.sharedBytes(p) > sharedLimitOf(arch))
      continue;
    if (best.keys == 0)
      best = tile;
    if (keys >= kFewKeys && fitsTwice(tile, p, arch))
      return tile;
  }
  return best;
}

} // namespace ditc
