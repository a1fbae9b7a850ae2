// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/gemm/GemmKernel.h"

#include <fmt/format.h>

#include <limits>

using namespace mlir;

namespace ditc {

double flopOf(ArrayRef<GemmSize> sizes) {
  double flop = 0;
  for (const GemmSize &size : sizes)
    flop += 2.0 * static_cast<double>(size.batches * size.rows) * static_cast<double>(size.columns) * static_cast<double>(size.k);
  return flop;
}

//===-- ProblemArguments --------------------------------------------------------------------------------===//

ProblemArguments::ProblemArguments(const TileProgram &program, const TileProblem &problem, ArrayRef<MemRefType> types, ArrayRef<int64_t> alignments)
    : problem(problem), types(types), alignments(alignments), program(program) {
  firstOutput = types.size() - program.body->getTerminator()->getNumOperands();
  for (int64_t size : problem.rowShape)
    split.rows *= size;
}

GemmSize ProblemArguments::size() const { return {split.batches, split.rows, problem.columns, problem.k[0] + (problem.k.size() > 1 ? problem.k[1] : 0), dit::elementBytes(program.operands)}; }

static std::pair<SmallVector<int64_t>, SmallVector<int64_t>> dimensions(MemRefType type, ArrayRef<unsigned> dims) {
  plan::Layout layout = plan::layoutOf(type);
  SmallVector<int64_t> sizes, strides;
  for (unsigned dim : dims) {
    sizes.push_back(type.getDimSize(dim));
    strides.push_back(layout.strides[dim]);
  }
  return {sizes, strides};
}

std::optional<std::pair<int64_t, int64_t>> ProblemArguments::rowStridesOf(unsigned argument, const RowSplit &split) const {
  return rowStrides(types[argument].getShape().drop_back(), ArrayRef(plan::layoutOf(types[argument]).strides).drop_back(), split);
}

std::optional<std::pair<int64_t, int64_t>> ProblemArguments::rowStridesOf(const TileOutput &output, const RowSplit &split) const {
  auto [sizes, strides] = dimensions(types[argumentOf(output)], output.rowDims);
  return rowStrides(sizes, strides, split);
}

bool ProblemArguments::fits(const RowSplit &split) const {
  return llvm::all_of(problem.a, [&](unsigned argument) { return rowStridesOf(argument, split).has_value(); }) &&
         llvm::all_of(problem.outputs, [&](const TileOutput &output) { return rowStridesOf(output, split).has_value(); }) &&
         writeEpilogue(program, problem, types, split, alignments, ResidualBy::Loads); // a residual counts like any operand
}

void ProblemArguments::splitByBatch() {
  SmallVector<int64_t> counts = batchCounts(problem.rowShape);
  for (const TileOutput &output : problem.outputs)
    llvm::append_range(counts, batchCounts(dimensions(types[argumentOf(output)], output.rowDims).first));
  llvm::sort(counts);
  int64_t rows = split.batches * split.rows;
  const auto *batches = llvm::find_if(counts, [&](int64_t count) { return count < rows && rows % count == 0 && fits({count, rows / count}); });
  bool isFound = batches != counts.end();
  RowSplit divided{1, rows, true};
  if ((!isFound || leavesTilesEmpty({*batches, rows / *batches})) && fits(divided))
    split = divided;
  else if (isFound)
    split = {*batches, rows / *batches};
}

bool ProblemArguments::leavesTilesEmpty(const RowSplit &split) const {
  constexpr int64_t kTileRows = 128;
  constexpr double kLaunchFlop = 6e9; // what a GPU multiplies in 10 us
  int64_t tiles = split.batches * llvm::divideCeil(split.rows, kTileRows), dense = llvm::divideCeil(split.batches * split.rows, kTileRows);
  GemmSize size = this->size();
  return tiles >= 2 * dense && 2.0 * static_cast<double>((tiles - dense) * kTileRows) * static_cast<double>(size.columns) * static_cast<double>(size.k) > kLaunchFlop;
}

bool ProblemArguments::leftIsOneRun() const {
  return llvm::all_of(problem.a, [&](unsigned argument) { return rowStridesOf(argument, {1, split.batches * split.rows}).has_value(); });
}

WeightRows ProblemArguments::weightRows(size_t i) const {
  const TileWeight &weight = problem.weights[std::min(i, problem.weights.size() - 1)];
  if (!program.gated || problem.weights.size() > 1)
    return {weight.argument, 0, weight.columns};
  return {weight.argument, i == 0 ? 0 : columns(), columns()};
}

int32_t ProblemArguments::weightEnd(size_t i) const {
  bool isLast = program.gated || i + 1 >= problem.weights.size();
  return isLast ? std::numeric_limits<int32_t>::max() : problem.weights[i].begin + problem.weights[i].columns;
}

int64_t ProblemArguments::headColumns(const TileOutput &output) const {
  return output.columnDims.size() == 2 ? types[argumentOf(output)].getDimSize(output.columnDims.back()) : output.columns;
}

int64_t ProblemArguments::headStride(const TileOutput &output) const {
  return output.columnDims.size() == 2 ? plan::layoutOf(types[argumentOf(output)]).strides[output.columnDims.front()] : 0;
}

//===-- GemmKernel --------------------------------------------------------------------------------------===//

Verdict GemmKernel::read(Block &body, ArrayRef<MemRefType> types, ArrayRef<int64_t> alignments, ResidualBy residual) {
  if (Verdict verdict = readTileProgram(body, program); !verdict)
    return verdict;
  for (const TileProblem &problem : program.problems)
    problems.emplace_back(program, problem, types, alignments);
  bool inBatches = !llvm::all_of(problems, [](const ProblemArguments &arguments) { return arguments.isOneRun(); }); // the products share their code
  for (ProblemArguments &arguments : problems) {
    if (inBatches)
      arguments.splitByBatch();
    if (arguments.leavesTilesEmpty())
      return {Reason::EmptyTiles, arguments.problem.product().getResult()};
    std::optional<EpilogueText> text = arguments.epilogue(residual);
    bool fits = text && llvm::all_of(arguments.problem.a, [&](unsigned argument) { return arguments.rowStridesOf(argument).has_value(); }) &&
                llvm::all_of(arguments.problem.outputs, [&](const TileOutput &output) { return arguments.rowStridesOf(output).has_value(); });
    if (!fits) // rows are neither one run nor batches of runs
      return {Reason::ShapeMismatch, arguments.problem.product().getResult()};
    epilogues.push_back(std::move(*text));
    sizes.push_back(arguments.size());
  }
  if (epilogues.size() == 2 && (epilogues[0].type != epilogues[1].type || epilogues[0].functions != epilogues[1].functions))
    return {Reason::ShapeMismatch, program.problems[1].product().getRhs()};
  return {};
}

LogicalResult GemmKernel::read(plan::KernelOp kernel, ResidualBy residual) {
  SmallVector<MemRefType> types;
  SmallVector<int64_t> alignments;
  auto list = kernel.getConfig().getAs<DenseI64ArrayAttr>("alignments");
  for (unsigned i = 0; i < kernel.getNumArgs(); ++i) {
    types.push_back(kernel.getArgType(i));
    alignments.push_back(list ? list[i] : dit::elementBytes(types.back().getElementType()));
  }
  if (Verdict verdict = read(kernel.getBody().front(), types, alignments, residual); !verdict)
    return kernel.emitError("is no gemm kernel: ") << StringRef(explain(verdict.reason));
  return success();
}

SmallVector<int64_t> GemmKernel::weightColumns() const {
  SmallVector<int64_t> columns;
  for (const TileProblem &problem : program.problems)
    if (problem.weights.size() > 1 && !program.gated)
      for (const TileWeight &weight : problem.weights)
        columns.push_back(weight.columns);
  return columns;
}

SmallVector<int64_t> GemmKernel::outputBegins() const {
  SmallVector<int64_t> begins;
  for (const TileProblem &problem : program.problems)
    for (const TileOutput &output : problem.outputs)
      begins.push_back(output.begin);
  return begins;
}

size_t GemmKernel::outputCount() const {
  size_t count = 0;
  for (const TileProblem &problem : program.problems)
    count = std::max(count, problem.outputs.size());
  return count;
}

int64_t GemmKernel::headOfOutputs() const {
  std::optional<int64_t> head;
  for (const ProblemArguments &arguments : problems)
    for (const TileOutput &output : arguments.problem.outputs) {
      int64_t columns = output.columnDims.size() == 2 ? arguments.headColumns(output) : 0;
      if (head.value_or(columns) != columns)
        return -1;
      head = columns;
    }
  return head.value_or(0);
}

cuda::KernelParameter GemmKernel::epilogueParameter() const {
  cuda::KernelParameter members;
  for (const EpilogueText &epilogue : epilogues) {
    for (unsigned argument : epilogue.pointers) {
      members.patches.push_back({static_cast<uint32_t>(members.bytes.size()), cuda::PointerPatch{argument, 0}});
      members.bytes.resize(members.bytes.size() + 8);
    }
    for (int32_t stride : epilogue.strides) {
      const auto *bytes = reinterpret_cast<const uint8_t *>(&stride);
      members.bytes.insert(members.bytes.end(), bytes, bytes + sizeof stride);
    }
    members.bytes.resize(epilogue.pointers.empty() ? members.bytes.size() + 1 : llvm::alignTo(members.bytes.size(), 8)); // an empty struct takes a byte
  }
  return members;
}

std::string GemmKernel::sizesText() const {
  std::string text;
  for (const GemmSize &size : sizes)
    text += fmt::format("{}{} x {} x {}", text.empty() ? "" : ", ", size.batches * size.rows, size.columns, size.k);
  return text;
}

//===-- Acceptance --------------------------------------------------------------------------------------===//

Verdict acceptsGemm(dit::FusionOp fusion, ArrayRef<MemRefType> types, ResidualBy residual) {
  SmallVector<int64_t> alignments(types.size(), 16);
  return GemmKernel().read(fusion.getBodyBlock(), types, alignments, residual);
}

Verdict acceptsGemm(dit::FusionOp fusion, ResidualBy residual) {
  SmallVector<MemRefType> types;
  for (TypeRange list : {TypeRange(fusion.getOperandTypes()), TypeRange(fusion.getResultTypes())})
    for (Type type : list)
      types.push_back(MemRefType::get(cast<RankedTensorType>(type).getShape(), cast<RankedTensorType>(type).getElementType()));
  return acceptsGemm(fusion, types, residual);
}

} // namespace ditc
