// SPDX-License-Identifier: Apache-2.0
#include "runtime/Compression.h"

#include "runtime/Error.h"

#include <memory>
#include <zstd.h>
#include <zstd_errors.h>

namespace ditc {

namespace {

/// Higher levels take ten times as long and find nothing more in tables.
constexpr int kLevel = 3;

void check(size_t result) {
  if (ZSTD_isError(result))
    failInternal("zstd cannot compress a constant: {}", ZSTD_getErrorName(result));
}

} // namespace

std::optional<std::vector<uint8_t>> compressConstant(std::span<const uint8_t> bytes) {
  if (bytes.size() < kLeastCompressedBytes)
    return std::nullopt;
  std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(), &ZSTD_freeCCtx);
  if (!context)
    fail("there is no memory to compress a constant of {} bytes; free some", bytes.size());
  check(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, kLevel));
  check(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1));
  std::vector<uint8_t> frame(bytes.size() / 4 * 3); // the most that is worth it
  size_t size = ZSTD_compress2(context.get(), frame.data(), frame.size(), bytes.data(), bytes.size());
  if (ZSTD_getErrorCode(size) == ZSTD_error_dstSize_tooSmall)
    return std::nullopt;
  check(size);
  frame.resize(size);
  frame.shrink_to_fit();
  return frame;
}

} // namespace ditc
