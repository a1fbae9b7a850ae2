// SPDX-License-Identifier: Apache-2.0
#include "compiler/Options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ditc {

std::string CompileOptions::digest() const {
  std::string models;
  for (const ModelPath &model : this->models)
    models += model.bucket + ";";
  return fmt::format("models={} buckets={} targets={} cpu={} numerics={} quantize={} attention={} skip={} only={} invariant={} padding={} tuning={} {}", models, fmt::join(buckets, ";"),
                     fmt::join(targets, ","), hostCpu, static_cast<int>(numerics), static_cast<int>(quantize), static_cast<int>(quantizeAttention), fmt::join(quantizeSkip, ";"), fmt::join(quantizeOnly, ";"),
                     fmt::join(invariant, ","), fmt::join(padding, ","), useTuning, tuningGpu);
}

std::optional<Phase> parsePhase(const std::string &name) {
  if (name == "imported")
    return Phase::Imported;
  if (name == "specialised" || name == "specialized")
    return Phase::Specialised;
  if (name == "fused")
    return Phase::Fused;
  if (name == "planned")
    return Phase::Planned;
  return std::nullopt;
}

} // namespace ditc
