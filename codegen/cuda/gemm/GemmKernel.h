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
};

/// One problem of a kernel with what its arguments are in memory.
class ProblemArguments {
public:
  ProblemArguments(const TileProgram &program, const TileProblem &problem, plan::KernelOp kernel);

  /// Everything lies so that all rows are one batch.
  bool isOneRun() const;
  /// Batches of the first dimension with more than one row.
  void splitByBatch();

  std::optional<EpilogueText> epilogue(ResidualBy residual) const;
  GemmSize size() const;

  /// Strides of rows and batches in elements, over the dimensions `sizes` with `strides`; nothing when they have none.
  std::optional<std::pair<int64_t, int64_t>> rowStrides(mlir::ArrayRef<int64_t> sizes, mlir::ArrayRef<int64_t> strides) const;
  /// Of an operand whose last dimension is k or the columns.
  std::optional<std::pair<int64_t, int64_t>> rowStridesOf(unsigned argument) const;
  std::optional<std::pair<int64_t, int64_t>> rowStridesOf(const TileOutput &output) const;

  unsigned argumentOf(const TileOutput &output) const { return firstOutput + output.result; }
  /// Columns of a head; all columns of the output when it has no dimension of heads.
  int64_t headColumns(const TileOutput &output) const;
  /// 0 without a dimension of heads.
  int64_t headStride(const TileOutput &output) const;

  const TileProblem &problem;
  mlir::SmallVector<mlir::MemRefType> types; ///< of all arguments of the kernel
  mlir::SmallVector<int64_t> alignments;     ///< in bytes
  RowSplit split;

private:
  bool rowsJoin() const;

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

  /// Errors are diagnostics at the kernel's location.
  mlir::LogicalResult read(plan::KernelOp kernel, ResidualBy residual);

  const EpilogueText &epilogue() const { return epilogues.front(); }
  mlir::Type elementType() const { return problems.front().types[program.problems.front().a.front()].getElementType(); }
  /// The columns are a multiple of those that the epilogue sees together.
  bool isEven() const { return program.problems.front().columns % epilogue().columns == 0; }
  /// Columns of weights that lie side by side: a tile's width divides them.
  mlir::SmallVector<int64_t> weightColumns() const;
  /// The members of the epilogues, as the template's Epilogues lies in memory.
  cuda::KernelParameter epilogueParameter() const;
  /// "4096 x 12288 x 3072", for comments.
  std::string sizesText() const;
};

/// Can this gemm fusion be one launch, if its arguments lie densely?
Verdict acceptsGemm(dit::FusionOp fusion, ResidualBy residual);

} // namespace ditc
