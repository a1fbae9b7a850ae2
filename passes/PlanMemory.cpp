// SPDX-License-Identifier: Apache-2.0
//
// PlanMemory: gives every arena buffer an offset such that buffers that live at the same time do not
// overlap. Buffers are placed from large to small at the lowest offset that is free during their lifetime,
// which comes close to the peak of live bytes. Prepared buffers live for ever, but for those that only the
// preparation reads. Zeroed buffers all lie at the start: operations follow each other, and each leaves zeros
// behind.
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

#include <limits>

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_PLANMEMORY
#include "passes/Passes.h.inc"

namespace {

/// Every buffer starts on a cache line, and on the alignment that wide loads want.
constexpr int64_t kAlignment = 64;

struct Lifetime {
  plan::BufferOp buffer;
  int64_t bytes = 0;
  int64_t first = 0, last = 0; ///< positions of the first and last operation that touches it
  int64_t offset = 0;

  bool overlapsInTime(const Lifetime &other) const { return first <= other.last && other.first <= last; }
};

int64_t bufferBytes(plan::BufferOp buffer) {
  auto type = cast<MemRefType>(buffer.getType());
  return llvm::alignTo(type.getNumElements() * dit::elementBytes(type.getElementType()), kAlignment);
}

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
    SmallVector<Lifetime> lifetimes = findLifetimes(program, space);
    int64_t bytes = place(lifetimes);
    for (Lifetime &lifetime : lifetimes)
      lifetime.buffer.setOffset(lifetime.offset);
    return bytes;
  }

  static SmallVector<Lifetime> findLifetimes(plan::ProgramOp program, plan::Space space) {
    SmallVector<Lifetime> lifetimes;
    llvm::DenseMap<Operation *, size_t> index;
    int64_t position = 0;
    auto visit = [&](Operation &op, bool inStep) {
      for (Value operand : op.getOperands()) {
        plan::BufferOp buffer = plan::rootBuffer(operand);
        if (buffer.getSpace() != space)
          continue;
        auto [entry, isNew] = index.try_emplace(buffer, lifetimes.size());
        if (isNew)
          lifetimes.push_back({buffer, bufferBytes(buffer), position, position});
        bool isForEver = inStep && space == plan::Space::Prepared; // steps are repeated, the preparation is not
        lifetimes[entry->second].last = isForEver ? std::numeric_limits<int64_t>::max() : position;
      }
      ++position;
    };
    for (plan::PrepareOp prepare : program.getBody().getOps<plan::PrepareOp>())
      for (Operation &op : prepare.getBody().front())
        visit(op, false);
    for (plan::StepOp step : program.getBody().getOps<plan::StepOp>())
      for (Operation &op : step.getBody().front())
        visit(op, true);
    for (plan::BufferOp buffer : program.getBody().getOps<plan::BufferOp>())
      if (buffer.getSpace() == space && !index.contains(buffer))
        lifetimes.push_back({buffer, 0, -1, -1}); // never touched: any place will do
    return lifetimes;
  }

  /// Sets offsets; the size of the arena.
  static int64_t place(MutableArrayRef<Lifetime> lifetimes) {
    SmallVector<Lifetime *> order;
    for (Lifetime &lifetime : lifetimes)
      order.push_back(&lifetime);
    llvm::sort(order, [](const Lifetime *a, const Lifetime *b) { return std::tuple(-a->bytes, a->first, a) < std::tuple(-b->bytes, b->first, b); });
    SmallVector<Lifetime *> placed; // by offset
    int64_t total = 0;
    for (Lifetime *lifetime : order) {
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
