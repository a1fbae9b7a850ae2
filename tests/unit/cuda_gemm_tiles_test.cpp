// SPDX-License-Identifier: Apache-2.0
//
// The analytic choice of Hopper tiles: what fits, what is preferred, and that there is always one.
#include "codegen/cuda/sm90/Divisor.h"
#include "codegen/cuda/sm90/GemmTiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

using namespace ditc;

namespace {

GemmTiles best(const GemmSize &size, GemmNeeds needs = {}) { return gemmCandidates({size}, needs).front(); }

TEST(Divisor, DividesEveryNumber) {
  for (int64_t value : {1, 2, 3, 5, 7, 27, 64, 100, 1152, 4095, 4096, 65537, 1 << 30, (1 << 30) + 1, INT32_MAX}) {
    Divisor divisor = Divisor::of(value);
    for (int64_t quotient : {int64_t(0), int64_t(1), int64_t(2), int64_t(999), INT32_MAX / value})
      for (int64_t x : {quotient * value - 1, quotient * value, quotient * value + value / 2, quotient * value + value - 1})
        if (x >= 0 && x <= INT32_MAX)
          EXPECT_EQ(static_cast<uint64_t>(x) * divisor.multiplier >> divisor.shift, static_cast<uint64_t>(x / value)) << x << " / " << value;
  }
  EXPECT_EQ(Divisor::of(0).value, 1); // of a product without rows
}

TEST(GemmTiles, FewTilesSplitK) {
  GemmTiles tiles = best({1, 512, 1152, 4608});
  EXPECT_EQ(tiles.split, 3); // 36 tiles of 72 steps on 132 multiprocessors
  EXPECT_EQ(tiles.n, 128);
  EXPECT_EQ(tiles.cluster(), 3);
  EXPECT_FALSE(tiles.pingpong);
}

TEST(GemmTiles, StepsOfFp8HaveTwiceTheValues) {
  GemmSize narrow{1, 4096, 12288, 3072, 1}, wide{1, 4096, 12288, 1536};
  EXPECT_DOUBLE_EQ(gemmMicroseconds(narrow, {}), gemmMicroseconds(wide, {}));
  EXPECT_EQ(best(narrow).n, best(wide).n);
}

TEST(GemmTiles, PartsOfKFollowTheTiles) {
  EXPECT_EQ(best({1, 77, 1152, 4096}).split, 4);   // 18 tiles
  EXPECT_EQ(best({1, 512, 1536, 4096}).split, 2);  // 48 of 128 x 128 would be more clusters of three than run at once
  EXPECT_EQ(best({1, 512, 1152, 1152}).split, 1);  // meeting would take longer than what it saves
  EXPECT_EQ(best({1, 1024, 1152, 4608}).split, 1); // a second wave would begin anew
  EXPECT_EQ(best({1, 77, 1152, 64}).split, 1);     // nothing to share
}

TEST(GemmTiles, SumsOfOthersLieInTheStages) {
  GemmTiles tiles{.n = 144, .stages = 6, .pingpong = false, .split = 4, .box = 48};
  EXPECT_EQ(tiles.finishedBy(48), 48); // one of a warp's three chunks
  EXPECT_EQ(tiles.finishedBy(16), 48); // three of nine
  EXPECT_TRUE(tiles.exchangeFits(48));
  tiles.stages = 2; // 8 warps receive 3 chunks of 3 KB; a stage has 34 KB
  EXPECT_FALSE(tiles.exchangeFits(48));
}

TEST(GemmTiles, OneWaveTakesTheWidthThatFillsIt) {
  EXPECT_EQ(best({1, 512, 4608, 1152}).n, 144); // 128 tiles
  EXPECT_EQ(best({1, 512, 3456, 1152}).n, 128); // 108
}

TEST(GemmTiles, ManyWavesShareAnOperand) {
  GemmNeeds needs;
  needs.head = 128;
  EXPECT_EQ(best({1, 4608, 21504, 3072}, needs).clusterM, 2);
  GemmTiles twoStreams = gemmCandidates({GemmSize{1, 4096, 12288, 3072}, GemmSize{1, 512, 12288, 3072}}, {}).front();
  EXPECT_EQ(twoStreams.clusterM, 1); // wide tiles of two products do not
  EXPECT_EQ(gemmCandidates({GemmSize{1, 8192, 9216, 3072}, GemmSize{1, 512, 9216, 3072}}, GemmNeeds{.head = 128, .weightColumns = {3072, 3072, 3072}, .loadsRows = true}).front().clusterM, 2);
}

TEST(GemmTiles, CandidatesFitTheKernel) {
  for (int64_t head : {0, 64, 72, 96, 128})
    for (bool residual : {false, true})
      for (int64_t k : {8, 64, 1152, 15360}) {
        GemmNeeds needs;
        needs.head = residual ? 0 : head;
        needs.residual = residual;
        std::vector<GemmTiles> candidates = gemmCandidates({GemmSize{2, 300, 1152, k}}, needs);
        ASSERT_FALSE(candidates.empty()) << head << " " << k;
        for (const GemmTiles &tiles : candidates) {
          EXPECT_LE(tiles.sharedBytes(), 232448u);
          EXPECT_GE(tiles.stages, 2);
          EXPECT_EQ(tiles.n % tiles.box, 0);
          EXPECT_EQ(needs.head ? tiles.n % needs.head : 0, 0);
          EXPECT_TRUE(tiles.exchangeFits(needs.chunk(tiles.box)));
          EXPECT_LE(tiles.split, std::max<int64_t>((k + 63) / 64, 1));
        }
      }
}

/// A tile of every size of heads, whose boxes are whole fractions of one.
TEST(GemmTiles, HeadsOfEverySize) {
  for (int64_t head = 16; head <= 128; head += 8) {
    GemmNeeds needs;
    needs.head = head;
    needs.weightColumns = {narrowestTile(head), narrowestTile(head)};
    std::vector<GemmTiles> candidates = gemmCandidates({GemmSize{1, 4096, 2 * narrowestTile(head), 1152}}, needs);
    ASSERT_FALSE(candidates.empty()) << head;
    for (const GemmTiles &tiles : candidates) {
      EXPECT_EQ(tiles.n % head, 0);
      EXPECT_EQ(head % tiles.box, 0);
      EXPECT_EQ(narrowestTile(head) % tiles.n, 0);
      EXPECT_LE(tiles.sharedBytes(), 232448u);
    }
  }
}

TEST(GemmTiles, WeightsThatWideTilesDoNotDivide) {
  GemmNeeds needs;
  needs.weightColumns = {2240, 2240, 2240}; // Sana's: 35 of 64, 14 of 160, 10 of 224
  for (int64_t head : {0, 32}) {
    needs.head = head;
    std::vector<GemmTiles> candidates = gemmCandidates({GemmSize{2, 1024, 6720, 2240}}, needs);
    EXPECT_TRUE(llvm::any_of(candidates, [](const GemmTiles &tiles) { return tiles.n == 160; }));
    EXPECT_TRUE(llvm::any_of(candidates, [](const GemmTiles &tiles) { return tiles.n == 224 && !tiles.pingpong; }));
    EXPECT_TRUE(llvm::all_of(candidates, [](const GemmTiles &tiles) { return 2240 % tiles.n == 0 && (tiles.n <= 192 || !tiles.pingpong); }));
  }
  needs.weightColumns = {3072, 3072, 3072}, needs.head = 128; // those of others stay what they were
  EXPECT_TRUE(llvm::all_of(gemmCandidates({GemmSize{1, 4096, 9216, 3072}}, needs), [](const GemmTiles &tiles) { return tiles.n == 128 || tiles.n == 256; }));
}

TEST(GemmTiles, MoreBlocksThanHeadsShareATile) {
  GemmNeeds needs;
  needs.head = 40;
  std::set<int> splits;
  for (const GemmTiles &tiles : gemmCandidates({GemmSize{1, 77, 640, 2048}}, needs))
    if (tiles.n == 80) {
      splits.insert(tiles.split);
      EXPECT_EQ(tiles.finishedBy(40), tiles.split == 1 ? 80 : 40);
    }
  EXPECT_THAT(splits, testing::ElementsAre(1, 2, 3, 4));
}

TEST(GemmTiles, BoxesDivideTheHalfThatIsStored) {
  GemmNeeds needs;
  needs.gated = true;
  std::vector<GemmTiles> candidates = gemmCandidates({GemmSize{1, 4608, 18432, 3072}}, needs);
  ASSERT_GE(candidates.size(), 4u);
  for (const GemmTiles &tiles : candidates) {
    EXPECT_EQ(tiles.n / 2 % tiles.box, 0);
    EXPECT_EQ(tiles.split, 1);
  }
  EXPECT_EQ(candidates.front().n, 128); // of the product, 64 of the result
}

TEST(GemmTiles, WidthsEndWhereWeightsAndOutputsDo) {
  GemmNeeds needs;
  needs.weightColumns = {1152, 1152, 1152};
  needs.outputBegins = {0, 1152, 2304};
  for (const GemmTiles &tiles : gemmCandidates({GemmSize{1, 8192, 3456, 1152}}, needs)) {
    EXPECT_EQ(1152 % tiles.n, 0);
    EXPECT_EQ(1152 % tiles.box, 0);
  }
}

} // namespace
