// SPDX-License-Identifier: Apache-2.0
//
// When a plan's buffers are in use: positions of the operations that touch them, in the order in which they run. What
// orders launches, places buffers and reports memory sees the same lifetimes.
#pragma once

#include "dialects/plan/Plan.h"

#include <vector>

namespace ditc {

/// Every buffer that the planner places starts on a cache line, and on the alignment that wide loads want.
constexpr int64_t kArenaAlignment = 64;

/// What a buffer takes up, with the gap to the next one.
int64_t placedBytes(plan::BufferOp buffer);

/// The operations of both phases, in the order in which they run.
std::vector<mlir::Operation *> operationsOf(plan::ProgramOp program);

struct Lifetime {
  plan::BufferOp buffer;
  int64_t bytes = 0;           ///< placedBytes
  int64_t first = 0, last = 0; ///< positions of the first and last operation that touches it
  int64_t offset = 0;          ///< where it was placed

  bool overlapsInTime(const Lifetime &other) const { return first <= other.last && other.first <= last; }
};

/// Lifetimes of the buffers of `space` that `operations` touch, by first use.
std::vector<Lifetime> lifetimesOf(mlir::ArrayRef<mlir::Operation *> operations, plan::Space space);

/// Bytes in use at each of `count` operations.
std::vector<int64_t> bytesInUse(mlir::ArrayRef<Lifetime> lifetimes, size_t count);

} // namespace ditc
