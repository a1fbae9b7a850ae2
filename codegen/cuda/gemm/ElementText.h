// SPDX-License-Identifier: Apache-2.0
//
// Elements of an epilogue as device code: loops over groups of columns, with the loads that neighbours share, and the
// addresses of what they load. Names and places are those of common/epilogue.cuh.
#pragma once

#include "codegen/cuda/gemm/ElementRuns.h"
#include "codegen/cuda/gemm/EpilogueText.h"

#include "llvm/ADT/MapVector.h"

#include <map>

namespace ditc {

/// How a loop meets the two rows of a thread: inside it, so that both use what was loaded for the columns, or not at all,
/// for the row `half` of a loop around it.
enum class HalfLoop { Inside, Around };

/// The operands and functions that the printed code uses go into `result`.
class ElementText {
public:
  ElementText(const TileProgram &program, mlir::ArrayRef<mlir::MemRefType> types, const RowSplit &split, mlir::ArrayRef<int64_t> alignments, EpilogueText &result)
      : program(program), types(types), split(split), alignments(alignments), result(result) {}

  void begin(const TileOutput &output);
  /// `store(e, value)`: the statement that takes element e of a pair.
  std::string loop(const ElementRun &run, HalfLoop half, llvm::function_ref<std::string(int e, const std::string &value)> store);
  /// True when an operand of this range cannot be addressed by batch and row.
  bool failed() const { return failedAddress; }

  /// Norms of the range by the number of their statistics.
  llvm::DenseMap<mlir::Operation *, unsigned> norms;
  bool biasIsAdded = false;                 ///< the accumulators have the bias
  bool fromBegin = false;                   ///< what is loaded has a place for each column of the product
  mlir::Operation *appliedNorm = nullptr;   ///< the norm that the accumulators have gone through

private:
  struct LoadKey {
    unsigned argument;
    TileIndex index; ///< of the pair's first element
    mlir::SmallVector<int64_t, 4> lanes;
    int64_t step;
    bool operator<(const LoadKey &other) const {
      return std::tie(argument, index.constant, step, index.terms, lanes) < std::tie(other.argument, other.index.constant, other.step, other.index.terms, other.lanes);
    }
  };
  struct Load {
    std::string variable, definition;
    bool ofRow = false; ///< else the same for all rows
  };

  void visitLoads(const TileExpr &expr);
  bool isPairable(const TileExpr &load, int64_t move) const;
  std::string addLoad(const TileExpr &load, int64_t move);
  size_t pointer(unsigned argument);
  std::string strideText(unsigned argument, bool ofBatch, int64_t stride);
  std::string rowTerms(unsigned argument, const TileIndex &index);
  std::string address(const LoadKey &key);
  std::string print(const TileExpr &expr);
  std::string printAccumulator(const TileExpr &expr);
  std::string printExchange(const TileExpr &expr, int64_t move);
  std::string printChoice(const TileExpr &expr);
  std::string accumulator(int64_t place, int64_t move) const;
  std::string printNorm(const TileExpr &expr);
  std::string functionOf(dit::MapOp map);

  const TileProgram &program;
  mlir::ArrayRef<mlir::MemRefType> types;
  RowSplit split;
  mlir::ArrayRef<int64_t> alignments;
  EpilogueText &result;
  llvm::MapVector<std::string, std::string, std::map<std::string, unsigned>> functions; ///< text -> name
  std::map<std::pair<unsigned, bool>, size_t> strideMembers; ///< argument, of the batch -> number in result.strides
  const TileOutput *current = nullptr;
  bool failedAddress = false;

  // Of the loop that is being written.
  std::map<LoadKey, Load> loads;
  const ElementRun *run = nullptr;
  size_t nextPlace = 0;
};

} // namespace ditc
