// SPDX-License-Identifier: Apache-2.0
//
// Element types of tensors at every boundary: .pt2, safetensors, package, C API.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ditc {

enum class DType : uint8_t {
  f64, f32, f16, bf16,
  i64, i32, i16, i8, u8, u16, u32, u64,
  b1,          ///< one byte per element, 0 or 1
  c32, c64, c128, ///< complex, interleaved re, im; the number counts bits of both
  f8e4m3, f8e5m2,
};

/// Bytes of one element.
size_t byteSize(DType type);

/// "f32", "bf16", "i64", "b1", ... : ditc's spelling, used in manifests and messages.
std::string_view nameOf(DType type);
std::optional<DType> parseDType(std::string_view name);

/// safetensors' spelling: "F32", "BF16", "I64", "BOOL", ...
std::string_view safetensorsName(DType type);
std::optional<DType> parseSafetensorsDType(std::string_view name);

bool isFloat(DType type);
bool isComplex(DType type);

} // namespace ditc
