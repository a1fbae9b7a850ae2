// SPDX-License-Identifier: Apache-2.0
#include "passes/plan/Lifetimes.h"

#include "dialects/dit/Dit.h"

using namespace mlir;

namespace ditc {

int64_t placedBytes(plan::BufferOp buffer) {
  auto type = cast<MemRefType>(buffer.getType());
  return llvm::alignTo(type.getNumElements() * dit::elementBytes(type.getElementType()), kArenaAlignment);
}

std::vector<Operation *> operationsOf(plan::ProgramOp program) {
  std::vector<Operation *> operations;
  for (plan::PrepareOp prepare : program.getBody().getOps<plan::PrepareOp>())
    for (Operation &op : prepare.getBody().front())
      operations.push_back(&op);
  for (plan::StepOp step : program.getBody().getOps<plan::StepOp>())
    for (Operation &op : step.getBody().front())
      operations.push_back(&op);
  return operations;
}

std::vector<Lifetime> lifetimesOf(ArrayRef<Operation *> operations, plan::Space space) {
  std::vector<Lifetime> lifetimes;
  llvm::DenseMap<Operation *, size_t> index;
  for (auto [position, op] : llvm::enumerate(operations))
    for (Value operand : op->getOperands()) {
      plan::BufferOp buffer = plan::rootBuffer(operand);
      if (buffer.getSpace() != space)
        continue;
      auto [entry, isNew] = index.try_emplace(buffer, lifetimes.size());
      if (isNew)
        lifetimes.push_back({.buffer = buffer, .bytes = placedBytes(buffer), .first = static_cast<int64_t>(position)});
      lifetimes[entry->second].last = position;
    }
  return lifetimes;
}

std::vector<int64_t> bytesInUse(ArrayRef<Lifetime> lifetimes, size_t count) {
  std::vector<int64_t> bytes(count + 1, 0);
  for (const Lifetime &lifetime : lifetimes) {
    bytes[lifetime.first] += lifetime.bytes;
    bytes[lifetime.last + 1] -= lifetime.bytes;
  }
  for (size_t i = 1; i < bytes.size(); ++i)
    bytes[i] += bytes[i - 1];
  bytes.pop_back();
  return bytes;
}

} // namespace ditc
