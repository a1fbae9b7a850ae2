// SPDX-License-Identifier: Apache-2.0
//
// Between a CUDA unit that was compiled for the CPU and the engine that runs it: what the unit's threads ask of the
// engine, and what the unit's shared object exports. Included on both sides; no standard header, because units include
// it and device code has none.
#pragma once

namespace emulator {

struct Index {
  unsigned x = 1, y = 1, z = 1;
};

/// How the values of a warp's lanes become results.
enum class Collective : int {
  Sync,    ///< nothing but meeting
  Shuffle, ///< a lane gets the value of the lane `source`
  Ballot,  ///< every lane gets one bit per lane whose value is not 0
  Gather,  ///< every lane gets the address of an array of all lanes' values
};

/// What a running thread asks for; a call returns when the others have come.
class Scheduler {
public:
  /// The block's barrier. Returns in how many threads `predicate` was set.
  virtual int barrier(const char *name, bool predicate) = 0;
  virtual unsigned long long collective(const char *name, Collective kind, unsigned mask, unsigned long long value,
                                        unsigned source) = 0;
  virtual unsigned activeLanes() = 0;
  /// Lets the block's other threads run.
  virtual void yield() = 0;
  [[noreturn]] virtual void fail(const char *text) = 0;

protected:
  ~Scheduler() = default;
};

struct KernelEntry {
  const char *name;
  void (*run)(void **parameters); ///< as one thread
  unsigned parameterCount;
  const unsigned *parameterSizes; ///< bytes
  unsigned maxThreads;            ///< of a block, from __launch_bounds__; 0 when it has none
};

/// The symbol `emulator_unit` of a unit's shared object. A unit runs in one operating-system thread at a time, so that
/// its indices and its shared memory are plain variables.
struct UnitTable {
  Index *threadIdx, *blockIdx, *blockDim, *gridDim;
  unsigned *lane;
  Scheduler **scheduler;
  char *sharedBegin, *sharedEnd; ///< variables that are __shared__
  char *dynamicShared;
  unsigned long long dynamicCapacity;
  const char *arch; ///< that the unit was compiled for: "sm_80", "compute_80"
  const KernelEntry *kernels;
  unsigned kernelCount;
};

} // namespace emulator
