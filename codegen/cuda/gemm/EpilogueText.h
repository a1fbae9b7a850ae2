// SPDX-License-Identifier: Apache-2.0
//
// The epilogue of a gemm fusion as a C++ type for gemm_sm90.cuh and gemm_mma.cuh (the shape of such types:
// common/epilogue.cuh).
#pragma once

#include "codegen/cuda/gemm/TileProgram.h"
#include "dialects/plan/Plan.h"

#include <string>
#include <vector>

namespace ditc {

struct EpilogueText {
  std::string functions;             ///< scalar functions of the maps
  std::string type;                  ///< `struct Epilogue { ... };`
  int columns = 64;                  ///< that it sees together; 16 with a residual
  std::vector<unsigned> pointers;    ///< the struct's members: numbers of block arguments, in order
  std::vector<int32_t> strides;      ///< and after the pointers: strides that differ between the products of a launch
  std::optional<unsigned> residual;  ///< the argument that the copy engine fetches
};

/// How an operand of the result's type and shape comes: fetched by the copy engine (RESIDUAL), or loaded like any other.
enum class ResidualBy { CopyEngine, Loads };

/// Where the rows of a problem lie: all in one batch, or batches of the first row dimension.
struct RowSplit {
  int64_t batches = 1, rows = 1;
};

/// Element stride of a problem's rows when the row dimensions (sizes, strides) are one run; nothing when they are not.
std::optional<int64_t> joinedStride(mlir::ArrayRef<int64_t> sizes, mlir::ArrayRef<int64_t> strides);

/// `types`: of the block's arguments, as they lie in memory. Nothing when an operand cannot be addressed by batch and
/// row.
std::optional<EpilogueText> writeEpilogue(const TileProgram &program, const TileProblem &problem, mlir::ArrayRef<mlir::MemRefType> types, const RowSplit &split,
                                          mlir::ArrayRef<int64_t> alignments, ResidualBy residual);

/// True when every operand can be addressed with all rows in one batch.
bool isOneBatch(const TileProgram &program, const TileProblem &problem, mlir::ArrayRef<mlir::MemRefType> types);

} // namespace ditc
