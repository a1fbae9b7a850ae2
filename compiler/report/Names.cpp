// SPDX-License-Identifier: Apache-2.0
#include "compiler/report/Names.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace ditc {

namespace {

/// The numbered component of a path: where it starts and ends, and its number.
struct Numbered {
  size_t begin, end;
  int64_t number;
};

std::optional<Numbered> firstNumber(std::string_view path) {
  size_t begin = 0;
  while (begin < path.size()) {
    size_t end = std::min(path.find('.', begin), path.size());
    int64_t number = 0;
    auto [rest, error] = std::from_chars(path.data() + begin, path.data() + end, number);
    if (begin > 0 && error == std::errc() && rest == path.data() + end)
      return Numbered{begin, end, number};
    begin = end + 1;
  }
  return std::nullopt;
}

} // namespace

std::optional<BlockPosition> blockOf(std::string_view path) {
  std::optional<Numbered> number = firstNumber(path);
  if (!number)
    return std::nullopt;
  return BlockPosition{std::string(path.substr(0, number->begin - 1)), number->number};
}

std::string generalise(std::string_view path, const std::optional<BlockPosition> &home) {
  std::optional<Numbered> number = firstNumber(path);
  if (!home || !number || path.substr(0, number->begin - 1) != home->list)
    return std::string(path);
  int64_t distance = number->number - home->index;
  if (distance < -1 || distance > 1)
    return std::string(path);
  std::string_view mark = distance == 0 ? "{i}" : distance < 0 ? "{i-1}" : "{i+1}";
  return fmt::format("{}{}{}", path.substr(0, number->begin), mark, path.substr(number->end));
}

std::string specialise(std::string_view pattern, int64_t index) {
  std::string text(pattern);
  for (auto [mark, number] : {std::pair<std::string_view, int64_t>{"{i}", index}, {"{i-1}", index - 1}, {"{i+1}", index + 1}})
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark))
      text.replace(at, mark.size(), std::to_string(number));
  return text;
}

} // namespace ditc
