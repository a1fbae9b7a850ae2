// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/Target.h"

#include "runtime/Error.h"

#include <charconv>
#include <optional>

namespace ditc::cuda {
namespace {

constexpr std::string_view kNative = "sm_", kPortable = "compute_", kPtx = "ptx";

struct TargetName {
  bool portable = false;
  bool exactOnly = false; ///< "sm_90a" runs on 9.0 and nothing else
  int major = 0, minor = 0;
};

/// Nothing for names that are no CUDA target.
std::optional<TargetName> parse(std::string_view target) {
  std::string architecture = architectureOf(target);
  std::string_view name = architecture;
  TargetName out;
  out.portable = name.starts_with(kPortable);
  if (!out.portable && !name.starts_with(kNative))
    return std::nullopt;
  std::string_view digits = name.substr(out.portable ? kPortable.size() : kNative.size());
  out.exactOnly = digits.ends_with('a');
  if (out.exactOnly)
    digits.remove_suffix(1);
  int number = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number < 10)
    return std::nullopt;
  out.major = number / 10;
  out.minor = number % 10;
  return out;
}

/// How well the target serves the GPU; 0: not at all.
int fitness(const TargetName &target, ComputeCapability gpu) {
  bool exact = target.major == gpu.major && target.minor == gpu.minor;
  if (target.exactOnly)
    return !exact ? 0 : target.portable ? 1000 : 4000;
  if (!target.portable)
    return target.major == gpu.major && target.minor <= gpu.minor ? 2000 + target.minor : 0;
  bool older = target.major * 10 + target.minor <= gpu.major * 10 + gpu.minor;
  return older ? target.major * 10 + target.minor : 0;
}

std::string adviceFor(ComputeCapability gpu, bool portableWouldDo) {
  if (portableWouldDo)
    return "let the driver compile the portable code (--no-jit, no_jit or allow_jit=False forbids it), or compile the package for this GPU";
  std::string_view target = targetFor(gpu);
  return target.empty() ? "ditc compiles for GPUs from compute capability 8.0 on" : fmt::format("compile it with --target {}", target);
}

} // namespace

std::string_view targetFor(ComputeCapability gpu) {
  std::string_view best;
  int bestFitness = 0;
  for (std::string_view target : kTargets)
    if (int found = fitness(*parse(target), gpu); !isPortable(target) && found > bestFitness)
      best = target, bestFitness = found;
  return best.empty() && fitness(*parse(kPtx), gpu) > 0 ? kPtx : best;
}

std::string architectureOf(std::string_view target) {
  if (!target.starts_with(kPtx))
    return std::string(target);
  return fmt::format("{}{}", kPortable, target == kPtx ? "80" : target.substr(kPtx.size()));
}

std::string ComputeCapability::text() const { return fmt::format("{}.{}", major, minor); }

bool isPortable(std::string_view target) { return target.starts_with(kPortable) || target.starts_with(kPtx); }

const ManifestTarget &chooseTarget(const Manifest &manifest, std::string_view path, ComputeCapability gpu, bool allowJit) {
  const ManifestTarget *best = nullptr;
  int bestFitness = 0;
  bool portableWouldDo = false;
  for (const ManifestTarget &target : manifest.targets) {
    std::optional<TargetName> name = parse(target.name);
    int found = name ? fitness(*name, gpu) : 0;
    portableWouldDo = portableWouldDo || (found > 0 && name->portable);
    if (found <= bestFitness || (name->portable && !allowJit))
      continue;
    best = &target;
    bestFitness = found;
  }
  if (!best)
    fail("'{}' has no code for this GPU (compute capability {}); it has {}; {}", path, gpu.text(), manifest.targetList(),
         adviceFor(gpu, portableWouldDo));
  return *best;
}

} // namespace ditc::cuda
