// SPDX-License-Identifier: Apache-2.0
//
// The epilogue of a gemm fusion as a C++ type for gemm_sm90.cuh and gemm_mma.cuh (the shape of such types:
// common/epilogue.cuh).
#pragma once

#include "codegen/cuda/gemm/RowSplit.h"
#include "codegen/cuda/gemm/TileProgram.h"
#include "dialects/plan/Plan.h"

#include <string>
#include <vector>

namespace ditc {

struct EpilogueText {
  std::string functions;             ///< scalar functions of the maps
  std::string type;                  ///< `struct Epilogue { ... };`
  int columns = 0;                   ///< that it sees together; 16 with a residual; 0: any, the unit's Config::CHUNK says how many
  std::vector<unsigned> pointers;    ///< the struct's members: numbers of block arguments, in order
  std::vector<int32_t> strides;      ///< and after the pointers: strides that differ between the products of a launch
  std::optional<unsigned> residual;  ///< the argument that the copy engine fetches
  bool loadsRows = false;            ///< threads load values that differ between rows
};

/// How an operand of the result's type and shape comes: fetched by the copy engine (RESIDUAL), or loaded like any other.
enum class ResidualBy { CopyEngine, Loads };

/// `types`: of the block's arguments, as they lie in memory. Nothing when an operand cannot be addressed by batch and
/// row.
std::optional<EpilogueText> writeEpilogue(const TileProgram &program, const TileProblem &problem, mlir::ArrayRef<mlir::MemRefType> types, const RowSplit &split,
                                          mlir::ArrayRef<int64_t> alignments, ResidualBy residual);

} // namespace ditc
