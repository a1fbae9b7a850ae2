// SPDX-License-Identifier: Apache-2.0
//
// The report for a terminal: 80 columns, and a block fits a screen of 50 lines.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace ditc {

/// A number with the unit that makes it short: "25.2 MB", "1.21 GFLOP".
std::string bytesText(double bytes);
std::string flopsText(double flops);
std::string timeText(double microseconds);

/// "0-18", "0, 2, 5-7".
std::string rangesText(const std::vector<int64_t> &numbers);

/// "taken apart": what a target does with a kernel instead of what was planned.
std::string deviationText(const nlohmann::json &entry);

/// The last part of a module path behind its block: "attn.to_q".
std::string shortPath(const std::string &path);

/// A line or two per bucket, after compilation.
std::string summarise(const nlohmann::json &report);

/// One bucket in full, or one block of it when `block` names it ("transformer_blocks" or an element of it).
std::string reportText(const nlohmann::json &report, const nlohmann::json &bucket, const std::string &block = "");

} // namespace ditc
