// SPDX-License-Identifier: Apache-2.0
//
// The little of CUDA's syntax that macros cannot make C++ of, by rewriting text: dynamic shared memory, and the table
// of a unit's kernels. Lines keep their numbers.
#pragma once

#include <string>

namespace emulator {

/// `extern __shared__ T name[];` becomes a reference to the engine's memory.
std::string rewriteHeader(const std::string &text);

/// The same, and at the end a table of the unit's `extern "C" __global__` kernels.
std::string rewriteUnit(const std::string &text, const std::string &arch);

} // namespace emulator
