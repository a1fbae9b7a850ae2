// SPDX-License-Identifier: Apache-2.0
//
// dit.attention: which template, and which tiles fit the head sizes and the architecture's shared memory.
#include "codegen/cuda/families/AttentionTiles.h"
#include "codegen/cuda/families/FamilyUnit.h"
#include "codegen/cuda/families/Families.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ditc {
namespace {

constexpr int64_t kMaxMmaHead = 256, kMaxHead = 512;

struct SimtTile {
  int64_t groups, rowsEach, keys;
  int64_t threads() const { return 16 * groups; }
  /// As attention_simt.cuh computes it.
  int64_t sharedBytes(const AttentionSizes &p, int64_t bytes) const {
    int64_t vector = 16 / bytes, columns = llvm::alignTo(p.dim, vector), rows = groups * rowsEach;
    int64_t pitch = columns + (columns / vector % 2 == 0 ? vector : 0), valueColumns = llvm::alignTo(p.valueDim, 16 * 8 / bytes);
    return (rows * pitch + keys * std::max(pitch, valueColumns) + rows * (keys + 4)) * bytes;
  }
};

/// Rows per thread as the registers for the output allow; then the largest tile that leaves room for a second block,
/// or that fits at all.
SimtTile chooseSimtTile(const AttentionSizes &p, int64_t bytes, const CudaArch &arch) {
  constexpr SimtTile kTiles[] = {{16, 0, 64}, {16, 0, 32}, {8, 0, 32}, {8, 0, 16}};
  int64_t mostKeys = bytes == 8 ? 32 : 64; // registers again
  int64_t outputWords = llvm::alignTo(p.valueDim, 16 * 8 / bytes) / 16 * (bytes / 4);
  int64_t rowsEach = outputWords <= 16 ? 4 : outputWords <= 32 ? 2 : 1;
  for (int64_t limit : {int64_t(sharedLimitOf(arch)) / 2, int64_t(sharedLimitOf(arch))})
    for (SimtTile tile : kTiles) {
      tile.rowsEach = rowsEach;
      if (tile.keys <= mostKeys && tile.sharedBytes(p, bytes) <= limit)
        return tile;
    }
  return {8, 1, 16};
}

/// Checks what the template relies on.
AttentionSizes readSizes(KernelReader &r, const AttentionOptions &options) {
  bool hasMask = options.hasMask;
  r.expectArgs(4 + hasMask + options.logSumExp);
  for (unsigned i = 0; i < r.numArgs(); ++i)
    if (!options.logSumExp || i != 3u + hasMask)
      r.expectRank(i, 4);
  if (r.failed())
    return {};
  MemRefType q = r.type(0), k = r.type(1), v = r.type(2), out = r.type(r.numArgs() - 1);
  for (MemRefType type : {q, k, v, out})
    r.expect(isa<FloatType>(type.getElementType()), "attention needs floating-point arguments");
  r.expect(k.getElementType() == q.getElementType() && v.getElementType() == q.getElementType(), "query, key and value need one type");
  if (hasMask)
    r.expect(r.type(3).getElementType().isInteger(1) || isa<FloatType>(r.type(3).getElementType()), "a mask is boolean or floating point");
  AttentionSizes p{q.getDimSize(0), q.getDimSize(1), q.getDimSize(2), k.getDimSize(2), q.getDimSize(3), v.getDimSize(3)};
  r.expect(k.getDimSize(1) > 0 && p.heads % k.getDimSize(1) == 0,
           llvm::Twine(p.heads) + " query heads do not share " + llvm::Twine(k.getDimSize(1)) + " key heads");
  r.expect(p.dim >= 1 && p.valueDim >= 1 && p.dim <= kMaxHead && p.valueDim <= kMaxHead,
           "heads of " + llvm::Twine(p.dim) + " and " + llvm::Twine(p.valueDim) + " columns; attention kernels of GPUs take 1 to " + llvm::Twine(kMaxHead) +
               "; export with program.run_decompositions(), which makes products and a softmax of it, or compile for the host");
  r.expect(p.queries < int64_t(1) << 30 && p.keys < int64_t(1) << 30, "more than 2^30 tokens");
  return p;
}

Hidden hiddenBy(KernelReader &r, const AttentionOptions &options) {
  if (options.hasMask)
    return r.type(3).getDimSize(2) > 1 ? Hidden::ByQuery : Hidden::ByKey;
  return options.seesAll() ? Hidden::None : Hidden::ByPlace;
}

} // namespace

Verdict mmaAttentionVerdict(plan::KernelOp kernel) {
  if (kernel.getArgType(0).getElementTypeBitWidth() != 16)
    return {Reason::TypeUnsupported};
  int64_t widest = std::max(kernel.getArgType(0).getShape().back(), kernel.getArgType(2).getShape().back());
  return widest <= kMaxMmaHead ? Verdict() : Verdict{Reason::HeadSplitsTile};
}

FailureOr<CudaUnit> emitAttention(plan::KernelOp kernel, const CudaArch &arch) { return emitTiledAttention(kernel, arch, nullptr); }

FailureOr<CudaUnit> emitTiledAttention(plan::KernelOp kernel, const CudaArch &arch, const MmaAttentionTile *wanted) {
  FamilyUnit unit(kernel);
  KernelReader &r = unit.read();
  AttentionOptions options(kernel);
  bool hasMask = options.hasMask;
  AttentionSizes p = readSizes(r, options);
  double scale = r.number("scale");
  if (r.failed())
    return unit.failure();
  unit.tensor("Query", 0);
  unit.tensor("Key", 1);
  unit.tensor("Value", 2);
  if (hasMask)
    unit.tensor("Mask", 3, withRepeats(r.type(3)));
  else
    unit.config("using Mask = void");
  unit.tensor("Output", r.numArgs() - 1);
  unit.constant("KEYS_BEFORE", options.before);
  unit.constant("KEYS_AFTER", options.after);
  unit.config("static constexpr double SCALE = " + doubleText(scale) + ", SOFT_CAP = " + doubleText(options.softCap));
  StringRef names[] = {"query", "key", "value", hasMask ? "mask" : "!mask", options.logSumExp ? "logSumExp" : "!logSumExp", "out"};

  int64_t bytes = r.type(0).getElementTypeBitWidth() / 8;
  if (mmaAttentionVerdict(kernel)) {
    MmaAttentionTile tile = wanted ? *wanted : chooseMmaAttentionTile(p, arch, hiddenBy(r, options));
    unit.config("static constexpr int WARPS = " + llvm::Twine(tile.warps) + ", BANDS = " + llvm::Twine(tile.bands) + ", BLOCK_N = " + llvm::Twine(tile.keys) +
                ", STAGES = " + llvm::Twine(tile.stages));
    return unit.finish("attention_mma.cuh", "attention_mma", names, p.blocks(tile.rows()), 32 * tile.warps, tile.sharedBytes(p));
  }
  int64_t computeBytes = std::max<int64_t>(bytes, 4);
  SimtTile tile = chooseSimtTile(p, computeBytes, arch);
  unit.config("static constexpr int TY = " + llvm::Twine(tile.groups) + ", TM = " + llvm::Twine(tile.rowsEach) + ", BLOCK_N = " + llvm::Twine(tile.keys));
  return unit.finish("attention_simt.cuh", "attention_simt", names, p.blocks(tile.groups * tile.rowsEach), tile.threads(), tile.sharedBytes(p, computeBytes));
}

} // namespace ditc
