// SPDX-License-Identifier: Apache-2.0
//
// What the emitters of gemm_sm90.cuh and gemm_mma.cuh read of a gemm kernel: its program, how its arguments lie in
// memory, and its epilogues.
#pragma once

#include "codegen/cuda/CudaKernel.h"
#include "codegen/cuda/gemm/EpilogueText.h"

namespace ditc {

/// Sizes of one product; rows are those of a batch.
struct GemmSize {
  int64_t batches = 1, rows = 0, columns = 0, k = 0;
  int64_t operandBytes = 2; ///< of a value of either side
};

/// Multiplications and additions of all products.
double flopOf(mlir::ArrayRef<GemmSize> sizes);

/// Rows of a weight, which are columns of the product.
struct WeightRows {
  unsigned argument = 0;
  int64_t first = 0, count = 0;
};

/// One problem of a kernel with what its arguments are in memory.
class ProblemArguments {
public:
  /// `types`: of all arguments of the kernel; their alignments in bytes.
  ProblemArguments(const TileProgram &program, const TileProblem &problem, mlir::ArrayRef<mlir::MemRefType> types, mlir::ArrayRef<int64_t> alignments);

  /// Everything lies so that all rows are one batch.
  bool isOneRun() const { return fits({1, split.batches * split.rows}); }
  /// Into as few batches as everything allows. One with divided rows where that would leave tiles empty, or where there is no
  /// other way; leaves one when there is none at all.
  void splitByBatch();
  /// Batches that what is fused with the product asks for leave most of each tile empty, for longer than a launch would take.
  bool leavesTilesEmpty() const { return leftIsOneRun() && leavesTilesEmpty(split); }

  /// Nothing when an operand cannot be addressed by batch and row.
  std::optional<EpilogueText> epilogue(ResidualBy residual) const { return writeEpilogue(program, problem, types, split, alignments, residual); }
  GemmSize size() const;

  /// Strides of rows and batches in elements: of an operand whose last dimension is k or the columns, or of a result.
  std::optional<std::pair<int64_t, int64_t>> rowStridesOf(unsigned argument) const { return rowStridesOf(argument, split); }
  std::optional<std::pair<int64_t, int64_t>> rowStridesOf(const TileOutput &output) const { return rowStridesOf(output, split); }

  bool isGated() const { return program.gated; }
  /// Columns of the results, as the templates' Problem counts them.
  int64_t columns() const { return program.outputColumns(problem); }
  /// What b[i] of the templates' Problem is, and the columns before which it is used; parts that are absent repeat the last one.
  WeightRows weightRows(size_t i) const;
  int32_t weightEnd(size_t i) const;

  unsigned argumentOf(const TileOutput &output) const { return firstOutput + output.result; }
  /// Columns of a head; all columns of the output when it has no dimension of heads.
  int64_t headColumns(const TileOutput &output) const;
  /// 0 without a dimension of heads.
  int64_t headStride(const TileOutput &output) const;

  const TileProblem &problem;
  mlir::SmallVector<mlir::MemRefType> types;
  mlir::SmallVector<int64_t> alignments;
  RowSplit split;

private:
  bool fits(const RowSplit &split) const;
  bool leavesTilesEmpty(const RowSplit &split) const;
  bool leftIsOneRun() const;
  std::optional<std::pair<int64_t, int64_t>> rowStridesOf(unsigned argument, const RowSplit &split) const;
  std::optional<std::pair<int64_t, int64_t>> rowStridesOf(const TileOutput &output, const RowSplit &split) const;

  const TileProgram &program;
  unsigned firstOutput = 0;
};

/// A kernel, read. Its parts refer to each other.
struct GemmKernel {
  GemmKernel() = default;
  GemmKernel(const GemmKernel &) = delete;

  TileProgram program;
  std::vector<ProblemArguments> problems;
  std::vector<EpilogueText> epilogues; ///< of equal text
  mlir::SmallVector<GemmSize> sizes;

  /// Why there is no such kernel, or nothing against it.
  Verdict read(mlir::Block &body, mlir::ArrayRef<mlir::MemRefType> types, mlir::ArrayRef<int64_t> alignments, ResidualBy residual);
  /// The same as a diagnostic at the kernel's location.
  mlir::LogicalResult read(plan::KernelOp kernel, ResidualBy residual);

  const EpilogueText &epilogue() const { return epilogues.front(); }
  /// Of the operands: f8E4M3FN, else also what results are stored in.
  mlir::Type operandType() const { return program.operands; }
  mlir::Type resultType() const { return program.results; }
  /// The operands' in a unit that calls the results' "Element".
  std::string operandText() const { return operandType() == resultType() ? "Element" : cudaTypeName(operandType()).substr(6); }
  /// The columns are a multiple of those that the epilogue sees together: `chunk` when any number will do.
  bool isEven(int chunk) const { return problems.front().columns() % (epilogue().columns ? epilogue().columns : chunk) == 0; }
  /// A residual comes in boxes of `box` columns, of which the last one reaches past the columns.
  bool cutsResidual(int box) const { return epilogue().residual && problems.front().columns() % box != 0; }
  /// Columns where outputs begin, which no store crosses.
  mlir::SmallVector<int64_t> outputBegins() const;
  /// The most outputs that a product has.
  size_t outputCount() const;
  /// Columns of a head in every output: 0 where none has heads, -1 where outputs differ.
  int64_t headOfOutputs() const;
  /// Columns of weights that lie side by side: a tile's width divides them.
  mlir::SmallVector<int64_t> weightColumns() const;
  /// The members of the epilogues, as the template's Epilogues lies in memory.
  cuda::KernelParameter epilogueParameter() const;
  /// "4096 x 12288 x 3072", for comments.
  std::string sizesText() const;
};

/// Can this gemm fusion be one launch, if its arguments lie densely? Then its rows start on 16 bytes.
Verdict acceptsGemm(dit::FusionOp fusion, ResidualBy residual);
/// The same with arguments, results last, that lie as `types` say.
Verdict acceptsGemm(dit::FusionOp fusion, mlir::ArrayRef<mlir::MemRefType> types, ResidualBy residual);

} // namespace ditc
