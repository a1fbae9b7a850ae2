// SPDX-License-Identifier: Apache-2.0
//
// Names that come out of files nobody vouches for: whether they are UTF-8, and how to print them in a
// message without passing on control characters or megabytes.
#pragma once

#include <string>
#include <string_view>

namespace ditc {

/// True for well-formed UTF-8 (no overlong forms, no surrogates).
bool isUtf8(std::string_view text);

/// `text` cut to about 160 bytes, with control characters and malformed bytes replaced by '?'.
std::string printable(std::string_view text);

} // namespace ditc
