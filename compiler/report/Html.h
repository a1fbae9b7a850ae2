// SPDX-License-Identifier: Apache-2.0
//
// The report as one page: report.html, a file of its own in the sources, with the JSON put into it. Nothing is
// loaded from elsewhere.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace ditc {

std::string reportPage(const nlohmann::json &report, const std::string &title);

} // namespace ditc
