// SPDX-License-Identifier: Apache-2.0
//
// Runs with fewer rows than a bucket has, by the package's rules: which bucket, what the padding holds, what is refused.
#include "RuntimeFixture.h"

#include "runtime/Padding.h"
#include "runtime/Session.h"

#include <cstring>

using namespace ditc;
using namespace ditc::test;

namespace {

const PaddingRule kRows{"rows", {{"x", 0, {}}}, {{"y", 0}}};

std::shared_ptr<Session> openPadded(const std::string &path, std::vector<PaddingRule> rules = {kRows}) {
  writeTestPackage(path, {.manifest = [&](Manifest &manifest) { manifest.padding = rules; }});
  return Session::open(path, {});
}

std::vector<float> run(Context &context, int64_t rows, bool pad = true, const std::string &bucket = "") {
  std::vector<float> x = inputX(rows), y(rows * kOut, -1);
  TensorRef in = tensor("x", x, {rows, kIn}), out = tensor("y", y, {rows, kOut});
  RunRequest request{bucket, {&in, 1}, {&out, 1}, false, /*poison=*/true, nullptr, pad};
  context.run(request);
  return y;
}

void copyBytes(char *target, const char *source, uint64_t bytes) { std::memcpy(target, source, bytes); }

template <typename T> char *at(std::vector<T> &values) { return reinterpret_cast<char *>(values.data()); }

} // namespace

TEST(Padding, TensorsBecomeLarger) {
  std::vector<float> small = {1, 2, 3, 4}, large(24, 9);
  PortDesc port{"x", DType::f32, {3, 4, 2}};
  padTensor(at(large), port, at(small), {1, 2, 2}, {std::nullopt, std::nullopt, std::nullopt}, copyBytes);
  EXPECT_EQ(large, (std::vector<float>{1, 2, 3, 4, 3, 4, 3, 4, 1, 2, 3, 4, 3, 4, 3, 4, 1, 2, 3, 4, 3, 4, 3, 4}));
  std::vector<float> cropped(4);
  cropTensor(at(cropped), {1, 2, 2}, at(large), port, copyBytes);
  EXPECT_EQ(cropped, small);
}

TEST(Padding, ValuesStayWhereTheyAre) {
  std::vector<float> small = {1, 2, 3, 4}, large(12, 0);
  padTensor(at(large), {"m", DType::f32, {3, 4}}, at(small), {2, 2}, {std::nullopt, 0.0}, copyBytes);
  EXPECT_EQ(large, (std::vector<float>{1, 2, 0, 0, 3, 4, 0, 0, 3, 4, 0, 0}));
}

TEST(Padding, ValuesOfAllTypes) {
  EXPECT_EQ(repeatedValue(DType::b1, 1, 2), (std::vector<uint8_t>{1, 1}));
  EXPECT_EQ(repeatedValue(DType::bf16, -HUGE_VAL, 1), (std::vector<uint8_t>{0x80, 0xff}));
  EXPECT_EQ(repeatedValue(DType::f16, -HUGE_VAL, 1), (std::vector<uint8_t>{0x00, 0xfc}));
  EXPECT_EQ(repeatedValue(DType::f16, 1, 1), (std::vector<uint8_t>{0x00, 0x3c}));
  EXPECT_EQ(repeatedValue(DType::f16, 0, 1), (std::vector<uint8_t>{0, 0}));
  EXPECT_EQ(repeatedValue(DType::f8e4m3, 1, 2), (std::vector<uint8_t>{0x38, 0x38}));
  EXPECT_ERROR(repeatedValue(DType::f8e4m3, -HUGE_VAL, 1), "f8e4m3 cannot hold -inf");
  EXPECT_EQ(repeatedValue(DType::i32, -1073741824, 1), (std::vector<uint8_t>{0, 0, 0, 0xc0}));
  EXPECT_ERROR(repeatedValue(DType::u8, -1, 1), "u8 cannot hold -1");
  EXPECT_ERROR(repeatedValue(DType::c64, 0, 1), "c64 cannot hold 0");
}

TEST(Padding, TheSmallestBucketThatHolds) {
  TempFolder folder;
  Context context(openPadded(folder / "p.dita"));
  for (int64_t rows : {3, 1, 4, 2, 3, 1})
    EXPECT_EQ(run(context, rows), expectedY(inputX(rows))) << rows;
  EXPECT_EQ(run(context, 1, true, "four"), expectedY(inputX(1)));
}

TEST(Padding, StridedTensors) {
  TempFolder folder;
  Context context(openPadded(folder / "p.dita"));
  std::vector<float> x = inputX(3), wide(3 * 5, 0), y(3 * 6, -1);
  for (int64_t i = 0; i < 3; ++i)
    std::copy_n(x.begin() + i * kIn, kIn, wide.begin() + i * 5);
  TensorRef in{"x", DType::f32, {3, kIn}, {5, 1}, wide.data()}, out{"y", DType::f32, {3, kOut}, {6, 1}, y.data()};
  RunRequest request{"", {&in, 1}, {&out, 1}, false, false, nullptr, true};
  context.run(request);
  std::vector<float> expected = expectedY(x);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(std::vector<float>(y.begin() + i * 6, y.begin() + i * 6 + kOut),
              std::vector<float>(expected.begin() + i * kOut, expected.begin() + (i + 1) * kOut));
    EXPECT_EQ(y[i * 6 + 4], -1);
  }
}

TEST(Padding, OnlyWhenAllowedAndWhatFits) {
  TempFolder folder;
  Context context(openPadded(folder / "p.dita"));
  EXPECT_ERROR(run(context, 3, false), "no bucket of", "expects 'x' [2, 3], got [3, 3]", "compile a bucket");
  EXPECT_ERROR(run(context, 5), "no bucket of", "four 'x' has 5 in dimension 0, expected 1 to 4; rows of a larger bucket may be padded");
  EXPECT_ERROR(run(context, 3, true, "two"), "bucket 'two' 'x' has 3 in dimension 0, expected 1 to 2; rows of a larger bucket");
  std::vector<float> x = inputX(3), y(4 * kOut);
  TensorRef in = tensor("x", x, {3, kIn}), out = tensor("y", y, {4, kOut});
  RunRequest request{"", {&in, 1}, {&out, 1}, false, false, nullptr, true};
  EXPECT_ERROR(context.run(request), "expects 'y' [3, 4], got [4, 4]", "the shape that the inputs make it");
}

TEST(Padding, NoRows) {
  TempFolder folder;
  Context context(openPadded(folder / "p.dita"));
  EXPECT_ERROR(run(context, 0), "no bucket of");
}

TEST(Padding, WhyNot) {
  TempFolder folder;
  std::string path = folder / "p.dita";
  writeTestPackage(path);
  EXPECT_ERROR(needPadding(Session::open(path, {})->package()), "cannot be padded", "without symbolic sizes");
  writeTestPackage(path, {.manifest = [](Manifest &manifest) { manifest.notPadded["rows"] = "blocks.0 (dit.reduce): reduces"; }});
  EXPECT_ERROR(needPadding(Session::open(path, {})->package()), "rows: blocks.0 (dit.reduce): reduces", "use the exact policy");
}

TEST(Padding, ManifestsAreChecked) {
  TempFolder folder;
  std::string path = folder / "p.dita";
  openPadded(path, {{"rows", {{"x", 0, -HUGE_VAL}}, {{"y", 0}}}});
  EXPECT_EQ(Package::open(path).manifest().padding[0], (PaddingRule{"rows", {{"x", 0, -HUGE_VAL}}, {{"y", 0}}}));
  EXPECT_ERROR(openPadded(path, {{"rows", {{"x", 2, {}}}, {}}}), "padding of dimension 2 of 'x', which is none");
  EXPECT_ERROR(openPadded(path, {{"rows", {{"z", 0, {}}}, {}}}), "padding of dimension 0 of 'z', which is none");
  EXPECT_ERROR(openPadded(path, {{"rows", {}, {}}}), "padding of rows by no input");
  EXPECT_ERROR(openPadded(path, {{"rows", {{"x", 0, 1.0}, {"x", 1, 0.0}}, {}}}), "'x' is padded with two values");
}
