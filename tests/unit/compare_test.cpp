// SPDX-License-Identifier: Apache-2.0
//
// Error measures and the conversions of every element type.
#include "RuntimeFixture.h"

#include "runtime/Compare.h"

#include <cmath>
#include <limits>

using namespace ditc;
using namespace ditc::test;

namespace {

const float kNaN = std::numeric_limits<float>::quiet_NaN();
const float kInfinity = std::numeric_limits<float>::infinity();

Comparison compareF32(const std::vector<float> &a, const std::vector<float> &b) {
  std::vector<int64_t> shape{static_cast<int64_t>(a.size())};
  return compare("t", {DType::f32, shape, bytesOf(a)}, {DType::f32, shape, bytesOf(b)});
}

template <typename T> double asDouble(DType type, T value) {
  return elementAsDouble(type, reinterpret_cast<const uint8_t *>(&value));
}

} // namespace

TEST(Compare, Measures) {
  Comparison c = compareF32({3, 4, 0}, {3, 4, 1});
  EXPECT_EQ(c.count, 3u);
  EXPECT_DOUBLE_EQ(c.relativeL2, 1 / std::sqrt(26.0));
  EXPECT_DOUBLE_EQ(c.maxAbs, 1);
  EXPECT_DOUBLE_EQ(c.cosine, 25 / (5 * std::sqrt(26.0)));
  EXPECT_EQ(c.worst, std::vector<int64_t>{2});
  EXPECT_TRUE(c.within(0.2));
  EXPECT_FALSE(c.within(0.19));
}

TEST(Compare, EqualAndZero) {
  EXPECT_EQ(compareF32({1, 2}, {1, 2}).relativeL2, 0);
  EXPECT_EQ(compareF32({0, 0}, {0, 0}).relativeL2, 0);
  EXPECT_EQ(compareF32({0, 0}, {0, 0}).cosine, 1);
  EXPECT_EQ(compareF32({1, 0}, {0, 0}).relativeL2, kInfinity);
  EXPECT_EQ(compareF32({1, 0}, {0, 0}).cosine, 0);
  EXPECT_TRUE(compareF32({}, {}).within(0));
}

TEST(Compare, NonFiniteFails) {
  for (float bad : {kNaN, kInfinity, -kInfinity}) {
    EXPECT_EQ(compareF32({1, bad}, {1, 2}).nonFinite, 1u);
    EXPECT_FALSE(compareF32({1, bad}, {1, 2}).within(1e9));
    EXPECT_FALSE(compareF32({1, 2}, {1, bad}).within(1e9));
    EXPECT_FALSE(compareF32({bad}, {bad}).within(1e9));
    EXPECT_EQ(compareF32({1, bad}, {1, 2}).maxAbs, 0); // the rest is still measured
  }
}

TEST(Compare, AcrossTypes) {
  std::vector<uint16_t> bf16{0x3f80, 0xc040}; // 1, -3
  std::vector<float> f32{1, -3};
  Comparison c = compare("t", {DType::bf16, {2, 1}, bytesOf(bf16)}, {DType::f32, {2, 1}, bytesOf(f32)});
  EXPECT_EQ(c.relativeL2, 0);
}

TEST(Compare, Complex) {
  std::vector<float> a{1, 2, 3, 4}, b{1, 2, 3, 5};
  Comparison c = compare("t", {DType::c64, {2}, bytesOf(a)}, {DType::c64, {2}, bytesOf(b)});
  EXPECT_EQ(c.count, 4u);
  EXPECT_EQ(c.worst, std::vector<int64_t>{1});
  EXPECT_EQ(c.maxAbs, 1);
}

TEST(Compare, Misfits) {
  std::vector<float> a{1, 2};
  EXPECT_ERROR(compare("t", {DType::f32, {2}, bytesOf(a)}, {DType::f32, {1, 2}, bytesOf(a)}),
               "'t' is f32 [2], its reference is f32 [1, 2]; they cannot be compared");
  EXPECT_ERROR(compare("t", {DType::f32, {1}, {}}, {DType::c32, {1}, {}}), "its reference is c32 [1]");
}

TEST(Compare, SmallFloats) {
  EXPECT_EQ(asDouble<uint16_t>(DType::f16, 0x3c00), 1);
  EXPECT_EQ(asDouble<uint16_t>(DType::f16, 0xc000), -2);
  EXPECT_EQ(asDouble<uint16_t>(DType::f16, 0x0001), std::ldexp(1, -24));
  EXPECT_EQ(asDouble<uint16_t>(DType::f16, 0x7bff), 65504);
  EXPECT_EQ(asDouble<uint16_t>(DType::f16, 0xfc00), -kInfinity);
  EXPECT_TRUE(std::isnan(asDouble<uint16_t>(DType::f16, 0x7e00)));
  EXPECT_EQ(asDouble<uint8_t>(DType::f8e4m3, 0x38), 1);
  EXPECT_EQ(asDouble<uint8_t>(DType::f8e4m3, 0x7e), 448);
  EXPECT_EQ(asDouble<uint8_t>(DType::f8e4m3, 0x01), std::ldexp(1, -9));
  EXPECT_TRUE(std::isnan(asDouble<uint8_t>(DType::f8e4m3, 0xff)));
  EXPECT_EQ(asDouble<uint8_t>(DType::f8e5m2, 0x3c), 1);
  EXPECT_EQ(asDouble<uint8_t>(DType::f8e5m2, 0x7b), 57344);
  EXPECT_EQ(asDouble<uint8_t>(DType::f8e5m2, 0x7c), kInfinity);
  EXPECT_EQ(asDouble<uint16_t>(DType::bf16, 0x7f80), kInfinity);
}

TEST(Compare, OtherTypes) {
  EXPECT_EQ(asDouble<double>(DType::f64, -0.1), -0.1);
  EXPECT_EQ(asDouble<int64_t>(DType::i64, -5), -5);
  EXPECT_EQ(asDouble<int32_t>(DType::i32, -5), -5);
  EXPECT_EQ(asDouble<int16_t>(DType::i16, -5), -5);
  EXPECT_EQ(asDouble<int8_t>(DType::i8, -5), -5);
  EXPECT_EQ(asDouble<uint8_t>(DType::u8, 200), 200);
  EXPECT_EQ(asDouble<uint16_t>(DType::u16, 60000), 60000);
  EXPECT_EQ(asDouble<uint32_t>(DType::u32, 4000000000u), 4e9);
  EXPECT_EQ(asDouble<uint64_t>(DType::u64, uint64_t{1} << 63), std::ldexp(1, 63));
  EXPECT_EQ(asDouble<uint8_t>(DType::b1, 1), 1);
  EXPECT_ERROR(asDouble<float>(DType::c64, 1), "elementAsDouble of the complex type c64");
}
