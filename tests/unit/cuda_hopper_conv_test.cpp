// SPDX-License-Identifier: Apache-2.0
//
// Convolutions for Hopper (conv_sm90.cuh): which go there, how tiles are cut, and what the copy engine is told of the operands. The
// kernel itself runs on a GPU alone (tests/gpu/run_conv.py); that NVRTC compiles it is in cuda_families_nvrtc_test.cpp.
#include "codegen/cuda/conv/MmaConv.h"
#include "codegen/cuda/sm90/Conv.h"
#include "tests/unit/ConvCases.h"

#include <gtest/gtest.h>

#include <regex>

using namespace ditc;
using namespace ditc::test;

namespace {

/// The unit for sm_90a, as text; empty with `messages` where there is none.
class Emitted : public CudaFamilies {
public:
  explicit Emitted(const CudaCase &c) : CudaFamilies(emitBestConv, "sm_90a") { EXPECT_TRUE(emit(c)) << messages; }
  explicit Emitted(const Conv &conv) : Emitted(caseOf(conv, "bf16")) {}
  bool isHopper() const { return unit.text.find("conv_sm90.cuh") != std::string::npos; }
  int64_t constant(const std::string &name) const {
    std::smatch match;
    return std::regex_search(unit.text, match, std::regex("\\b" + name + " = (\\d+)")) ? std::stoll(match[1]) : -1;
  }
  std::array<int64_t, 3> box() const { return {constant("BOX_X"), constant("BOX_Y"), constant("BOX_Z")}; }
  const cuda::TensorMapPatch &map(size_t i) const { return std::get<cuda::TensorMapPatch>(unit.parameters[0].patches[i].value); }
};

Conv plain(int64_t images, int64_t channels, int64_t size, int64_t out, int64_t step = 1) {
  return {{images, channels, size, size}, {out, channels, 3, 3}, {step, step}, {1, 1}, {1, 1}, {1, 1}, 1, true};
}

TEST(CudaHopperConv, TakesWhatFillsItsTiles) {
  EXPECT_TRUE(Emitted(plain(2, 320, 128, 320)).isHopper());
  EXPECT_TRUE(Emitted(plain(2, 640, 64, 640, 2)).isHopper());
  EXPECT_TRUE(Emitted({{2, 128, 9000}, {256, 128, 3}, {1}, {1}, {1}, {1}, 1}).isHopper());
  EXPECT_FALSE(Emitted(plain(1, 16, 128, 512)).isHopper()); // a step of 64 channels would be zeros for the most part
  EXPECT_FALSE(Emitted(plain(1, 640, 8, 640)).isHopper());  // few tiles
  Conv groups = plain(2, 640, 64, 640);
  groups.groups = 2, groups.filter[1] = 320;
  EXPECT_FALSE(Emitted(groups).isHopper());
  CudaFamilies ampere(emitBestConv, "sm_80");
  ASSERT_TRUE(ampere.emit(caseOf(plain(2, 320, 128, 320), "bf16")));
  EXPECT_NE(ampere.unit.text.find("conv_mma.cuh"), std::string::npos);
}

/// As the template's assertions and the copy engine ask.
void checkTiles(const Conv &conv) {
  Emitted e(conv);
  ASSERT_TRUE(e.isHopper()) << e.unit.text;
  auto [x, y, z] = e.box();
  bool channelRows = e.unit.text.find("CHANNEL_ROWS = true") != std::string::npos;
  int64_t rows = e.constant("BLOCK_M"), columns = e.constant("BLOCK_N"), store = e.constant("STORE");
  EXPECT_EQ(channelRows, !conv.outputLast);
  EXPECT_LE(x * y * z, channelRows ? columns : rows);
  EXPECT_EQ(columns % 32, 0);
  EXPECT_LE(rows * columns / 128, 160) << "accumulators of a thread";
  EXPECT_GT(e.constant("STAGES"), 2);
  EXPECT_LE(e.unit.launch.sharedBytes, 232448u);
  EXPECT_EQ(channelRows ? x % store : 0, 0);
  EXPECT_EQ(e.map(1).box, (std::vector<uint32_t>{64, uint32_t(x), uint32_t(y), uint32_t(z), 1}));
  EXPECT_EQ(e.map(0).box, (std::vector<uint32_t>{64, 1, uint32_t(channelRows ? rows : columns)}));
  EXPECT_EQ(e.unit.launch.blocksPerSm, 1u);
}

TEST(CudaHopperConv, TilesFitTheirRows) {
  for (bool outputLast : {false, true})
    for (Conv conv : {plain(2, 320, 128, 320), plain(4, 104, 61, 250), plain(6, 128, 95, 256, 2), Conv{{3, 120, 7, 30, 52}, {250, 120, 3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 1},
                      Conv{{4, 320, 3501}, {96, 320, 7}, {1}, {9}, {9}, {3}, 1, true}}) {
      conv.outputLast = outputLast;
      checkTiles(conv);
    }
}

/// One map for each of the images that a stride makes, which together have all pixels.
TEST(CudaHopperConv, StridesSeeImagesOfTheirOwn) {
  Emitted e(Conv{{6, 128, 95, 97}, {256, 128, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 1, true});
  ASSERT_TRUE(e.isHopper());
  ASSERT_EQ(e.unit.parameters[0].patches.size(), 5u);
  using Numbers = std::vector<uint64_t>;
  EXPECT_EQ(e.map(0).sizes, (Numbers{128, 9, 256}));
  EXPECT_EQ(e.map(0).strides, (Numbers{256, 9 * 256}));
  EXPECT_EQ(e.map(1).sizes, (Numbers{128, 49, 48, 1, 6}));
  EXPECT_EQ(e.map(2).sizes, (Numbers{128, 48, 48, 1, 6}));
  EXPECT_EQ(e.map(3).sizes, (Numbers{128, 49, 47, 1, 6}));
  EXPECT_EQ(e.map(4).sizes, (Numbers{128, 48, 47, 1, 6}));
  EXPECT_EQ(e.map(4).strides, (Numbers{2 * 256, 2 * 97 * 256, 16, 95 * 97 * 256}));
  EXPECT_EQ(e.map(1).add, 0);
  EXPECT_EQ(e.map(2).add, 256);
  EXPECT_EQ(e.map(3).add, 97 * 256);
  EXPECT_EQ(e.map(4).add, 98 * 256);
}

TEST(CudaHopperConv, StridesOfMoreThanTheImageHas) {
  Conv narrow{{2000, 128, 60, 1}, {128, 128, 3, 3}, {1, 2}, {1, 1}, {1, 1}, {1, 1}, 1};
  EXPECT_FALSE(Emitted(narrow).isHopper());
  narrow.strides = {1, 1};
  EXPECT_TRUE(Emitted(narrow).isHopper());
}

/// Windows in time alone: the rows of a frame follow one another, and a box need not end with them.
TEST(CudaHopperConv, RowsAreJoinedWhereWindowsAreOneWide) {
  Conv time{{2, 128, 17, 30, 26}, {224, 128, 3, 1, 1}, {1, 1, 1}, {1, 0, 0}, {1, 0, 0}, {1, 1, 1}, 1, true, true};
  Emitted joined(time);
  EXPECT_EQ(joined.map(1).sizes, (std::vector<uint64_t>{128, 780, 1, 17, 2}));
  time.filter[3] = 3, time.low[1] = time.high[1] = 1; // three rows see each other
  EXPECT_EQ(Emitted(time).map(1).sizes, (std::vector<uint64_t>{128, 26, 30, 17, 2}));
  time = {{2, 128, 17, 30, 26}, {224, 128, 3, 1, 1}, {1, 1, 1}, {1, 1, 0}, {1, 1, 0}, {1, 1, 1}, 1, true, true}; // padding between them
  EXPECT_EQ(Emitted(time).map(1).sizes, (std::vector<uint64_t>{128, 26, 30, 17, 2}));
}

} // namespace
