// SPDX-License-Identifier: Apache-2.0
//
// Products that no BLAS takes.
#include "codegen/cuda/families/FamilyUnit.h"
#include "codegen/cuda/families/Families.h"

#include "dialects/dit/Dit.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ditc {

/// An operand as [batch..., rows, columns] of the result's batch, whose missing or single batch dimensions repeat.
static MemRefType withBatch(KernelReader &r, unsigned arg, MemRefType out) {
  MemRefType type = r.type(arg);
  int64_t batch = out.getRank() - 2, own = type.getRank() - 2;
  r.expect(own == batch || own == 0,
           "argument " + llvm::Twine(arg) + " has rank " + llvm::Twine(type.getRank()) + ", expected 2 or " + llvm::Twine(out.getRank()));
  if (r.failed())
    return type;
  SmallVector<int64_t> shape(out.getShape().drop_back(2)), from = plan::layoutOf(type).strides, strides(batch, 0);
  for (int64_t dim = 0; dim < own; ++dim) {
    r.expect(type.getDimSize(dim) == shape[dim] || type.getDimSize(dim) == 1, "argument " + llvm::Twine(arg) + " does not broadcast to the result's batch");
    strides[dim] = type.getDimSize(dim) == 1 ? 0 : from[dim];
  }
  llvm::append_range(shape, type.getShape().take_back(2));
  llvm::append_range(strides, ArrayRef(from).take_back(2));
  return plan::makeMemRef(shape, type.getElementType(), {strides, 0});
}

static MemRefType withLastTwoSwapped(MemRefType type) {
  SmallVector<int64_t> shape(type.getShape()), strides = plan::layoutOf(type).strides;
  size_t last = shape.size() - 1;
  std::swap(shape[last], shape[last - 1]);
  std::swap(strides[last], strides[last - 1]);
  return plan::makeMemRef(shape, type.getElementType(), {strides, 0});
}

FailureOr<CudaUnit> emitMatmul(plan::KernelOp kernel, const CudaArch &) {
  constexpr int64_t kTile = 64, kDepth = 16, kThreads = 256; // common/tile_product.cuh
  FamilyUnit unit(kernel);
  KernelReader &r = unit.read();
  bool hasBias = r.numArgs() == 4;
  r.expectArgs(3 + hasBias);
  MemRefType out = r.type(2 + hasBias);
  r.expect(out.getRank() >= 2 && r.type(0).getRank() >= 2 && r.type(1).getRank() >= 2, "a product needs rank 2 or more");
  auto group = [&](unsigned arg) { return isa<FloatType>(r.type(arg).getElementType()); };
  r.expect(group(0) == group(1) && group(0) == group(r.numArgs() - 1), "arguments must all be floating point or all be integers");
  r.expect(r.type(0).getElementType().isF64() == r.type(1).getElementType().isF64(), "left and right side need one compute type");
  if (r.failed())
    return unit.failure();
  MemRefType lhs = withBatch(r, 0, out), rhs = withBatch(r, 1, out);
  if (!r.failed() && r.flag("transpose_rhs"))
    rhs = withLastTwoSwapped(rhs);
  int64_t rank = out.getRank(), m = out.getDimSize(rank - 2), n = out.getDimSize(rank - 1);
  r.expect(lhs.getShape().take_back(2) == ArrayRef<int64_t>{m, lhs.getShape().back()} &&
               rhs.getShape().take_back(2) == ArrayRef<int64_t>{lhs.getShape().back(), n},
           "the shapes of the product do not fit");
  if (r.failed())
    return unit.failure();
  unit.tensor("Lhs", 0, lhs);
  unit.tensor("Rhs", 1, rhs);
  unit.optionalTensor("Bias", 2, hasBias);
  unit.tensor("Output", 2 + hasBias);
  bool wide = r.type(0).getElementType().isF64() || !group(0);
  int64_t blocks = ShapedType::getNumElements(out.getShape().drop_back(2)) * llvm::divideCeil(m, kTile) * llvm::divideCeil(n, kTile);
  return unit.finish("matmul_simt.cuh", "matmul_simt", {"lhs", "rhs", hasBias ? "bias" : "!bias", "out"}, blocks, kThreads,
                     2 * kDepth * (kTile + 4) * (wide ? 8 : 4));
}

} // namespace ditc
