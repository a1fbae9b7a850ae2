// SPDX-License-Identifier: Apache-2.0
//
// The one exception type of ditc outside MLIR frames. The runtime converts it to a status code at the
// C boundary; the compiler's driver converts it to a message and an exit status.
#pragma once

#include <fmt/format.h>
#include <stdexcept>
#include <string>

namespace ditc {

/// Whose fault it is; the value is the exit status of the command-line programs.
enum class ErrorKind {
  Input = 1,    ///< the input or the environment is at fault; the message says what to do
  Usage = 2,    ///< the command line or the call is wrong
  Internal = 3, ///< a fault of ditc itself
};

/// Text convention: lower-case start, no final period, what was found, what was expected, the name the
/// user knows, and what to do next.
class Error : public std::runtime_error {
public:
  Error(ErrorKind kind, const std::string &text) : std::runtime_error(text), errorKind(kind) {}
  ErrorKind kind() const { return errorKind; }

private:
  ErrorKind errorKind;
};

/// Throws an Error of kind Input with an fmt-formatted text.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args &&...args) {
  throw Error(ErrorKind::Input, fmt::format(format, std::forward<Args>(args)...));
}

/// Throws an Error of kind Internal with an fmt-formatted text.
template <typename... Args>
[[noreturn]] void failInternal(fmt::format_string<Args...> format, Args &&...args) {
  throw Error(ErrorKind::Internal, fmt::format(format, std::forward<Args>(args)...));
}

} // namespace ditc
