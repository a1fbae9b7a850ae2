// SPDX-License-Identifier: Apache-2.0
#include "Fiber.h"

#include <cstdint>
#include <new>
#include <sys/mman.h>

namespace emulator {
namespace {

constexpr size_t kStackBytes = 256 << 10; // reserved; only pages that are touched cost memory
constexpr size_t kGuardBytes = 4096;

} // namespace

#if defined(__x86_64__)

extern "C" void emulatorSwitch(void **save, void *load);
extern "C" void emulatorFiberEntry();
// Callee-saved registers go to the stack that is left and come from the one that is entered. A fresh fiber starts in
// emulatorFiberEntry, with its Fiber in rbx and its loop in r12.
asm(R"(
  .text
  .hidden emulatorSwitch
  .globl emulatorSwitch
emulatorSwitch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .hidden emulatorFiberEntry
  .globl emulatorFiberEntry
emulatorFiberEntry:
  movq %rbx, %rdi
  callq *%r12
  ud2
)");

void Fiber::reset() {
  auto **top = reinterpret_cast<void **>(stack + kStackBytes - stagger);
  *--top = nullptr; // the entry calls with a stack pointer that is a multiple of 16
  *--top = nullptr; // where a caller's address would be: the stack ends here
  *--top = reinterpret_cast<void *>(emulatorFiberEntry);
  *--top = nullptr;                                // rbp
  *--top = this;                                   // rbx
  *--top = reinterpret_cast<void *>(&Fiber::loop); // r12
  top -= 3;                                        // r13, r14, r15
  own = top;
  ended = true;
}
void Fiber::resume() { emulatorSwitch(&owner, own); }
void Fiber::suspend() { emulatorSwitch(&own, owner); }

#else

void Fiber::reset() {
  getcontext(&own);
  own.uc_stack.ss_sp = stack + kGuardBytes;
  own.uc_stack.ss_size = kStackBytes - kGuardBytes - stagger;
  own.uc_link = nullptr;
  auto bits = reinterpret_cast<uintptr_t>(this);
  auto entry = [](unsigned high, unsigned low) {
    loop(reinterpret_cast<Fiber *>(uintptr_t(uint64_t(high) << 32 | low)));
  };
  makecontext(&own, reinterpret_cast<void (*)()>(static_cast<void (*)(unsigned, unsigned)>(entry)), 2,
              unsigned(uint64_t(bits) >> 32), unsigned(bits));
  ended = true;
}
void Fiber::resume() { swapcontext(&owner, &own); }
void Fiber::suspend() { swapcontext(&own, &owner); }

#endif

Fiber::Fiber(size_t number) : stagger(number % 15 * 272) {
  void *memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw std::bad_alloc();
  stack = static_cast<char *>(memory);
  mprotect(stack, kGuardBytes, PROT_NONE); // an overflow faults instead of writing into the next stack
  reset();
}

Fiber::~Fiber() { munmap(stack, kStackBytes); }

void Fiber::start(void (*newTask)(void *), void *newArgument) {
  task = newTask;
  argument = newArgument;
  ended = false;
  resume();
}

void Fiber::abandon() { reset(); }

void Fiber::loop(Fiber *fiber) {
  for (;;) {
    fiber->task(fiber->argument);
    fiber->ended = true;
    fiber->suspend();
  }
}

} // namespace emulator
