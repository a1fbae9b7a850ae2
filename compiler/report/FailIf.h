// SPDX-License-Identifier: Apache-2.0
//
// Conditions on a report's totals, for continuous integration: `ditc compile --fail-if 'launches>310'`.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace ditc {

struct Condition {
  enum class Comparison { Less, LessEqual, Greater, GreaterEqual, Equal, NotEqual };

  std::string total; ///< "launches", "reason.row_statistics"
  Comparison comparison = Comparison::Greater;
  double bound = 0;

  bool holds(double value) const;
};

/// Parses "launches > 310"; numbers may end in K, M, G or T (powers of 1000). Throws Error (Usage).
Condition parseCondition(std::string_view text);

/// The named total of a bucket. Throws Error (Usage) for a name that no total has, with the names there are.
double totalOf(const nlohmann::json &bucket, const std::string &name);

/// Throws Error (Input) naming bucket, condition and value of each condition that holds for any bucket.
void checkFailIf(const nlohmann::json &report, const std::vector<std::string> &conditions);

} // namespace ditc
