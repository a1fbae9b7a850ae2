// SPDX-License-Identifier: Apache-2.0
#include "compiler/report/Memory.h"

#include "dialects/dit/Dit.h"

#include "llvm/ADT/MapVector.h"

#include <algorithm>

using namespace mlir;

namespace ditc {

static NodeName lastName(Location loc) {
  std::vector<NodeName> names = namesOf(loc);
  return names.empty() ? NodeName{} : names.back();
}

static LiveTensor describe(plan::BufferOp buffer) {
  auto type = cast<MemRefType>(buffer.getType());
  LiveTensor tensor;
  tensor.name = lastName(buffer.getLoc());
  llvm::raw_string_ostream stream(tensor.type);
  llvm::interleave(type.getShape(), stream, "x");
  stream << (type.getShape().empty() ? "" : "x") << type.getElementType();
  tensor.bytes = type.getNumElements() * dit::elementBytes(type.getElementType());
  tensor.offset = buffer.getOffset().value_or(0);
  return tensor;
}

MemoryRecord readMemory(plan::ProgramOp program) {
  MemoryRecord record;
  record.arenaBytes = program.getArenaBytes().value_or(0);
  llvm::MapVector<Operation *, LiveTensor> tensors;
  std::vector<Operation *> steps;
  for (plan::StepOp step : program.getBody().getOps<plan::StepOp>())
    for (Operation &op : step.getBody().front()) {
      for (Value operand : op.getOperands()) {
        plan::BufferOp buffer = plan::rootBuffer(operand);
        if (buffer.getSpace() != plan::Space::Arena)
          continue;
        auto [entry, isNew] = tensors.try_emplace(buffer);
        if (isNew) {
          entry->second = describe(buffer);
          entry->second.first = steps.size();
        }
        entry->second.last = steps.size();
      }
      steps.push_back(&op);
    }
  std::vector<int64_t> change(steps.size() + 1, 0);
  for (auto &[op, tensor] : tensors) {
    change[tensor.first] += tensor.bytes;
    change[tensor.last + 1] -= tensor.bytes;
  }
  int64_t alive = 0;
  for (size_t i = 0; i < steps.size(); ++i)
    if (alive += change[i]; alive > record.peakBytes) {
      record.peakBytes = alive;
      record.position = i;
    }
  if (!steps.empty())
    record.at = lastName(steps[record.position]->getLoc());
  for (auto &[op, tensor] : tensors)
    if (tensor.first <= record.position && record.position <= tensor.last)
      record.alive.push_back(tensor);
  std::ranges::sort(record.alive, [](const LiveTensor &a, const LiveTensor &b) { return std::pair(-a.bytes, a.offset) < std::pair(-b.bytes, b.offset); });
  return record;
}

} // namespace ditc
