// SPDX-License-Identifier: Apache-2.0
#include "Block.h"

#include <cstring>

namespace emulator {
namespace {

/// Passes in which threads did nothing but yield, before they count as waiting for each other for ever.
constexpr unsigned kIdlePasses = 100000;

std::string text(Index i) {
  return "(" + std::to_string(i.x) + ", " + std::to_string(i.y) + ", " + std::to_string(i.z) + ")";
}

std::string hex(unsigned mask) {
  char buffer[16];
  snprintf(buffer, sizeof buffer, "0x%08x", mask);
  return buffer;
}

} // namespace

void Block::run(const UnitTable &newUnit, const KernelEntry &newKernel, const LaunchGeometry &newGeometry,
                Index blockIndex, void **newParameters) {
  unit = &newUnit, kernel = &newKernel, geometry = newGeometry, index = blockIndex, parameters = newParameters;
  prepare();
  unsigned idlePasses = 0;
  while (live) {
    bool progress = false, yielded = false;
    for (size_t i = 0; i < warps.size(); ++i)
      progress |= runWarp(warps[geometry.reverse ? warps.size() - 1 - i : i]);
    for (BlockThread &thread : threads)
      if (thread.state == ThreadState::Yielded) {
        thread.state = ThreadState::Ready;
        yielded = true;
      }
    idlePasses = progress ? 0 : idlePasses + 1;
    if (!progress && (!yielded || idlePasses > kIdlePasses))
      reportDeadlock();
  }
}

void Block::prepare() {
  unsigned count = geometry.block.x * geometry.block.y * geometry.block.z;
  threads.resize(count);
  for (BlockThread &thread : threads)
    thread.state = ThreadState::New, thread.fiber = nullptr;
  warps.resize((count + 31) / 32);
  for (unsigned w = 0; w < warps.size(); ++w) {
    warps[w].first = 32 * w;
    warps[w].lanes = std::min(32u, count - 32 * w);
    warps[w].ended = warps[w].lanes == 32 ? 0 : ~0u << warps[w].lanes;
    warps[w].meetings.clear();
  }
  live = count;
  atBarrier = 0, predicates = 0;
  failure.clear();
  inThread = false;

  *unit->blockIdx = index, *unit->blockDim = geometry.block, *unit->gridDim = geometry.grid;
  *unit->scheduler = this;
  if (unit->sharedBegin)
    memset(unit->sharedBegin, 0xFF, static_cast<size_t>(unit->sharedEnd - unit->sharedBegin));
  memset(unit->dynamicShared, 0xFF, geometry.sharedBytes);
}

/// Runs the warp's threads as long as one is ready; says whether one did more than yield.
bool Block::runWarp(Warp &warp) {
  bool progress = false;
  for (bool again = true; again;) {
    again = false;
    for (unsigned i = 0; i < warp.lanes; ++i) {
      unsigned number = warp.first + (geometry.reverse ? warp.lanes - 1 - i : i);
      ThreadState &state = threads[number].state;
      if (state != ThreadState::New && state != ThreadState::Ready)
        continue;
      runThread(number);
      if (state != ThreadState::Yielded)
        progress = again = true;
    }
  }
  return progress;
}

void Block::runThread(unsigned number) {
  BlockThread &thread = threads[number];
  current = number;
  unsigned x = geometry.block.x, y = geometry.block.y;
  *unit->threadIdx = {number % x, number / x % y, number / (x * y)};
  *unit->lane = number % 32;
  inThread = true;
  if (thread.state == ThreadState::New) {
    if (freeFibers.empty()) {
      fibers.push_back(std::make_unique<Fiber>(fibers.size()));
      freeFibers.push_back(fibers.back().get());
    }
    thread.fiber = freeFibers.back();
    freeFibers.pop_back();
    thread.fiber->start(threadMain, this);
  } else {
    thread.fiber->resume();
  }
  inThread = false;
  if (!failure.empty())
    throw LaunchError(failure);
  if (thread.fiber->idle()) {
    freeFibers.push_back(thread.fiber);
    thread.state = ThreadState::Ended;
    threadEnds(number);
  }
}

void Block::threadMain(void *self) {
  auto *block = static_cast<Block *>(self);
  block->kernel->run(block->parameters);
}

void Block::suspendAs(ThreadState state, const char *name) {
  BlockThread &thread = threads[current];
  thread.state = state;
  thread.waitsAt = name;
  thread.fiber->suspend();
}

void Block::threadEnds(unsigned number) {
  --live;
  releaseBarrier();
  Warp &warp = warps[number / 32];
  warp.ended |= 1u << number % 32;
  for (Rendezvous &meeting : warp.meetings)
    completeIfAllCame(warp, meeting);
}

// ---- what threads ask for -----------------------------------------------------------------------------------------

int Block::barrier(const char *name, bool predicate) {
  ++atBarrier;
  predicates += predicate;
  threads[current].state = ThreadState::AtBarrier;
  releaseBarrier();
  if (threads[current].state == ThreadState::AtBarrier)
    suspendAs(ThreadState::AtBarrier, name);
  return barrierResult;
}

void Block::releaseBarrier() {
  if (atBarrier == 0 || atBarrier < live)
    return;
  barrierResult = predicates;
  atBarrier = 0, predicates = 0;
  for (BlockThread &thread : threads)
    if (thread.state == ThreadState::AtBarrier)
      thread.state = ThreadState::Ready;
}

unsigned long long Block::collective(const char *name, Collective kind, unsigned mask, unsigned long long value,
                                     unsigned source) {
  BlockThread &thread = threads[current];
  unsigned bit = 1u << current % 32;
  if (!(mask & bit))
    fail((std::string(name) + " with the mask " + hex(mask) + ", which lacks the calling lane").c_str());
  thread.mask = mask, thread.value = value, thread.source = source;
  Warp &warp = warps[current / 32];
  Rendezvous *meeting = nullptr, *unused = nullptr;
  for (Rendezvous &candidate : warp.meetings) {
    if (candidate.arrived == 0)
      unused = &candidate;
    else if (candidate.mask == mask && candidate.kind == kind && !(candidate.arrived & bit))
      meeting = &candidate;
  }
  if (!meeting)
    meeting = unused ? unused : &warp.meetings.emplace_back();
  meeting->kind = kind, meeting->mask = mask, meeting->arrived |= bit;
  thread.state = ThreadState::AtCollective;
  completeIfAllCame(warp, *meeting);
  if (thread.state == ThreadState::AtCollective)
    suspendAs(ThreadState::AtCollective, name);
  return thread.result;
}

void Block::completeIfAllCame(Warp &warp, Rendezvous &meeting) {
  unsigned arrived = meeting.arrived;
  if (!arrived || (meeting.mask & ~(arrived | warp.ended)))
    return;
  BlockThread *lanes = &threads[warp.first];
  unsigned ballot = 0;
  for (unsigned lane = 0; lane < warp.lanes; ++lane)
    if (arrived >> lane & 1 && lanes[lane].value)
      ballot |= 1u << lane;
  for (unsigned lane = 0; lane < warp.lanes; ++lane) {
    if (!(arrived >> lane & 1))
      continue;
    BlockThread &thread = lanes[lane];
    if (meeting.kind == Collective::Shuffle) {
      thread.result = arrived >> (thread.source & 31) & 1 ? lanes[thread.source & 31].value : ~uint64_t(0);
    } else if (meeting.kind == Collective::Ballot) {
      thread.result = ballot;
    } else if (meeting.kind == Collective::Gather) {
      for (unsigned from = 0; from < 32; ++from)
        thread.gathered[from] = arrived >> from & 1 ? lanes[from].value : 0;
      thread.result = reinterpret_cast<uintptr_t>(thread.gathered.data());
    }
    thread.state = ThreadState::Ready;
  }
  meeting.arrived = 0;
}

unsigned Block::activeLanes() { return ~warps[current / 32].ended; }

void Block::yield() { suspendAs(ThreadState::Yielded, "__nanosleep"); }

void Block::fail(const char *what) {
  failure = where() + ": " + what;
  for (;;)
    threads[current].fiber->suspend();
}

// ---- messages -----------------------------------------------------------------------------------------------------

std::string Block::where() const {
  std::string result = std::string("kernel '") + kernel->name + "', block " + text(index);
  if (inThread)
    result += ", thread " + text(*unit->threadIdx);
  return result;
}

/// "threads 0-31, 64 wait at __syncthreads; threads 32-63 wait at __shfl_sync with mask 0xffffffff"
void Block::reportDeadlock() {
  auto describe = [](const BlockThread &thread) {
    if (thread.state == ThreadState::Ended)
      return std::string("have ended");
    std::string where = std::string("wait at ") + thread.waitsAt;
    return thread.state == ThreadState::AtCollective ? where + " with mask " + hex(thread.mask) : where;
  };
  std::vector<std::pair<std::string, std::string>> groups; // what, numbers
  for (unsigned first = 0; first < threads.size();) {
    std::string what = describe(threads[first]);
    unsigned last = first;
    while (last + 1 < threads.size() && describe(threads[last + 1]) == what)
      ++last;
    std::string range = std::to_string(first) + (last > first ? "-" + std::to_string(last) : "");
    size_t group = 0;
    while (group < groups.size() && groups[group].first != what)
      ++group;
    if (group == groups.size())
      groups.emplace_back(what, range);
    else
      groups[group].second += ", " + range;
    first = last + 1;
  }
  std::string message = where() + ": nobody can go on:";
  for (const auto &[what, numbers] : groups)
    message += (&what == &groups.front().first ? " threads " : "; threads ") + numbers + " " + what;
  throw LaunchError(message);
}

void Block::abandon() {
  freeFibers.clear();
  for (auto &fiber : fibers) {
    if (!fiber->idle())
      fiber->abandon();
    freeFibers.push_back(fiber.get());
  }
}

} // namespace emulator
