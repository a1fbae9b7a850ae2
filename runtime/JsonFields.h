// SPDX-License-Identifier: Apache-2.0
//
// Typed access to JSON that came from a file nobody vouches for: every field is looked up with the type
// that it must have, and a misfit names the file, the path of the field, what was found and what was
// expected. Shared by the readers of plans and manifests; private to the runtime's sources.
#pragma once

#include "runtime/DType.h"
#include "runtime/Error.h"

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ditc {

/// For writing: objects keep the order in which fields were added, so files read from the general to the
/// special. Not for reading: its lookup is linear.
using OrderedJson = nlohmann::ordered_json;
using Json = nlohmann::json;

/// Parses `text`; throws Error (Input) naming `source` when it is not JSON.
inline Json parseJson(std::string_view text, std::string_view source) {
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::exception &error) {
    fail("'{}' is not JSON: {}; the file is damaged, compile again", source, error.what());
  }
}

/// A JSON value and the way to it. Does not own the value.
class JsonField {
public:
  static constexpr std::string_view kAdvice = "the file is damaged or of another version, compile again";

  /// `advice` ends every message: what to do about a file like this one.
  JsonField(const Json &value, std::string where, std::string_view advice = kAdvice)
      : value(&value), where(std::move(where)), advice(advice) {}

  [[noreturn]] void misfit(std::string_view expected) const {
    std::string found = value->is_structured() ? std::string("a JSON ") + value->type_name() : value->dump();
    if (found.size() > 64)
      found = found.substr(0, 64) + "...";
    fail("{}: found {}, expected {}; {}", where, found, expected, advice);
  }

  bool has(const char *key) const { return value->is_object() && value->contains(key); }
  JsonField at(const char *key) const {
    if (!value->is_object())
      misfit("a JSON object");
    auto it = value->find(key);
    if (it == value->end())
      fail("{}: field '{}' is missing; {}", where, key, advice);
    return {*it, where + "." + key, advice};
  }
  size_t size() const {
    if (!value->is_array())
      misfit("a list");
    return value->size();
  }
  JsonField at(size_t index) const { return {(*value)[index], fmt::format("{}[{}]", where, index), advice}; }

  int64_t integer() const {
    if (value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX)
      misfit("an integer below 2^63");
    if (!value->is_number_integer())
      misfit("an integer");
    return value->get<int64_t>();
  }
  uint64_t count() const {
    int64_t number = integer();
    if (number < 0)
      misfit("an integer that is not negative");
    return static_cast<uint64_t>(number);
  }
  uint32_t index() const {
    uint64_t number = count();
    if (number > UINT32_MAX)
      misfit("an integer below 2^32");
    return static_cast<uint32_t>(number);
  }
  /// A finite number.
  double number() const {
    if (!value->is_number() || !std::isfinite(value->get<double>()))
      misfit("a number");
    return value->get<double>();
  }
  bool boolean() const {
    if (!value->is_boolean())
      misfit("true or false");
    return value->get<bool>();
  }
  std::string text() const {
    if (!value->is_string())
      misfit("a string");
    return value->get<std::string>();
  }
  DType dtype() const {
    std::optional<DType> type = parseDType(text());
    if (!type)
      misfit("an element type such as \"f32\" or \"bf16\"");
    return *type;
  }
  /// The value that `read` makes of each element.
  template <typename Read> auto list(Read read) const {
    std::vector<decltype(read(std::declval<JsonField>()))> out;
    out.reserve(size());
    for (size_t i = 0; i < value->size(); ++i)
      out.push_back(read(at(i)));
    return out;
  }
  std::vector<int64_t> integers() const {
    return list([](const JsonField &f) { return f.integer(); });
  }
  /// Sizes of dimensions: integers that are not negative.
  std::vector<int64_t> sizes() const {
    return list([](const JsonField &f) { return static_cast<int64_t>(f.count()); });
  }
  std::vector<std::string> texts() const {
    return list([](const JsonField &f) { return f.text(); });
  }
  /// Calls visit(key, field) for each member of an object.
  template <typename Visit> void members(Visit visit) const {
    if (!value->is_object())
      misfit("a JSON object");
    for (auto it = value->begin(); it != value->end(); ++it)
      visit(it.key(), JsonField(it.value(), where + "." + it.key(), advice));
  }

  const Json *value;
  std::string where;
  std::string_view advice;
};

} // namespace ditc
