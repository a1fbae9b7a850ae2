// SPDX-License-Identifier: Apache-2.0
//
// A gemv fusion as gemv.cuh computes it: products of few rows, what is made of their inputs before, and of ranges of their
// columns behind. A range that is a result of its own is a problem of its own, with its rows of the weight.
#pragma once

#include "dialects/dit/Dit.h"
#include "dialects/fusion/Reason.h"

#include <optional>

namespace ditc {

/// One result: columns of a product. Numbers are of the body's arguments.
struct GemvResult {
  dit::MatmulOp product;
  int64_t begin = 0, columns = 0;           ///< of the product
  mlir::SmallVector<dit::MapOp, 2> maps;    ///< what is made of the columns, in order
  mlir::SmallVector<unsigned, 2> inputs;    ///< one, or two that `prepare` joins
  dit::MapOp prepare;                       ///< what makes x of the inputs; null: the input is x
  unsigned weight = 0;
  std::optional<unsigned> bias;
};

/// Pointers of a problem that has one input, or two: gemv.cuh.
constexpr size_t kGemvPointers = 4, kGemvPointersOfTwo = 5;
/// Bytes of a kernel's parameters, since CUDA 12.1.
constexpr size_t kGemvParameterBytes = 32764;

/// The results in the order of the body's terminator, or why one launch does not compute them.
Verdict readGemv(mlir::Block &body, std::vector<GemvResult> &results);

} // namespace ditc
