// SPDX-License-Identifier: Apache-2.0
//
// What an exported program is, without compiling it.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace ditc {

/// Container, torch version, inputs, outputs, symbols, ops with counts, weights, and what is unsupported and
/// where. Throws Error (Input) for a file that cannot be read.
nlohmann::json inspect(const std::string &path);

/// The same for people.
std::string describe(const nlohmann::json &inspection);

} // namespace ditc
