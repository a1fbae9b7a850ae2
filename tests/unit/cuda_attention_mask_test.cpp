// SPDX-License-Identifier: Apache-2.0
//
// Packed masks: the unit of family "mask_pack" on the emulator, bit by bit and verdict by verdict; and verdicts of additive masks.
#include "tests/cuda_emulator/run_unit.h"
#include "tests/unit/AttentionKernels.h"

#include "llvm/Support/MathExtras.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace ditc;
using namespace ditc::test;

namespace {

/// A mask [batch, heads, rows, keys] in memory with these strides (in bytes), and tiles.
struct MaskCase {
  int64_t shape[4];
  int64_t strides[4];
  int64_t keys, tileRows, tileKeys; ///< keys: of the attention, where the mask has one for all
  std::function<bool(int64_t batch, int64_t head, int64_t row, int64_t key)> visible;
};

class PackedMask {
public:
  explicit PackedMask(const MaskCase &c) : c(c) {
    blocks = llvm::divideCeil(c.keys, c.tileKeys), tiles = llvm::divideCeil(c.shape[2], c.tileRows), wordsPerRow = blocks * c.tileKeys / 32;
    int64_t bytes = 1;
    for (int d = 0; d < 4; ++d)
      bytes += (c.shape[d] - 1) * c.strides[d];
    mask.resize(bytes);
    forAll([&](int64_t b, int64_t h, int64_t row, int64_t key) { mask[b * c.strides[0] + h * c.strides[1] + row * c.strides[2] + key * c.strides[3]] = c.visible(b, h, row, key); });
    words.assign(c.shape[0] * c.shape[1] * c.shape[2] * wordsPerRow, 0xDEADBEEF);
    verdicts.assign(c.shape[0] * c.shape[1] * tiles * blocks, 77);
    run();
  }

  void check() {
    for (int64_t problem = 0; problem < c.shape[0] * c.shape[1]; ++problem)
      for (int64_t tile = 0; tile < tiles; ++tile)
        for (int64_t block = 0; block < blocks; ++block)
          checkTile(problem, tile, block);
  }

private:
  bool expected(int64_t problem, int64_t row, int64_t key) const {
    return key < c.keys && c.visible(problem / c.shape[1], problem % c.shape[1], row, c.shape[3] == 1 ? 0 : key);
  }

  void checkTile(int64_t problem, int64_t tile, int64_t block) {
    bool any = false, all = true;
    for (int64_t row = tile * c.tileRows; row < std::min(c.shape[2], (tile + 1) * c.tileRows); ++row)
      for (int64_t key = block * c.tileKeys; key < (block + 1) * c.tileKeys; ++key) {
        bool bit = words[(problem * c.shape[2] + row) * wordsPerRow + key / 32] >> key % 32 & 1;
        ASSERT_EQ(bit, expected(problem, row, key)) << "problem " << problem << ", row " << row << ", key " << key;
        any |= bit, all &= bit || key >= c.keys;
      }
    ASSERT_EQ(int(verdicts[(problem * tiles + tile) * blocks + block]), any ? all ? 2 : 1 : 0) << "problem " << problem << ", tile " << tile << ", block " << block;
  }

  template <class Function> void forAll(Function function) {
    for (int64_t b = 0; b < c.shape[0]; ++b)
      for (int64_t h = 0; h < c.shape[1]; ++h)
        for (int64_t row = 0; row < c.shape[2]; ++row)
          for (int64_t key = 0; key < c.shape[3]; ++key)
            function(b, h, row, key);
  }

  void run() {
    auto dims = [](auto &list) { return fmt::format("{}", fmt::join(list, "x")); };
    int64_t wordShape[] = {c.shape[0], c.shape[1], c.shape[2], wordsPerRow}, verdictShape[] = {c.shape[0], c.shape[1], tiles, blocks};
    AttentionKernels kernels;
    plan::KernelOp kernel = kernels.parse(
        "mask_pack", {fmt::format("memref<{}xi1, strided<[{}]>>", dims(c.shape), fmt::join(c.strides, ", ")), fmt::format("memref<{}xi32>", dims(wordShape)), fmt::format("memref<{}xi8>", dims(verdictShape))}, 2,
        fmt::format("keys = {} : i64, tile_keys = {} : i64, tile_rows = {} : i64", c.keys, c.tileKeys, c.tileRows));
    CudaUnit unit = *emitMaskPack(kernel);
    emulator::EmulatedUnit emulated(unit.text, DITC_SOURCE_DIR "/codegen/templates/cuda");
    emulated.launch("kernel", unit.launch, unit.parameters, {mask.data(), words.data(), verdicts.data()});
  }

  const MaskCase &c;
  int64_t blocks, tiles, wordsPerRow;
  std::vector<uint8_t> mask, verdicts;
  std::vector<uint32_t> words;
};

void check(const MaskCase &c) { PackedMask(c).check(); }

bool scattered(int64_t b, int64_t h, int64_t row, int64_t key) { return (row * 31 + key * 17 + b * 5 + h * 3) % 7 < 4; }

} // namespace

TEST(PackedMask, RowsAndHeads) {
  check({{2, 3, 70, 75}, {3 * 70 * 75, 70 * 75, 75, 1}, 75, 64, 32, scattered});
  check({{1, 1, 130, 300}, {130 * 300, 130 * 300, 300, 1}, 300, 128, 128, scattered}); // read by words
  check({{2, 1, 33, 40}, {5000, 0, 1, 33}, 40, 64, 64, scattered});                    // keys lie apart
}

TEST(PackedMask, SkippedAndFullTiles) {
  check({{1, 1, 200, 300}, {60000, 60000, 300, 1}, 300, 64, 96, [](int64_t, int64_t, int64_t row, int64_t key) { return key <= row; }});
  check({{2, 1, 100, 64}, {6400, 6400, 64, 1}, 64, 64, 32, [](int64_t b, int64_t, int64_t, int64_t) { return b == 1; }});
}

TEST(PackedMask, KeysOnly) {
  check({{2, 1, 1, 75}, {75, 75, 75, 1}, 75, 192, 64, [](int64_t b, int64_t, int64_t, int64_t key) { return key < 64 - 30 * b; }});
  check({{1, 1, 70, 1}, {70, 70, 1, 1}, 75, 64, 64, [](int64_t, int64_t, int64_t row, int64_t) { return row % 3 == 0; }}); // one for all keys
}

TEST(JudgedMask, VerdictsOfAdditiveMasks) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kLow = std::numeric_limits<float>::lowest();
  constexpr int64_t kKeys = 75, kBlocks = 3; // of 32
  const std::vector<std::pair<std::function<float(int64_t)>, std::array<int, 3>>> rows = {
      {[](int64_t) { return 0.0f; }, {2, 2, 2}},
      {[](int64_t key) { return key < 32 ? 0.0f : -10000.0f; }, {2, 0, 0}},
      {[](int64_t key) { return key < 40 ? 0.0f : -kInf; }, {2, 1, 0}},
      {[](int64_t key) { return key == 70 ? 0.0f : kLow; }, {0, 0, 1}},
      {[](int64_t key) { return key == 5 ? 0.5f : 0.0f; }, {1, 2, 2}},
      {[](int64_t) { return -10000.0f; }, {1, 1, 1}}, // sees nothing: the mean counts
      {[](int64_t) { return kLow; }, {1, 1, 1}},
      {[](int64_t) { return -kInf; }, {0, 0, 0}},
      {[](int64_t key) { return key == 40 ? std::numeric_limits<float>::quiet_NaN() : -kInf; }, {0, 1, 0}},
  };
  AttentionKernels kernels;
  int64_t heads = rows.size();
  CudaUnit unit = *emitMaskJudge(kernels.parse("mask_judge", {fmt::format("memref<1x{}x1x{}xf32>", heads, kKeys), fmt::format("memref<1x{}x1x{}xi8>", heads, kBlocks)}, 1, "tile_keys = 32 : i64"));
  std::vector<float> bias;
  for (const auto &[value, expected] : rows)
    for (int64_t key = 0; key < kKeys; ++key)
      bias.push_back(value(key));
  std::vector<uint8_t> verdicts(heads * kBlocks, 77);
  emulator::EmulatedUnit emulated(unit.text, DITC_SOURCE_DIR "/codegen/templates/cuda");
  emulated.launch("kernel", unit.launch, unit.parameters, {bias.data(), verdicts.data()});
  for (int64_t head = 0; head < heads; ++head)
    for (int64_t block = 0; block < kBlocks; ++block)
      EXPECT_EQ(int(verdicts[head * kBlocks + block]), rows[head].second[block]) << "row " << head << ", block " << block;
}
