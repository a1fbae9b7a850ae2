// SPDX-License-Identifier: Apache-2.0
//
// What rows that cope with complex tensors share: ranks and dimensions as torch counts them, without the
// trailing dimension of 2.
#pragma once

#include "compiler/import/OpContext.h"

namespace ditc {

/// Rank of a tensor argument as torch sees it.
inline int64_t torchRank(const OpContext &ctx, std::string_view name, Value value) {
  return Emit::rankOf(value) - (ctx.isComplex(name) ? 1 : 0);
}

/// The dimension argument `name` of a tensor with `rank` dimensions, from the front.
inline int64_t dimArgument(const OpContext &ctx, std::string_view name, int64_t otherwise, int64_t rank) {
  return normaliseDim(ctx.integer(name, otherwise), rank);
}

/// Throws Error when a table that is computed now would have too many elements; else gives `count`.
int64_t tableSize(int64_t count);

/// 0, 1, ..., count-1 along `dim` of `rank` dimensions, the others of size 1.
inline Value iota(Emit &emit, int64_t count, int64_t dim, int64_t rank) {
  std::vector<int64_t> numbers(tableSize(count)), shape(rank, 1);
  for (int64_t i = 0; i < count; ++i)
    numbers[i] = i;
  shape[dim] = count;
  return emit.integers(shape, numbers);
}

/// Diagonals of the last two dimensions, as the last dimension.
Value takeDiagonal(Emit &emit, Value matrix, int64_t offset);

/// The dimensions [first, first + count) of `value` as one.
Value mergeDims(Emit &emit, Value value, int64_t first, int64_t count);

/// Padded with `fill`; where the last dimension holds the parts of complex numbers, imaginary ones with 0.
Value padWith(Emit &emit, Value value, ArrayRef<int64_t> low, ArrayRef<int64_t> high, Scalar fill, bool isComplex);

/// An index tensor without negative entries for a dimension of `size`; constants are rewritten now.
Value wrapIndex(OpContext &ctx, Value index, int64_t size);

/// A tensor of `type` whose element i (row-major) is number(i), rounded to the element type.
Value tabulate(Emit &emit, RankedTensorType type, llvm::function_ref<double(int64_t)> number);

/// The positions that a constant tensor of integers holds; nothing when it depends on inputs.
std::optional<std::vector<int64_t>> constantIntegers(const OpContext &ctx, std::string_view name);

/// The norm over the last `axes` dimensions; `weight` and `bias` may be null.
Value emitNorm(Emit &emit, Value input, Value weight, Value bias, dit::NormKind kind, int64_t axes, double eps, Type element);

} // namespace ditc
