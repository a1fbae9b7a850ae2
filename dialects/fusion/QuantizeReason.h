// SPDX-License-Identifier: Apache-2.0
//
// Why a matrix product stays in the graph's type under `--quantize`, or an attention under `--quantize-attention`. The report
// counts these, and docs/quantization.md explains each.
#pragma once

#include <string_view>
#include <vector>

namespace ditc {

enum class QuantizeReason {
  Accepted,          ///< no reason against it
  TypeUnsupported,   ///< its operands are no 16-bit floats
  NoWeight,          ///< its right side is made from inputs
  LayoutUnsupported, ///< sizes that the kernel's copies do not take, a weight of each batch, or wide heads of attention
  ComputedScores,    ///< attention with an additive mask or a soft cap
  FewRows,           ///< waits for its weights
  OncePerGeneration, ///< the same in every step
  Excluded,          ///< the user said so
  LittleWork,        ///< quantising its inputs takes longer than it saves
};

/// The enum's spelling in reports: "few_rows".
std::string_view nameOf(QuantizeReason reason);
/// A sentence for people.
std::string_view explain(QuantizeReason reason);
/// The same of a name from a report; empty when it is none.
std::string_view explainQuantizeReason(std::string_view name);
/// All reasons but Accepted, for documentation and tests.
std::vector<QuantizeReason> allQuantizeReasons();

} // namespace ditc
