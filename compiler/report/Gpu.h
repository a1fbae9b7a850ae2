// SPDX-License-Identifier: Apache-2.0
//
// Roofline times of a report for a named GPU. The rest of a report does not depend on one.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace ditc {

inline constexpr const char *kDefaultGpu = "H200";

/// Fills "roofline_us" and "bound_by" of kernels, blocks, families and totals. Throws Error (Usage) for a
/// name that is not in the table of peaks.
void applyGpu(nlohmann::json &report, const std::string &gpu);

} // namespace ditc
