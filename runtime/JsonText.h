// SPDX-License-Identifier: Apache-2.0
//
// JSON as text that may hold names from files nobody vouches for: bytes that are no UTF-8 are replaced, where
// nlohmann's own dump would throw.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace ditc {

/// `indent` below 0: on one line.
template <typename Json> std::string jsonText(const Json &json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

} // namespace ditc
