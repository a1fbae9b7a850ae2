// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/gemm/GemmKernel.h"

#include <fmt/format.h>

using namespace mlir;

namespace ditc {

//===-- ProblemArguments --------------------------------------------------------------------------------===//

ProblemArguments::ProblemArguments(const TileProgram &program, const TileProblem &problem, plan::KernelOp kernel) : problem(problem), program(program) {
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

bool ProblemArguments::isOneRun() const { return rowsJoin() && isOneBatch(program, problem, types); }

void ProblemArguments::splitByBatch() {
  const int64_t *first = llvm::find_if(problem.rowShape, [](int64_t size) { return size > 1; });
  if (first != problem.rowShape.end())
    split = {*first, split.rows / *first};
}

std::optional<EpilogueText> ProblemArguments::epilogue(ResidualBy residual) const { return writeEpilogue(program, problem, types, split, alignments, residual); }

GemmSize ProblemArguments::size() const { return {split.batches, split.rows, problem.columns, problem.k[0] + (problem.k.size() > 1 ? problem.k[1] : 0)}; }

std::optional<std::pair<int64_t, int64_t>> ProblemArguments::rowStrides(ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides) const {
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

std::optional<std::pair<int64_t, int64_t>> ProblemArguments::rowStridesOf(unsigned argument) const {
  return rowStrides(types[argument].getShape().drop_back(), ArrayRef(plan::layoutOf(types[argument]).strides).drop_back());
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

std::optional<std::pair<int64_t, int64_t>> ProblemArguments::rowStridesOf(const TileOutput &output) const {
  auto [sizes, strides] = dimensions(types[argumentOf(output)], output.rowDims);
  return rowStrides(sizes, strides);
}

int64_t ProblemArguments::headColumns(const TileOutput &output) const {
  return output.columnDims.size() == 2 ? types[argumentOf(output)].getDimSize(output.columnDims.back()) : output.columns;
}

int64_t ProblemArguments::headStride(const TileOutput &output) const {
  return output.columnDims.size() == 2 ? plan::layoutOf(types[argumentOf(output)]).strides[output.columnDims.front()] : 0;
}

bool ProblemArguments::rowsJoin() const {
  for (unsigned argument : problem.a)
    if (!joinedStride(types[argument].getShape().drop_back(), ArrayRef(plan::layoutOf(types[argument]).strides).drop_back()))
      return false;
  return llvm::all_of(problem.outputs, [&](const TileOutput &output) {
    auto [sizes, strides] = dimensions(types[argumentOf(output)], output.rowDims);
    return joinedStride(sizes, strides).has_value();
  });
}

//===-- GemmKernel --------------------------------------------------------------------------------------===//

LogicalResult GemmKernel::read(plan::KernelOp kernel, ResidualBy residual) {
  if (Verdict verdict = readTileProgram(kernel.getBody().front(), program); !verdict)
    return kernel.emitError("has no gemm program: ") << StringRef(nameOf(verdict.reason));
  for (const TileProblem &problem : program.problems)
    problems.emplace_back(program, problem, kernel);
  bool inBatches = !llvm::all_of(problems, [](const ProblemArguments &arguments) { return arguments.isOneRun(); }); // the products share their code
  for (ProblemArguments &arguments : problems) {
    if (inBatches)
      arguments.splitByBatch();
    std::optional<EpilogueText> text = arguments.epilogue(residual);
    if (!text)
      return kernel.emitError("an operand of the epilogue cannot be addressed by batch and row");
    epilogues.push_back(std::move(*text));
    sizes.push_back(arguments.size());
  }
  if (epilogues.size() == 2 && (epilogues[0].type != epilogues[1].type || epilogues[0].functions != epilogues[1].functions))
    return kernel.emitError("the two products of one launch have different epilogues");
  return success();
}

SmallVector<int64_t> GemmKernel::weightColumns() const {
  SmallVector<int64_t> columns;
  for (const TileProblem &problem : program.problems)
    if (problem.weights.size() > 1)
      for (const TileWeight &weight : problem.weights)
        columns.push_back(weight.columns);
  return columns;
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

Verdict acceptsGemm(dit::FusionOp fusion, ResidualBy residual) {
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
      text = writeEpilogue(program, problem, types, {inBatches && first != problem.rowShape.end() ? *first : 1, 1}, alignments, residual);
    }
    if (texts[0] && texts[1])
      break;
  }
  if (texts[0] && texts[1] && texts[0]->type == texts[1]->type && texts[0]->functions == texts[1]->functions)
    return {};
  return {Reason::ShapeMismatch, program.problems[1].product().getRhs()};
}

} // namespace ditc
