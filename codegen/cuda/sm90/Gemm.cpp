// SPDX-License-Identifier: Apache-2.0
//
// gemm_sm90.cuh for one gemm fusion: the choice of tiles, the arguments as the template's Params, and the unit.
#include "codegen/cuda/sm90/EpilogueText.h"
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
  int32_t rows, batches, columns, k[2], headColumns[4], outEnd[4], bEnd[4];
};

/// One problem of a kernel with what its arguments are in memory.
class ProblemArguments {
public:
  ProblemArguments(const TileProgram &program, const TileProblem &problem, plan::KernelOp kernel) : program(program), problem(problem), kernel(kernel) {
    for (unsigned i = 0; i < kernel.getNumArgs(); ++i)
      types.push_back(kernel.getArgType(i));
    auto list = kernel.getConfig().getAs<DenseI64ArrayAttr>("alignments");
    for (unsigned i = 0; i < types.size(); ++i)
      alignments.push_back(list ? list[i] : dit::elementBytes(types[i].getElementType()));
    firstOutput = types.size() - kernel.getOutputs();
    split.rows = 1;
    for (int64_t size : problem.rowShape)
      split.rows *= size;
  }

  /// Everything lies so that all rows are one batch.
  bool isOneRun() const { return rowsJoin() && isOneBatch(program, problem, types); }

  /// Batches of the first dimension with more than one row.
  void splitByBatch() {
    const int64_t *first = llvm::find_if(problem.rowShape, [](int64_t size) { return size > 1; });
    if (first != problem.rowShape.end())
      split = {*first, split.rows / *first};
  }

  std::optional<EpilogueText> epilogue() const { return writeEpilogue(program, problem, types, split, alignments); }

  /// Strides of rows and batches in elements, over the dimensions `sizes` with `strides`; nothing when they have none.
  std::optional<std::pair<int64_t, int64_t>> rowStrides(ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides) const {
    if (split.batches == 1) {
      std::optional<int64_t> row = joinedStride(sizes, strides);
      return row ? std::optional(std::pair{*row, *row}) : std::nullopt;
    }
    size_t first = 0;
    while (first < sizes.size() && sizes[first] == 1)
      ++first;
    if (first == sizes.size() || sizes[first] != split.batches)
      return std::nullopt;
    std::optional<int64_t> row = joinedStride(sizes.drop_front(first + 1), strides.drop_front(first + 1));
    return row ? std::optional(std::pair{*row, strides[first]}) : std::nullopt;
  }

  bool rowsJoin() const {
    for (unsigned argument : problem.a)
      if (!joinedStride(types[argument].getShape().drop_back(), ArrayRef(plan::layoutOf(types[argument]).strides).drop_back()))
        return false;
    for (const TileOutput &output : problem.outputs) {
      auto [sizes, strides] = dimensions(types[firstOutput + output.result], output.rowDims);
      if (!joinedStride(sizes, strides))
        return false;
    }
    return true;
  }

  static std::pair<SmallVector<int64_t>, SmallVector<int64_t>> dimensions(MemRefType type, ArrayRef<unsigned> dims) {
    plan::Layout layout = plan::layoutOf(type);
    SmallVector<int64_t> sizes, strides;
    for (unsigned dim : dims) {
      sizes.push_back(type.getDimSize(dim));
      strides.push_back(layout.strides[dim]);
    }
    return {sizes, strides};
  }

  const TileProgram &program;
  const TileProblem &problem;
  plan::KernelOp kernel;
  SmallVector<MemRefType> types;
  SmallVector<int64_t> alignments;
  unsigned firstOutput = 0;
  RowSplit split;
};

DType dtypeOf(MemRefType type) { return type.getElementType().isBF16() ? DType::bf16 : DType::f16; }

/// A stride that is allowed where the dimension has one element only.
int64_t anyStride(int64_t stride, int64_t size) { return size == 1 ? std::max<int64_t>(llvm::alignTo(stride, 8), 8) : stride; }

class Packer {
public:
  Packer(const ProblemArguments &arguments, const GemmTiles &tiles, const EpilogueText &epilogue) : arguments(arguments), tiles(tiles), epilogue(epilogue) {}

  /// Fills the numbers, and appends the maps as patches from `offset` bytes on.
  LogicalResult pack(Problem &p, size_t offset, std::vector<cuda::ParameterPatch> &patches) {
    const TileProblem &problem = arguments.problem;
    p.rows = arguments.split.rows, p.batches = arguments.split.batches, p.columns = problem.columns;
    for (int i = 0; i < 2; ++i) {
      unsigned argument = problem.a[std::min<size_t>(i, problem.a.size() - 1)];
      p.k[i] = i < static_cast<int>(problem.k.size()) ? problem.k[i] : 0;
      if (failed(add(patches, offset + offsetof(Problem, a) + 128 * i, mapOfLeft(argument))))
        return failure();
    }
    for (size_t i = 0; i < 4; ++i) {
      const TileWeight &weight = problem.weights[std::min(i, problem.weights.size() - 1)];
      p.bEnd[i] = i + 1 < problem.weights.size() ? weight.begin + weight.columns : std::numeric_limits<int32_t>::max();
      if (failed(add(patches, offset + offsetof(Problem, b) + 128 * i, mapOfWeight(weight.argument))))
        return failure();
    }
    for (size_t i = 0; i < 4; ++i) {
      const TileOutput &output = problem.outputs[std::min(i, problem.outputs.size() - 1)];
      p.outEnd[i] = i + 1 < problem.outputs.size() ? output.begin + output.columns : std::numeric_limits<int32_t>::max();
      unsigned argument = arguments.firstOutput + output.result;
      p.headColumns[i] = headColumns(argument, output);
      if (failed(add(patches, offset + offsetof(Problem, out) + 128 * i, mapOfOutput(argument, output))))
        return failure();
    }
    std::optional<TensorMapPatch> residual = epilogue.residual ? mapOfResidual(*epilogue.residual) : mapOfOutput(arguments.firstOutput + problem.outputs[0].result, problem.outputs[0]);
    return add(patches, offset + offsetof(Problem, residual), residual);
  }

private:
  static LogicalResult add(std::vector<cuda::ParameterPatch> &patches, size_t offset, std::optional<TensorMapPatch> map) {
    if (!map)
      return failure();
    patches.push_back({static_cast<uint32_t>(offset), *map});
    return success();
  }

  bool isReadable(unsigned argument, ArrayRef<int64_t> strides) const {
    return arguments.alignments[argument] >= 16 && llvm::all_of(strides, [](int64_t stride) { return stride > 0 && stride % 8 == 0; });
  }

  std::optional<TensorMapPatch> mapOfLeft(unsigned argument) const {
    MemRefType type = arguments.types[argument];
    plan::Layout layout = plan::layoutOf(type);
    auto strides = arguments.rowStrides(type.getShape().drop_back(), ArrayRef(layout.strides).drop_back());
    if (!strides || (layout.strides.back() != 1 && type.getShape().back() > 1))
      return std::nullopt;
    int64_t row = anyStride(strides->first, arguments.split.rows), batch = anyStride(strides->second, arguments.split.batches);
    if (!isReadable(argument, {row, batch}))
      return std::nullopt;
    TensorMapPatch map{argument, 0, dtypeOf(type), {}, {}, {64, static_cast<uint32_t>(tiles.m / tiles.clusterN), 1}, cuda::TensorMapSwizzle::Bytes128};
    map.sizes = {static_cast<uint64_t>(type.getShape().back()), static_cast<uint64_t>(arguments.split.rows), static_cast<uint64_t>(arguments.split.batches)};
    map.strides = {static_cast<uint64_t>(2 * row), static_cast<uint64_t>(2 * batch)};
    return map;
  }

  std::optional<TensorMapPatch> mapOfWeight(unsigned argument) const {
    MemRefType type = arguments.types[argument];
    uint64_t n = type.getDimSize(0), k = type.getDimSize(1);
    return TensorMapPatch{argument, 0, dtypeOf(type), {k, n, 1}, {2 * k, 2 * k}, {64, static_cast<uint32_t>(tiles.n / tiles.clusterM), 1}, cuda::TensorMapSwizzle::Bytes128};
  }

  int64_t headColumns(unsigned argument, const TileOutput &output) const {
    return output.columnDims.size() == 2 ? arguments.types[argument].getDimSize(output.columnDims.back()) : output.columns;
  }

  /// (column in the head, row, head, batch)
  std::optional<TensorMapPatch> mapOfRows(unsigned argument, int64_t columns, int64_t heads, int64_t headStride, std::optional<std::pair<int64_t, int64_t>> strides) const {
    if (!strides)
      return std::nullopt;
    int64_t row = anyStride(strides->first, arguments.split.rows), batch = anyStride(strides->second, arguments.split.batches), head = anyStride(headStride, heads);
    if (!isReadable(argument, {row, head, batch}))
      return std::nullopt;
    TensorMapPatch map{argument, 0, dtypeOf(arguments.types[argument]), {}, {}, {static_cast<uint32_t>(tiles.box), 16, 1, 1},
                       tiles.box == 64 ? cuda::TensorMapSwizzle::Bytes128 : cuda::TensorMapSwizzle::None};
    map.sizes = {static_cast<uint64_t>(columns), static_cast<uint64_t>(arguments.split.rows), static_cast<uint64_t>(heads), static_cast<uint64_t>(arguments.split.batches)};
    map.strides = {static_cast<uint64_t>(2 * row), static_cast<uint64_t>(2 * head), static_cast<uint64_t>(2 * batch)};
    return map;
  }

  std::optional<TensorMapPatch> mapOfOutput(unsigned argument, const TileOutput &output) const {
    MemRefType type = arguments.types[argument];
    plan::Layout layout = plan::layoutOf(type);
    auto [sizes, strides] = ProblemArguments::dimensions(type, output.rowDims);
    if (layout.strides[output.columnDims.back()] != 1)
      return std::nullopt;
    int64_t columns = headColumns(argument, output);
    return mapOfRows(argument, columns, output.columns / columns, output.columnDims.size() == 2 ? layout.strides[output.columnDims[0]] : 8, arguments.rowStrides(sizes, strides));
  }

  std::optional<TensorMapPatch> mapOfResidual(unsigned argument) const {
    MemRefType type = arguments.types[argument];
    plan::Layout layout = plan::layoutOf(type);
    if (layout.strides.back() != 1)
      return std::nullopt;
    return mapOfRows(argument, type.getShape().back(), 1, 8, arguments.rowStrides(type.getShape().drop_back(), ArrayRef(layout.strides).drop_back()));
  }

  const ProblemArguments &arguments;
  const GemmTiles &tiles;
  const EpilogueText &epilogue;
};

std::string unitText(plan::KernelOp kernel, const TileProgram &program, const GemmTiles &tiles, const EpilogueText &epilogue, bool even) {
  MemRefType left = kernel.getArgType(program.problems.front().a.front());
  std::string sizes;
  for (const TileProblem &problem : program.problems) {
    int64_t rows = 1, k = 0;
    for (int64_t size : problem.rowShape)
      rows *= size;
    for (int64_t range : problem.k)
      k += range;
    sizes += fmt::format("{}{} x {} x {}", sizes.empty() ? "" : ", ", rows, problem.columns, k);
  }
  auto flag = [](bool value) { return value ? "true" : "false"; };
  return fmt::format(R"(#include "gemm_epilogue.cuh"
using namespace ditc;

// {}
// {}
using Element = {};
struct Config {{
  using Element = ::Element;
  static constexpr int BLOCK_M = {}, BLOCK_N = {}, STAGES = {}, CONSUMERS = {};
  static constexpr int CLUSTER_M = {}, CLUSTER_N = {}, GROUP = {};
  static constexpr int BOX = {}, BOXES = {};
  static constexpr bool PINGPONG = {}, EVEN = {};
}};

{}
{}
extern "C" __global__ void __launch_bounds__({}, 1)
{}(const __grid_constant__ gemm_sm90::Params<{}> params, const __grid_constant__ gemm_sm90::Epilogues<Epilogue, {}> epilogues) {{
  gemm_sm90::run<Config>(params, epilogues);
}}
)",
                     writeNodeName(nameOf(kernel.getLoc())), sizes, cudaTypeName(left.getElementType()).substr(6),
                     tiles.m, tiles.n, tiles.stages, tiles.consumers, tiles.clusterM, tiles.clusterN, tiles.group, tiles.box, tiles.boxes, flag(tiles.pingpong), flag(even), epilogue.functions,
                     epilogue.type, tiles.threads(), kernel.getSymName().str(), program.problems.size(), program.problems.size());
}

} // namespace

/// Columns of weights that lie side by side: a tile's width divides them.
static SmallVector<int64_t> weightColumns(const TileProgram &program) {
  SmallVector<int64_t> columns;
  for (const TileProblem &problem : program.problems)
    if (problem.weights.size() > 1)
      for (const TileWeight &weight : problem.weights)
        columns.push_back(weight.columns);
  return columns;
}

Verdict acceptsHopperGemm(dit::FusionOp fusion) {
  TileProgram program;
  if (Verdict verdict = readTileProgram(fusion.getBodyBlock(), program); !verdict || program.problems.size() == 1)
    return verdict;
  // Two products share their code.
  SmallVector<MemRefType> types;
  for (Type type : fusion.getOperandTypes())
    types.push_back(MemRefType::get(cast<RankedTensorType>(type).getShape(), cast<RankedTensorType>(type).getElementType()));
  SmallVector<int64_t> alignments(types.size(), 16);
  std::array<std::optional<EpilogueText>, 2> texts;
  for (bool inBatches : {false, true}) {
    for (auto [text, problem] : llvm::zip(texts, program.problems)) {
      const int64_t *first = llvm::find_if(problem.rowShape, [](int64_t size) { return size > 1; });
      text = writeEpilogue(program, problem, types, {inBatches && first != problem.rowShape.end() ? *first : 1, 1}, alignments);
    }
    if (texts[0] && texts[1])
      break;
  }
  if (texts[0] && texts[1] && texts[0]->type == texts[1]->type && texts[0]->functions == texts[1]->functions)
    return {};
  return {Reason::ShapeMismatch, program.problems[1].product().getRhs()};
}

FailureOr<CudaUnit> emitHopperGemm(plan::KernelOp kernel) {
  TileProgram program;
  if (Verdict verdict = readTileProgram(kernel.getBody().front(), program); !verdict)
    return kernel.emitError("has no gemm program: ") << StringRef(nameOf(verdict.reason));
  std::vector<ProblemArguments> problems;
  std::vector<EpilogueText> epilogues;
  SmallVector<GemmSize> sizes;
  for (const TileProblem &problem : program.problems)
    problems.emplace_back(program, problem, kernel);
  bool inBatches = !llvm::all_of(problems, [](const ProblemArguments &arguments) { return arguments.isOneRun(); }); // the products share their code
  for (ProblemArguments &arguments : problems) {
    const TileProblem &problem = arguments.problem;
    if (inBatches)
      arguments.splitByBatch();
    std::optional<EpilogueText> epilogue = arguments.epilogue();
    if (!epilogue)
      return kernel.emitError("an operand of the epilogue cannot be addressed by batch and row");
    epilogues.push_back(std::move(*epilogue));
    sizes.push_back({arguments.split.batches, arguments.split.rows, problem.columns, problem.k[0] + (problem.k.size() > 1 ? problem.k[1] : 0)});
  }
  if (epilogues.size() == 2 && (epilogues[0].type != epilogues[1].type || epilogues[0].functions != epilogues[1].functions))
    return kernel.emitError("the two products of one launch have different epilogues");
  GemmTiles tiles = chooseGemmTiles(sizes, program.head, weightColumns(program), epilogues.front().residual.has_value());

  CudaUnit unit;
  cuda::KernelParameter params, members;
  params.bytes.resize(sizeof(Problem) * problems.size());
  for (auto [i, arguments] : llvm::enumerate(problems)) {
    Problem p{};
    if (failed(Packer(arguments, tiles, epilogues[i]).pack(p, i * sizeof(Problem), params.patches)))
      return kernel.emitError("an argument does not lie as tensor copies need it");
    std::memcpy(params.bytes.data() + i * sizeof(Problem), &p, sizeof p);
    for (unsigned argument : epilogues[i].pointers) {
      members.patches.push_back({static_cast<uint32_t>(members.bytes.size()), cuda::PointerPatch{argument, 0}});
      members.bytes.resize(members.bytes.size() + 8);
    }
    for (int32_t stride : epilogues[i].strides) {
      const auto *bytes = reinterpret_cast<const uint8_t *>(&stride);
      members.bytes.insert(members.bytes.end(), bytes, bytes + sizeof stride);
    }
    members.bytes.resize(epilogues[i].pointers.empty() ? members.bytes.size() + 1 : llvm::alignTo(members.bytes.size(), 8)); // an empty struct takes a byte
  }
  unit.parameters = {params, members};
  bool even = program.problems.front().columns % epilogues.front().columns == 0;
  unit.text = unitText(kernel, program, tiles, epilogues.front(), even);
  unit.launch.grid = {static_cast<uint32_t>(tileCount(sizes, tiles) * tiles.clusterM * tiles.clusterN), 1, 1};
  unit.launch.blocksPerSm = 1;
  unit.launch.threads = tiles.threads();
  unit.launch.cluster = tiles.clusterM * tiles.clusterN;
  unit.launch.sharedBytes = tiles.sharedBytes();
  unit.launch.overlapsPrevious = true;
  return unit;
}

} // namespace ditc
