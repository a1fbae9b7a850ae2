// SPDX-License-Identifier: Apache-2.0
#include "compiler/report/Html.h"

#include "compiler/report/ReportTemplate.h"
#include "runtime/Error.h"

namespace ditc {

/// Text inside a <script> element ends at "</" only; JSON may write the slash escaped.
static std::string escapeForScript(std::string text) {
  for (size_t at = text.find("</"); at != std::string::npos; at = text.find("</", at + 3))
    text.replace(at, 2, "<\\/");
  return text;
}

static std::string escapeForMarkup(const std::string &text) {
  std::string result;
  for (char c : text)
    result += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return result;
}

static void replaceAll(std::string &page, std::string_view mark, const std::string &text) {
  size_t at = page.find(mark);
  if (at == std::string::npos)
    failInternal("the report's page has no place {}", mark);
  for (; at != std::string::npos; at = page.find(mark, at + text.size()))
    page.replace(at, mark.size(), text);
}

std::string reportPage(const nlohmann::json &report, const std::string &title) {
  std::string page(kReportTemplate);
  replaceAll(page, "%TITLE%", escapeForMarkup(title));
  replaceAll(page, "%REPORT%", escapeForScript(report.dump()));
  return page;
}

} // namespace ditc
