// SPDX-License-Identifier: Apache-2.0
//
// One table with everything that ditc says about an element type, so that a new type is one row.
#include "runtime/DType.h"

#include <iterator>

namespace ditc {

namespace {

struct TypeRow {
  DType type;
  size_t bytes;
  std::string_view name;
  std::string_view safetensors;
  bool isFloat;
  bool isComplex;
};

// Rows stand in enum order: the enum value is the index. NOTE: the safetensors format has no complex type
// but C64; C32 and C128 follow its pattern so that every type survives a round trip through ditc.
constexpr TypeRow kTypes[] = {
    {DType::f64, 8, "f64", "F64", true, false},
    {DType::f32, 4, "f32", "F32", true, false},
    {DType::f16, 2, "f16", "F16", true, false},
    {DType::bf16, 2, "bf16", "BF16", true, false},
    {DType::i64, 8, "i64", "I64", false, false},
    {DType::i32, 4, "i32", "I32", false, false},
    {DType::i16, 2, "i16", "I16", false, false},
    {DType::i8, 1, "i8", "I8", false, false},
    {DType::u8, 1, "u8", "U8", false, false},
    {DType::u16, 2, "u16", "U16", false, false},
    {DType::u32, 4, "u32", "U32", false, false},
    {DType::u64, 8, "u64", "U64", false, false},
    {DType::b1, 1, "b1", "BOOL", false, false},
    {DType::c32, 4, "c32", "C32", false, true},
    {DType::c64, 8, "c64", "C64", false, true},
    {DType::c128, 16, "c128", "C128", false, true},
    {DType::f8e4m3, 1, "f8e4m3", "F8_E4M3", true, false},
    {DType::f8e5m2, 1, "f8e5m2", "F8_E5M2", true, false},
};

constexpr bool rowsFollowTheEnum() {
  for (size_t i = 0; i < std::size(kTypes); ++i)
    if (static_cast<size_t>(kTypes[i].type) != i)
      return false;
  return true;
}
static_assert(rowsFollowTheEnum(), "kTypes must list the types in enum order");

const TypeRow &rowOf(DType type) { return kTypes[static_cast<size_t>(type)]; }

} // namespace

size_t byteSize(DType type) { return rowOf(type).bytes; }
std::string_view nameOf(DType type) { return rowOf(type).name; }
std::string_view safetensorsName(DType type) { return rowOf(type).safetensors; }
bool isFloat(DType type) { return rowOf(type).isFloat; }
bool isComplex(DType type) { return rowOf(type).isComplex; }

std::optional<DType> parseDType(std::string_view name) {
  for (const TypeRow &row : kTypes)
    if (row.name == name)
      return row.type;
  return std::nullopt;
}

std::optional<DType> parseSafetensorsDType(std::string_view name) {
  for (const TypeRow &row : kTypes)
    if (row.safetensors == name)
      return row.type;
  return std::nullopt;
}

} // namespace ditc
