// SPDX-License-Identifier: Apache-2.0
//
// `ditc explain`: which kernel an operation is in and with whom, and what kept its neighbours apart.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace ditc {

/// `query` is a module path, a node or a kernel. Throws Error (Input) with the nearest names when there is
/// none of that name.
std::string explainText(const nlohmann::json &report, const nlohmann::json &bucket, const std::string &query);

} // namespace ditc
