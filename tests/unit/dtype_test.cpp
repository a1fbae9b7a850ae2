// SPDX-License-Identifier: Apache-2.0
//
// Element types and the printing of names from files.
#include "runtime/DType.h"
#include "runtime/Text.h"

#include <gtest/gtest.h>

using namespace ditc;

TEST(DTypeTest, NamesRoundTrip) {
  for (int i = 0; i <= static_cast<int>(DType::f8e5m2); ++i) {
    DType type = static_cast<DType>(i);
    EXPECT_EQ(parseDType(nameOf(type)), type);
    EXPECT_EQ(parseSafetensorsDType(safetensorsName(type)), type);
  }
  EXPECT_EQ(parseDType("f33"), std::nullopt);
  EXPECT_EQ(parseSafetensorsDType("f32"), std::nullopt);
}

TEST(DTypeTest, Properties) {
  EXPECT_EQ(byteSize(DType::f64), 8u);
  EXPECT_EQ(byteSize(DType::bf16), 2u);
  EXPECT_EQ(byteSize(DType::b1), 1u);
  EXPECT_EQ(byteSize(DType::c64), 8u);
  EXPECT_EQ(byteSize(DType::c128), 16u);
  EXPECT_EQ(nameOf(DType::f8e4m3), "f8e4m3");
  EXPECT_EQ(safetensorsName(DType::b1), "BOOL");
  EXPECT_TRUE(isFloat(DType::f8e5m2));
  EXPECT_FALSE(isFloat(DType::c64));
  EXPECT_TRUE(isComplex(DType::c32));
  EXPECT_FALSE(isComplex(DType::i64));
}

TEST(TextTest, PrintableHidesControlCharacters) {
  EXPECT_EQ(printable("blocks.0.w\xc3\xa4"), "blocks.0.w\xc3\xa4");
  EXPECT_EQ(printable("a\nb\x1b[31m\xff"), "a?b?[31m?");
  EXPECT_EQ(printable(std::string(1000, 'x')), std::string(160, 'x') + "...");
  EXPECT_TRUE(isUtf8("\xf4\x8f\xbf\xbf"));
  EXPECT_FALSE(isUtf8("\xf4\x90\x80\x80"));
  EXPECT_FALSE(isUtf8("\xe2\x82"));
  EXPECT_FALSE(isUtf8("\xf0\x80\x80\x80"));
}
