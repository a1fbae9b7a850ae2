// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/tuning/GemmTuning.h"

#include "codegen/cuda/gemm/MmaGemm.h"
#include "codegen/cuda/sm90/Hopper.h"
#include "codegen/cuda/tuning/TileFields.h"
#include "dialects/fusion/Cost.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/ranges.h>
#include <set>

using namespace mlir;

namespace ditc {

namespace {

std::string sizesText(const GemmKernel &gemm) {
  std::vector<std::string> products;
  for (auto [problem, size] : llvm::zip(gemm.program.problems, gemm.sizes))
    products.push_back(fmt::format("{}x{}x{}x{}", size.batches, size.rows, size.columns, fmt::join(problem.k, "+")));
  return fmt::format("{}", fmt::join(products, ", "));
}

/// "tanh", "exp": functions that cost more than a few multiply-adds.
std::set<std::string> functionsOf(Block &body) {
  std::set<std::string> names;
  body.walk([&](Operation *op) {
    if (isa_and_nonnull<math::MathDialect>(op->getDialect()) && !isa<math::FmaOp, math::AbsFOp>(op))
      names.insert(op->getName().stripDialect().str());
  });
  return names;
}

/// The same tiles, shared by a cluster of `m` by `n` blocks. Tiles whose k is split have clusters of their own.
GemmTiles sharedBy(GemmTiles tiles, int m, int n) {
  if (tiles.split == 1)
    tiles.clusterM = m, tiles.clusterN = n;
  return tiles;
}

/// The model's list with what it has no good opinion on: operands that clusters share, taller groups. Where a launch takes
/// several waves, sharing saves power and so time, if only once the GPU is at its power limit; elsewhere shapes matter more.
std::vector<GemmTiles> hopperCandidates(ArrayRef<GemmSize> sizes, const GemmNeeds &needs, size_t most) {
  std::vector<GemmTiles> shapes = gemmCandidates(sizes, needs), list;
  bool hasWaves = tileCount(sizes, sharedBy(shapes.front(), 1, 1)) > kHopperMultiprocessors;
  size_t shared = hasWaves ? 4 : 2, widely = hasWaves ? 2 : 0, plain = hasWaves ? most * 3 / 8 : most * 3 / 4;
  auto first = [&](size_t count) { return ArrayRef(shapes).take_front(count); };
  auto taller = [](GemmTiles tiles) {
    tiles.group *= 2;
    return tiles;
  };
  list.push_back(shapes.front());
  for (const GemmTiles &tiles : first(shared))
    llvm::append_range(list, ArrayRef{sharedBy(tiles, 1, 1), sharedBy(tiles, 2, 1)});
  for (const GemmTiles &tiles : first(widely))
    list.push_back(sharedBy(tiles, 1, 2));
  llvm::append_range(list, first(std::max<size_t>(plain, 1)));
  llvm::append_range(list, ArrayRef{taller(sharedBy(shapes.front(), 1, 1)), taller(sharedBy(shapes.front(), 2, 1))});
  llvm::append_range(list, shapes);
  return list;
}

} // namespace

std::string epilogueClass(const GemmKernel &gemm) {
  const TileProblem &problem = gemm.program.problems.front();
  const EpilogueText &epilogue = gemm.epilogue();
  std::vector<std::string> words;
  auto number = [&](const char *what, size_t count) { words.push_back(fmt::format("{} {}", count, what)); };
  if (gemm.program.gated)
    words.push_back("gated");
  else if (problem.weights.size() > 1)
    number("weights", problem.weights.size());
  dit::MatmulOp product = problem.product();
  if (product.getBias())
    words.push_back("bias");
  for (const std::string &function : functionsOf(*gemm.program.body))
    words.push_back(function);
  if (!gemm.program.body->getOps<dit::NormOp>().empty())
    words.push_back("norm");
  if (gemm.program.head > 0)
    words.push_back(fmt::format("heads of {}", gemm.program.head));
  if (epilogue.residual)
    words.push_back("residual");
  if (epilogue.pointers.size() > 0)
    number("operands", epilogue.pointers.size());
  if (problem.outputs.size() > 1)
    number("outputs", problem.outputs.size());
  return words.empty() ? "none" : fmt::format("{}", fmt::join(words, ", "));
}

FailureOr<std::unique_ptr<GemmTuning>> GemmTuning::read(plan::KernelOp kernel, const CudaArch &arch) {
  std::unique_ptr<GemmTuning> tuning(new GemmTuning(kernel, arch));
  if (failed(tuning->kernel.read(kernel, arch.hasWgmma() ? ResidualBy::CopyEngine : ResidualBy::Loads)))
    return failure();
  return tuning;
}

tuning::Key GemmTuning::key() const {
  return {"gemm", arch.name, kernel.operandType().isBF16() ? "bf16" : kernel.operandType().isF16() ? "f16" : "f8e4m3", sizesText(kernel), epilogueClass(kernel)};
}

tuning::Tiles GemmTuning::modelTiles() const {
  if (arch.hasWgmma())
    return fieldsOf(gemmCandidates(kernel.sizes, GemmNeeds::of(kernel)).front());
  return fieldsOf(chooseMmaTiles(arch, kernel.sizes, mmaColumns(kernel), kernel.weightColumns()));
}

std::optional<ProductTime> GemmTuning::modelTime() const {
  if (!arch.hasWgmma())
    return std::nullopt;
  Work work;
  for (const GemmSize &size : kernel.sizes) {
    double rows = static_cast<double>(size.batches * size.rows), columns = static_cast<double>(size.columns), k = static_cast<double>(size.k);
    work.bytesRead += static_cast<double>(size.operandBytes) * (rows + columns) * k;
    work.bytesWritten += static_cast<double>(dit::elementBytes(kernel.resultType())) * rows * columns / (kernel.program.gated ? 2 : 1);
  }
  work.matrixFlops = flopOf(kernel.sizes);
  work.fp8Flops = kernel.operandType() == kernel.resultType() ? 0 : work.matrixFlops;
  return ProductTime{gemmMicroseconds(kernel.sizes, GemmNeeds::of(kernel)), 1e6 * rooflineSeconds(work, *findGpu("H200"))};
}

std::vector<tuning::Tiles> GemmTuning::candidates(size_t most) const {
  std::vector<tuning::Tiles> list;
  auto add = [&](const auto &tiles) {
    tuning::Tiles fields = fieldsOf(tiles);
    if (list.size() < most && !llvm::is_contained(list, fields) && misfit(fields).empty())
      list.push_back(std::move(fields));
  };
  if (arch.hasWgmma())
    llvm::for_each(hopperCandidates(kernel.sizes, GemmNeeds::of(kernel), most), add);
  else
    llvm::for_each(mmaCandidates(arch, kernel.sizes, mmaColumns(kernel), kernel.weightColumns()), add);
  return list;
}

std::string GemmTuning::misfit(const tuning::Tiles &fields) const {
  std::string unknown, text;
  if (arch.hasWgmma())
    text = ditc::misfit(hopperTilesOf(fields, unknown), kernel.sizes, GemmNeeds::of(kernel));
  else
    text = ditc::misfit(mmaTilesOf(fields, unknown), arch, mmaColumns(kernel), kernel.weightColumns(), kernel.program.gated);
  return unknown.empty() ? text : fmt::format("the template has no '{}'", unknown);
}

FailureOr<CudaUnit> GemmTuning::emit(const tuning::Tiles &fields) const {
  std::string unknown;
  if (arch.hasWgmma())
    return emitHopperGemm(op, kernel, hopperTilesOf(fields, unknown));
  return emitMmaGemm(op, kernel, mmaTilesOf(fields, unknown));
}

} // namespace ditc
