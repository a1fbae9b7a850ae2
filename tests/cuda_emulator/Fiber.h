// SPDX-License-Identifier: Apache-2.0
//
// A stack of its own that runs one task after another and can stop in the middle. Switching takes a few nanoseconds on
// x86-64; other processors use ucontext.
#pragma once

#include <cstddef>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emulator {

class Fiber {
public:
  /// `number` staggers the stacks of a block's threads, so that they do not share cache sets.
  explicit Fiber(size_t number);
  ~Fiber();
  Fiber(const Fiber &) = delete;
  Fiber &operator=(const Fiber &) = delete;

  /// Runs `task` until it ends or suspends; to be called outside of any fiber.
  void start(void (*task)(void *), void *argument);
  /// Goes on after a suspension, until the next one or the end.
  void resume();
  /// To be called by the task: back to who started or resumed it.
  void suspend();
  /// Whether the task has ended, so that another may start.
  bool idle() const { return ended; }
  /// Forgets a suspended task; what its stack holds is not destroyed.
  void abandon();

private:
  void reset();
  static void loop(Fiber *fiber);

  void (*task)(void *) = nullptr;
  void *argument = nullptr;
  bool ended = true;
  char *stack = nullptr;
  size_t stagger;
#if defined(__x86_64__)
  void *own = nullptr, *owner = nullptr; // stack pointers
#else
  ucontext_t own, owner;
#endif
};

} // namespace emulator
