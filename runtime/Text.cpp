// SPDX-License-Identifier: Apache-2.0
//
// UTF-8 by the table of well-formed byte sequences in the Unicode standard (chapter 3, table 3-7).
#include "runtime/Text.h"

#include <cstddef>
#include <cstdint>

namespace ditc {

namespace {

constexpr size_t kMaxPrinted = 160;

bool isContinuation(uint8_t byte) { return (byte & 0xc0) == 0x80; }

/// Length of the well-formed character at `position`, or 0.
size_t characterLength(std::string_view text, size_t position) {
  auto byte = [&](size_t i) { return position + i < text.size() ? static_cast<uint8_t>(text[position + i]) : 0; };
  uint8_t first = byte(0), second = byte(1);
  if (first < 0x80)
    return 1;
  if (first >= 0xc2 && first <= 0xdf)
    return isContinuation(second) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    bool overlong = first == 0xe0 && second < 0xa0;
    bool surrogate = first == 0xed && second > 0x9f;
    return isContinuation(second) && isContinuation(byte(2)) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    bool overlong = first == 0xf0 && second < 0x90;
    bool tooLarge = first == 0xf4 && second > 0x8f;
    return isContinuation(second) && isContinuation(byte(2)) && isContinuation(byte(3)) && !overlong && !tooLarge ? 4
                                                                                                                  : 0;
  }
  return 0;
}

} // namespace

bool isUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    size_t length = characterLength(text, i);
    if (length == 0)
      return false;
    i += length;
  }
  return true;
}

std::string printable(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (out.size() >= kMaxPrinted)
      return out + "...";
    size_t length = characterLength(text, i);
    uint8_t first = static_cast<uint8_t>(text[i]);
    bool isControl = first < 0x20 || first == 0x7f;
    if (length == 0 || isControl)
      out += '?';
    else
      out += text.substr(i, length);
    i += length == 0 ? 1 : length;
  }
  return out;
}

} // namespace ditc
