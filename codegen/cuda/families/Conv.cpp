// SPDX-License-Identifier: Apache-2.0
//
// conv.cuh: convolutions by scalar arithmetic. Which go to the tensor cores: codegen/cuda/conv/MmaConv.h; depthwise ones: Depthwise.h.
#include "codegen/cuda/families/ConvProblem.h"
#include "codegen/cuda/families/Families.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ditc {

FailureOr<CudaUnit> emitConv(plan::KernelOp kernel, const CudaArch &) {
  constexpr int64_t kTile = 64, kDepth = 16, kThreads = 256; // common/tile_product.cuh
  constexpr int64_t kFewChannels = 8;                        // of a group: a tile would be mostly empty
  FamilyUnit unit(kernel);
  ConvProblem p = ConvProblem::read(unit.read());
  if (unit.read().failed())
    return unit.failure();
  bool direct = p.outChannels() < kFewChannels;
  p.configure(unit);
  unit.flag("DIRECT", direct);
  int64_t tiled = p.output.getDimSize(0) * p.groups * llvm::divideCeil(p.outChannels(), kTile) * llvm::divideCeil(p.positions(), kTile);
  int64_t blocks = direct ? llvm::divideCeil(p.output.getNumElements(), kThreads) : tiled;
  int64_t bytes = p.input.getElementType().isF64() ? 8 : 4;
  return p.finish(unit, "conv.cuh", "conv", blocks, kThreads, direct ? 0 : 2 * kDepth * (kTile + 4) * bytes);
}

} // namespace ditc
