// SPDX-License-Identifier: Apache-2.0
//
// Attention of 8-bit numbers on the host against the formula in double.
#include "HostHarness.h"
#include "QuantizedFormula.h"

#include <gtest/gtest.h>

using namespace ditc;
using namespace ditc::test;

namespace {

/// All rounding of scales, products and results to f32 and f16, and the few numbers that it puts on the other side of a tie.
constexpr double kTolerance = 3e-3;

struct Problem {
  int64_t heads = 2, keyHeads = 2, queries = 70, keys = 150, dim = 64, valueDim = 64;
  double scale = 0.125, softCap = 0;
  bool causal = false, headsInside = false;
  std::string mask = "";   ///< its element type
  double keyOffset = 0;    ///< of the channels of keys, with signs
};

class Attention {
public:
  explicit Attention(const Problem &p)
      : p(p), q("f16", {1, p.heads, p.queries, p.dim}, strides(p.heads, p.queries, p.dim)), k("f16", {1, p.keyHeads, p.keys, p.dim}, strides(p.keyHeads, p.keys, p.dim)),
        v("f16", {1, p.keyHeads, p.keys, p.valueDim}), mask(p.mask.empty() ? "i1" : p.mask, {1, 1, p.queries, p.keys}), out("f16", {1, p.heads, p.queries, p.valueDim}) {
    q.fill(1), k.fill(2), v.fill(3), mask.fill(4);
    if (p.keyOffset != 0)
      k.fillWith([&, own = k](const Index &i) { return own.get(i) + (i[3] % 3 == 0 ? p.keyOffset : -p.keyOffset); });
  }

  void run() {
    std::string config = "scale = " + std::to_string(p.scale) + " : f64, quantized = true, causal = " + (p.causal ? "true" : "false") + ", has_mask = " + (p.mask.empty() ? "false" : "true") +
                         (p.softCap > 0 ? ", soft_cap = " + std::to_string(p.softCap) + " : f64" : "");
    std::vector<Tensor *> args = p.mask.empty() ? std::vector<Tensor *>{&q, &k, &v, &out} : std::vector<Tensor *>{&q, &k, &v, &mask, &out};
    runKernel("attention", args, 1, config);
  }

  std::vector<double> expected(bool isQuantized) {
    QuantizedFormula formula{p.heads, p.keyHeads, p.queries, p.keys, p.dim, p.valueDim, p.scale, p.softCap, [&](int64_t, int64_t i, int64_t j) {
                               double value = p.mask.empty() ? 0 : mask.get({0, 0, i, j});
                               return (p.causal && j > i) || (p.mask == "i1" && value == 0) ? -kInf : p.mask == "i1" ? 0 : value;
                             }};
    return formula.evaluate(numbers(q), numbers(k), numbers(v), isQuantized);
  }

  double errorOf(bool isQuantized) { return relativeL2(numbers(out), expected(isQuantized)); }

  static std::vector<double> numbers(const Tensor &tensor) {
    std::vector<double> all;
    tensor.forEach([&](const Index &i) { all.push_back(tensor.get(i)); });
    return all;
  }

  const Problem p;
  Tensor q, k, v, mask, out;

private:
  Index strides(int64_t heads, int64_t n, int64_t dim) const { return p.headsInside ? Index{n * heads * dim, dim, heads * dim, 1} : Index{}; }
};

void expectFormula(const Problem &p) {
  Attention a(p);
  a.run();
  EXPECT_LT(a.errorOf(true), kTolerance) << p.queries << " queries, " << p.keys << " keys, heads of " << p.dim << " and " << p.valueDim;
}

TEST(HostQuantizedAttention, ComputesTheFormula) {
  for (bool inside : {false, true})
    expectFormula({.headsInside = inside});
  expectFormula({.queries = 3, .keys = 1});
  expectFormula({.queries = 1, .keys = 300, .dim = 128, .valueDim = 96});
  expectFormula({.heads = 6, .queries = 10, .keys = 80, .dim = 40, .valueDim = 24});
  expectFormula({.heads = 1, .keyHeads = 1, .queries = 40, .keys = 50, .dim = 248, .valueDim = 248, .scale = 0.0625});
  expectFormula({.queries = 64, .keys = 130, .causal = true});
  expectFormula({.keys = 90, .softCap = 2});
  for (const char *mask : {"i1", "f16", "f32"})
    expectFormula({.queries = 70, .keys = 90, .mask = mask});
}

TEST(HostQuantizedAttention, IsNearExactAttention) {
  Attention a({});
  a.run();
  double error = a.errorOf(false);
  EXPECT_LT(error, 0.05);
  EXPECT_GT(error, 0.005); // it is quantised
}

TEST(HostQuantizedAttention, WhatAllKeysShareCostsNothing) {
  Attention a({.keyOffset = 40});
  a.run();
  EXPECT_LT(a.errorOf(true), kTolerance);
  EXPECT_LT(a.errorOf(false), 0.05);
}

/// A key whose weight is 8000 times those of 8000 others has half of the result.
TEST(HostQuantizedAttention, ManySmallWeightsCount) {
  Attention a({.heads = 1, .keyHeads = 1, .queries = 4, .keys = 8000, .dim = 32, .valueDim = 32, .scale = 0.05, .mask = "f32"});
  a.mask.fillWith([](const Index &i) { return i[3] == 77 ? 9 : 0; });
  a.run();
  EXPECT_LT(a.errorOf(true), kTolerance);
  EXPECT_LT(a.errorOf(false), 0.06);
}

TEST(HostQuantizedAttention, RowsWithoutKeysAreZero) {
  Attention a({.mask = "i1"});
  a.mask.fillWith([](const Index &i) { return i[2] % 3 != 0; });
  a.v.set({0, 0, 0, 5}, kInf);
  a.run();
  a.out.forEach([&](const Index &i) {
    if (i[2] % 3 == 0)
      EXPECT_EQ(a.out.get(i), 0);
  });
}

TEST(HostQuantizedAttention, NoKeysAtAll) {
  Attention a({.keys = 0});
  a.run();
  a.out.forEach([&](const Index &i) { EXPECT_EQ(a.out.get(i), 0); });
}

TEST(HostQuantizedAttention, NanAndInfinityReachWhatSeesThem) {
  Attention a({});
  a.q.set({0, 1, 3, 2}, kNan);
  a.q.set({0, 1, 66, 2}, kInf);
  a.v.set({0, 0, 100, 7}, -kInf);
  a.run();
  a.out.forEach([&](const Index &i) { EXPECT_EQ(std::isnan(a.out.get(i)), i[1] == 1 ? i[2] == 3 || i[2] == 66 : i[3] == 7) << i[1] << " " << i[2] << " " << i[3]; });
}

TEST(HostQuantizedAttention, NanOfAKeyReachesItsHead) { // by the mean
  Attention a({});
  a.k.set({0, 0, 140, 2}, kNan);
  a.run();
  a.out.forEach([&](const Index &i) { EXPECT_EQ(std::isnan(a.out.get(i)), i[1] == 0); });
}

} // namespace
