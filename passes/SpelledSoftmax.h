// SPDX-License-Identifier: Apache-2.0
//
// A softmax of masked and scaled scores that a model spells out, as RecogniseAttention looks for it.
#pragma once

#include "passes/Terms.h"

namespace ditc {

/// A number times a factor.
struct Scaled {
  Term of;
  double factor;
};

/// x·c, c·x or x/c.
std::optional<Scaled> scaledBy(const Term &term);

/// A tensor that is added to scores, or a boolean one that chooses between them and a number so low that nothing remains.
struct SpelledMask {
  mlir::Value tensor;
  llvm::SmallVector<int64_t> level; ///< shape of the scores where the mask meets them
  double factor = 1;                ///< scales what is added: a model may scale the sum
  bool hides = false;               ///< a boolean mask is true where a key is hidden
  std::optional<double> hidden;     ///< finite number that hidden scores take; -inf without
};

/// softmax(scale · scores + masks) over the last dimension, or softmax(softCap · tanh(scale · scores / softCap) + masks).
struct SpelledSoftmax {
  dit::MatmulOp scores;
  double scale = 1;
  mlir::Value factor;                     ///< a number of each head, or of all, that scales the scores as well (a learned temperature); null for none
  llvm::SmallVector<int64_t> factorLevel; ///< shape of the scores where they meet
  std::optional<double> softCap;
  llvm::SmallVector<SpelledMask, 1> masks;

  /// The masks, given in other shapes, as dit.attention takes one: added, or true where a key is seen. Null without masks.
  mlir::Value maskFor(mlir::OpBuilder &b, mlir::ArrayRef<mlir::Value> tensors) const;
};

/// The softmax that makes `weights`, when nothing else reads them.
std::optional<SpelledSoftmax> spelledSoftmaxOf(mlir::Value weights, bool keepRoundings);

} // namespace ditc
