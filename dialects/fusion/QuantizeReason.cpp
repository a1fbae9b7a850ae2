// SPDX-License-Identifier: Apache-2.0
#include "dialects/fusion/QuantizeReason.h"

#include <algorithm>
#include <array>

namespace ditc {

namespace {

struct Entry {
  QuantizeReason reason;
  std::string_view name, text;
};

constexpr std::array<Entry, 9> kEntries{{
    {QuantizeReason::Accepted, "accepted", "multiplies 8-bit numbers"},
    {QuantizeReason::TypeUnsupported, "type_unsupported", "its operands are not bf16 or f16"},
    {QuantizeReason::NoWeight, "no_weight", "its right side is no weight, but made from inputs or constants"},
    {QuantizeReason::LayoutUnsupported, "layout_unsupported", "its depth is no multiple of 16, its width none of 8, each batch has a weight of its own, or heads of attention are no multiples of 8 or wider than 248"},
    {QuantizeReason::ComputedScores, "computed_scores", "a mask adds to its scores, or a soft cap bends them, where 8-bit kernels only hide keys"},
    {QuantizeReason::FewRows, "few_rows", "it has 16 rows or fewer, so that it waits for its weights, which stay exact"},
    {QuantizeReason::OncePerGeneration, "once_per_generation", "it is the same in every step and runs once"},
    {QuantizeReason::Excluded, "excluded", "--quantize-skip names it, or --quantize-only does not"},
    {QuantizeReason::LittleWork, "little_work", "quantising its inputs would take longer than faster products save"},
}};

} // namespace

std::string_view nameOf(QuantizeReason reason) { return kEntries[static_cast<size_t>(reason)].name; }

std::string_view explain(QuantizeReason reason) { return kEntries[static_cast<size_t>(reason)].text; }

std::string_view explainQuantizeReason(std::string_view name) {
  auto found = std::ranges::find(kEntries, name, &Entry::name);
  return found == kEntries.end() ? std::string_view() : found->text;
}

std::vector<QuantizeReason> allQuantizeReasons() {
  std::vector<QuantizeReason> reasons;
  for (const Entry &entry : kEntries)
    if (entry.reason != QuantizeReason::Accepted)
      reasons.push_back(entry.reason);
  return reasons;
}

} // namespace ditc
