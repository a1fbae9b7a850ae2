// SPDX-License-Identifier: Apache-2.0
#include "Engine.h"

#include "Block.h"

#include <csetjmp>
#include <csignal>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

namespace emulator {
namespace {

/// Turns a bad access of a kernel into a LaunchError. Kernels hold no locks and own nothing, so that leaving one in the
/// middle of an instruction is safe.
class FaultGuard {
public:
  FaultGuard() : outer(active), alternate(std::make_unique<char[]>(kStackBytes)) {
    stack_t stack = {};
    stack.ss_sp = alternate.get(); // the fault may be an overflow of the fiber's own stack
    stack.ss_size = kStackBytes;
    sigaltstack(&stack, &oldStack);
    struct sigaction action = {};
    action.sa_sigaction = &FaultGuard::handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int i = 0; i < kSignals; ++i)
      sigaction(kNumbers[i], &action, &oldActions[i]);
    active = this;
  }
  ~FaultGuard() {
    active = outer;
    for (int i = 0; i < kSignals; ++i)
      sigaction(kNumbers[i], &oldActions[i], nullptr);
    sigaltstack(&oldStack, nullptr);
  }

  sigjmp_buf back;
  const void *address = nullptr;
  int signal = 0;

private:
  static constexpr int kSignals = 3;
  static constexpr int kNumbers[kSignals] = {SIGSEGV, SIGBUS, SIGFPE};
  static constexpr size_t kStackBytes = 64 << 10;

  static void handle(int signal, siginfo_t *information, void *) {
    if (!active) { // some other thread's fault, while a kernel runs elsewhere
      std::signal(signal, SIG_DFL);
      return;
    }
    active->address = information->si_addr;
    active->signal = signal;
    siglongjmp(active->back, 1);
  }

  static thread_local FaultGuard *active;
  FaultGuard *outer;
  std::unique_ptr<char[]> alternate;
  stack_t oldStack;
  struct sigaction oldActions[kSignals];
};
thread_local FaultGuard *FaultGuard::active = nullptr;

void runBlocks(Block &block, const UnitTable &unit, const KernelEntry &kernel, const LaunchGeometry &geometry,
               void **parameters) {
  FaultGuard guard;
  if (sigsetjmp(guard.back, 1)) {
    char address[32];
    snprintf(address, sizeof address, "%p", guard.address);
    const char *what = guard.signal == SIGFPE ? ": an integer division by zero at " : ": an illegal access to ";
    throw LaunchError(block.where() + what + address);
  }
  for (unsigned z = 0; z < geometry.grid.z; ++z)
    for (unsigned y = 0; y < geometry.grid.y; ++y)
      for (unsigned x = 0; x < geometry.grid.x; ++x)
        block.run(unit, kernel, geometry, {x, y, z}, parameters);
}

} // namespace

void checkLaunch(const UnitTable &unit, const KernelEntry &kernel, const LaunchGeometry &geometry) {
  auto refuse = [&](const std::string &why) { throw LaunchError(std::string("kernel '") + kernel.name + "': " + why); };
  const Index &grid = geometry.grid, &block = geometry.block;
  uint64_t threads = uint64_t(block.x) * block.y * block.z;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || threads == 0)
    refuse("a grid or block without threads");
  if (grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535)
    refuse("the grid is larger than 2147483647 x 65535 x 65535");
  if (threads > 1024 || block.z > 64)
    refuse(std::to_string(threads) + " threads in a block; 1024 are possible, 64 of them in z");
  if (kernel.maxThreads && threads > kernel.maxThreads)
    refuse(std::to_string(threads) + " threads in a block; its __launch_bounds__ say " +
           std::to_string(kernel.maxThreads));
  if (geometry.sharedBytes > unit.dynamicCapacity)
    refuse(std::to_string(geometry.sharedBytes) + " bytes of shared memory; no GPU has more than " +
           std::to_string(unit.dynamicCapacity));
}

void runKernel(const UnitTable &unit, const KernelEntry &kernel, const LaunchGeometry &geometry, void **parameters) {
  static std::mutex oneAtATime;
  static Block block; // keeps its fibers
  std::lock_guard lock(oneAtATime);
  checkLaunch(unit, kernel, geometry);

  char *behind = unit.dynamicShared + geometry.sharedBytes;
  size_t behindBytes = unit.dynamicCapacity - geometry.sharedBytes;
  memset(behind, 0xFF, behindBytes);
  try {
    runBlocks(block, unit, kernel, geometry, parameters);
  } catch (...) {
    block.abandon();
    throw;
  }
  // Equal to itself shifted by one byte: all bytes are as they were.
  if (behindBytes && (behind[0] != char(0xFF) || memcmp(behind, behind + 1, behindBytes - 1) != 0))
    throw LaunchError(std::string("kernel '") + kernel.name + "' writes behind the " +
                      std::to_string(geometry.sharedBytes) + " bytes of shared memory of its launch");
}

} // namespace emulator
