// SPDX-License-Identifier: Apache-2.0
//
// Modules that a user names by patterns of their paths, as reports print them: `*.proj_out`, `transformer_blocks.0.*`. A `*`
// stands for any characters, dots among them; `{i}`, the open index of equal blocks in a report, stands for any index.
#pragma once

#include "dialects/Locations.h"

#include "llvm/ADT/ArrayRef.h"

namespace ditc {

class ModulePatterns {
public:
  /// Wrong patterns match nothing; see `whyWrong`.
  explicit ModulePatterns(llvm::ArrayRef<std::string> texts);

  /// What is wrong with a pattern ("unmatched '['"); empty when nothing is.
  static std::string whyWrong(const std::string &text);

  bool empty() const { return patterns.empty(); }
  /// The module of a node; of one outside of all modules its own name.
  bool matches(const NodeName &name) const;

private:
  std::vector<std::string> patterns; ///< as globs, which keep references into their text
};

/// Modules that are left out, or the only ones that are meant.
struct ModuleChoice {
  ModulePatterns skip, only;
  bool wants(const NodeName &name) const { return !skip.matches(name) && (only.empty() || only.matches(name)); }
};

/// What patterns are held against: the path of the module, or the node where there is none.
const std::string &moduleOf(const NodeName &name);

} // namespace ditc
