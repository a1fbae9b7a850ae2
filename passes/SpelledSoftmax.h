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

/// softmax(scale · scores + mask) over the last dimension, or softmax(softCap · tanh(scale · scores / softCap) + mask).
struct SpelledSoftmax {
  dit::MatmulOp scores;
  double scale = 1;
  mlir::Value factor;                       ///< a number of each head, or of all, that scales the scores as well (a learned temperature); null for none
  llvm::SmallVector<int64_t> factorLevel;   ///< shape of the scores where they meet
  std::optional<double> softCap;
  mlir::Value mask;                         ///< added, or boolean; null for none
  llvm::SmallVector<int64_t> maskLevel;     ///< shape of the scores where the mask meets them
  bool hides = false;                       ///< a boolean mask is true where a key is hidden
  std::optional<double> hidden;             ///< finite number that hidden scores take; -inf without

  /// `tensor` (the mask in another shape) as dit.attention takes it: added, or true where a key is seen.
  mlir::Value maskFor(mlir::OpBuilder &b, mlir::Value tensor) const;
};

/// The softmax that makes `weights`, when nothing else reads them.
std::optional<SpelledSoftmax> spelledSoftmaxOf(mlir::Value weights, bool keepRoundings);

} // namespace ditc
