// SPDX-License-Identifier: Apache-2.0
//
// `ditc diff`: what changed between two builds of a model, or between two buckets.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace ditc {

/// Totals that differ, kernels that only one side has (by what they compute, not by their numbers), and
/// neighbours that are kept apart for another reason than before.
std::string diffText(const nlohmann::json &before, const nlohmann::json &after);

} // namespace ditc
