// SPDX-License-Identifier: Apache-2.0
//
// Runs rowwise kernels on the CPU against the reference evaluator. A case is a func.func of dit operations; it becomes
// the body of a plan.kernel, is emitted for CUDA, compiled by the emulator and run on guarded memory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ditc::test {

struct RowwiseOptions {
  bool keepRoundings = false;
  bool aligned = true;                              ///< tell the emitter that arguments start at 16 bytes
  std::map<unsigned, std::vector<int64_t>> strides; ///< of arguments (inputs, then outputs) that are not dense
  bool special = false;                             ///< infinities, NaN, zeros, extreme integers among the inputs
  bool scramble = false;                            ///< random layouts: gaps, other orders, repeated dimensions
  double tolerance = 0;                             ///< relative and absolute; 0: by type
  uint32_t seed = 1;
};

struct RowwiseOutcome {
  std::string text;    ///< of the unit; empty when it was refused
  std::string problem; ///< what went wrong; empty when all outputs agree
  unsigned threads = 0;
  unsigned blocks = 0;
};

/// `function` is the text of one func.func.
RowwiseOutcome runRowwise(const std::string &function, const RowwiseOptions &options = {});

/// The unit alone.
RowwiseOutcome emitRowwiseUnit(const std::string &function, const RowwiseOptions &options = {});

/// The answer of acceptsRowwise: the reason's name.
std::string rowwiseVerdict(const std::string &function);

} // namespace ditc::test
