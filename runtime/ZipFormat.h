// SPDX-License-Identifier: Apache-2.0
//
// The byte layout of a stored zip's records (APPNOTE.TXT 4.3), shared by reader and writer. Records are
// rendered apart from the file that they go to, so that tests can make archives with members of many GiB
// out of sparse files. Private to the zip sources and their tests.
#pragma once

#include "runtime/Zip.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace ditc::zip {

static_assert(std::endian::native == std::endian::little, "zip fields are read in place");

inline constexpr uint32_t kLocalSignature = 0x04034b50;
inline constexpr uint32_t kCentralSignature = 0x02014b50;
inline constexpr uint32_t kEndSignature = 0x06054b50;
inline constexpr uint32_t kEnd64Signature = 0x06064b50;
inline constexpr uint32_t kLocator64Signature = 0x07064b50;

inline constexpr size_t kLocalSize = 30;     ///< fixed part of a local header
inline constexpr size_t kCentralSize = 46;   ///< fixed part of a directory entry
inline constexpr size_t kEndSize = 22;       ///< end-of-directory record without comment
inline constexpr size_t kEnd64Size = 56;     ///< zip64 end-of-directory record
inline constexpr size_t kLocator64Size = 20; ///< points to the record before

inline constexpr uint16_t kExtraZip64 = 1;
inline constexpr uint16_t kExtraPadding = 0x4246; ///< "FB": ignored by readers, as in torch's archives
inline constexpr uint16_t kFlagEncrypted = 1 << 0;
inline constexpr uint16_t kFlagDescriptor = 1 << 3; ///< the local header has no sizes
inline constexpr uint16_t kFlagStrongEncryption = 1 << 6;
inline constexpr uint16_t kFlagUtf8 = 1 << 11;
inline constexpr uint16_t kFlagMaskedHeader = 1 << 13;
inline constexpr uint16_t kNone16 = 0xffff; ///< "see the zip64 record"
inline constexpr uint32_t kNone32 = 0xffffffff;

inline constexpr uint64_t kAlignment = 64;

template <typename T> T load(const uint8_t *bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

/// A member as the writer knows it.
struct Member {
  ZipEntry entry;
  uint64_t headerOffset = 0;
};

/// Where the payload of a member called `name` starts when its header is at `headerOffset`: the first
/// aligned place that leaves room for a zip64 field, because sizes may be known only at the end.
uint64_t payloadOffsetFor(uint64_t headerOffset, std::string_view name);

/// Local header, name and padding up to the payload.
std::string renderLocalHeader(const Member &member);

/// Directory and end records for a directory that starts at `offset`.
std::string renderDirectory(const std::vector<Member> &members, uint64_t offset);

/// Empty when `name` may be a member's name, else what is wrong with it.
std::string_view nameFault(std::string_view name);

} // namespace ditc::zip
