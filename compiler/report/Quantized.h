// SPDX-License-Identifier: Apache-2.0
//
// What `--quantize` and `--quantize-attention` did, from the remarks of QuantizeProducts and QuantizeAttention: every product
// and every attention of a bucket, quantised or with the reason why it is not.
#pragma once

#include "compiler/report/Graph.h"
#include "compiler/report/RemarkCollector.h"

#include <nlohmann/json.hpp>

namespace ditc {

/// Gives a bucket `quantization` (of products) and `attention_quantization`, each where that was to be quantised: counts, the
/// share of a step's matrix arithmetic, and what there is by module, that of equal blocks as one entry.
void addQuantization(nlohmann::json &bucket, const std::vector<FusionRemark> &remarks, const GraphRecord &graph);

/// The sections of `ditc report`; empty without one.
std::string quantizationText(const nlohmann::json &bucket);

/// "quantised to fp8", or "not quantised" with the reason, of the product or attention of this node; empty for what is neither.
std::string quantizationOf(const nlohmann::json &bucket, const std::string &node);

} // namespace ditc
