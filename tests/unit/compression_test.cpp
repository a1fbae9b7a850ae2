// SPDX-License-Identifier: Apache-2.0
//
// Frames of compressed constants: when one is made, and that whatever is handed over as one ends in the bytes that were
// meant or in an Error, before memory is taken for what it only claims to hold.
#include "RuntimeFixture.h"

#include "runtime/Compression.h"

#include <cstring>
#include <random>

using namespace ditc;
using namespace ditc::test;

namespace {

using Bytes = std::vector<uint8_t>;

/// Bytes of which the first `random` cannot be compressed, and the others are zeros.
Bytes mixture(size_t size, size_t random) {
  std::mt19937 source(7);
  Bytes bytes(size);
  for (size_t i = 0; i < random; ++i)
    bytes[i] = static_cast<uint8_t>(source());
  return bytes;
}

Bytes frameOf(const Bytes &bytes) { return compressConstant(bytes).value(); }

Bytes contentOf(const Bytes &frame, uint64_t size) {
  HostBytes content = decompressConstant(frame, size, "'p.dita': member 'constants/c'");
  return {content.bytes.begin(), content.bytes.end()};
}

/// A frame's header states the size in 4 bytes, for sizes like those of these tests: behind the descriptor, and behind
/// the size of the window unless that is the whole.
void restateSize(Bytes &frame, uint32_t size) {
  ASSERT_EQ(frame[4] >> 6, 2);
  std::memcpy(frame.data() + (frame[4] & 0x20 ? 5 : 6), &size, sizeof size);
}

} // namespace

TEST(Compression, OnlyWhatIsLargeAndShrinks) {
  EXPECT_FALSE(compressConstant(Bytes(kLeastCompressedBytes - 1)));
  EXPECT_TRUE(compressConstant(Bytes(kLeastCompressedBytes)));
  EXPECT_FALSE(compressConstant(Bytes()));
  EXPECT_FALSE(compressConstant(mixture(1 << 20, 1 << 20)));
  EXPECT_TRUE(compressConstant(mixture(1 << 20, 700 << 10)));
  EXPECT_FALSE(compressConstant(mixture(1 << 20, 800 << 10))) << "more than three quarters are left";
}

TEST(Compression, RoundTrip) {
  for (size_t size : {size_t{64 << 10}, size_t{(128 << 10) + 3}, size_t{5'000'001}}) {
    Bytes bytes = mixture(size, size / 3), frame = frameOf(bytes);
    EXPECT_EQ(frame, frameOf(bytes)) << "equal bytes, equal frames";
    EXPECT_LT(frame.size(), size / 2);
    EXPECT_EQ(contentOf(frame, size), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(decompressConstant(frame, size, "").bytes.data()) % 64, 0u);
  }
}

TEST(Compression, CutAndLengthenedFrames) {
  Bytes bytes = mixture(100'000, 500), frame = frameOf(bytes);
  for (size_t size = 0; size < frame.size(); ++size)
    EXPECT_ERROR(contentOf(Bytes(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(size)), bytes.size()),
                 "'p.dita': member 'constants/c'", "the package is damaged, copy or compile it again");
  Bytes longer = frame;
  longer.push_back(0);
  EXPECT_ERROR(contentOf(longer, bytes.size()), "its frame of zstd ends after " + std::to_string(frame.size()));
  Bytes twice = frame;
  twice.insert(twice.end(), frame.begin(), frame.end());
  EXPECT_ERROR(contentOf(twice, 2 * bytes.size()), "its frame of zstd ends after");
}

/// A few bits mean nothing (an unused one of the header, the ends of bit streams); no other may change unnoticed.
TEST(Compression, ChangedBits) {
  Bytes bytes = mixture(100'000, 300), frame = frameOf(bytes);
  size_t unnoticed = 0;
  for (size_t bit = 0; bit < 8 * frame.size(); ++bit) {
    Bytes changed = frame;
    changed[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    if (errorOf([&] { EXPECT_EQ(contentOf(changed, bytes.size()), bytes); }).empty())
      ++unnoticed;
  }
  EXPECT_LT(unnoticed, 8u);
}

TEST(Compression, OtherSizesThanStated) {
  Bytes bytes = mixture(100'000, 500), frame = frameOf(bytes);
  for (uint64_t size : {uint64_t{0}, uint64_t{1}, uint64_t{99'999}, uint64_t{100'001}})
    EXPECT_ERROR(contentOf(frame, size), "should have " + std::to_string(size) + " bytes uncompressed", "states 100000");
  for (uint64_t size : {uint64_t{1} << 40, UINT64_MAX})
    EXPECT_ERROR(contentOf(frame, size), "states " + std::to_string(size) + " bytes, more than");
  // A header that agrees with the manifest, and blocks that do not.
  Bytes less = frame, more = frame;
  restateSize(less, 99'999);
  restateSize(more, 100'001);
  EXPECT_ERROR(contentOf(less, 99'999), "cannot be decompressed to 99999 bytes");
  EXPECT_ERROR(contentOf(more, 100'001), "cannot be decompressed to 100001 bytes");
}

TEST(Compression, Bombs) {
  Bytes zeros(256 << 20), bomb = frameOf(zeros);
  EXPECT_LT(bomb.size(), 32u << 10);
  EXPECT_ERROR(contentOf(bomb, 64 << 10), "should have 65536 bytes uncompressed", "states 268435456");
  restateSize(bomb, 64 << 10); // now it states what is asked for, and its blocks are more
  EXPECT_ERROR(contentOf(bomb, 64 << 10), "cannot be decompressed to 65536 bytes");
}

TEST(Compression, WhatIsNoFrame) {
  EXPECT_ERROR(contentOf(Bytes(100), 1000), "does not begin with a frame of zstd (100 bytes)");
  EXPECT_ERROR(contentOf(Bytes(), 1000), "does not begin with a frame of zstd (0 bytes)");
  Bytes skipped{0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4};
  EXPECT_ERROR(contentOf(skipped, 1000), "does not begin with a frame of zstd (12 bytes)");
  Bytes old{0x27, 0xb5, 0x2f, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0}; // of version 0.7
  EXPECT_ERROR(contentOf(old, 1000), "does not begin with a frame of zstd (12 bytes)");
}
