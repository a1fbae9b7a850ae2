// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/Templates.h"

#include "codegen/cuda/TemplateTexts.h"

#include <map>

namespace ditc {

std::vector<std::pair<std::string_view, std::string_view>> cudaTemplates() { return {std::begin(kTemplateTexts), std::end(kTemplateTexts)}; }

/// Follows `#include "..."` lines; a name that is not ours is the compiler's to find.
static void collect(std::string_view text, std::map<std::string, std::string> &found) {
  constexpr std::string_view kInclude = "#include \"";
  for (size_t at = text.find(kInclude); at != std::string_view::npos; at = text.find(kInclude, at + 1)) {
    size_t begin = at + kInclude.size(), end = text.find('"', begin);
    std::string name(text.substr(begin, end - begin));
    for (const auto &[header, content] : kTemplateTexts)
      if (header == name && found.emplace(name, content).second)
        collect(content, found);
  }
}

std::vector<std::pair<std::string, std::string>> templatesIncludedBy(const std::string &unit) {
  std::map<std::string, std::string> found;
  collect(unit, found);
  return {found.begin(), found.end()};
}

} // namespace ditc
