// SPDX-License-Identifier: Apache-2.0
//
// A gemm fusion as gemm_sm90.cuh and gemm_mma.cuh run it: one or two products, their results by ranges of columns, and for each range
// what happens to the accumulators. Read from the body alone, so that passes can ask whether there is such a program.
#pragma once

#include "codegen/cuda/gemm/TilePull.h"

namespace ditc {

/// One result of the fusion: a range of a product's columns.
struct TileOutput {
  unsigned result = 0;                     ///< number among the fusion's results
  int64_t begin = 0, columns = 0;          ///< of the product
  mlir::SmallVector<unsigned> rowDims, columnDims; ///< dimensions of the result
  TileVars vars;                           ///< one per row dimension, then what runs over columns
};

/// One weight of a problem: [columns, k].
struct TileWeight {
  dit::MatmulOp product;
  unsigned argument = 0;
  int64_t begin = 0, columns = 0; ///< of the problem
};

/// Products of one left side, side by side.
struct TileProblem {
  mlir::SmallVector<TileWeight, 4> weights;
  mlir::SmallVector<unsigned, 2> a; ///< arguments that hold the left side: one, or two ranges of k
  mlir::SmallVector<int64_t, 2> k;
  mlir::SmallVector<int64_t> rowShape; ///< of the left side, without k
  int64_t columns = 0;
  mlir::SmallVector<TileOutput> outputs; ///< by rising column

  dit::MatmulOp product() const { return weights.front().product; }
  /// The weight that an operation of the body multiplies by; null when it is another problem's.
  const TileWeight *weightOf(mlir::Operation *product) const;
};

struct TileProgram {
  mlir::Block *body = nullptr;
  mlir::SmallVector<TileProblem, 2> problems;
  mlir::Type operands, results; ///< what the products multiply (a 16-bit type, or e4m3), and the 16-bit type that they are stored in
  int64_t head = 0; ///< columns that are seen together, because they are normalised or change places; 0: none
  /// The result has half of the product's columns, each made of two that lie half a product apart: the gate of an MLP and
  /// what it is multiplied with. Each half is one weight, or rows of one.
  bool gated = false;

  /// The variables behind those of the rows: with heads `head` and `quad`, else `column`.
  unsigned columnVar(const TileOutput &output) const { return output.rowDims.size(); }

  /// Columns of the results of a problem, beside each other.
  int64_t outputColumns(const TileProblem &problem) const { return gated ? problem.columns / 2 : problem.columns; }

  TilePull pullOf(const TileProblem &problem, const TileOutput &output, TilePull::Strides strides) const;
  /// Index of the output's element in group i of eight columns, at place e of a pair (see epilogue.cuh).
  mlir::SmallVector<TileIndex> elementOf(const TileOutput &output, int64_t i, int64_t e) const;
};

/// Columns of the narrowest tile that has whole heads: any template has tiles of its multiples.
int64_t narrowestTile(int64_t head);

/// The program of a fusion's body, or why there is none.
Verdict readTileProgram(mlir::Block &body, TileProgram &program);

} // namespace ditc
