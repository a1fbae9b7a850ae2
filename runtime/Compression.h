// SPDX-License-Identifier: Apache-2.0
//
// Compressed constants of packages: one zstd frame each. Tables of rotary embeddings repeat the same rows and shrink to
// a hundredth; what does not shrink stays as it is and is mapped in place. The two directions are two sources, so that
// libditrt.so, which only reads, has no compressor in it.
#pragma once

#include "runtime/HostBytes.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace ditc {

/// Smaller constants are stored as they are: all of them together are little beside the rest of a package.
inline constexpr uint64_t kLeastCompressedBytes = 64 << 10;

/// The frame when the bytes are at least kLeastCompressedBytes and the frame takes at most three quarters of them; else
/// nothing. Equal bytes give equal frames.
std::optional<std::vector<uint8_t>> compressConstant(std::span<const uint8_t> bytes);

/// The `size` bytes of a frame, 64-byte aligned. The frame is nobody's promise: that it can have so many bytes is checked
/// before memory is taken. Throws Error (Input), which begins with `what`: not exactly one whole frame, of another size,
/// damaged, or no memory.
HostBytes decompressConstant(std::span<const uint8_t> frame, uint64_t size, std::string_view what);

} // namespace ditc
