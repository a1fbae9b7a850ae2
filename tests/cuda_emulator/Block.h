// SPDX-License-Identifier: Apache-2.0
//
// One block's threads while they run: who is ready, who waits for whom. Used by Engine.cpp only.
#pragma once

#include "Engine.h"
#include "Fiber.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace emulator {

enum class ThreadState { New, Ready, Yielded, AtBarrier, AtCollective, Ended };

struct BlockThread {
  ThreadState state = ThreadState::New;
  Fiber *fiber = nullptr;
  const char *waitsAt = nullptr;
  unsigned mask = 0;   // of the collective
  unsigned source = 0; // lane of a shuffle
  uint64_t value = 0, result = 0;
  std::array<uint64_t, 32> gathered;
};

/// Lanes that have come to one collective.
struct Rendezvous {
  Collective kind = Collective::Sync;
  unsigned mask = 0, arrived = 0; // arrived == 0: not in use
};

struct Warp {
  unsigned first = 0, lanes = 0; // thread number of lane 0; how many lanes exist
  unsigned ended = 0;            // lanes that will not come any more, among them those that do not exist
  std::vector<Rendezvous> meetings;
};

/// The fibers outlive blocks and launches.
class Block final : public Scheduler {
public:
  /// Runs all threads of the block `blockIndex`; throws LaunchError.
  void run(const UnitTable &unit, const KernelEntry &kernel, const LaunchGeometry &geometry, Index blockIndex,
           void **parameters);
  /// After a failure in the middle of the block.
  void abandon();
  /// "kernel 'k', block (x, y, z)", with the running thread if there is one.
  std::string where() const;

  int barrier(const char *name, bool predicate) override;
  unsigned long long collective(const char *name, Collective kind, unsigned mask, unsigned long long value,
                                unsigned source) override;
  unsigned activeLanes() override;
  void yield() override;
  [[noreturn]] void fail(const char *text) override;

private:
  void prepare();
  bool runWarp(Warp &warp);
  void runThread(unsigned number);
  void suspendAs(ThreadState state, const char *name);
  void threadEnds(unsigned number);
  void releaseBarrier();
  void completeIfAllCame(Warp &warp, Rendezvous &meeting);
  [[noreturn]] void reportDeadlock();
  static void threadMain(void *self);

  const UnitTable *unit = nullptr;
  const KernelEntry *kernel = nullptr;
  LaunchGeometry geometry;
  Index index;
  void **parameters = nullptr;

  std::vector<BlockThread> threads;
  std::vector<Warp> warps;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Fiber *> freeFibers;
  unsigned current = 0;
  bool inThread = false;
  unsigned live = 0, atBarrier = 0;
  int predicates = 0, barrierResult = 0;
  std::string failure; // what the running thread failed with
};

} // namespace emulator
