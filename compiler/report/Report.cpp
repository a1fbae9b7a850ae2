// SPDX-License-Identifier: Apache-2.0
#include "compiler/report/Report.h"

#include "compiler/report/BucketJson.h"
#include "compiler/report/Gpu.h"
#include "dialects/plan/Plan.h"

#include <map>

using namespace mlir;

namespace ditc {

using nlohmann::json;

namespace {

struct OpCounts {
  int64_t launches = 0, gemms = 0, copies = 0;

  explicit OpCounts(const std::vector<PlanOp> &ops) {
    for (const PlanOp &op : ops) {
      launches += std::holds_alternative<LaunchOp>(op.body);
      gemms += std::holds_alternative<GemmOp>(op.body);
      copies += std::holds_alternative<CopyOp>(op.body);
    }
  }

  int64_t total() const { return launches + gemms + copies; }
  json toJson() const { return {{"launches", launches}, {"gemms", gemms}, {"copies", copies}}; }
};

/// The host target as it runs today; it takes fusions apart.
json hostJson(ModuleOp module, const Plan &plan) {
  std::map<std::string, int64_t> families;
  for (plan::ProgramOp program : module.getOps<plan::ProgramOp>())
    program.walk([&](plan::LaunchOp launch) {
      if (launch->getParentOfType<plan::StepOp>())
        if (auto kernel = module.lookupSymbol<plan::KernelOp>(launch.getKernel()))
          ++families[kernel.getFamily().str()];
    });
  return {{"step", OpCounts(plan.step).toJson()}, {"prepare", OpCounts(plan.prepare).toJson()}, {"launches_by_family", families}, {"distinct_kernels", plan.kernels.size()}};
}

int64_t bytesIn(const Plan &plan, Space space) {
  int64_t bytes = 0;
  for (const PlanBuffer &buffer : plan.buffers)
    bytes += buffer.space == space ? buffer.bytes : 0;
  return bytes;
}

json reasonCounts(const json &notFused) {
  std::map<std::string, int64_t> counts;
  for (const json &entry : notFused)
    counts[entry["reason"]] += entry["count"].get<int64_t>();
  return counts;
}

} // namespace

void Report::observe(Contract contract, ModuleOp module) {
  if (contract == Contract::Specialised)
    unfused = measureUnfused(module);
  if (contract == Contract::Fused)
    graph = readGraph(module);
}

void Report::addBucket(const std::string &name, ModuleOp planned, const Plan &plan) {
  assignHomes(graph);
  Folded folded = foldBlocks(graph);
  json notFused = notFusedJson(remarks.take(), graph, folded), totals = totalsJson(graph, unfused);
  MemoryRecord memory;
  for (plan::ProgramOp program : planned.getOps<plan::ProgramOp>())
    memory = readMemory(program);
  totals["host_launches"] = OpCounts(plan.step).total();
  totals["host_prepare_launches"] = OpCounts(plan.prepare).total();
  totals["arena_bytes"] = plan.arenaBytes;
  totals["prepared_bytes"] = plan.preparedBytes;
  totals["constant_bytes"] = bytesIn(plan, Space::Constant);
  totals["parameter_bytes"] = bytesIn(plan, Space::Weight);
  totals["reasons"] = reasonCounts(notFused);
  buckets.push_back({{"name", name}, {"totals", totals}, {"blocks", blocksJson(graph, folded)}, {"kernels", kernelsJson(graph, folded)}, {"free", freeJson(graph)},
                     {"not_fused", notFused}, {"memory", memoryJson(memory)}, {"host", hostJson(planned, plan)}});
  graph = {};
}

void Report::addKernels(ModuleOp module) {
  std::map<std::string, int64_t> families;
  int64_t total = 0;
  for (plan::KernelOp kernel : module.getOps<plan::KernelOp>()) {
    ++families[kernel.getFamily().str()];
    ++total;
  }
  kernels = {{"total", total}, {"by_family", families}};
}

json Report::toJson() const {
  json report{{"version", kReportVersion}, {"catalogue", "Hopper"}, {"buckets", buckets}, {"host_kernels", kernels}};
  applyGpu(report, kDefaultGpu);
  return report;
}

} // namespace ditc
