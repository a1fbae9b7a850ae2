// SPDX-License-Identifier: Apache-2.0
//
// Finds operations of a report by what people call them: a module path, a node of the source graph, a kernel.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace ditc {

/// An operation in one launch of a kernel.
struct Match {
  const nlohmann::json *kernel = nullptr; ///< null: it costs no launch
  size_t launch = 0;                      ///< which of the kernel's launches
  std::string op, path, node;
};

/// Operations whose node, kernel, module path, or module around them is `query`. "transformer_blocks.*.attn"
/// means every block; the first one stands for equal ones. A node of that name hides modules of that name.
std::vector<Match> findOps(const nlohmann::json &bucket, const std::string &query);

/// Nodes and module paths that look like `query`, best first.
std::vector<std::string> nearestNames(const nlohmann::json &bucket, const std::string &query, size_t most = 5);

/// Element of its list that a launch of a kernel belongs to; -1 outside of blocks.
int64_t blockIndexOf(const nlohmann::json &bucket, const nlohmann::json &kernel, size_t launch);

} // namespace ditc
