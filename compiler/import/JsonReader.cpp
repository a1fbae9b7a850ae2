// SPDX-License-Identifier: Apache-2.0
//
// The typed half of JSON reading, with torch.export's enumerations.
#include "compiler/import/JsonReader.h"

#include <cctype>
#include <cmath>
#include <limits>

namespace ditc {

namespace {

struct ScalarTypeRow {
  int64_t number; ///< torch.export's own numbering, not the one of c10
  std::string_view name, schemaName;
  std::optional<DType> type;
};

constexpr ScalarTypeRow kScalarTypes[] = {
    {0, "unknown", "UNKNOWN", std::nullopt},
    {1, "uint8", "BYTE", DType::u8},
    {2, "int8", "CHAR", DType::i8},
    {3, "int16", "SHORT", DType::i16},
    {4, "int32", "INT", DType::i32},
    {5, "int64", "LONG", DType::i64},
    {6, "float16", "HALF", DType::f16},
    {7, "float32", "FLOAT", DType::f32},
    {8, "float64", "DOUBLE", DType::f64},
    {9, "complex32", "COMPLEXHALF", DType::c32},
    {10, "complex64", "COMPLEXFLOAT", DType::c64},
    {11, "complex128", "COMPLEXDOUBLE", DType::c128},
    {12, "bool", "BOOL", DType::b1},
    {13, "bfloat16", "BFLOAT16", DType::bf16},
    {28, "uint16", "UINT16", DType::u16},
    {29, "float8_e4m3fn", "FLOAT8E4M3FN", DType::f8e4m3},
    {30, "float8_e5m2", "FLOAT8E5M2", DType::f8e5m2},
    {31, "float8_e4m3fnuz", "FLOAT8E4M3FNUZ", std::nullopt},
    {32, "float8_e5m2fnuz", "FLOAT8E5M2FNUZ", std::nullopt},
    {33, "float8_e8m0fnu", "FLOAT8E8M0FNU", std::nullopt},
    {34, "uint32", "UINT32", DType::u32},
    {35, "uint64", "UINT64", DType::u64},
};

bool equalIgnoringCase(std::string_view a, std::string_view b) {
  auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

const ScalarTypeRow *scalarTypeRow(const Json &value) {
  for (const ScalarTypeRow &row : kScalarTypes) {
    if (value.is_number_integer() && value == row.number)
      return &row;
    if (value.is_string()) {
      const std::string &name = value.get_ref<const std::string &>();
      if (equalIgnoringCase(name, row.name) || equalIgnoringCase(name, row.schemaName))
        return &row;
    }
  }
  return nullptr;
}

} // namespace

const Json *JsonReader::find(const Json &object, const char *key) const {
  if (!object.is_object())
    damaged("found {} where an object with the field '{}' was expected", object.type_name(), key);
  auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

const Json &JsonReader::at(const Json &object, const char *key) const {
  const Json *value = find(object, key);
  if (!value)
    damaged("the field '{}' is missing", key);
  return *value;
}

const Json &JsonReader::list(const Json &object, const char *key) const { return asList(at(object, key), key); }

const Json &JsonReader::object(const Json &object, const char *key) const {
  const Json &value = at(object, key);
  if (!value.is_object())
    damaged("the field '{}' is {}, expected an object", key, value.type_name());
  return value;
}

const std::string &JsonReader::text(const Json &object, const char *key) const { return asText(at(object, key), key); }
int64_t JsonReader::integer(const Json &object, const char *key) const { return asInteger(at(object, key), key); }
bool JsonReader::flag(const Json &object, const char *key) const { return asFlag(at(object, key), key); }

const Json &JsonReader::asList(const Json &value, std::string_view what) const {
  if (!value.is_array())
    damaged("the field '{}' is {}, expected a list", what, value.type_name());
  return value;
}

const std::string &JsonReader::asText(const Json &value, std::string_view what) const {
  if (!value.is_string())
    damaged("the field '{}' is {}, expected a string", what, value.type_name());
  return value.get_ref<const std::string &>();
}

int64_t JsonReader::asInteger(const Json &value, std::string_view what) const {
  bool fits = value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX);
  if (!fits)
    damaged("the field '{}' is {}, expected a 64-bit integer", what,
            value.is_number() ? value.dump() : value.type_name());
  return value.get<int64_t>();
}

int64_t JsonReader::asSaturated(const Json &value, std::string_view what) const {
  return value.is_number() && value.get<double>() >= 0x1p63 ? INT64_MAX : asInteger(value, what);
}

bool JsonReader::asFlag(const Json &value, std::string_view what) const {
  if (!value.is_boolean())
    damaged("the field '{}' is {}, expected true or false", what, value.type_name());
  return value.get<bool>();
}

double JsonReader::asReal(const Json &value, std::string_view what) const {
  if (value.is_number())
    return value.get<double>();
  if (value == "NaN")
    return std::numeric_limits<double>::quiet_NaN();
  if (value == "Infinity")
    return std::numeric_limits<double>::infinity();
  if (value == "-Infinity")
    return -std::numeric_limits<double>::infinity();
  damaged("the field '{}' is {}, expected a number", what, value.type_name());
}

std::pair<const std::string &, const Json &> JsonReader::variant(const Json &value, std::string_view what) const {
  if (!value.is_object() || value.size() != 1)
    damaged("'{}' is {}, expected an object with one key", what,
            value.is_object() ? fmt::format("an object with {} keys", value.size()) : value.type_name());
  return {value.begin().key(), value.begin().value()};
}

std::optional<DType> JsonReader::scalarType(const Json &value) const {
  const ScalarTypeRow *row = scalarTypeRow(value);
  if (!row && !value.is_number_integer() && !value.is_string())
    damaged("the element type is {}, expected a number", value.type_name());
  return row ? row->type : std::nullopt;
}

std::string JsonReader::scalarTypeText(const Json &value) {
  const ScalarTypeRow *row = scalarTypeRow(value);
  return row ? fmt::format("{} ({})", row->name, row->number) : printable(value.dump());
}

int64_t JsonReader::enumeration(const Json &value, std::initializer_list<std::string_view> names,
                                std::string_view what) const {
  if (!value.is_string())
    return asInteger(value, what);
  const std::string &text = value.get_ref<const std::string &>();
  int64_t number = 1;
  for (std::string_view name : names) {
    if (equalIgnoringCase(text, name))
      return number;
    ++number;
  }
  damaged("the field '{}' is '{}', which is not a known name", what, printable(text));
}

} // namespace ditc
