// SPDX-License-Identifier: Apache-2.0
//
// gemm_mma.cuh for one gemm fusion: the choice of tiles, the arguments as the template's Params, and the unit.
#include "codegen/cuda/gemm/MmaGemm.h"

#include "dialects/Locations.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <limits>

using namespace mlir;

namespace ditc {

namespace {

/// gemm_mma::Problem as it lies in memory.
struct Problem {
  uint64_t a[2], b[4], out[4];
  int64_t aRow[2], aBatch[2], bRow[4], outRow[4], outHead[4], outBatch[4];
  int32_t rows, batches, columns, k[2], headColumns[4], outEnd[4], bEnd[4];
};

/// Fills a Problem; addresses are patches from `offset` bytes on. Parts that are absent repeat the last one.
class Packer {
public:
  Packer(const ProblemArguments &arguments, size_t offset, std::vector<cuda::ParameterPatch> &patches)
      : arguments(arguments), offset(offset), patches(patches) {}

  LogicalResult pack(Problem &p) {
    const TileProblem &problem = arguments.problem;
    p.rows = arguments.split.rows, p.batches = arguments.split.batches, p.columns = arguments.columns();
    for (size_t i = 0; i < 2; ++i) {
      unsigned argument = problem.a[std::min(i, problem.a.size() - 1)];
      p.k[i] = i < problem.k.size() ? problem.k[i] : 0;
      if (failed(place(argument, offsetof(Problem, a) + 8 * i, p.aRow[i], p.aBatch[i], arguments.rowStridesOf(argument))))
        return failure();
    }
    for (size_t i = 0; i < 4; ++i) {
      WeightRows weight = arguments.weightRows(i);
      p.bEnd[i] = arguments.weightEnd(i);
      int64_t row = plan::layoutOf(arguments.types[weight.argument]).strides[0], none;
      if (failed(place(weight.argument, offsetof(Problem, b) + 8 * i, p.bRow[i], none, std::pair{row, int64_t(0)}, row * weight.first)))
        return failure();
    }
    for (size_t i = 0; i < 4; ++i) {
      const TileOutput &output = problem.outputs[std::min(i, problem.outputs.size() - 1)];
      p.outEnd[i] = i + 1 < problem.outputs.size() ? output.begin + output.columns : std::numeric_limits<int32_t>::max();
      p.headColumns[i] = arguments.headColumns(output), p.outHead[i] = arguments.headStride(output);
      unsigned argument = arguments.argumentOf(output);
      if (failed(place(argument, offsetof(Problem, out) + 8 * i, p.outRow[i], p.outBatch[i], arguments.rowStridesOf(output))) || p.outHead[i] % 8 != 0)
        return failure();
    }
    return success();
  }

private:
  /// Rows of an argument from `skipped` elements on, which start on 16 bytes.
  LogicalResult place(unsigned argument, size_t at, int64_t &row, int64_t &batch, std::optional<std::pair<int64_t, int64_t>> strides, int64_t skipped = 0) {
    MemRefType type = arguments.types[argument];
    bool isDense = plan::layoutOf(type).strides.back() == 1 || type.getShape().back() == 1;
    if (!strides || !isDense || arguments.alignments[argument] < 16)
      return failure();
    int64_t bytes = dit::elementBytes(type.getElementType()), piece = 16 / bytes;
    patches.push_back({static_cast<uint32_t>(offset + at), cuda::PointerPatch{argument, bytes * skipped}});
    std::tie(row, batch) = *strides;
    bool startsAligned = (row % piece == 0 || arguments.split.rows == 1) && (batch % piece == 0 || arguments.split.batches == 1);
    return success(startsAligned);
  }

  const ProblemArguments &arguments;
  size_t offset;
  std::vector<cuda::ParameterPatch> &patches;
};

std::string unitText(plan::KernelOp kernel, const GemmKernel &gemm, const MmaTiles &tiles) {
  auto flag = [](bool value) { return value ? "true" : "false"; };
  int chunk = gemm.program.gated ? kMmaChunk / 2 : kMmaChunk;
  int operandBytes = static_cast<int>(dit::elementBytes(gemm.operandType()));
  return fmt::format(R"(#include "common/epilogue_functions.cuh"
#include "gemm_mma.cuh"
using namespace ditc;

// {}
// {}
using Element = {};
struct Config {{
  using Element = ::Element;
  using Operand = {};
  static constexpr int BLOCK_M = {}, BLOCK_N = {}, BLOCK_K = {}, STAGES = {};
  static constexpr int WARPS_M = {}, WARPS_N = {}, GROUP = {}, RANGES = {}, CHUNK = {};
  static constexpr bool EVEN = {}, GATED = {};
}};

{}
{}
extern "C" __global__ void __launch_bounds__({}, 2)
{}(const __grid_constant__ gemm_mma::Params<Config, {}> params, const __grid_constant__ gemm_mma::Epilogues<Epilogue, {}> epilogues) {{
  gemm_mma::run<Config>(params, epilogues);
}}
)",
                     writeNodeName(nameOf(kernel.getLoc())), gemm.sizesText(), cudaTypeName(gemm.resultType()).substr(6), gemm.operandText(), tiles.m, tiles.n, tiles.k * 2 / operandBytes, tiles.stages,
                     tiles.warpsM, tiles.warpsN, tiles.group, gemm.program.problems.front().k.size(), chunk, flag(gemm.isEven(chunk)), flag(gemm.program.gated), gemm.epilogue().functions,
                     gemm.epilogue().type, tiles.threads(), kernel.getSymName().str(), gemm.problems.size(), gemm.problems.size());
}

} // namespace

FailureOr<CudaUnit> emitMmaGemm(plan::KernelOp kernel, const GemmKernel &gemm, const MmaTiles &tiles) {
  CudaUnit unit;
  cuda::KernelParameter params;
  params.bytes.resize(sizeof(Problem) * gemm.problems.size());
  for (auto [i, arguments] : llvm::enumerate(gemm.problems)) {
    Problem p{};
    if (failed(Packer(arguments, i * sizeof(Problem), params.patches).pack(p)))
      return kernel.emitError("rows of an argument of the product do not start on 16 bytes");
    std::memcpy(params.bytes.data() + i * sizeof(Problem), &p, sizeof p);
  }
  unit.parameters = {params, gemm.epilogueParameter()};
  unit.text = unitText(kernel, gemm, tiles);
  unit.launch.grid = {static_cast<uint32_t>(tileCount(gemm.sizes, tiles)), 1, 1};
  unit.launch.threads = tiles.threads();
  unit.launch.sharedBytes = tiles.sharedBytes();
  unit.launch.overlapsPrevious = gainsByOverlap(flopOf(gemm.sizes), 0);
  return unit;
}

FailureOr<CudaUnit> emitMmaGemm(plan::KernelOp kernel, const CudaArch &arch) {
  GemmKernel gemm;
  if (failed(gemm.read(kernel, ResidualBy::Loads)))
    return failure();
  return emitMmaGemm(kernel, gemm, chooseMmaTiles(arch, gemm.sizes, mmaColumns(gemm), gemm.weightColumns()));
}

FailureOr<CudaUnit> emitMmaGemm(plan::KernelOp kernel, const MmaTiles &tiles) {
  GemmKernel gemm;
  if (failed(gemm.read(kernel, ResidualBy::Loads)))
    return failure();
  return emitMmaGemm(kernel, gemm, tiles);
}

} // namespace ditc
