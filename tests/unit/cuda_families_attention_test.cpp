// SPDX-License-Identifier: Apache-2.0
//
// Attention on the CUDA target, with and without tensor cores, against the reference evaluator.
#include "codegen/cuda/families/AttentionTiles.h"
#include "codegen/cuda/families/Families.h"
#include "tests/unit/CudaFamilies.h"

#include "llvm/Support/FormatVariadic.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace ditc;
using namespace ditc::test;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Shape {
  std::string element = "bf16";
  int64_t dim = 64, valueDim = 0; ///< 0: like dim
  int64_t queries = 70, keys = 75, batch = 1, heads = 2, keyHeads = 2;
  std::string mask = {};             ///< its element, or none
  std::vector<int64_t> maskShape = {}; ///< empty: all sizes
  bool causal = false;
  bool headsInside = false; ///< [B, N, H, D] in memory, as a projection leaves it
  std::function<double(size_t)> maskValue = {}, value = {};
  double scale = 0.125;
  double softCap = 0;
  std::vector<int64_t> window = {};
};

CudaArg head(const Shape &s, int64_t heads, int64_t tokens, int64_t columns) {
  if (!s.headsInside)
    return {s.element, {s.batch, heads, tokens, columns}};
  return {s.element, {s.batch, heads, tokens, columns}, {tokens * heads * columns, columns, heads * columns, 1}};
}

CudaCase attention(const Shape &s) {
  int64_t valueDim = s.valueDim ? s.valueDim : s.dim;
  std::string scale = llvm::formatv("{0:e}", s.scale).str(), cap = std::to_string(s.softCap), window = s.window.empty() ? "" : std::to_string(s.window[0]) + ", " + std::to_string(s.window[1]);
  CudaCase c{.family = "attention",
             .config = "scale = " + scale + " : f64, causal = " + (s.causal ? "true" : "false") + ", has_mask = " + (s.mask.empty() ? "false" : "true") +
                       (s.softCap > 0 ? ", soft_cap = " + cap + " : f64" : "") + (window.empty() ? "" : ", window = array<i64: " + window + ">"),
             .args = {head(s, s.heads, s.queries, s.dim), head(s, s.keyHeads, s.keys, s.dim), head(s, s.keyHeads, s.keys, valueDim)},
             .reference = std::string("dit.attention %0, %1, %2") + (s.mask.empty() ? "" : " mask %3") + (s.causal ? " causal" : "") +
                          (window.empty() ? "" : " window [" + window + "]") + " scale " + scale + (s.softCap > 0 ? " soft_cap " + cap : ""),
             .tolerance = s.element == "bf16" ? 1.2e-2 : s.element == "f16" ? 2e-3 : s.element == "f32" ? 2e-6 : 1e-13};
  c.args[2].value = s.value;
  if (!s.mask.empty())
    c.args.push_back({s.mask, s.maskShape.empty() ? std::vector{s.batch, s.heads, s.queries, s.keys} : s.maskShape, {}, s.maskValue});
  c.args.push_back(head(s, s.heads, s.queries, valueDim));
  return c;
}

class CudaAttention : public testing::Test {
protected:
  CudaFamilies families{emitAttention};
  void check(const Shape &shape) { families.check(attention(shape)); }
};

TEST_F(CudaAttention, TensorCoresTakeEveryHeadSize) {
  for (int64_t dim : {8, 17, 40, 64, 72, 96, 128, 256})
    check({.dim = dim});
  EXPECT_NE(families.unit.text.find("attention_mma"), std::string::npos);
  check({.element = "f16", .dim = 20, .valueDim = 50});
  check({.dim = 16, .scale = 1e-50}); // 0 as a float
}

/// Tiles that only launches of many blocks get.
template <int WARPS, int BANDS, int KEYS, int STAGES>
void checkTile(const Shape &shape) {
  CudaFamilies families([](plan::KernelOp kernel, const CudaArch &arch) {
    MmaAttentionTile tile{WARPS, BANDS, KEYS, STAGES};
    return emitTiledAttention(kernel, arch, &tile);
  });
  families.check(attention(shape));
}

TEST_F(CudaAttention, WarpsOfTwoBands) {
  checkTile<4, 2, 80, 1>({.dim = 24, .queries = 150, .keys = 135});
  checkTile<2, 2, 48, 1>({.element = "f16", .dim = 20, .valueDim = 70, .keys = 40});
  checkTile<4, 2, 64, 2>({.dim = 112, .keys = 150});
  checkTile<8, 1, 32, 1>({.dim = 72, .queries = 260, .keys = 70});
  checkTile<4, 2, 32, 1>({.dim = 16, .queries = 150, .keys = 90, .causal = true});
  checkTile<4, 2, 32, 2>({.dim = 16, .queries = 150, .keys = 140, .window = {9, 3}});
  checkTile<2, 2, 16, 1>({.dim = 16, .queries = 150, .keys = 40, .window = {5, 2}}); // late rows see no key
  checkTile<4, 2, 96, 1>({.dim = 16, .keys = 110, .batch = 2, .mask = "i1", .maskShape = {2, 1, 1, 110}});
  checkTile<2, 2, 32, 2>({.dim = 16, .keys = 110, .mask = "bf16", .maskShape = {1, 2, 70, 110}});
  checkTile<1, 2, 32, 1>({.dim = 16, .keys = 33, .scale = 1.5, .softCap = 3});
}

TEST_F(CudaAttention, PlainArithmeticTakesEveryTypeAndHeadSize) {
  for (int64_t dim : {17, 72, 128, 256, 512})
    check({.element = "f32", .dim = dim, .heads = 1, .keyHeads = 1});
  for (int64_t dim : {33, 512})
    check({.element = "f64", .dim = dim, .queries = 20, .heads = 1, .keyHeads = 1});
  check({.dim = 300, .queries = 20}); // wider than the tensor cores' template
  EXPECT_NE(families.unit.text.find("attention_simt"), std::string::npos);
}

TEST_F(CudaAttention, MasksOfEveryShape) {
  const std::vector<int64_t> full = {2, 2, 70, 75}, keys = {2, 1, 1, 75}, queries = {1, 1, 70, 1}, heads = {1, 2, 70, 75};
  check({.element = "bf16", .dim = 32, .batch = 2, .mask = "i1", .maskShape = full});
  check({.element = "bf16", .dim = 32, .batch = 2, .mask = "i1", .maskShape = keys});
  check({.element = "f16", .dim = 32, .batch = 2, .mask = "bf16", .maskShape = heads});
  check({.element = "bf16", .dim = 32, .keys = 74, .batch = 2, .mask = "f32", .maskShape = {2, 1, 1, 74}}); // read in pairs
  check({.element = "f32", .dim = 32, .batch = 2, .mask = "i1", .maskShape = keys});
  check({.element = "f32", .dim = 32, .batch = 2, .mask = "f32", .maskShape = heads});
  check({.element = "f32", .dim = 32, .batch = 2, .mask = "bf16", .maskShape = queries});
}

TEST_F(CudaAttention, CausalAndSharedHeadsAndLayouts) {
  for (std::string element : {"f16", "f32"}) {
    check({.element = element, .dim = 40, .causal = true});
    check({.element = element, .dim = 64, .queries = 150, .keys = 70, .causal = true});
    check({.element = element, .dim = 64, .batch = 2, .heads = 6, .keyHeads = 2, .headsInside = true});
    check({.element = element, .dim = 64, .queries = 1, .keys = 200});
    check({.element = element, .dim = 64, .queries = 5, .keys = 1});
    check({.element = element, .dim = 64, .queries = 30, .keys = 40, .scale = -0.25});
  }
}

TEST_F(CudaAttention, WindowsAndSoftCaps) {
  for (std::string element : {"bf16", "f32"}) {
    check({.element = element, .dim = 32, .window = {9, 3}});
    check({.element = element, .dim = 32, .queries = 200, .keys = 180, .window = {70, 0}});
    check({.element = element, .dim = 32, .queries = 150, .keys = 40, .window = {20, 5}}); // late rows see no key
    check({.element = element, .dim = 32, .causal = true, .window = {5, 8}});
    check({.element = element, .dim = 32, .scale = 1.5, .softCap = 3});
    check({.element = element, .dim = 32, .mask = "i1", .maskShape = {1, 1, 1, 75}, .causal = true, .scale = -1.5, .softCap = 0.5});
  }
}

TEST_F(CudaAttention, LogSumExp) {
  for (std::string element : {"bf16", "f32", "f64"}) {
    CudaCase c = attention({.element = element, .dim = 32, .queries = 40, .keys = 30, .window = {4, 4}}); // rows from 34 on see nothing
    c.config += ", log_sum_exp = true";
    c.reference = "";
    c.args.insert(c.args.end() - 1, CudaArg{"f32", {1, 2, 40}});
    c.outputs = 2;
    auto q = [](size_t i) { return static_cast<double>(i * 7 % 13) / 4 - 1.5; }; // exact in 8 bits
    auto k = [](size_t i) { return static_cast<double>(i * 5 % 11) / 4 - 1.25; };
    c.args[0].value = q, c.args[1].value = k;
    families.run(c);
    const Numbers &sums = families.result(0);
    for (int64_t head = 0; head < 2; ++head)
      for (int64_t row = 0; row < 40; ++row) {
        double total = 0;
        for (int64_t key = std::max<int64_t>(0, row - 4); key < std::min<int64_t>(30, row + 5); ++key) {
          double dot = 0;
          for (int64_t i = 0; i < 32; ++i)
            dot += q((head * 40 + row) * 32 + i) * k((head * 30 + key) * 32 + i);
          total += std::exp(0.125 * dot);
        }
        double want = std::log(total), got = sums[head * 40 + row];
        EXPECT_TRUE(got == want || std::fabs(got - want) < 1e-5) << got << " " << want;
      }
  }
}

TEST_F(CudaAttention, AnyStrides) {
  for (std::string element : {"bf16", "f32"}) {
    CudaCase c = attention({.element = element, .dim = 24});
    c.args[1].strides = {2 * 75 * 24, 75 * 24, 1, 75};         // keys stored by column
    c.args[2].strides = {75 * 24 * 4, 24 * 75 * 2, 48, 2};     // every other element
    c.args[3].strides = {2 * 70 * 24, 70 * 24, 1, 70};
    families.check(c);
    c.aligned = false;
    families.check(c);
  }
}

TEST_F(CudaAttention, NoKeysGiveZero) {
  for (std::string element : {"bf16", "f32"}) {
    check({.element = element, .keys = 0});
    // Rows of even number see nothing.
    auto rows = [](size_t i) { return i / 75 % 2 ? 1.0 : 0.0; };
    check({.element = element, .mask = "i1", .maskValue = rows});
    check({.element = element, .mask = "f32", .maskValue = [rows](size_t i) { return rows(i) != 0 ? 0.5 : -kInf; }});
    EXPECT_EQ(families.result()[0], 0);
    EXPECT_NE(families.result()[64], 0);
  }
}

TEST_F(CudaAttention, TheLowestNumbersAreNoInfinity) {
  for (std::string element : {"bf16", "f32"})
    for (std::string mask : {"f32", "bf16"}) {
      double lowest = mask == "f32" ? -3.4028234663852886e38 : -3.3895313892515355e38;
      check({.element = element, .mask = mask, .maskShape = {1, 1, 1, 75}, .maskValue = [=](size_t) { return lowest; }});
      EXPECT_NE(families.result()[0], 0); // the mean of V
      check({.element = element, .mask = mask, .maskShape = {1, 1, 1, 75}, .maskValue = [=](size_t i) { return i < 70 ? lowest : 0.0; }});
    }
}

/// Padding behind the valid tokens may hold anything.
TEST_F(CudaAttention, NanBehindAMaskStaysThere) {
  for (std::string element : {"bf16", "f32"}) {
    auto hides = [](size_t i) { return i % 75 < 50 ? 1.0 : 0.0; };
    CudaCase c = attention({.element = element, .mask = "i1", .maskShape = {1, 1, 1, 75}, .maskValue = hides});
    families.check(c);
    Numbers clean = families.result();
    c.args[1].value = c.args[2].value = [](size_t i) { return i / 64 % 75 < 50 ? std::sin(static_cast<double>(i)) : 1.0; };
    families.check(c);
    clean = families.result();
    c.args[1].value = c.args[2].value = [](size_t i) { return i / 64 % 75 < 50 ? std::sin(static_cast<double>(i)) : kNan; };
    c.reference = "";
    families.run(c);
    EXPECT_EQ(families.result(), clean);
  }
}

TEST_F(CudaAttention, WideHeadsAreRefused) {
  EXPECT_FALSE(families.emit(attention({.element = "f32", .dim = 520})));
  EXPECT_NE(families.messages.find("heads of 520 and 520 columns; attention kernels of GPUs take 1 to 512"), std::string::npos) << families.messages;
}

} // namespace
