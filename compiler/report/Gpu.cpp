// SPDX-License-Identifier: Apache-2.0
#include "compiler/report/Gpu.h"

#include "dialects/fusion/Cost.h"
#include "runtime/Error.h"

#include <map>

namespace ditc {

using nlohmann::json;

static const GpuPeaks &gpuOf(const std::string &name) {
  if (const GpuPeaks *gpu = findGpu(name))
    return *gpu;
  std::string known;
  for (const GpuPeaks &gpu : knownGpus())
    known += (known.empty() ? "" : ", ") + std::string(gpu.name);
  throw Error(ErrorKind::Usage, fmt::format("--gpu {}: not in the table of peaks; expected one of {}", name, known));
}

static Work workOf(const json &kernel) {
  return {.bytesRead = kernel["read"], .bytesWritten = kernel["written"], .matrixFlops = kernel["matrix_flops"], .scalarFlops = kernel["scalar_flops"],
          .fp8Flops = kernel.value("fp8_flops", 0.0)};
}

static void applyToBucket(json &bucket, const GpuPeaks &gpu) {
  double total = 0;
  std::map<std::string, json> families;
  std::map<std::string, double> times; // by kernel
  for (json &kernel : bucket["kernels"]) {
    Work work = workOf(kernel);
    double microseconds = rooflineSeconds(work, gpu) * 1e6;
    kernel["roofline_us"] = microseconds;
    kernel["bound_by"] = boundBy(work, gpu);
    times[kernel["id"]] = kernel["prepare"].get<bool>() ? 0 : microseconds;
    if (kernel["prepare"].get<bool>())
      continue;
    double count = kernel["count"];
    json &family = families.try_emplace(kernel["family"], json::object()).first->second;
    for (auto [name, value] : std::initializer_list<std::pair<const char *, double>>{{"launches", count}, {"bytes", count * work.bytes()}, {"flops", count * work.flops()}, {"roofline_us", count * microseconds}})
      family[name] = family.value(name, 0.0) + value;
    total += count * microseconds;
  }
  for (auto &[name, family] : families)
    family["share"] = total > 0 ? family["roofline_us"].get<double>() / total : 0.0;
  for (json &block : bucket["blocks"]) {
    double sum = 0;
    for (const json &id : block["kernels"])
      sum += times[id];
    block["roofline_us_per_block"] = sum;
  }
  bucket["families"] = families;
  bucket["totals"]["roofline_us"] = total;
}

void applyGpu(json &report, const std::string &name) {
  const GpuPeaks &gpu = gpuOf(name);
  report["gpu"] = {{"name", gpu.name}, {"matrix_flops", gpu.matrixFlops}, {"scalar_flops", gpu.scalarFlops}, {"bandwidth", gpu.bandwidth}};
  for (json &bucket : report["buckets"])
    applyToBucket(bucket, gpu);
}

} // namespace ditc
