// SPDX-License-Identifier: Apache-2.0
//
// Runs kernels of units that were compiled for the CPU (emulator.h). Blocks run one after another, the threads of a
// block as fibers that change at barriers and warp collectives, always in the same order, so that a run repeats
// exactly.
//
// What the engine reports as a LaunchError, with the kernel, the block and the threads:
//   threads that wait for others which will never come        more threads than __launch_bounds__ allows
//   an access to an address that is not mapped                a write behind the dynamic shared memory of the launch
//   a shuffle with a mask that lacks the caller               __trap and assert
// Lanes that have ended do not keep a warp collective waiting, as in CUDA.
#pragma once

#include "abi.h"

#include <cstddef>
#include <stdexcept>

namespace emulator {

struct LaunchError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct LaunchGeometry {
  Index grid, block;
  size_t sharedBytes = 0;
  /// Threads run from last to first: finds kernels that only work because the first thread comes first.
  bool reverse = false;
};

/// Refuses what no GPU would launch: throws LaunchError.
void checkLaunch(const UnitTable &unit, const KernelEntry &kernel, const LaunchGeometry &geometry);

/// `parameters` as for cuLaunchKernel. Any thread may call; launches of the process are serialised.
void runKernel(const UnitTable &unit, const KernelEntry &kernel, const LaunchGeometry &geometry, void **parameters);

} // namespace emulator
