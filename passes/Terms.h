// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic that makes an element of a tensor, read across maps. A model may write x * rsqrt(m + eps) as
// one map or as three with casts between; the passes that recognise such formulas see the same term.
#pragma once

#include "dialects/dit/Dit.h"

#include <optional>

namespace ditc {

/// A number of the model: a scalar operation in the body of some map, or an element of a tensor that no map makes.
/// Widening casts are looked through, as arithmetic is in the wide type anyway. A cast to a narrower type is a
/// rounding that the model asks for, and ends the term; with `keepRoundings` every map that rounds does, without it every
/// map that rounds to fp8.
class Term {
public:
  Term(mlir::Value tensor, bool keepRoundings);
  /// What the body of `map` yields, before it is rounded.
  static Term yieldedBy(dit::MapOp map, bool keepRoundings);

  /// The outermost tensor of which this is an element; null inside a body.
  mlir::Value tensor() const { return outermost; }
  /// The tensor which no map makes, behind casts; null for scalar operations and arguments.
  mlir::Value leafTensor() const { return isLeaf() ? scalar : mlir::Value(); }
  /// The operation that makes a tensor which no map makes; null for scalar operations and arguments.
  template <typename Op> Op leaf() const { return isLeaf() ? scalar.getDefiningOp<Op>() : Op(); }
  bool isLeaf() const { return mlir::isa<mlir::RankedTensorType>(scalar.getType()); }

  template <typename Op> bool is() const { return !isLeaf() && scalar.getDefiningOp<Op>(); }
  /// The scalar operation; null for leaves.
  mlir::Operation *op() const { return isLeaf() ? nullptr : scalar.getDefiningOp(); }
  Term operand(unsigned index) const;
  std::optional<double> constant() const;

  bool operator==(const Term &other) const { return scalar == other.scalar; }

private:
  Term() = default;
  void resolve(mlir::Value value);
  bool isTransparent(dit::MapOp map) const;

  mlir::Value scalar, outermost;
  bool keepRoundings = false;
};

/// True when `tensor` holds values as they were computed, or a rounding does not matter.
bool staysWide(mlir::Value tensor, bool keepRoundings);

/// Behind a cast that loses nothing and keeps the compute type: f32(bf16 x) is x for what computes in f32.
mlir::Value behindWidening(mlir::Value value);

/// The number of trailing dimensions that `reduce` covers; nothing when it covers others.
std::optional<int64_t> trailingAxes(dit::ReduceOp reduce);

/// Behind views that cut the batch dimensions anew and leave the last two.
mlir::Value behindBatchView(mlir::Value value);

/// Views and permutations that fold into those that they are put on.
mlir::Value viewAs(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value, mlir::ArrayRef<int64_t> shape);
mlir::Value permuted(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value, mlir::ArrayRef<int64_t> permutation);

} // namespace ditc
