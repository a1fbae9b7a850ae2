// SPDX-License-Identifier: Apache-2.0
//
// Walking a Nest: all loops but the last count like an odometer, the last one is handed over as a run.
#pragma once

#include "descriptors.h"

namespace ditc {

/// Offsets in elements, one per argument.
struct Offsets {
  int64_t at[kMaxOperands];
};

inline bool isEmpty(const Nest &nest) {
  for (int64_t d = 0; d < nest.rank; ++d)
    if (nest.size[d] == 0)
      return true;
  return false;
}

/// Calls `visit(offsets, size, strides)` for each run. A nest without loops is one run of one element.
template <class Visit> void forEachRun(const Nest &nest, Visit visit) {
  if (isEmpty(nest))
    return;
  Offsets offsets = {};
  if (nest.rank == 0) {
    visit(offsets, int64_t(1), offsets.at);
    return;
  }
  int64_t last = nest.rank - 1, index[kMaxLoops] = {};
  while (true) {
    visit(offsets, nest.size[last], nest.stride[last]);
    int64_t d = last - 1;
    for (; d >= 0; --d) {
      ++index[d];
      for (int k = 0; k < kMaxOperands; ++k)
        offsets.at[k] += nest.stride[d][k];
      if (index[d] < nest.size[d])
        break;
      for (int k = 0; k < kMaxOperands; ++k)
        offsets.at[k] -= nest.stride[d][k] * nest.size[d];
      index[d] = 0;
    }
    if (d < 0)
      return;
  }
}

/// Calls `visit(offsets)` for each element.
template <class Visit> void forEachElement(const Nest &nest, Visit visit) {
  forEachRun(nest, [&](Offsets offsets, int64_t size, const int64_t *strides) {
    for (int64_t i = 0; i < size; ++i) {
      visit(offsets);
      for (int k = 0; k < kMaxOperands; ++k)
        offsets.at[k] += strides[k];
    }
  });
}

} // namespace ditc
