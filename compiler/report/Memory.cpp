// SPDX-License-Identifier: Apache-2.0
#include "compiler/report/Memory.h"

#include "dialects/dit/Dit.h"
#include "passes/plan/Lifetimes.h"

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
  std::vector<Operation *> operations = operationsOf(program);
  std::vector<Lifetime> lifetimes = lifetimesOf(operations, plan::Space::Arena);
  std::vector<int64_t> bytes = bytesInUse(lifetimes, operations.size());
  MemoryRecord record;
  record.arenaBytes = program.getArenaBytes().value_or(0);
  record.operations = operations.size();
  if (operations.empty())
    return record;
  record.position = std::ranges::max_element(bytes) - bytes.begin();
  record.peakBytes = bytes[record.position];
  record.at = lastName(operations[record.position]->getLoc());
  for (const Lifetime &lifetime : lifetimes)
    if (lifetime.first <= record.position && record.position <= lifetime.last)
      record.alive.push_back(describe(lifetime.buffer));
  std::ranges::sort(record.alive, [](const LiveTensor &a, const LiveTensor &b) { return std::pair(-a.bytes, a.offset) < std::pair(-b.bytes, b.offset); });
  return record;
}

} // namespace ditc
