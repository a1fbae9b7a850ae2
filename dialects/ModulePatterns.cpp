// SPDX-License-Identifier: Apache-2.0
#include "dialects/ModulePatterns.h"

#include "llvm/Support/GlobPattern.h"

namespace ditc {

/// With any characters in place of an open index.
static std::string globOf(std::string text) {
  constexpr std::string_view kAnyIndex = "{i}";
  for (size_t at = 0; (at = text.find(kAnyIndex, at)) != std::string::npos;)
    text.replace(at, kAnyIndex.size(), "*");
  return text;
}

ModulePatterns::ModulePatterns(llvm::ArrayRef<std::string> texts) {
  for (const std::string &text : texts)
    if (whyWrong(text).empty())
      patterns.push_back(globOf(text));
}

std::string ModulePatterns::whyWrong(const std::string &text) {
  if (text.empty())
    return "it is empty";
  std::string glob = globOf(text);
  llvm::Expected<llvm::GlobPattern> parsed = llvm::GlobPattern::create(glob);
  return parsed ? "" : llvm::toString(parsed.takeError());
}

bool ModulePatterns::matches(const NodeName &name) const {
  return llvm::any_of(patterns, [&](const std::string &pattern) { return llvm::cantFail(llvm::GlobPattern::create(pattern)).match(moduleOf(name)); });
}

const std::string &moduleOf(const NodeName &name) { return name.path.empty() ? name.node : name.path; }

} // namespace ditc
