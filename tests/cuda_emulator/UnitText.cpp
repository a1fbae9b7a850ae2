// SPDX-License-Identifier: Apache-2.0
#include "UnitText.h"

#include <algorithm>
#include <cctype>
#include <regex>

namespace emulator {
namespace {

/// The text with blanks in place of comments and of what stands in quotes, so that words can be searched in it.
std::string withoutComments(const std::string &text) {
  std::string result = text;
  auto blank = [&](size_t from, size_t to) {
    for (size_t i = from; i < std::min(to, result.size()); ++i)
      if (result[i] != '\n')
        result[i] = ' ';
    return to;
  };
  for (size_t i = 0; i < text.size();) {
    if (text.compare(i, 2, "//") == 0) {
      i = blank(i, std::min(text.find('\n', i), text.size()));
    } else if (text.compare(i, 2, "/*") == 0) {
      size_t end = text.find("*/", i + 2);
      i = blank(i, end == std::string::npos ? text.size() : end + 2);
    } else if (text[i] == '"') {
      size_t end = i + 1;
      while (end < text.size() && text[end] != '"' && text[end] != '\n')
        end += text[end] == '\\' ? 2 : 1;
      i = text.compare(i, 3, "\"C\"") == 0 ? end + 1 : blank(i + 1, end) + 1;
    } else {
      ++i;
    }
  }
  return result;
}

size_t skipBlanks(const std::string &text, size_t at) {
  while (at < text.size() && isspace(static_cast<unsigned char>(text[at])))
    ++at;
  return at;
}

/// After the bracket that closes the one at `at`.
size_t skipBrackets(const std::string &text, size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    depth += text[at] == '(', depth -= text[at] == ')';
    if (depth == 0)
      return at + 1;
  }
  return at;
}

std::string wordAt(const std::string &text, size_t at) {
  size_t end = at;
  while (end < text.size() && (isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_'))
    ++end;
  return text.substr(at, end - at);
}

/// The entry of the kernel whose `__global__` stands before `at`; empty when that is something else.
std::string kernelEntry(const std::string &text, size_t at) {
  std::string bounds;
  for (;;) {
    at = skipBlanks(text, at);
    std::string word = wordAt(text, at);
    if (word.empty())
      return "";
    at = skipBlanks(text, at + word.size());
    if (text.compare(at, 1, "(") != 0)
      continue; // void, inline, ...
    size_t end = skipBrackets(text, at);
    if (word != "__launch_bounds__" && word != "__maxnreg__")
      return "EMULATOR_KERNEL(" + word + (bounds.empty() ? "" : ", " + bounds) + "), ";
    if (word == "__launch_bounds__")
      bounds = text.substr(at + 1, end - at - 2);
    at = end;
  }
}

} // namespace

std::string rewriteHeader(const std::string &text) {
  // The type may come with an alignment; the memory is aligned more than any.
  static const std::regex pattern(R"(extern\s+__shared__\s+((?:__align__|alignas)\s*\([^)]*\)\s*)?)"
                                  R"(([A-Za-z_][A-Za-z0-9_:<>, ]*?)\s*\b([A-Za-z_][A-Za-z0-9_]*)\s*\[\s*\]\s*;)");
  std::string result;
  size_t done = 0;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
    result += text.substr(done, static_cast<size_t>(match->position()) - done);
    result += "EMULATOR_DYNAMIC_SHARED(EMULATOR_TYPE(" + match->str(2) + "), " + match->str(3) + ");";
    std::string whole = match->str();
    result.append(static_cast<size_t>(std::count(whole.begin(), whole.end(), '\n')), '\n');
    done = static_cast<size_t>(match->position() + match->length());
  }
  return result + text.substr(done);
}

std::string rewriteUnit(const std::string &text, const std::string &arch) {
  std::string plain = withoutComments(text), entries;
  static const std::regex pattern(R"rx(extern\s*"C"\s*(?:\{\s*)?__global__)rx");
  for (std::sregex_iterator match(plain.begin(), plain.end(), pattern), end; match != end; ++match)
    entries += kernelEntry(plain, static_cast<size_t>(match->position() + match->length()));
  return rewriteHeader(text) + "\nEMULATOR_UNIT(\"" + arch + "\", " + entries + ");\n";
}

} // namespace emulator
