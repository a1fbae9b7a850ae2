// SPDX-License-Identifier: Apache-2.0
#include "runtime/PlanPointers.h"

#include <map>

namespace ditc {

std::vector<bool> buffersOf(const Plan &plan, const std::vector<PlanOp> &ops) {
  std::vector<bool> used(plan.buffers.size());
  for (const PlanOp &op : ops)
    forEachPointer(op, [&](const PlanPointer &pointer) { used[pointer.buffer] = true; });
  return used;
}

/// The plan of the preparation alone, buffers and kernels numbered by their first use, as text.
std::string prepareKey(const Plan &plan) {
  Plan alone;
  alone.preparedBytes = plan.preparedBytes;
  alone.prepare = plan.prepare;
  std::map<uint32_t, uint32_t> buffers, kernels;
  auto renumber = [](std::map<uint32_t, uint32_t> &numbers, uint32_t &index, const auto &from, auto &to) {
    auto [it, isNew] = numbers.try_emplace(index, static_cast<uint32_t>(to.size()));
    if (isNew)
      to.push_back(from[index]);
    index = it->second;
  };
  for (PlanOp &op : alone.prepare) {
    forEachPointer(op, [&](PlanPointer &pointer) { renumber(buffers, pointer.buffer, plan.buffers, alone.buffers); });
    if (auto *launch = std::get_if<LaunchOp>(&op.body))
      renumber(kernels, launch->kernel, plan.kernels, alone.kernels);
    op.where.clear();
  }
  return writePlan(alone);
}

} // namespace ditc
