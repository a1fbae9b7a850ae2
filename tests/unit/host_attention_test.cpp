// SPDX-License-Identifier: Apache-2.0
//
// Attention on the host against a softmax in double.
#include "HostHarness.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace ditc;
using namespace ditc::test;

namespace {

enum class MaskKind { None, Boolean, Added, AddedOtherType };

struct Problem {
  int64_t batch = 1, heads = 2, keyHeads = 2, queries = 5, keys = 7, dim = 8, valueDim = 8;
  std::string element = "f32";
  MaskKind mask = MaskKind::None;
  Index maskShape = {};      ///< empty: all sizes
  bool causal = false;
  bool headsInside = false;  ///< [B, N, H, D] in memory, as a projection leaves it
  double scale = 0.125;
  double softCap = 0;
  Index window = {};
};

Index stridesFor(const Problem &p, int64_t heads, int64_t n, int64_t dim) {
  return p.headsInside ? Index{n * heads * dim, dim, heads * dim, 1} : Index{};
}

class Attention {
public:
  explicit Attention(const Problem &p)
      : p(p), q(p.element, {p.batch, p.heads, p.queries, p.dim}, stridesFor(p, p.heads, p.queries, p.dim)),
        k(p.element, {p.batch, p.keyHeads, p.keys, p.dim}, stridesFor(p, p.keyHeads, p.keys, p.dim)),
        v(p.element, {p.batch, p.keyHeads, p.keys, p.valueDim}, stridesFor(p, p.keyHeads, p.keys, p.valueDim)), mask(maskElement(), maskShape()),
        out(p.element, {p.batch, p.heads, p.queries, p.valueDim}, stridesFor(p, p.heads, p.queries, p.valueDim)) {
    q.fill(1), k.fill(2), v.fill(3), mask.fill(4);
  }

  std::vector<Tensor *> args() {
    return p.mask == MaskKind::None ? std::vector<Tensor *>{&q, &k, &v, &out} : std::vector<Tensor *>{&q, &k, &v, &mask, &out};
  }
  std::string config() const {
    return "scale = " + std::to_string(p.scale) + " : f64, causal = " + (p.causal ? "true" : "false") + ", has_mask = " + (p.mask != MaskKind::None ? "true" : "false") +
           (p.softCap > 0 ? ", soft_cap = " + std::to_string(p.softCap) + " : f64" : "") +
           (p.window.empty() ? "" : ", window = array<i64: " + std::to_string(p.window[0]) + ", " + std::to_string(p.window[1]) + ">");
  }
  void run() { runKernel("attention", args(), 1, config()); }

  void check() {
    double tolerance = p.element == "f64" ? 1e-12 : p.element == "f32" ? 4e-6 : p.element == "f16" ? 1e-3 : 8e-3;
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t h = 0; h < p.heads; ++h)
        for (int64_t i = 0; i < p.queries; ++i)
          checkRow(b, h, i, tolerance);
  }

  const Problem p;
  Tensor q, k, v, mask, out;

private:
  std::string maskElement() const {
    if (p.mask == MaskKind::Boolean)
      return "i1";
    return p.mask == MaskKind::AddedOtherType ? (p.element == "f32" ? "bf16" : "f32") : p.element;
  }
  Index maskShape() const { return p.maskShape.empty() ? Index{p.batch, p.heads, p.queries, p.keys} : p.maskShape; }

  double score(int64_t b, int64_t h, int64_t i, int64_t j) {
    double dot = 0;
    for (int64_t d = 0; d < p.dim; ++d)
      dot += q.get({b, h, i, d}) * k.get({b, h / (p.heads / p.keyHeads), j, d});
    dot *= p.scale;
    if (p.softCap > 0)
      dot = p.softCap * std::tanh(dot / p.softCap);
    if ((p.causal && j > i) || (!p.window.empty() && (j < i - p.window[0] || j > i + p.window[1])))
      return -kInf;
    if (p.mask == MaskKind::None)
      return dot;
    double value = mask.get(clampToShape({b, h, i, j}, mask.shape));
    if (p.mask == MaskKind::Boolean)
      return value != 0 ? dot : -kInf;
    return dot + value;
  }

  void checkRow(int64_t b, int64_t h, int64_t i, double tolerance) {
    std::vector<double> weights(p.keys);
    double top = -kInf, total = 0;
    for (int64_t j = 0; j < p.keys; ++j)
      top = std::max(top, weights[j] = score(b, h, i, j));
    for (double &weight : weights)
      total += weight = top == -kInf ? 0 : std::exp(weight - top);
    for (int64_t e = 0; e < p.valueDim; ++e) {
      double want = 0;
      for (int64_t j = 0; j < p.keys; ++j)
        want += total == 0 ? 0 : weights[j] / total * v.get({b, h / (p.heads / p.keyHeads), j, e});
      double got = out.get({b, h, i, e});
      if (total == 0)
        EXPECT_EQ(got, 0) << "row without keys";
      else
        ASSERT_NEAR(got, want, tolerance * std::max(1.0, std::fabs(want))) << b << " " << h << " " << i << " " << e;
    }
  }
};

/// Attentions in one module, each checked.
class Attentions {
public:
  ~Attentions() { batch.run(); }
  void add(const Problem &p) {
    auto attention = std::make_shared<Attention>(p);
    batch.add("attention", attention->args(), 1, attention->config(), "", [=] { attention->check(); });
  }

private:
  KernelBatch batch;
};

TEST(HostAttention, ShapesAndTypes) {
  Attentions all;
  for (const std::string element : {"f32", "f64", "f16", "bf16"})
    for (bool inside : {false, true}) {
      all.add({.element = element, .headsInside = inside});
      all.add({.batch = 2, .queries = 70, .keys = 130, .dim = 40, .valueDim = 40, .element = element, .headsInside = inside});
      all.add({.heads = 1, .keyHeads = 1, .queries = 64, .keys = 64, .dim = 72, .valueDim = 72, .element = element, .headsInside = inside});
      all.add({.queries = 3, .keys = 1, .dim = 64, .valueDim = 64, .element = element, .headsInside = inside});
      all.add({.queries = 1, .keys = 200, .dim = 128, .valueDim = 96, .element = element, .headsInside = inside});
      all.add({.queries = 9, .keys = 33, .dim = 1, .valueDim = 3, .element = element, .headsInside = inside});
    }
}

TEST(HostAttention, WideHeads) {
  Attentions all;
  for (const std::string element : {"f32", "f64", "bf16"}) {
    all.add({.heads = 1, .keyHeads = 1, .queries = 40, .keys = 50, .dim = 256, .valueDim = 256, .element = element});
    all.add({.heads = 1, .keyHeads = 1, .queries = 40, .keys = 50, .dim = 512, .valueDim = 520, .element = element, .scale = 0.01});
  }
}

TEST(HostAttention, GroupedQueries) {
  Attentions all;
  for (bool inside : {false, true}) {
    all.add({.batch = 2, .heads = 6, .keyHeads = 2, .queries = 10, .keys = 80, .dim = 16, .valueDim = 16, .headsInside = inside});
    all.add({.heads = 4, .keyHeads = 1, .queries = 10, .keys = 12, .dim = 16, .valueDim = 16, .element = "bf16", .headsInside = inside});
  }
}

TEST(HostAttention, CausalNeedNotBeSquare) {
  Attentions all;
  for (auto [queries, keys] : {std::pair<int64_t, int64_t>{70, 70}, {5, 9}, {9, 5}, {130, 65}, {65, 130}, {1, 3}}) {
    all.add({.queries = queries, .keys = keys, .causal = true});
    all.add({.queries = queries, .keys = keys, .element = "f16", .mask = MaskKind::Boolean, .causal = true});
  }
}

TEST(HostAttention, WindowsAndSoftCaps) {
  Attentions all;
  for (const std::string element : {"f32", "bf16", "f64"}) {
    for (auto [queries, keys] : {std::pair<int64_t, int64_t>{200, 200}, {5, 9}, {130, 65}, {65, 130}})
      for (Index window : {Index{7, 3}, {0, 0}, {100, 1}, {0, 90}})
        all.add({.queries = queries, .keys = keys, .element = element, .window = window});
    all.add({.queries = 70, .keys = 70, .element = element, .mask = MaskKind::Added, .causal = true, .window = {6, 9}});
    all.add({.queries = 20, .keys = 70, .element = element, .scale = 1.5, .softCap = 2});
    all.add({.queries = 20, .keys = 70, .element = element, .mask = MaskKind::Added, .scale = -1.5, .softCap = 0.5});
  }
}

TEST(HostAttention, MasksOfEveryKindAndShape) {
  Attentions all;
  for (MaskKind kind : {MaskKind::Boolean, MaskKind::Added, MaskKind::AddedOtherType})
    for (const std::string element : {"f32", "bf16", "f64"})
      for (Index shape : {Index{2, 3, 70, 90}, {1, 1, 70, 90}, {2, 1, 1, 90}, {1, 3, 70, 1}, {1, 1, 1, 1}, {1, 1, 1, 90}})
        all.add({.batch = 2, .heads = 3, .keyHeads = 3, .queries = 70, .keys = 90, .element = element, .mask = kind, .maskShape = shape});
}

TEST(HostAttention, RowsWithoutKeysAreZero) {
  for (MaskKind kind : {MaskKind::Boolean, MaskKind::Added}) {
    Attention a({.queries = 70, .keys = 90, .mask = kind});
    double off = kind == MaskKind::Boolean ? 0 : -kInf;
    a.mask.fillWith([&, m = a.mask](const Index &i) { return i[2] % 3 == 0 ? off : kind == MaskKind::Boolean && i[3] == 4 ? 1 : m.get(i); });
    a.run();
    a.check();
  }
  Attention all({.mask = MaskKind::Boolean});
  all.mask.fillWith([](const Index &) { return 0; });
  all.v.set({0, 0, 0, 0}, kInf); // 0 · inf must not leak into a row that sees nothing
  all.run();
  all.out.forEach([&](const Index &i) { EXPECT_EQ(all.out.get(i), 0); });
}

TEST(HostAttention, NoKeysAtAll) { Attentions().add({.keys = 0}); }

TEST(HostAttention, KeysThatStartLate) { // the first key blocks are masked whole
  Attention a({.queries = 20, .keys = 200, .mask = MaskKind::Added});
  a.mask.fillWith([](const Index &i) { return i[3] < 150 ? -kInf : 0; });
  a.run();
  a.check();
}

TEST(HostAttention, LargeScoresDoNotOverflow) { Attentions().add({.queries = 20, .keys = 100, .scale = 500}); }

TEST(HostAttention, NanScoresGiveNanRows) {
  Attention a({.queries = 20, .keys = 100});
  a.q.set({0, 1, 3, 2}, kNan);
  a.run();
  a.out.forEach([&](const Index &i) { EXPECT_EQ(std::isnan(a.out.get(i)), i[1] == 1 && i[2] == 3); });
}

TEST(HostAttention, NanOfAKeyIsHiddenByABooleanMask) {
  Attention a({.queries = 5, .keys = 9, .mask = MaskKind::Boolean});
  a.mask.fillWith([](const Index &i) { return i[3] != 4; });
  a.k.set({0, 0, 4, 1}, kNan);
  a.run();
  a.out.forEach([&](const Index &i) { EXPECT_FALSE(std::isnan(a.out.get(i))); });
}

} // namespace
