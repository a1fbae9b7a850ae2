// SPDX-License-Identifier: Apache-2.0
//
// The measured configurations, and the rules between them.
#include "codegen/cuda/sm90/AttentionProblem.h"

#include "dialects/dit/Dit.h"
#include "dialects/dit/Tensors.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;

namespace ditc {

namespace {

/// Warpgroups that compute, and keys in a block.
struct Block {
  int consumers, keys;
};

/// The best tiles of a head size without a mask, and with one the widest that do not spill.
struct SizeTiles {
  int headDim; ///< up to this
  int qkPanel, vPanel;
  Block plain, bits, columns, rows; ///< by mask; whole words of bits
};

/// Measured on an H200; see attention_sm90.cuh.
constexpr SizeTiles kTiles[] = {
    {32, 32, 32, {3, 144}, {3, 128}, {3, 128}, {3, 96}},   {40, 64, 64, {3, 128}, {3, 128}, {3, 112}, {3, 96}},   {64, 64, 64, {3, 128}, {3, 128}, {3, 112}, {3, 80}},
    {72, 64, 64, {4, 64}, {4, 64}, {4, 48}, {3, 80}},      {80, 64, 64, {3, 112}, {3, 96}, {3, 96}, {3, 80}},     {88, 64, 64, {2, 160}, {2, 128}, {2, 144}, {2, 128}},
    {96, 64, 64, {2, 160}, {2, 128}, {2, 144}, {2, 128}},  {112, 64, 64, {2, 144}, {2, 128}, {2, 144}, {2, 128}}, {128, 64, 64, {3, 80}, {2, 128}, {2, 128}, {2, 128}},
    {160, 64, 32, {2, 128}, {2, 128}, {2, 112}, {2, 112}}, {192, 64, 64, {2, 96}, {2, 96}, {2, 96}, {2, 96}},     {256, 64, 64, {2, 80}, {2, 64}, {2, 64}, {2, 64}},
};

/// The same of 8-bit operands, whose keys come in panels of 32; with a mask, the widest that spill nothing (12 to 20 bytes at 248).
struct QuantizedTiles {
  int headDim; ///< up to this
  Block plain, masked;
};
constexpr QuantizedTiles kQuantizedTiles[] = {
    {80, {3, 128}, {2, 160}}, {128, {2, 192}, {2, 128}}, {160, {2, 128}, {2, 128}}, {192, {2, 96}, {2, 96}}, {256, {2, 64}, {2, 64}},
};
/// A survey of the keys is worth so many blocks, of so many tokens; the blocks that quantise add up all chunks of a head.
constexpr int64_t kSurveyBlocks = 4 * kHopperMultiprocessors, kLeastChunk = 64, kMostChunks = 32;

const SizeTiles &sizeTiles(const AttentionProblem &p) {
  return *llvm::find_if(kTiles, [size = std::max(p.headDim, p.valueDim)](const SizeTiles &t) { return size <= t.headDim; });
}

bool isUnmasked(const AttentionProblem &p) { return p.mask == AttentionMask::None && p.options.seesAll() && p.options.softCap == 0; }

Block widestBlock(const AttentionProblem &p, const SizeTiles &t) {
  switch (p.mask) {
  case AttentionMask::Bits:
    return t.bits;
  case AttentionMask::Columns:
    return p.type(3).getElementType().isF32() ? t.rows : t.columns; // f32 is not read early
  case AttentionMask::Rows:
    return t.rows;
  case AttentionMask::None:
    return isUnmasked(p) ? t.plain : t.bits;
  }
}

/// A good block for fewer warpgroups, which have more registers each.
int keysFor(Block best, int consumers) {
  constexpr int kKeys[] = {0, 64, 128, 96};
  return consumers == 1 ? std::min(best.keys, kKeys[1]) : std::max(best.keys, kKeys[consumers]);
}

/// A few blocks that are equally full: 300 keys are 3 x 112 rather than 3 x 128, and 512 are 8 x 64 rather than 7 x 80.
int evenBlock(const AttentionProblem &p, int widest) {
  int64_t unit = p.mask == AttentionMask::Bits ? 32 : 16, blocks = llvm::divideCeil(p.keys, widest);
  if (blocks > 8)
    return widest;
  auto evenly = [&](int64_t count) { return std::max<int64_t>(llvm::alignTo(llvm::divideCeil(p.keys, count), unit), 32); };
  bool oneMore = blocks > 1 && (blocks + 1) * evenly(blocks + 1) < blocks * evenly(blocks);
  return static_cast<int>(evenly(blocks + oneMore));
}

/// Tiles behind the last full round of blocks.
int64_t restOf(const AttentionProblem &p, int64_t rows) { return p.batch * p.heads * llvm::divideCeil(p.queries, rows) % kHopperMultiprocessors; }

/// Every query tile sees all key blocks, so that the last tiles may be shared.
bool isEven(const AttentionProblem &p) { return p.options.seesAll() && (p.mask == AttentionMask::None || p.mask == AttentionMask::Rows); }

/// Writing and adding the parts of shared tiles costs about as much as 900 keys (measured: 2x16x1024x72 and 2x8x4096x160
/// lost with 256 and 512 keys to gain, 2x8x4096x40 won with 1400).
constexpr int64_t kLeastGain = 1024;

/// Blocks of keys that get a buffer each.
constexpr int64_t kMostBuffers = 4;

/// Relative time of a launch. A multiprocessor does so many query rows times keys in a microsecond, and a tile costs
/// something beside: fitted to head sizes 40 to 80 and to 128, and right about how choices compare elsewhere.
double estimatedTime(const AttentionProblem &p, int consumers, int blockN) {
  constexpr double kRate[] = {0, 6.0e3, 10.1e3, 13.9e3, 14.7e3}, kWideRate[] = {0, 6.0e3, 10.1e3, 10.8e3, 10.8e3}, kTile[] = {0, 1.5, 2.5, 3.8, 6.0};
  int64_t rows = 64 * consumers, tiles = p.batch * p.heads * llvm::divideCeil(p.queries, rows), rounds = llvm::divideCeil(tiles, kHopperMultiprocessors);
  double rate = (std::max(p.headDim, p.valueDim) > 96 ? kWideRate : kRate)[consumers], keys = static_cast<double>(llvm::alignTo(p.keys, blockN));
  double tile = rows * keys / rate + kTile[consumers], shared = tile * tiles / kHopperMultiprocessors + rows * kLeastGain / rate;
  return isEven(p) ? std::min(rounds * tile, shared) : rounds * tile;
}

} // namespace

AttentionProblem::AttentionProblem(plan::KernelOp kernel) : kernel(kernel), options(kernel) {
  auto flag = [&](StringRef name) { auto attr = kernel.getConfig().getAs<BoolAttr>(name); return attr && attr.getValue(); };
  packedMask = flag("packed_mask"), judgedMask = flag("judged_mask"), sharedTiles = flag("shared_tiles");
  ArrayRef<int64_t> q = type(0).getShape(), k = type(1).getShape();
  isQuantized = type(0).getElementType().isInteger(8);
  batch = q[0], heads = q[1], queries = q[2], headDim = q[3];
  keyHeads = k[1], keys = k[2], valueDim = type(2).getDimSize(isQuantized ? 2 : 3);
  if (options.hasMask)
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
  bool isFloat = is16BitFloat(given.getElementType()) || given.getElementType().isF32();
  return isFloat && given.getDimSize(3) == keys && (keys == 1 || plan::layoutOf(given).strides[3] == 1);
}

Verdict AttentionProblem::verdict() const {
  if (queries == 0 || keys == 0 || batch == 0 || heads == 0 || headDim == 0 || valueDim == 0 || !(options.scale > 0))
    return {Reason::NoSlot};
  if (!typesFit())
    return {Reason::TypeUnsupported};
  if (headDim % 8 != 0 || valueDim % 8 != 0 || std::max(headDim, valueDim) > 256)
    return {Reason::HeadSplitsTile};
  bool copies = canCopy(outIndex()) && (isQuantized || llvm::all_of(std::array{0u, 1u, 2u}, [&](unsigned i) { return canCopy(i); }));
  return copies && maskFits() ? Verdict() : Verdict{Reason::LayoutUnsupported};
}

bool AttentionProblem::quantizes() const {
  bool onlyHides = options.softCap == 0 && (mask == AttentionMask::None || mask == AttentionMask::Bits);
  return isQuantized || (options.quantized && onlyHides && !options.logSumExp && valueDim <= dit::kMaxQuantizedHead);
}

bool AttentionProblem::typesFit() const {
  Type out = type(outIndex()).getElementType();
  return is16BitFloat(out) && (isQuantized || llvm::all_of(std::array{0u, 1u, 2u}, [&](unsigned i) { return type(i).getElementType() == out; }));
}

//===-- attention_sm90.cuh ----------------------------------------------------------------------===//

uint32_t AttentionTiles::sharedBytes(const AttentionProblem &p) const {
  if (quantized) {
    int64_t row = llvm::alignTo(p.headDim, 2 * qkPanel), width = p.valueDim + 8;
    return consumers * (64 * row + 256 * width) + stages * blockN * (row + width) + 8 * (2 * consumers + 4 * stages) + 1024;
  }
  int64_t qk = llvm::alignTo(p.headDim, qkPanel), v = llvm::alignTo(p.valueDim, vPanel);
  return 2 * (64 * consumers * qk + stages * blockN * (qk + v)) + 8 * (2 * consumers + 4 * stages) + 1024;
}

/// Panels are as wide as the rows of Q and K, and as the keys of a block allow.
static AttentionTiles quantizedTilesFor(const AttentionProblem &p) {
  const QuantizedTiles &size = *llvm::find_if(kQuantizedTiles, [size = std::max(p.headDim, p.valueDim)](const QuantizedTiles &t) { return size <= t.headDim; });
  Block block = isUnmasked(p) ? size.plain : size.masked;
  auto panel = [](int64_t bytes) { return bytes % 128 == 0 ? 64 : bytes % 64 == 0 ? 32 : 16; };
  return {block.consumers, block.keys, p.headDim <= 32 ? 16 : p.headDim <= 64 ? 32 : 64, panel(block.keys), 2, true};
}

AttentionTiles attentionTilesFor(const AttentionProblem &p) {
  if (p.quantizes())
    return quantizedTilesFor(p);
  const SizeTiles &size = sizeTiles(p);
  Block best = widestBlock(p, size);
  if (p.options.softCap > 0 && (p.mask != AttentionMask::None || best.consumers > 2)) // needs registers; bits come in words of 32
    best.keys -= best.consumers < 4 || p.mask == AttentionMask::Bits ? 32 : 16;
  AttentionTiles tiles{best.consumers, evenBlock(p, best.keys), size.qkPanel, size.vPanel, 2};
  // Fewer warpgroups where their tiles fill the multiprocessors better.
  for (int consumers = best.consumers - 1; consumers > 0; --consumers)
    if (int keys = evenBlock(p, keysFor(best, consumers)); estimatedTime(p, consumers, keys) < estimatedTime(p, tiles.consumers, tiles.blockN))
      tiles.consumers = consumers, tiles.blockN = keys;
  // Few blocks of keys: all are asked for at once, none waits for a buffer (256 keys: 2 us less of 8). From 1024 keys on two
  // buffers, three and four measured equal.
  if (int64_t blocks = llvm::divideCeil(p.keys, tiles.blockN); blocks <= kMostBuffers)
    tiles.stages = std::max<int>(tiles.stages, blocks);
  while (tiles.stages > 2 && tiles.sharedBytes(p) > kHopperSharedBytes)
    --tiles.stages;
  return tiles;
}

int64_t attentionSharedTiles(const AttentionProblem &p, const AttentionTiles &tiles) {
  if (!isEven(p))
    return 0;
  int64_t rest = restOf(p, tiles.rows());
  return llvm::alignTo(p.keys, tiles.blockN) * (kHopperMultiprocessors - rest) >= kLeastGain * kHopperMultiprocessors ? rest : 0;
}

//===-- attention_small.cuh ---------------------------------------------------------------------===//

uint32_t SmallAttentionTiles::sharedBytes(const AttentionProblem &p) const {
  int64_t qk = llvm::alignTo(p.headDim, panel), v = llvm::alignTo(p.valueDim, panel);
  return 2 * stages * (64 * qk + blockN * (qk + v)) + 8 * stages + 1024;
}

std::optional<SmallAttentionTiles> smallAttentionTilesFor(const AttentionProblem &p) {
  if (p.queries > 64 || p.keys > 64 || p.mask == AttentionMask::Bits || p.isQuantized)
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
  tiles.blocks = static_cast<int>(std::clamp<int64_t>(std::min(65536 / (128 * registers), kHopperSharedBytes / int64_t(tiles.sharedBytes(p) + 1024)), 1, 4));
  return tiles;
}

AttentionNeeds hopperAttentionNeeds(plan::KernelOp kernel) {
  AttentionProblem problem(kernel);
  AttentionNeeds needs;
  if (problem.packedMask || problem.judgedMask || problem.sharedTiles || problem.isQuantized || !problem.fits() || smallAttentionTilesFor(problem))
    return needs;
  AttentionTiles tiles = attentionTilesFor(problem);
  if (tiles.quantized) {
    int64_t chunks = std::clamp<int64_t>(llvm::divideCeil(kSurveyBlocks, problem.batch * problem.keyHeads), 1, kMostChunks);
    needs.quantizedKeys = tiles.blockN;
    needs.keyPitch = llvm::alignTo(llvm::alignTo(problem.keys, tiles.blockN), kQuantizedTile);
    needs.chunkKeys = std::max<int64_t>(kLeastChunk, llvm::divideCeil(problem.keys, chunks));
  }
  if (problem.mask == AttentionMask::Bits)
    needs.maskRows = tiles.rows(), needs.maskKeys = tiles.blockN;
  if (problem.mask == AttentionMask::Columns && problem.keys > tiles.blockN)
    needs.biasKeys = tiles.blockN;
  if (int64_t shared = attentionSharedTiles(problem, tiles)) {
    needs.parts = 2 * kHopperMultiprocessors * tiles.consumers * 128 * (problem.valueDim / 2 + (tiles.quantized ? 8 : 4));
    needs.counters = shared * tiles.consumers;
  }
  return needs;
}

} // namespace ditc
