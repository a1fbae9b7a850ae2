// SPDX-License-Identifier: Apache-2.0
#include "runtime/Compression.h"

#include "runtime/Error.h"

#include <cstring>
#include <new>
#include <zstd.h>

namespace ditc {

namespace {

constexpr std::align_val_t kAlignment{64}; // as that of members that are mapped
/// A block of the format takes at least four bytes and gives at most 128 KiB.
constexpr uint64_t kMostFromByte = ZSTD_BLOCKSIZE_MAX / 4;

template <typename... Args> [[noreturn]] void damaged(std::string_view what, fmt::format_string<Args...> format, Args &&...args) {
  fail("{} {}; the package is damaged, copy or compile it again", what, fmt::format(format, std::forward<Args>(args)...));
}

/// Reads headers only.
void checkFrame(std::span<const uint8_t> frame, uint64_t size, std::string_view what) {
  uint32_t magic = 0;
  if (frame.size() >= sizeof magic)
    std::memcpy(&magic, frame.data(), sizeof magic);
  if (magic != ZSTD_MAGICNUMBER) // zstd itself would also take frames of old formats, and frames to be skipped
    damaged(what, "is compressed, but does not begin with a frame of zstd ({} bytes)", frame.size());
  size_t whole = ZSTD_findFrameCompressedSize(frame.data(), frame.size());
  if (ZSTD_isError(whole))
    damaged(what, "is cut short or damaged: zstd reports '{}' for its {} bytes", ZSTD_getErrorName(whole), frame.size());
  if (whole != frame.size())
    damaged(what, "has {} bytes, its frame of zstd ends after {}", frame.size(), whole);
  if (size / kMostFromByte > frame.size())
    damaged(what, "states {} bytes, more than {} compressed ones can hold", size, frame.size());
  unsigned long long stated = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (stated != size)
    damaged(what, "should have {} bytes uncompressed, its frame of zstd states {}", size,
            stated == ZSTD_CONTENTSIZE_UNKNOWN ? "none" : std::to_string(stated));
}

std::shared_ptr<uint8_t> allocate(uint64_t size, std::string_view what) {
  auto *memory = static_cast<uint8_t *>(::operator new(size, kAlignment, std::nothrow));
  if (!memory)
    fail("{} needs {} bytes uncompressed, and there is no memory for them; free some, or use a smaller bucket", what, size);
  return {memory, [](uint8_t *held) { ::operator delete(held, kAlignment); }};
}

} // namespace

HostBytes decompressConstant(std::span<const uint8_t> frame, uint64_t size, std::string_view what) {
  checkFrame(frame, size, what);
  std::shared_ptr<uint8_t> memory = allocate(size, what);
  size_t found = ZSTD_decompress(memory.get(), size, frame.data(), frame.size());
  if (ZSTD_isError(found))
    damaged(what, "cannot be decompressed to {} bytes: zstd reports '{}'", size, ZSTD_getErrorName(found));
  if (found != size)
    damaged(what, "has {} bytes uncompressed, expected {}", found, size);
  return {{memory.get(), size}, memory};
}

} // namespace ditc
