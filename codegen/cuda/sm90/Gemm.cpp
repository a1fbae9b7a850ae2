// SPDX-License-Identifier: Apache-2.0
//
// gemm_sm90.cuh for one gemm fusion: the choice of tiles, the arguments as the template's Params, and the unit.
#include "codegen/cuda/gemm/GemmKernel.h"
#include "codegen/cuda/sm90/Divisor.h"
#include "codegen/cuda/sm90/GemmTiles.h"
#include "codegen/cuda/sm90/Hopper.h"
#include "dialects/Locations.h"

#include <fmt/format.h>

#include <cstddef>
#include <limits>

using namespace mlir;

namespace ditc {

namespace {

using cuda::TensorMapPatch;

/// gemm_sm90::Problem as it lies in memory.
struct alignas(64) Problem {
  uint8_t a[2][128], b[4][128], out[4][128], residual[128];
  int32_t rows, batches, columns, k[2], headColumns[4], outEnd[4], bEnd[4], tiles;
  Divisor down, perGroup, lastGroup;
};

int64_t bytesOf(MemRefType type) { return dit::elementBytes(type.getElementType()); }

constexpr int64_t kStepBytes = 128; // of k in a step

class Packer {
public:
  Packer(const ProblemArguments &arguments, const GemmTiles &tiles, const EpilogueText &epilogue) : arguments(arguments), tiles(tiles), epilogue(epilogue) {}

  /// Fills the numbers, and appends the maps as patches from `offset` bytes on.
  LogicalResult pack(Problem &p, size_t offset, std::vector<cuda::ParameterPatch> &patches) {
    const TileProblem &problem = arguments.problem;
    p.rows = arguments.split.rows, p.batches = arguments.split.batches, p.columns = arguments.columns();
    setOrder(p);
    for (int i = 0; i < 2; ++i) {
      unsigned argument = problem.a[std::min<size_t>(i, problem.a.size() - 1)];
      p.k[i] = i < static_cast<int>(problem.k.size()) ? problem.k[i] : 0;
      if (failed(add(patches, offset + offsetof(Problem, a) + 128 * i, mapOfLeft(argument))))
        return failure();
    }
    for (size_t i = 0; i < 4; ++i) {
      p.bEnd[i] = arguments.weightEnd(i);
      if (failed(add(patches, offset + offsetof(Problem, b) + 128 * i, mapOfWeight(arguments.weightRows(i)))))
        return failure();
    }
    for (size_t i = 0; i < 4; ++i) {
      const TileOutput &output = problem.outputs[std::min(i, problem.outputs.size() - 1)];
      p.outEnd[i] = i + 1 < problem.outputs.size() ? output.begin + output.columns : std::numeric_limits<int32_t>::max();
      p.headColumns[i] = arguments.headColumns(output);
      if (failed(add(patches, offset + offsetof(Problem, out) + 128 * i, mapOfOutput(output))))
        return failure();
    }
    std::optional<TensorMapPatch> residual = epilogue.residual ? mapOfResidual(*epilogue.residual) : mapOfOutput(problem.outputs[0]);
    return add(patches, offset + offsetof(Problem, residual), residual);
  }

private:
  /// How Schedule finds a tile.
  void setOrder(Problem &p) const {
    int64_t down = llvm::divideCeil(p.rows, tiles.m * tiles.clusterM), rows = down * p.batches;
    int64_t across = llvm::divideCeil(p.columns, tiles.n / (arguments.isGated() ? 2 : 1) * tiles.clusterN);
    p.tiles = rows * across;
    p.down = Divisor::of(down), p.perGroup = Divisor::of(tiles.group * across), p.lastGroup = Divisor::of(rows % tiles.group);
  }

  static LogicalResult add(std::vector<cuda::ParameterPatch> &patches, size_t offset, std::optional<TensorMapPatch> map) {
    if (!map)
      return failure();
    patches.push_back({static_cast<uint32_t>(offset), *map});
    return success();
  }

  bool isReadable(unsigned argument, ArrayRef<uint64_t> strides) const {
    return arguments.alignments[argument] >= kCopied && llvm::all_of(strides, [](uint64_t stride) { return static_cast<int64_t>(stride) > 0 && stride % kCopied == 0; });
  }

  /// Values of k in a step.
  static uint32_t stepOf(MemRefType type) { return static_cast<uint32_t>(kStepBytes / bytesOf(type)); }

  std::optional<TensorMapPatch> mapOfLeft(unsigned argument) const {
    MemRefType type = arguments.types[argument];
    plan::Layout layout = plan::layoutOf(type);
    auto strides = arguments.rowStridesOf(argument);
    if (!strides || (layout.strides.back() != 1 && type.getShape().back() > 1))
      return std::nullopt;
    uint64_t row = anyStride(bytesOf(type) * strides->first, arguments.split.rows), batch = anyStride(bytesOf(type) * strides->second, arguments.split.batches);
    if (!isReadable(argument, {row, batch}))
      return std::nullopt;
    TensorMapPatch map{argument, 0, dtypeOf(type), {}, {}, {stepOf(type), static_cast<uint32_t>(tiles.m / tiles.clusterN), 1}, cuda::TensorMapSwizzle::Bytes128};
    map.sizes = {static_cast<uint64_t>(type.getShape().back()), static_cast<uint64_t>(arguments.split.rows), static_cast<uint64_t>(arguments.split.batches)};
    map.strides = {row, batch};
    return map;
  }

  std::optional<TensorMapPatch> mapOfWeight(const WeightRows &rows) const {
    MemRefType type = arguments.types[rows.argument];
    uint64_t n = rows.count, k = type.getDimSize(1), row = bytesOf(type) * plan::layoutOf(type).strides[0];
    uint32_t boxRows = arguments.isGated() ? tiles.n / 2 : tiles.n / tiles.clusterM;
    return TensorMapPatch{rows.argument, rows.first * static_cast<int64_t>(row), dtypeOf(type), {k, n, 1}, {row, row}, {stepOf(type), boxRows, 1}, cuda::TensorMapSwizzle::Bytes128};
  }

  /// (column in the head, row, head, batch)
  std::optional<TensorMapPatch> mapOfRows(unsigned argument, int64_t columns, int64_t heads, int64_t headStride, std::optional<std::pair<int64_t, int64_t>> strides) const {
    if (!strides)
      return std::nullopt;
    int64_t bytes = bytesOf(arguments.types[argument]);
    uint64_t row = anyStride(bytes * strides->first, arguments.split.rows), batch = anyStride(bytes * strides->second, arguments.split.batches), head = anyStride(bytes * headStride, heads);
    if (!isReadable(argument, {row, head, batch}))
      return std::nullopt;
    TensorMapPatch map{argument, 0, dtypeOf(arguments.types[argument]), {}, {}, {static_cast<uint32_t>(tiles.box), 16, 1, 1},
                       tiles.box == 64 ? cuda::TensorMapSwizzle::Bytes128 : cuda::TensorMapSwizzle::None};
    map.sizes = {static_cast<uint64_t>(columns), static_cast<uint64_t>(arguments.split.rows), static_cast<uint64_t>(heads), static_cast<uint64_t>(arguments.split.batches)};
    map.strides = {row, head, batch};
    return map;
  }

  std::optional<TensorMapPatch> mapOfOutput(const TileOutput &output) const {
    unsigned argument = arguments.argumentOf(output);
    if (plan::layoutOf(arguments.types[argument]).strides[output.columnDims.back()] != 1)
      return std::nullopt;
    int64_t columns = arguments.headColumns(output);
    return mapOfRows(argument, columns, output.columns / columns, output.columnDims.size() == 2 ? arguments.headStride(output) : 8, arguments.rowStridesOf(output));
  }

  std::optional<TensorMapPatch> mapOfResidual(unsigned argument) const {
    MemRefType type = arguments.types[argument];
    plan::Layout layout = plan::layoutOf(type);
    if (layout.strides.back() != 1)
      return std::nullopt;
    return mapOfRows(argument, type.getShape().back(), 1, 8, arguments.rowStridesOf(argument));
  }

  const ProblemArguments &arguments;
  const GemmTiles &tiles;
  const EpilogueText &epilogue;
};

/// Weights of a launch that overlaps the one before can be fetched before that one has ended, if nothing in a step writes them.
bool fetchesEarly(plan::KernelOp kernel, const GemmKernel &gemm) {
  auto stable = kernel.getConfig() ? kernel.getConfig().getAs<DenseI64ArrayAttr>("stable") : DenseI64ArrayAttr();
  return stable && gainsByOverlap(flopOf(gemm.sizes), 0) && llvm::all_of(gemm.problems, [&](const ProblemArguments &arguments) {
    return llvm::all_of(arguments.problem.weights, [&](const TileWeight &weight) { return llvm::is_contained(stable.asArrayRef(), weight.argument); });
  });
}

std::string unitText(plan::KernelOp kernel, const GemmKernel &gemm, const GemmTiles &tiles) {
  const EpilogueText &epilogue = gemm.epilogue();
  auto flag = [](bool value) { return value ? "true" : "false"; };
  return fmt::format(R"(#include "gemm_epilogue.cuh"
using namespace ditc;

// {}
// {}
using Element = {};
struct Config {{
  using Element = ::Element;
  using Operand = {};
  static constexpr int BLOCK_M = {}, BLOCK_N = {}, STAGES = {}, CONSUMERS = {};
  static constexpr int CLUSTER_M = {}, CLUSTER_N = {}, SPLIT = {}, GROUP = {};
  static constexpr int BOX = {}, BOXES = {}, CHUNK = BOX;
  static constexpr int OUTPUTS = {}, HEAD = {};
  static constexpr bool PINGPONG = {}, EVEN = {}, CUT = {}, GATED = {}, EARLY = {};
}};

{}
{}
extern "C" __global__ void __launch_bounds__({}, 1)
{}(const __grid_constant__ gemm_sm90::Params<{}> params, const __grid_constant__ gemm_sm90::Epilogues<Epilogue, {}> epilogues) {{
  gemm_sm90::run<Config>(params, epilogues);
}}
)",
                     writeNodeName(nameOf(kernel.getLoc())), gemm.sizesText(), cudaTypeName(gemm.resultType()).substr(6), gemm.operandText(),
                     tiles.m, tiles.n, tiles.stages, tiles.consumers, tiles.clusterM, tiles.clusterN, tiles.split, tiles.group, tiles.box, tiles.boxes, gemm.outputCount(), gemm.headOfOutputs(), flag(tiles.pingpong),
                     flag(gemm.isEven(tiles.box)), flag(gemm.cutsResidual(tiles.box)), flag(gemm.program.gated), flag(fetchesEarly(kernel, gemm)), epilogue.functions,
                     epilogue.type, tiles.threads(), kernel.getSymName().str(), gemm.problems.size(), gemm.problems.size());
}

} // namespace

FailureOr<CudaUnit> emitHopperGemm(plan::KernelOp kernel, const GemmKernel &gemm, const GemmTiles &tiles) {
  CudaUnit unit;
  cuda::KernelParameter params;
  params.bytes.resize(sizeof(Problem) * gemm.problems.size());
  for (auto [i, arguments] : llvm::enumerate(gemm.problems)) {
    Problem p{};
    if (failed(Packer(arguments, tiles, gemm.epilogues[i]).pack(p, i * sizeof(Problem), params.patches)))
      return kernel.emitError("an argument does not lie as tensor copies need it");
    std::memcpy(params.bytes.data() + i * sizeof(Problem), &p, sizeof p);
  }
  unit.parameters = {params, gemm.epilogueParameter()};
  unit.text = unitText(kernel, gemm, tiles);
  unit.launch.grid = {static_cast<uint32_t>(tileCount(gemm.sizes, tiles) * tiles.cluster()), 1, 1};
  unit.launch.blocksPerSm = tiles.split > 1 ? 0 : 1; // a cluster that splits k has one tile
  unit.launch.threads = tiles.threads();
  unit.launch.cluster = tiles.cluster();
  unit.launch.sharedBytes = tiles.sharedBytes();
  unit.launch.overlapsPrevious = gainsByOverlap(flopOf(gemm.sizes), 0);
  return unit;
}

} // namespace ditc
