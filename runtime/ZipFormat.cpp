// SPDX-License-Identifier: Apache-2.0
//
// Rendering of zip records: fixed time stamps (1 January 1980), no comments, zip64 fields only where a
// number does not fit, so that equal input gives equal bytes.
#include "runtime/ZipFormat.h"

#include "runtime/Text.h"

namespace ditc::zip {

namespace {

constexpr uint16_t kVersionPlain = 20, kVersionZip64 = 45;
constexpr uint16_t kMadeByUnix = 3 << 8;
constexpr uint32_t kModeRegular0644 = 0100644u << 16;
constexpr uint16_t kDosTime = 0, kDosDate = 0x0021; // 1980-01-01
constexpr size_t kExtraHeader = 4;                  // id and length
constexpr size_t kLocalZip64Field = kExtraHeader + 16;

template <typename T> void put(std::string &out, T value) {
  out.append(reinterpret_cast<const char *>(&value), sizeof(T));
}

bool isLarge(uint64_t value) { return value >= kNone32; }
uint32_t clamp32(uint64_t value) { return isLarge(value) ? kNone32 : static_cast<uint32_t>(value); }
uint16_t clamp16(uint64_t value) { return value >= kNone16 ? kNone16 : static_cast<uint16_t>(value); }

/// The zip64 field of a directory entry: just the numbers that did not fit, in this order.
std::string centralExtra(const Member &member) {
  std::string values;
  if (isLarge(member.entry.size)) {
    put<uint64_t>(values, member.entry.size);
    put<uint64_t>(values, member.entry.size);
  }
  if (isLarge(member.headerOffset))
    put<uint64_t>(values, member.headerOffset);
  if (values.empty())
    return values;
  std::string extra;
  put<uint16_t>(extra, kExtraZip64);
  put<uint16_t>(extra, static_cast<uint16_t>(values.size()));
  return extra + values;
}

void renderCentral(std::string &out, const Member &member) {
  std::string extra = centralExtra(member);
  uint16_t version = extra.empty() ? kVersionPlain : kVersionZip64;
  put<uint32_t>(out, kCentralSignature);
  put<uint16_t>(out, kMadeByUnix | version);
  put<uint16_t>(out, version);
  put<uint16_t>(out, kFlagUtf8);
  put<uint16_t>(out, 0); // method: stored
  put<uint16_t>(out, kDosTime);
  put<uint16_t>(out, kDosDate);
  put<uint32_t>(out, member.entry.crc32);
  put<uint32_t>(out, clamp32(member.entry.size));
  put<uint32_t>(out, clamp32(member.entry.size));
  put<uint16_t>(out, static_cast<uint16_t>(member.entry.name.size()));
  put<uint16_t>(out, static_cast<uint16_t>(extra.size()));
  put<uint16_t>(out, 0); // comment length
  put<uint16_t>(out, 0); // disk
  put<uint16_t>(out, 0); // internal attributes
  put<uint32_t>(out, kModeRegular0644);
  put<uint32_t>(out, clamp32(member.headerOffset));
  out += member.entry.name;
  out += extra;
}

void renderEnd64(std::string &out, uint64_t count, uint64_t size, uint64_t offset) {
  uint64_t recordOffset = offset + size;
  put<uint32_t>(out, kEnd64Signature);
  put<uint64_t>(out, kEnd64Size - 12); // the length does not count signature and itself
  put<uint16_t>(out, kMadeByUnix | kVersionZip64);
  put<uint16_t>(out, kVersionZip64);
  put<uint32_t>(out, 0); // this disk
  put<uint32_t>(out, 0); // disk of the directory
  put<uint64_t>(out, count);
  put<uint64_t>(out, count);
  put<uint64_t>(out, size);
  put<uint64_t>(out, offset);
  put<uint32_t>(out, kLocator64Signature);
  put<uint32_t>(out, 0); // disk of the record
  put<uint64_t>(out, recordOffset);
  put<uint32_t>(out, 1); // number of disks
}

} // namespace

uint64_t payloadOffsetFor(uint64_t headerOffset, std::string_view name) {
  uint64_t earliest = headerOffset + kLocalSize + name.size() + kLocalZip64Field + kExtraHeader;
  return (earliest + kAlignment - 1) / kAlignment * kAlignment;
}

std::string renderLocalHeader(const Member &member) {
  const ZipEntry &entry = member.entry;
  bool zip64 = isLarge(entry.size);
  size_t extraSize = entry.payloadOffset - member.headerOffset - kLocalSize - entry.name.size();
  std::string out;
  put<uint32_t>(out, kLocalSignature);
  put<uint16_t>(out, zip64 ? kVersionZip64 : kVersionPlain);
  put<uint16_t>(out, kFlagUtf8);
  put<uint16_t>(out, 0); // method: stored
  put<uint16_t>(out, kDosTime);
  put<uint16_t>(out, kDosDate);
  put<uint32_t>(out, entry.crc32);
  put<uint32_t>(out, clamp32(entry.size));
  put<uint32_t>(out, clamp32(entry.size));
  put<uint16_t>(out, static_cast<uint16_t>(entry.name.size()));
  put<uint16_t>(out, static_cast<uint16_t>(extraSize));
  out += entry.name;
  if (zip64) {
    put<uint16_t>(out, kExtraZip64);
    put<uint16_t>(out, 16);
    put<uint64_t>(out, entry.size);
    put<uint64_t>(out, entry.size);
    extraSize -= kLocalZip64Field;
  }
  put<uint16_t>(out, kExtraPadding);
  put<uint16_t>(out, static_cast<uint16_t>(extraSize - kExtraHeader));
  return out.append(extraSize - kExtraHeader, 'Z');
}

std::string renderDirectory(const std::vector<Member> &members, uint64_t offset) {
  std::string out;
  for (const Member &member : members)
    renderCentral(out, member);
  uint64_t size = out.size();
  if (isLarge(offset) || isLarge(size) || members.size() >= kNone16)
    renderEnd64(out, members.size(), size, offset);
  put<uint32_t>(out, kEndSignature);
  put<uint16_t>(out, 0); // this disk
  put<uint16_t>(out, 0); // disk of the directory
  put<uint16_t>(out, clamp16(members.size()));
  put<uint16_t>(out, clamp16(members.size()));
  put<uint32_t>(out, clamp32(size));
  put<uint32_t>(out, clamp32(offset));
  put<uint16_t>(out, 0); // comment length
  return out;
}

std::string_view nameFault(std::string_view name) {
  if (name.empty())
    return "is empty";
  if (name.size() >= kNone16)
    return "is longer than 65534 bytes";
  if (name.front() == '/')
    return "starts with '/'";
  if (name.find('\\') != std::string_view::npos)
    return "has a backslash";
  if (!isUtf8(name))
    return "is not UTF-8";
  for (char character : name)
    if (static_cast<uint8_t>(character) < 0x20 || character == 0x7f)
      return "has a control character";
  for (size_t start = 0; start <= name.size();) {
    size_t end = std::min(name.find('/', start), name.size());
    if (name.substr(start, end - start) == "..")
      return "has a '..' component";
    start = end + 1;
  }
  return {};
}

} // namespace ditc::zip
