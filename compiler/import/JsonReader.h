// SPDX-License-Identifier: Apache-2.0
//
// JSON of exported programs: parsing that survives hostile text, and typed access whose errors name the
// file and the place in words of the model ("node 'linear_3'") instead of a JSON path.
#pragma once

#include "runtime/DType.h"
#include "runtime/Error.h"
#include "runtime/Text.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ditc {

using Json = nlohmann::json;

/// Parses `text`. Throws Error (Input) naming `source`: not JSON, nested deeper than 200 levels, larger than
/// 256 MiB.
Json parseTree(std::string_view text, const std::string &source);

/// The same for a program: non-finite floats may be bare tokens as torch 2.6 writes them, and of each node's
/// metadata (half of the text) only `nn_module_stack` is kept, as a field of the node itself.
Json parseProgramTree(std::string_view text, const std::string &source);

/// Typed access. Null and missing are the same everywhere, because torch's writers do not agree on it.
class JsonReader {
public:
  explicit JsonReader(std::string source) : source(std::move(source)) {}

  /// What is being read, for messages; empty is the file itself.
  std::string place;

  template <typename... Args> [[noreturn]] void damaged(fmt::format_string<Args...> format, Args &&...args) const {
    fail("'{}'{}: {}; the file is damaged or of an unknown version, export the model again", source, atPlace(),
         fmt::format(format, std::forward<Args>(args)...));
  }
  /// For well-formed content that ditc does not take; `format` ends with what to do.
  template <typename... Args> [[noreturn]] void refuse(fmt::format_string<Args...> format, Args &&...args) const {
    fail("'{}'{}: {}", source, atPlace(), fmt::format(format, std::forward<Args>(args)...));
  }

  /// Null when missing or null.
  const Json *find(const Json &object, const char *key) const;
  const Json &at(const Json &object, const char *key) const;
  const Json &list(const Json &object, const char *key) const;
  const Json &object(const Json &object, const char *key) const;
  const std::string &text(const Json &object, const char *key) const;
  int64_t integer(const Json &object, const char *key) const;
  bool flag(const Json &object, const char *key) const;

  /// The same for a value in hand; `what` names it in messages.
  const Json &asList(const Json &value, std::string_view what) const;
  const std::string &asText(const Json &value, std::string_view what) const;
  int64_t asInteger(const Json &value, std::string_view what) const;
  /// The same, and the largest integer for numbers beyond it: torch writes them as bounds of sizes that have none.
  int64_t asSaturated(const Json &value, std::string_view what) const;
  bool asFlag(const Json &value, std::string_view what) const;
  /// A number, or one of the strings "NaN", "Infinity", "-Infinity".
  double asReal(const Json &value, std::string_view what) const;

  /// A union is an object with one key: the variant's name and its value.
  std::pair<const std::string &, const Json &> variant(const Json &value, std::string_view what) const;

  /// A torch.export ScalarType, by number or name. Nothing for types that ditc does not know.
  std::optional<DType> scalarType(const Json &value) const;
  /// "float8_e4m3fnuz (31)": for messages.
  static std::string scalarTypeText(const Json &value);
  /// Index into `names` (starting at 1), by number or name.
  int64_t enumeration(const Json &value, std::initializer_list<std::string_view> names, std::string_view what) const;

private:
  std::string atPlace() const { return place.empty() ? "" : ", " + printable(place); }

  std::string source;
};

} // namespace ditc
