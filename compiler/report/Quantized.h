// SPDX-License-Identifier: Apache-2.0
//
// What `--quantize` did, from the remarks of QuantizeProducts: every product of a bucket, quantised or with the reason why it
// is not.
#pragma once

#include "compiler/report/Graph.h"
#include "compiler/report/RemarkCollector.h"

#include <nlohmann/json.hpp>

namespace ditc {

/// Null when nothing was to be quantised; else counts, the share of a step's matrix arithmetic, and the products by module,
/// those of equal blocks as one entry.
nlohmann::json quantizationJson(const std::vector<FusionRemark> &remarks, const GraphRecord &graph);

/// The section of `ditc report`; empty without one.
std::string quantizationText(const nlohmann::json &bucket);

/// "quantised to fp8", or "not quantised" with the reason, of the product of this node; empty for what is no product.
std::string quantizationOf(const nlohmann::json &bucket, const std::string &node);

} // namespace ditc
