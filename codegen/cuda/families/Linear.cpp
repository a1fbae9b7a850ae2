// SPDX-License-Identifier: Apache-2.0
//
// Linear attention: linear_state.cuh and linear_apply.cuh, and their forms on tensor cores for operands of 16 bits.
#include "codegen/cuda/families/FamilyUnit.h"
#include "codegen/cuda/families/Families.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ditc {
namespace {

constexpr int64_t kPatch = 32, kTokens = 128, kLimit = int64_t(1) << 31; // linear_attention.cuh and both kernels
constexpr uint32_t kThreads = 256, kStateBytes = 2 * kTokens * kPatch * 4, kApplyBytes = kPatch * (kTokens + kPatch + 4 + 1) * 4;

int64_t patches(int64_t channels) { return llvm::divideCeil(channels, kPatch); }

/// [B, H, N, C] of floats that fp32 holds.
void expectTokens(KernelReader &r, unsigned arg) {
  r.expectRank(arg, 4);
  r.expect(isa<FloatType>(r.type(arg).getElementType()) && !r.type(arg).getElementType().isF64(), "linear attention computes in fp32");
  r.expect(r.failed() || r.type(arg).getDimSize(2) < kLimit, "more than 2^31 tokens");
}

/// [parts, B, H, E or with a normaliser E + 1, D] of f32, whose E and D are those of the operands.
void expectState(KernelReader &r, unsigned arg, MemRefType tokens, int64_t e, bool normaliser) {
  r.expectRank(arg, 5);
  r.expect(r.type(arg).getElementType().isF32(), "the state of linear attention is f32");
  ArrayRef<int64_t> shape = r.type(arg).getShape();
  r.expect(r.failed() || shape.drop_front() == ArrayRef<int64_t>{tokens.getDimSize(0), tokens.getDimSize(1), e + normaliser, tokens.getDimSize(3)},
           "the state of linear attention does not fit its operands");
}

//===-- On tensor cores ---------------------------------------------------------------------------------===//

constexpr int64_t kMmaStateTokens = 64, kMmaStateStages = 3, kMmaApplyTokens = 128; // linear_state_mma.cuh, linear_apply_mma.cuh
constexpr uint32_t kMmaThreads = 128;
/// Blocks from which on a GPU is busy, so that each may go through more tokens, and the most that it does.
constexpr int64_t kManyBlocks = 1056, kMostTokens = 16 * kMmaApplyTokens;

/// Are eight channels of a token one piece of 16 bytes, everywhere?
bool hasPieces(FamilyUnit &unit, unsigned arg) {
  MemRefType type = unit.read().type(arg);
  SmallVector<int64_t> strides = plan::layoutOf(type).strides;
  bool apart = llvm::any_of(llvm::seq(3), [&](int dim) { return type.getDimSize(dim) > 1 && strides[dim] % 8 != 0; });
  return dit::elementBytes(type.getElementType()) == 2 && type.getDimSize(3) % 8 == 0 && strides[3] == 1 && !apart && unit.alignmentOf(arg) % 16 == 0;
}

int64_t mmaTile(int64_t channels) { return channels <= 32 ? 32 : 64; }

uint32_t mmaApplyBytes(int64_t depth, int64_t tile) { return 2 * (llvm::alignTo(depth, 16) + 8) * 2 * (kMmaApplyTokens + tile + 8); }

} // namespace

FailureOr<CudaUnit> emitLinearState(plan::KernelOp kernel, const CudaArch &) {
  FamilyUnit unit(kernel);
  KernelReader &r = unit.read();
  r.expectArgs(3);
  expectTokens(r, 0);
  expectTokens(r, 1);
  bool normaliser = r.flag("normaliser"), relu = r.flag("relu");
  if (r.failed())
    return unit.failure();
  MemRefType key = r.type(0), value = r.type(1), state = r.type(2);
  expectState(r, 2, key, value.getDimSize(3), normaliser);
  r.expect(key.getShape().drop_back() == value.getShape().drop_back(), "keys and values differ in batch, heads or tokens");
  r.expect(r.failed() || (state.getDimSize(0) > 0 && key.getDimSize(2) % state.getDimSize(0) == 0), "tokens do not come in equal parts");
  if (r.failed())
    return unit.failure();
  unit.tensor("Key", 0);
  unit.tensor("Value", 1);
  unit.tensor("Output", 2);
  unit.constant("PARTS", state.getDimSize(0));
  unit.flag("RELU", relu);
  unit.flag("NORMALISER", normaliser);
  int64_t sums = state.getDimSize(0) * key.getDimSize(0) * key.getDimSize(1), d = key.getDimSize(3), e = value.getDimSize(3);
  if (key.getElementType() == value.getElementType() && hasPieces(unit, 0) && hasPieces(unit, 1)) {
    int64_t tile = mmaTile(std::max(d, e));
    unit.constant("TILE", tile);
    uint32_t bytes = kMmaStateStages * 2 * kMmaStateTokens * (tile + 8) * 2;
    return unit.finish("linear_state_mma.cuh", "linear_state_mma", {"key", "value", "out"}, sums * llvm::divideCeil(d, tile) * llvm::divideCeil(e, tile), kMmaThreads, bytes);
  }
  int64_t blocks = sums * patches(e) * patches(d);
  return unit.finish("linear_state.cuh", "linear_state", {"key", "value", "out"}, blocks, kThreads, kStateBytes);
}

FailureOr<CudaUnit> emitLinearApply(plan::KernelOp kernel, const CudaArch &arch) {
  FamilyUnit unit(kernel);
  KernelReader &r = unit.read();
  r.expectArgs(3);
  expectTokens(r, 0);
  expectTokens(r, 2);
  bool normaliser = r.flag("normaliser"), relu = r.flag("relu");
  double epsilon = r.number("epsilon");
  if (r.failed())
    return unit.failure();
  MemRefType query = r.type(0), out = r.type(2);
  expectState(r, 1, query, out.getDimSize(3), normaliser);
  r.expect(query.getShape().drop_back() == out.getShape().drop_back(), "queries and results differ in batch, heads or tokens");
  if (r.failed())
    return unit.failure();
  unit.tensor("Query", 0);
  unit.tensor("State", 1);
  unit.tensor("Output", 2);
  unit.flag("RELU", relu);
  unit.flag("NORMALISER", normaliser);
  unit.config("static constexpr float EPSILON = " + doubleText(epsilon));
  int64_t heads = query.getDimSize(0) * query.getDimSize(1), tokens = query.getDimSize(2), e = out.getDimSize(3), tile = mmaTile(e);
  uint32_t bytes = mmaApplyBytes(query.getDimSize(3), tile);
  if (query.getElementType().isBF16() && hasPieces(unit, 0) && bytes <= sharedLimitOf(arch)) {
    int64_t columns = heads * llvm::divideCeil(e, tile), all = columns * llvm::divideCeil(tokens, kMmaApplyTokens);
    int64_t ofBlock = std::clamp(all / kManyBlocks * kMmaApplyTokens, kMmaApplyTokens, kMostTokens);
    unit.constant("TILE", tile);
    unit.constant("TOKENS", ofBlock);
    return unit.finish("linear_apply_mma.cuh", "linear_apply_mma", {"query", "state", "out"}, columns * llvm::divideCeil(tokens, ofBlock), kMmaThreads, bytes);
  }
  int64_t blocks = heads * llvm::divideCeil(tokens, kTokens) * patches(e);
  return unit.finish("linear_apply.cuh", "linear_apply", {"query", "state", "out"}, blocks, kThreads, kApplyBytes);
}

} // namespace ditc
