// SPDX-License-Identifier: Apache-2.0
//
// The memory plan as the report shows it: when the arena is fullest, and which tensors are alive then.
#pragma once

#include "compiler/report/Names.h"
#include "dialects/plan/Plan.h"

#include <vector>

namespace ditc {

struct LiveTensor {
  NodeName name;
  std::string type;
  int64_t bytes = 0, offset = 0;
};

struct MemoryRecord {
  int64_t arenaBytes = 0; ///< size of the arena
  int64_t peakBytes = 0;  ///< most bytes in use at once; the arena is larger where gaps stay between them
  int64_t operations = 0; ///< that run in a step, with those that prepare before them
  int64_t position = 0;   ///< operation at the peak, from 0
  NodeName at;
  std::vector<LiveTensor> alive; ///< at the peak, largest first
};

MemoryRecord readMemory(plan::ProgramOp program);

} // namespace ditc
