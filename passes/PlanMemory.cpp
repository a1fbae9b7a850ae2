// SPDX-License-Identifier: Apache-2.0
//
// PlanMemory: gives every arena buffer an offset such that buffers that live at the same time do not
// overlap. Buffers are placed one after the other at the lowest offset that is free during their lifetime: the
// large ones first, those that are large for long, or those in use when most is; whichever order needs least.
// That comes close to the most bytes in use at once, often to nothing above it. Prepared buffers live for ever, but
// for those that only the preparation reads. Zeroed buffers all lie at the start: operations follow each other, and
// each leaves zeros behind.
//
// Before:
//   plan.program @b inputs ["x"] outputs ["y"] {
//     %x = plan.buffer input {index = 0} : memref<16xf32>
//     %y = plan.buffer output {index = 0} : memref<16xf32>
//     %t = plan.buffer arena : memref<16xf32>
//     plan.prepare { }
//     plan.step {
//       plan.copy %x -> %t : memref<16xf32> -> memref<16xf32>
//       plan.copy %t -> %y : memref<16xf32> -> memref<16xf32>
//     }
//   }
// After:
//   plan.program @b inputs ["x"] outputs ["y"] attributes {arena_bytes = 64 : i64, prepared_bytes = 0 : i64} {
//     %x = plan.buffer input {index = 0} : memref<16xf32>
//     %y = plan.buffer output {index = 0} : memref<16xf32>
//     %t = plan.buffer arena {offset = 0} : memref<16xf32>
//     plan.prepare { }
//     plan.step {
//       plan.copy %x -> %t : memref<16xf32> -> memref<16xf32>
//       plan.copy %t -> %y : memref<16xf32> -> memref<16xf32>
//     }
//   }
#include "passes/Passes.h"
#include "passes/plan/Lifetimes.h"

#include <algorithm>
#include <limits>
#include <numeric>

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_PLANMEMORY
#include "passes/Passes.h.inc"

namespace {

class PlanMemory : public impl::PlanMemoryBase<PlanMemory> {
  void runOnOperation() override {
    for (plan::ProgramOp program : getOperation().getOps<plan::ProgramOp>())
      planProgram(program);
  }

  static void planProgram(plan::ProgramOp program) {
    Builder b(program.getContext());
    program.setArenaBytesAttr(b.getI64IntegerAttr(placeAll(program, plan::Space::Arena)));
    program.setPreparedBytesAttr(b.getI64IntegerAttr(placeAll(program, plan::Space::Prepared)));
    for (plan::BufferOp buffer : program.getBody().getOps<plan::BufferOp>())
      if (buffer.getSpace() == plan::Space::Zeroed)
        buffer.setOffset(0);
  }

  /// The size of the space.
  static int64_t placeAll(plan::ProgramOp program, plan::Space space) {
    std::vector<Lifetime> lifetimes = findLifetimes(program, space);
    int64_t bytes = place(lifetimes);
    for (Lifetime &lifetime : lifetimes)
      lifetime.buffer.setOffset(lifetime.offset);
    return bytes;
  }

  static std::vector<Lifetime> findLifetimes(plan::ProgramOp program, plan::Space space) {
    std::vector<Operation *> operations = operationsOf(program);
    std::vector<Lifetime> lifetimes = lifetimesOf(operations, space);
    if (space == plan::Space::Prepared)
      for (Lifetime &lifetime : lifetimes)
        if (isa<plan::StepOp>(operations[lifetime.last]->getParentOp()))
          lifetime.last = operations.size(); // steps are repeated, the preparation is not
    llvm::DenseSet<Operation *> touched;
    for (const Lifetime &lifetime : lifetimes)
      touched.insert(lifetime.buffer);
    for (plan::BufferOp buffer : program.getBody().getOps<plan::BufferOp>())
      if (buffer.getSpace() == space && !touched.contains(buffer))
        lifetimes.push_back({.buffer = buffer}); // never touched, so of no bytes: any place will do
    return lifetimes;
  }

  /// Sets offsets; the size of the arena. No order of placing is best for every model, so several are tried.
  static int64_t place(MutableArrayRef<Lifetime> lifetimes) {
    std::vector<int64_t> fullest = fullestMoments(lifetimes);
    auto duration = [](const Lifetime &lifetime) { return lifetime.last - lifetime.first + 1; };
    auto bySize = [&](size_t i) { return std::tuple(-lifetimes[i].bytes, lifetimes[i].first, int64_t(0)); };
    auto bySizeAndTime = [&](size_t i) { return std::tuple(-lifetimes[i].bytes * duration(lifetimes[i]), lifetimes[i].first, int64_t(0)); };
    auto byMoment = [&](size_t i) { return std::tuple(-fullest[i], -duration(lifetimes[i]), -lifetimes[i].bytes); };
    int64_t best = std::numeric_limits<int64_t>::max();
    placeUnlessWorse(lifetimes, best, bySize);
    placeUnlessWorse(lifetimes, best, bySizeAndTime);
    placeUnlessWorse(lifetimes, best, byMoment);
    return best;
  }

  /// By buffer, the most bytes that are in use at once during its lifetime.
  static std::vector<int64_t> fullestMoments(ArrayRef<Lifetime> lifetimes) {
    int64_t count = 0;
    for (const Lifetime &lifetime : lifetimes)
      count = std::max(count, lifetime.last + 1);
    std::vector<int64_t> bytes = bytesInUse(lifetimes, count), fullest;
    for (const Lifetime &lifetime : lifetimes)
      fullest.push_back(*std::max_element(bytes.begin() + lifetime.first, bytes.begin() + lifetime.last + 1));
    return fullest;
  }

  /// Places in an order, and takes that when it needs less than `best`.
  template <typename Key> static void placeUnlessWorse(MutableArrayRef<Lifetime> lifetimes, int64_t &best, Key key) {
    std::vector<size_t> order(lifetimes.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, [&](size_t a, size_t b) { return std::pair(key(a), a) < std::pair(key(b), b); });
    std::vector<Lifetime> placed(lifetimes.begin(), lifetimes.end());
    int64_t bytes = placeInOrder(placed, order);
    if (bytes >= best)
      return;
    best = bytes;
    llvm::copy(placed, lifetimes.begin());
  }

  static int64_t placeInOrder(MutableArrayRef<Lifetime> lifetimes, ArrayRef<size_t> order) {
    SmallVector<Lifetime *> placed; // by offset
    int64_t total = 0;
    for (size_t i : order) {
      Lifetime *lifetime = &lifetimes[i];
      int64_t offset = 0;
      for (Lifetime *other : placed) {
        if (!lifetime->overlapsInTime(*other))
          continue;
        if (offset + lifetime->bytes <= other->offset)
          break;
        offset = std::max(offset, other->offset + other->bytes);
      }
      lifetime->offset = offset;
      total = std::max(total, offset + lifetime->bytes);
      placed.insert(llvm::upper_bound(placed, lifetime, [](const Lifetime *a, const Lifetime *b) { return a->offset < b->offset; }), lifetime);
    }
    return total;
  }
};

} // namespace
} // namespace ditc
