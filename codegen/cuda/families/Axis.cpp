// SPDX-License-Identifier: Apache-2.0
//
// Operations along one axis (arg_reduce, scan, sort), and scatter.
#include "codegen/cuda/families/FamilyUnit.h"
#include "codegen/cuda/families/Families.h"

#include "dialects/dit/Dit.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ditc {
namespace {

bool isFloat(MemRefType type) { return isa<FloatType>(type.getElementType()); }

/// Checks what kernels along an axis have in common: arguments of one rank, an axis within it.
int64_t readAxis(KernelReader &r, unsigned args) {
  r.expectArgs(args);
  int64_t axis = r.integer("axis"), rank = r.type(0).getRank();
  for (unsigned i = 1; i < args; ++i)
    r.expectRank(i, rank);
  r.expect(axis >= 0 && axis < rank, "axis " + llvm::Twine(axis) + " is outside rank " + llvm::Twine(rank));
  r.expect(r.failed() || r.type(0).getDimSize(axis) < int64_t(1) << 31, "more than 2^31 elements along axis " + llvm::Twine(axis));
  return r.failed() ? 0 : axis;
}

int64_t linesOf(MemRefType type, int64_t axis) {
  int64_t lines = 1;
  for (auto [dim, size] : llvm::enumerate(type.getShape()))
    lines *= static_cast<int64_t>(dim) == axis ? 1 : size;
  return lines;
}

/// A warp per line.
int64_t warpBlocks(int64_t lines, uint32_t threads) { return llvm::divideCeil(lines, threads / 32); }

} // namespace

FailureOr<CudaUnit> emitArgReduce(plan::KernelOp kernel, const CudaArch &) {
  constexpr uint32_t kThreads = 128; // arg_reduce.cuh
  FamilyUnit unit(kernel);
  KernelReader &r = unit.read();
  int64_t axis = readAxis(r, 2);
  StringRef kind = r.word("kind");
  r.expect(kind == "max" || kind == "min", "unknown kind '" + kind + "'");
  r.expect(r.type(1).getElementType().isInteger(64), "positions are i64");
  if (r.failed())
    return unit.failure();
  unit.tensor("Input", 0);
  unit.tensor("Output", 1);
  unit.constant("AXIS", axis);
  unit.flag("MAX", kind == "max");
  return unit.finish("arg_reduce.cuh", "arg_reduce", {"input", "out"}, warpBlocks(linesOf(r.type(0), axis), kThreads), kThreads);
}

FailureOr<CudaUnit> emitScan(plan::KernelOp kernel, const CudaArch &) {
  constexpr uint32_t kThreads = 128; // scan.cuh
  FamilyUnit unit(kernel);
  KernelReader &r = unit.read();
  int64_t axis = readAxis(r, 2);
  StringRef kind = r.word("kind");
  r.expect(kind == "sum" || kind == "prod", "unknown kind '" + kind + "'");
  r.expect(isFloat(r.type(1)) || !isFloat(r.type(0)), "a scan of floating-point numbers gives such numbers");
  if (r.failed())
    return unit.failure();
  unit.tensor("Input", 0);
  unit.tensor("Output", 1);
  unit.constant("AXIS", axis);
  unit.flag("PRODUCT", kind == "prod");
  return unit.finish("scan.cuh", "scan", {"input", "out"}, warpBlocks(linesOf(r.type(0), axis), kThreads), kThreads);
}

FailureOr<CudaUnit> emitSort(plan::KernelOp kernel, const CudaArch &) {
  constexpr uint32_t kThreads = 256; // sort.cuh
  constexpr int64_t kInShared = 4096;
  FamilyUnit unit(kernel);
  KernelReader &r = unit.read();
  int64_t axis = readAxis(r, 3);
  r.expect(r.type(1).getElementType() == r.type(0).getElementType(), "a sort keeps the type");
  r.expect(r.type(2).getElementType().isInteger(64), "positions are i64");
  if (r.failed())
    return unit.failure();
  int64_t length = r.type(0).getDimSize(axis), lines = linesOf(r.type(0), axis);
  bool inShared = length <= kInShared;
  int64_t size = inShared ? std::max<int64_t>(2, llvm::PowerOf2Ceil(length)) : 0, keyBytes = isFloat(r.type(0)) && !r.type(0).getElementType().isF64() ? 4 : 8;
  unit.tensor("Input", 0);
  unit.tensor("Values", 1);
  unit.tensor("Indices", 2);
  unit.constant("AXIS", axis);
  unit.flag("DESCENDING", r.flag("descending"));
  unit.constant("SIZE", size);
  return unit.finish("sort.cuh", "sort", {"input", "values", "indices"}, inShared ? lines : lines * llvm::divideCeil(length, kThreads), kThreads,
                     inShared ? size * (keyBytes + 4) : kThreads * keyBytes);
}

FailureOr<CudaUnit> emitScatter(plan::KernelOp kernel, const CudaArch &) {
  constexpr uint32_t kThreads = 128, kColumns = 32 * 4; // scatter.cuh
  FamilyUnit unit(kernel);
  KernelReader &r = unit.read();
  r.expectArgs(4);
  r.expectRank(1, 1);
  MemRefType base = r.type(0), updates = r.type(2), out = r.type(3);
  r.expect(isa<IntegerType>(r.type(1).getElementType()), "indices are integers");
  r.expect(base.getRank() >= 1 && base.getShape() == out.getShape() && updates.getRank() == base.getRank(), "base, updates and result need one rank");
  r.expect(base.getElementType() == updates.getElementType() && base.getElementType() == out.getElementType(), "base, updates and result need one type");
  if (r.failed())
    return unit.failure();
  unit.tensor("Base", 0);
  unit.tensor("Indices", 1);
  unit.tensor("Updates", 2);
  unit.tensor("Output", 3);
  unit.flag("ADD", r.flag("add"));
  int64_t warps = base.getDimSize(0) * llvm::divideCeil(linesOf(base, 0), kColumns);
  return unit.finish("scatter.cuh", "scatter", {"base", "indices", "updates", "out"}, warpBlocks(warps, kThreads), kThreads);
}

} // namespace ditc
