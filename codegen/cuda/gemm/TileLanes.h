// SPDX-License-Identifier: Apache-2.0
//
// Elements that differ between the four threads of a quad by more than their columns. A group of eight columns is a pair
// for each thread. Where the halves of a head are no whole groups (72 = 2 · 36), what turns with a pair lies in another
// thread, and a group may have columns of both halves:
//
//   columns   0 …  7   8 … 15  …   32 33 34 35 │ 36 37 38 39   40 …
//   thread    0 1 2 3  0 1 2 3      0     1    │  2     3       0        column 32 turns with 68: group 8, thread 2
#pragma once

#include "codegen/cuda/gemm/TilePull.h"

#include <array>

namespace ditc {

constexpr int kQuad = 4;

/// Equal but for places.
bool isAlike(const TileExpr &a, const TileExpr &b);

/// True when every accumulator is one of the thread that asks for it; `quad` is the variable that counts threads.
bool staysInThreads(const TileExpr &expr, unsigned quad);

/// One expression of what an element is in each thread: a choice where they are not alike.
TileExprRef joinLanes(const std::array<TileExprRef, kQuad> &lanes, unsigned quad);

/// Accumulators that change threads.
struct QuadExchange {
  std::array<std::optional<int64_t>, kQuad> source; ///< the thread that has what each one wants; nothing: it wants none
  std::array<std::optional<int64_t>, kQuad> given;  ///< the column of the product that each one gives
};

/// How an accumulator with lanes gets to the threads; nothing when one would have to give two.
std::optional<QuadExchange> exchangeOf(const TileExpr &accumulator);

} // namespace ditc
