// SPDX-License-Identifier: Apache-2.0
//
// The softmax of attention of 8-bit numbers (attention_codes.cuh) by one warp of the emulator: weights of many blocks of keys,
// which stand for one maximum at the end, against the line between powers of two.
#include "tests/cuda_emulator/run_unit.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace ditc;

namespace {

constexpr int kRows = 16, kBlockKeys = 32, kScores = 16; // of a thread: two rows, eight keys

/// sums and hidden: (block, row, key); units: (block, row, thread of four). Codes come as the bytes of a row, in the order of keys.
constexpr const char *kKernel = R"(
#include "attention_codes.cuh"
using namespace ditc;
using namespace ditc::attention_sm90;
extern "C" __global__ void warp(const int *sums, const u8 *hidden, const float *units, int blocks, u8 *codes, float *alphas, float *tops, float *inverses) {
  CodeSoftmax<16> softmax;
  softmax.reset();
  int g = threadIdx.x / 4, q = threadIdx.x % 4;
  for (int block = 0; block < blocks; ++block) {
    int own[16];
    float scores[16], high[2], unit[2];
    auto at = [&](int i) { return (block * 16 + g + 8 * (i / 2 % 2)) * 32 + 8 * (i / 4) + 2 * q + i % 2; };
    for (int i = 0; i < 16; ++i)
      own[i] = sums[at(i)];
    asFloats(own, scores, high);
    bool all = true;
    for (int i = 0; i < 16; ++i)
      if (hidden[at(i)])
        scores[i] = negativeInfinity(), all = false;
    if (__any_sync(0xffffffff, !all))
      largestOfRows(scores, high);
    for (int half = 0; half < 2; ++half)
      unit[half] = units[(block * 16 + g + 8 * half) * 4 + q];
    bool moved = softmax.update(scores, high, unit);
    for (int half = 0; half < 2; ++half)
      alphas[block * 16 + g + 8 * half] = moved ? softmax.alpha[half] : 1.0f;
    u32 packed[4];
    packCodes(scores, packed);
    for (int word = 0; word < 4; ++word)  // column 16h + 4q + 2e + i of the product is key 16h + 8e + 2q + i
      for (int byte = 0; byte < 4; ++byte) {
        int key = 16 * (word / 2) + 8 * (byte / 2) + 2 * q + byte % 2, row = g + 8 * (word % 2);
        codes[(block * 16 + row) * 32 + key] = packed[word] >> 8 * byte & 255;
      }
  }
  float inverse[2];
  const float three[4] = {4.0f, 0.0f, 0.0f, 0.0f};  // of row g; row g + 8 saw no key
  softmax.finish(three, inverse);
  for (int half = 0; half < 2; ++half)
    tops[g + 8 * half] = softmax.top[half], inverses[g + 8 * half] = inverse[half];
}
)";

struct Rows {
  explicit Rows(int blocks) : blocks(blocks), sums(blocks * kRows * kBlockKeys), hidden(sums.size()), codes(sums.size()), units(blocks * kRows * 4, 0.001f), alphas(blocks * kRows), tops(kRows), inverses(kRows) {}

  void run() {
    emulator::EmulatedUnit unit(kKernel, DITC_SOURCE_DIR "/codegen/templates/cuda");
    unit.launch("warp", {1}, {32}, 0, sums.data(), hidden.data(), units.data(), blocks, codes.data(), alphas.data(), tops.data(), inverses.data());
  }

  double t(int block, int row, int key) const { return double(sums[(block * kRows + row) * kBlockKeys + key]) * units[(block * kRows + row) * 4 + key % 8 / 2]; }

  /// What a code became in the units of the last maximum, whose power of two is e4m3's 2^8.
  double weight(int block, int row, int key) const {
    int code = codes[(block * kRows + row) * kBlockKeys + key];
    double value = code < 8 ? code * 0x1p-9 : std::ldexp(1 + code % 8 / 8.0, code / 8 - 7);
    for (int later = block + 1; later < blocks; ++later)
      value *= alphas[later * kRows + row];
    return value / 256;
  }

  int blocks;
  std::vector<int> sums;
  std::vector<uint8_t> hidden, codes;
  std::vector<float> units, alphas, tops, inverses;
};

double onLine(double t) { return std::exp2(std::floor(t)) * (1 + t - std::floor(t)); }

TEST(CodeSoftmax, WeightsFollowTheLineWhateverTheOrder) {
  Rows rows(24);
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  for (int &sum : rows.sums)
    sum = static_cast<int>(2500 * normal(random)); // t of some 2.5 in the mean square
  for (size_t i = 0; i < rows.units.size(); ++i)
    rows.units[i] = static_cast<float>(0.001 * (1 + i % 7 / 10.0));
  for (int key = 0; key < kBlockKeys; ++key) // the largest comes late, in row 3 far above all before
    rows.sums[(20 * kRows + 3) * kBlockKeys + key] += key == 9 ? 9000 : 0;
  for (size_t i = 0; i < rows.hidden.size(); i += 5)
    rows.hidden[i] = 1;
  rows.run();
  for (int row = 0; row < kRows; ++row) {
    double most = -1e30;
    for (int block = 0; block < rows.blocks; ++block)
      for (int key = 0; key < kBlockKeys; ++key)
        if (!rows.hidden[(block * kRows + row) * kBlockKeys + key])
          most = std::max(most, rows.t(block, row, key));
    ASSERT_EQ(rows.tops[row], std::round(rows.tops[row]));
    ASSERT_LE(most - rows.tops[row], 0.75) << "row " << row;
    ASSERT_GT(most - rows.tops[row], -1) << "row " << row;
    for (int block = 0; block < rows.blocks; ++block)
      for (int key = 0; key < kBlockKeys; ++key) {
        double t = rows.t(block, row, key) - rows.tops[row], got = rows.weight(block, row, key);
        if (rows.hidden[(block * kRows + row) * kBlockKeys + key])
          ASSERT_EQ(got, 0);
        else if (t >= -14)
          ASSERT_NEAR(got, onLine(t), std::exp2(std::floor(t)) / 16 * 1.001) << "row " << row << ", block " << block << ", key " << key << ", t " << t;
        else
          ASSERT_LE(got, std::exp2(-14)) << "t " << t;
      }
  }
  for (uint8_t code : rows.codes)
    ASSERT_LE(code, 126); // 127 is NaN
}

TEST(CodeSoftmax, RowsWithoutKeysAndUnitsThatAreNone) {
  Rows rows(2);
  std::fill_n(rows.hidden.begin() + 5 * kBlockKeys, kBlockKeys, 1);
  std::fill_n(rows.hidden.begin() + (kRows + 5) * kBlockKeys, kBlockKeys, 1);
  rows.units[6 * 4 + 1] = std::numeric_limits<float>::quiet_NaN();
  rows.units[(kRows + 7) * 4 + 2] = std::numeric_limits<float>::infinity();
  rows.run();
  for (int key = 0; key < kBlockKeys; ++key)
    EXPECT_EQ(int(rows.codes[5 * kBlockKeys + key]), 0);
  EXPECT_EQ(rows.tops[5], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(rows.tops[4], 0);
  EXPECT_EQ(rows.inverses[4], 0.25f);
  EXPECT_EQ(rows.inverses[12], 0); // its sum is 0
  EXPECT_TRUE(std::isnan(rows.inverses[6]));
  EXPECT_TRUE(std::isnan(rows.inverses[7]));
}

} // namespace
