// SPDX-License-Identifier: Apache-2.0
//
// The measured configurations, and the rules between them.
#include "codegen/cuda/sm90/AttentionProblem.h"

#include "dialects/dit/Dit.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;

namespace ditc {

namespace {

constexpr int64_t kSharedLimit = 232448; // bytes a block may have

bool is16Bit(Type type) { return type.isBF16() || type.isF16(); }

/// The best tiles of a head size without a mask, and the widest key blocks with one that do not spill.
struct SizeTiles {
  int headDim; ///< up to this
  int consumers, blockN, qkPanel, vPanel;
  int bits, columns, rows; ///< blockN by mask; whole words of bits
};

/// Measured on an H200; see attention_sm90.cuh.
constexpr SizeTiles kTiles[] = {
    {32, 3, 144, 32, 32, 128, 128, 128}, {40, 3, 128, 64, 64, 128, 128, 128},  {64, 3, 128, 64, 64, 128, 128, 128}, {72, 3, 128, 64, 64, 96, 112, 96},
    {80, 3, 112, 64, 64, 96, 112, 80},    {88, 2, 144, 64, 64, 128, 144, 144},  {96, 2, 144, 64, 64, 128, 144, 144}, {112, 2, 144, 64, 64, 128, 144, 144},
    {128, 2, 128, 64, 64, 128, 128, 128}, {160, 2, 128, 64, 32, 128, 128, 128}, {192, 2, 112, 64, 64, 96, 96, 96}, {256, 2, 80, 64, 64, 64, 80, 80},
};

const SizeTiles &sizeTiles(const AttentionProblem &p) {
  return *llvm::find_if(kTiles, [size = std::max(p.headDim, p.valueDim)](const SizeTiles &t) { return size <= t.headDim; });
}

int widestBlock(const AttentionProblem &p, const SizeTiles &t) {
  switch (p.mask) {
  case AttentionMask::Bits:
    return t.bits;
  case AttentionMask::Columns:
    return p.type(3).getElementType().isF32() ? std::min(t.columns, t.rows) : t.columns; // f32 is not read early
  case AttentionMask::Rows:
    return t.rows;
  case AttentionMask::None:
    return p.causal ? t.blockN / 32 * 32 : t.blockN;
  }
}

} // namespace

AttentionProblem::AttentionProblem(plan::KernelOp kernel) : kernel(kernel) {
  auto flag = [&](StringRef name) { auto attr = kernel.getConfig().getAs<BoolAttr>(name); return attr && attr.getValue(); };
  causal = flag("causal"), hasMask = flag("has_mask"), packedMask = flag("packed_mask"), sharedTiles = flag("shared_tiles");
  scale = kernel.getConfig().getAs<FloatAttr>("scale").getValueAsDouble();
  ArrayRef<int64_t> q = type(0).getShape(), k = type(1).getShape();
  batch = q[0], heads = q[1], queries = q[2], headDim = q[3];
  keyHeads = k[1], keys = k[2], valueDim = type(2).getDimSize(3);
  if (hasMask)
    mask = packedMask || type(3).getElementType().isInteger(1) ? AttentionMask::Bits : maskStride(2) == 0 ? AttentionMask::Columns : AttentionMask::Rows;
}

int64_t AttentionProblem::alignment(unsigned i) const {
  auto list = kernel.getConfig().getAs<DenseI64ArrayAttr>("alignments");
  return list ? list[i] : dit::elementBytes(type(i).getElementType());
}

int64_t AttentionProblem::maskStride(unsigned dim) const { return type(3).getDimSize(dim) == 1 ? 0 : plan::layoutOf(type(3)).strides[dim]; }

/// Rows of 16-byte pieces, and no dimension that is repeated.
bool AttentionProblem::canCopy(unsigned arg) const {
  plan::Layout layout = plan::layoutOf(type(arg));
  ArrayRef<int64_t> shape = type(arg).getShape();
  if (alignment(arg) < 16 || (layout.strides[3] != 1 && shape[3] > 1))
    return false;
  for (unsigned d = 0; d < 3; ++d)
    if (shape[d] > 1 && (layout.strides[d] <= 0 || layout.strides[d] % 8 != 0))
      return false;
  return true;
}

bool AttentionProblem::maskFits() const {
  if (mask == AttentionMask::None || packedMask)
    return true;
  MemRefType given = type(3);
  if (mask == AttentionMask::Bits) // the grid of the kernel that packs
    return given.getDimSize(0) * given.getDimSize(1) <= 65535 && llvm::divideCeil(queries, 64) <= 65535;
  bool isFloat = is16Bit(given.getElementType()) || given.getElementType().isF32();
  return isFloat && given.getDimSize(3) == keys && (keys == 1 || plan::layoutOf(given).strides[3] == 1);
}

bool AttentionProblem::fits() const {
  int64_t widest = std::max(headDim, valueDim);
  if (queries == 0 || keys == 0 || batch == 0 || heads == 0 || headDim % 8 != 0 || valueDim % 8 != 0 || widest > 256 || headDim == 0 || valueDim == 0 || !(scale > 0))
    return false;
  for (unsigned i : {0u, 1u, 2u, outIndex()})
    if (!is16Bit(type(i).getElementType()) || type(i).getElementType() != type(0).getElementType() || !canCopy(i))
      return false;
  return maskFits();
}

//===-- attention_sm90.cuh ----------------------------------------------------------------------===//

uint32_t AttentionTiles::sharedBytes(const AttentionProblem &p) const {
  int64_t qk = llvm::alignTo(p.headDim, qkPanel), v = llvm::alignTo(p.valueDim, vPanel);
  return 2 * (64 * consumers * qk + stages * blockN * (qk + v)) + 8 * (2 * consumers + 4 * stages) + 4 * stages + 1024;
}

AttentionTiles attentionTilesFor(const AttentionProblem &p) {
  const SizeTiles &size = sizeTiles(p);
  AttentionTiles tiles{size.consumers, widestBlock(p, size), size.qkPanel, size.vPanel, 2};
  // Few tiles: smaller ones fill more multiprocessors. Short sequences want short blocks as well.
  auto count = [&](int consumers) { return p.batch * p.heads * llvm::divideCeil(p.queries, 64 * consumers); };
  while (tiles.consumers > 1 && (count(tiles.consumers) < kAttentionMultiprocessors || p.queries <= 64 * (tiles.consumers - 1)))
    --tiles.consumers;
  if (tiles.consumers == 1)
    tiles.blockN = std::min(tiles.blockN, 64);
  // A few blocks that are equally full: 300 keys are 3 x 112 rather than 3 x 128.
  int64_t unit = p.mask == AttentionMask::Bits ? 32 : 16, blocks = llvm::divideCeil(p.keys, tiles.blockN);
  if (blocks <= 8)
    tiles.blockN = std::max<int64_t>(llvm::alignTo(llvm::divideCeil(p.keys, blocks), unit), 32);
  return tiles;
}

int64_t attentionSharedTiles(const AttentionProblem &p, const AttentionTiles &tiles) {
  // Writing and adding parts costs about as much as 7 key blocks (measured: 2x16x1024x72 and 2x8x4096x160 lost with 2
  // and 4 blocks to gain, 2x8x4096x40 won with 11).
  constexpr int64_t kLeastGain = 8;
  if (p.causal || p.mask == AttentionMask::Bits)
    return 0;
  int64_t rest = p.batch * p.heads * llvm::divideCeil(p.queries, tiles.rows()) % kAttentionMultiprocessors;
  int64_t blocks = llvm::divideCeil(p.keys, tiles.blockN);
  return blocks * (kAttentionMultiprocessors - rest) >= kLeastGain * kAttentionMultiprocessors ? rest : 0;
}

//===-- attention_small.cuh ---------------------------------------------------------------------===//

uint32_t SmallAttentionTiles::sharedBytes(const AttentionProblem &p) const {
  int64_t qk = llvm::alignTo(p.headDim, panel), v = llvm::alignTo(p.valueDim, panel);
  return 2 * stages * (64 * qk + blockN * (qk + v)) + 8 * stages + 1024;
}

std::optional<SmallAttentionTiles> smallAttentionTilesFor(const AttentionProblem &p) {
  if (p.queries > 64 || p.keys > 64 || p.mask == AttentionMask::Bits)
    return std::nullopt;
  SmallAttentionTiles tiles{64, 1, static_cast<int>(llvm::alignTo(p.keys, 16)), 64, 1, 1};
  // Several short problems in the 64 rows of a tile, as long as their keys leave registers. A bias is read by the columns
  // of one problem.
  for (int segment : {32, 16}) {
    int64_t packed = 64 / segment, blockN = packed * llvm::alignTo(p.keys, 16 / packed);
    if (p.queries > segment || blockN > 128 || p.mask != AttentionMask::None || p.batch * p.heads < packed)
      break;
    tiles.segment = segment, tiles.blockN = static_cast<int>(blockN);
    tiles.packHeads = p.heads == p.keyHeads ? static_cast<int>(std::gcd(packed, p.heads)) : 1;
  }
  // As many blocks on a multiprocessor as registers and shared memory allow.
  int64_t registers = llvm::alignTo(tiles.blockN * 3 / 4 + p.valueDim / 2 + 40, 8);
  tiles.blocks = static_cast<int>(std::clamp<int64_t>(std::min(65536 / (128 * registers), kSharedLimit / (tiles.sharedBytes(p) + 1024)), 1, 4));
  return tiles;
}

AttentionNeeds hopperAttentionNeeds(plan::KernelOp kernel) {
  AttentionProblem problem(kernel);
  AttentionNeeds needs;
  if (problem.packedMask || problem.sharedTiles || !problem.fits() || smallAttentionTilesFor(problem))
    return needs;
  AttentionTiles tiles = attentionTilesFor(problem);
  if (problem.mask == AttentionMask::Bits)
    needs.maskRows = tiles.rows(), needs.maskKeys = tiles.blockN;
  if (int64_t shared = attentionSharedTiles(problem, tiles)) {
    needs.parts = 2 * kAttentionMultiprocessors * tiles.consumers * 128 * (problem.valueDim / 2 + 4);
    needs.counters = shared * tiles.consumers;
  }
  return needs;
}

} // namespace ditc
