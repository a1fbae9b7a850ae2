// SPDX-License-Identifier: Apache-2.0
//
// What one element of an epilogue's result is computed from: accumulators of the same tile row, and loads. Found by
// walking from the result's index back through the body's operations.
#pragma once

#include "codegen/cuda/gemm/TileIndex.h"
#include "dialects/dit/Dit.h"
#include "dialects/fusion/Reason.h"

#include <functional>
#include <memory>
#include <vector>

namespace ditc {

struct TileExpr;
using TileExprRef = std::shared_ptr<const TileExpr>;

struct TileExpr {
  enum class Kind { Accumulator, Load, Call, Norm, Choice };
  Kind kind;
  mlir::Operation *op = nullptr; ///< the product, map or norm
  unsigned argument = 0;         ///< Load: number of the block argument
  TileIndex index;               ///< Accumulator: column of the product; Load: elements from the argument's start
  std::vector<TileExprRef> children; ///< of a product: its bias; of a norm: input, weight, bias (those that are there)
  std::vector<TileIndex> row = {};   ///< Norm: the indices before the normalised one
  /// Where the threads of a quad differ (TileLanes.h), for each of them. Accumulator, Load: what is added to the index; Choice:
  /// which child it takes.
  mlir::SmallVector<int64_t, 4> lanes = {};
};

/// Walks back from results. A walk that leaves the tile leaves a verdict.
class TilePull {
public:
  /// The first column of a product in the tile's row; nothing when `index`, the leading one of the product's result, is
  /// of another row.
  using RowCheck = std::function<std::optional<int64_t>(dit::MatmulOp product, mlir::ArrayRef<TileIndex> index)>;
  using Strides = std::function<mlir::SmallVector<int64_t>(unsigned argument)>;

  /// `quad`: the variable that counts the threads of a quad, if there is one.
  TilePull(const TileVars &vars, std::optional<unsigned> quad, RowCheck firstColumn, Strides strides)
      : vars(vars), quad(quad), firstColumn(std::move(firstColumn)), strides(std::move(strides)) {}

  /// Null when the element is not in the tile; then `verdict` says why. Where that is no sum of the variables, it is looked
  /// for in each thread of a quad.
  TileExprRef at(mlir::Value value, mlir::ArrayRef<TileIndex> index);
  Verdict verdict;

  /// A value whose row is where accumulators were, without a product.
  struct Stored {
    mlir::Value value;
    std::vector<TileIndex> row; ///< its indices but the last
    TileIndex firstColumn;
  };
  std::optional<Stored> stored;

private:
  TileExprRef walk(mlir::Value value, mlir::ArrayRef<TileIndex> index);
  size_t walked = 0; ///< by one call of `at`
  TileExprRef refuse(Reason reason, mlir::Value operand);
  TileExprRef atConcat(dit::ConcatOp op, mlir::ArrayRef<TileIndex> index);
  TileExprRef atMap(dit::MapOp op, mlir::ArrayRef<TileIndex> index);
  TileExprRef atNorm(dit::NormOp op, mlir::ArrayRef<TileIndex> index);

  const TileVars &vars;
  std::optional<unsigned> quad;
  RowCheck firstColumn;
  Strides strides;
};

} // namespace ditc
