// SPDX-License-Identifier: Apache-2.0
//
// The device headers of codegen/templates/cuda, as text inside the program.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ditc {

/// All headers, by their path below templates/cuda.
std::vector<std::pair<std::string_view, std::string_view>> cudaTemplates();

/// The headers that a unit includes, directly or not, by name.
std::vector<std::pair<std::string, std::string>> templatesIncludedBy(const std::string &unit);

} // namespace ditc
