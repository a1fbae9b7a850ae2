// SPDX-License-Identifier: Apache-2.0
#include "compiler/report/Report.h"

#include "compiler/report/BucketJson.h"
#include "compiler/report/Gpu.h"
#include "compiler/report/Quantized.h"
#include "dialects/plan/Plan.h"

#include <algorithm>
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

/// A target as it runs today; it may take fusions apart.
json targetJson(ModuleOp module, const Plan &plan) {
  std::map<std::string, int64_t> families;
  for (plan::ProgramOp program : module.getOps<plan::ProgramOp>())
    program.walk([&](plan::LaunchOp launch) {
      if (launch->getParentOfType<plan::StepOp>())
        if (auto kernel = module.lookupSymbol<plan::KernelOp>(launch.getKernel()))
          ++families[kernel.getFamily().str()];
    });
  return {{"step", OpCounts(plan.step).toJson()}, {"prepare", OpCounts(plan.prepare).toJson()}, {"launches_by_family", families}, {"distinct_kernels", plan.kernels.size()},
          {"arena_bytes", plan.arenaBytes}, {"prepared_bytes", plan.preparedBytes}};
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

void Report::addBucket(const std::string &name) {
  assignHomes(graph);
  folded = foldBlocks(graph);
  std::vector<FusionRemark> told = remarks.take();
  json notFused = notFusedJson(told, graph, folded), totals = totalsJson(graph, unfused);
  totals["reasons"] = reasonCounts(notFused);
  buckets.push_back({{"name", name}, {"totals", totals}, {"blocks", blocksJson(graph, folded)}, {"kernels", kernelsJson(graph, folded)}, {"free", freeJson(graph)},
                     {"not_fused", notFused}, {"targets", json::object()}});
  addQuantization(buckets.back(), told, graph);
}

void Report::addPlan(const std::string &target, ModuleOp planned, const Plan &plan) {
  json &bucket = buckets.back();
  bucket["targets"][target] = targetJson(planned, plan);
  bucket["targets"][target]["deviations"] = deviationsJson(remarks.take(), graph, folded);
  json &totals = bucket["totals"];
  if (totals.contains("today_target"))
    return; // totals are those of the first target
  MemoryRecord memory;
  for (plan::ProgramOp program : planned.getOps<plan::ProgramOp>())
    memory = readMemory(program);
  bucket["memory"] = memoryJson(memory);
  totals["today_target"] = target;
  totals["today_launches"] = OpCounts(plan.step).total();
  totals["today_prepare_launches"] = OpCounts(plan.prepare).total();
  totals["arena_bytes"] = plan.arenaBytes;
  totals["prepared_bytes"] = plan.preparedBytes;
  totals["constant_bytes"] = bytesIn(plan, Space::Constant);
  totals["parameter_bytes"] = bytesIn(plan, Space::Weight);
}

void Report::addKernels(const std::string &target, ModuleOp module) {
  std::map<std::string, int64_t> families;
  int64_t total = 0;
  for (plan::KernelOp kernel : module.getOps<plan::KernelOp>()) {
    ++families[kernel.getFamily().str()];
    ++total;
  }
  kernels[target] = {{"total", total}, {"by_family", families}};
}

/// How many gemm kernels have measured tiles, and which have not.
static json tuningOf(const json &resources) {
  json tuning = {{"measured", 0}, {"by_model", 0}, {"gpus", json::array()}, {"missing", json::array()}, {"notes", json::array()}};
  for (const json &kernel : resources) {
    if (!kernel.contains("tiles"))
      continue;
    const json &tiles = kernel["tiles"];
    bool isMeasured = tiles["from"] == "measured";
    json &count = tuning[isMeasured ? "measured" : "by_model"];
    count = count.get<int64_t>() + 1;
    json gpu = tiles.value("gpu", json());
    if (isMeasured && std::ranges::find(tuning["gpus"], gpu) == tuning["gpus"].end())
      tuning["gpus"].push_back(gpu);
    if (!isMeasured)
      tuning["missing"].push_back(tiles["key"]);
    if (tiles.contains("note"))
      tuning["notes"].push_back(fmt::format("{}: {}", kernel["name"].get<std::string>(), tiles["note"].get<std::string>()));
  }
  return tuning;
}

void Report::addResources(const std::string &target, json resources) {
  kernels[target]["tuning"] = tuningOf(resources);
  kernels[target]["resources"] = std::move(resources);
}

json Report::toJson() const {
  json report{{"version", kReportVersion}, {"catalogue", "Hopper"}, {"buckets", buckets}, {"target_kernels", kernels}};
  applyGpu(report, kDefaultGpu);
  return report;
}

} // namespace ditc
