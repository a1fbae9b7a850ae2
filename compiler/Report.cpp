// SPDX-License-Identifier: Apache-2.0
#include "compiler/Report.h"

#include "dialects/plan/Plan.h"

#include <fmt/format.h>
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

  json toJson() const { return {{"launches", launches}, {"gemms", gemms}, {"copies", copies}}; }
};

/// 2·M·N·K over the batch of every product.
double gemmFlops(const std::vector<PlanOp> &ops) {
  double total = 0;
  for (const PlanOp &op : ops)
    if (const auto *gemm = std::get_if<GemmOp>(&op.body)) {
      double flops = 2.0 * gemm->m * gemm->n * gemm->k;
      for (int64_t size : gemm->batch)
        flops *= size;
      total += flops;
    }
  return total;
}

std::string bytesText(double bytes) {
  if (bytes < 1e6)
    return fmt::format("{:.1f} KB", bytes / 1e3);
  return bytes < 1e9 ? fmt::format("{:.1f} MB", bytes / 1e6) : fmt::format("{:.2f} GB", bytes / 1e9);
}

} // namespace

void Report::addBucket(const std::string &name, ModuleOp module, const Plan &plan) {
  std::map<std::string, int64_t> families;
  for (plan::ProgramOp program : module.getOps<plan::ProgramOp>())
    program.walk([&](plan::LaunchOp launch) {
      if (launch->getParentOfType<plan::StepOp>())
        if (auto kernel = module.lookupSymbol<plan::KernelOp>(launch.getKernel()))
          ++families[kernel.getFamily().str()];
    });
  int64_t constantBytes = 0, weightBytes = 0;
  for (const PlanBuffer &buffer : plan.buffers) {
    constantBytes += buffer.space == Space::Constant ? buffer.bytes : 0;
    weightBytes += buffer.space == Space::Weight ? buffer.bytes : 0;
  }
  buckets.push_back({{"name", name},
                     {"step", OpCounts(plan.step).toJson()},
                     {"prepare", OpCounts(plan.prepare).toJson()},
                     {"launches_by_family", families},
                     {"distinct_kernels", plan.kernels.size()},
                     {"gemm_flops", gemmFlops(plan.step)},
                     {"arena_bytes", plan.arenaBytes},
                     {"prepared_bytes", plan.preparedBytes},
                     {"constant_bytes", constantBytes},
                     {"weight_bytes", weightBytes}});
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

json Report::json() const { return {{"version", 1}, {"buckets", buckets}, {"kernels", kernels}}; }

std::string summarise(const nlohmann::json &report) {
  std::string text;
  for (const json &bucket : report["buckets"]) {
    const json &step = bucket["step"];
    text += fmt::format("bucket {:<12} {} launches of {} kernels, {} products ({:.3f} GFLOP), arena {}, weights {}, tables {}\n", bucket["name"].get<std::string>(),
                        step["launches"].get<int64_t>(), bucket["distinct_kernels"].get<int64_t>(), step["gemms"].get<int64_t>(), bucket["gemm_flops"].get<double>() / 1e9,
                        bytesText(bucket["arena_bytes"].get<double>()), bytesText(bucket["weight_bytes"].get<double>()), bytesText(bucket["constant_bytes"].get<double>()));
  }
  return text;
}

} // namespace ditc
