// SPDX-License-Identifier: Apache-2.0
//
// Norms and reductions on the host against plain sums in double.
#include "HostHarness.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace ditc;
using namespace ditc::test;

namespace {

double toleranceOf(const std::string &element) {
  if (element == "f64")
    return 1e-13;
  return element == "f32" ? 2e-6 : element == "f16" ? 1.1e-3 : 9e-3; // one unit in the last place of the small types
}

struct NormCase {
  Index shape, stridesIn, stridesOut;
  int64_t axes;
};

const NormCase kNormCases[] = {
    {{4, 16}, {}, {}, 1},
    {{3, 5, 72}, {}, {}, 1},
    {{1, 1}, {}, {}, 1},
    {{2, 1000}, {1008, 1}, {1200, 1}, 1},
    {{3, 4, 9}, {}, {}, 2},
    {{2, 3, 4}, {1, 2, 6}, {}, 2},           // transposed: two inner loops
    {{2, 40}, {1, 2}, {3, 6}, 1},            // no unit stride
    {{2, 5000}, {}, {}, 1},                  // longer than a row buffer
    {{2, 100, 60}, {1, 120, 2}, {}, 2},      // longer, strided
    {{0, 8}, {}, {}, 1},
};

/// Sum and sum of squared differences from `mean` of the row of x that holds `index`.
std::pair<double, double> rowSums(const Tensor &x, Index index, int64_t axes, double mean) {
  size_t outer = x.shape.size() - axes;
  Tensor row("i1", Index(x.shape.begin() + outer, x.shape.end()));
  double sum = 0, squares = 0;
  row.forEach([&](const Index &j) {
    std::copy(j.begin(), j.end(), index.begin() + outer);
    sum += x.get(index);
    squares += (x.get(index) - mean) * (x.get(index) - mean);
  });
  return {sum, squares};
}

/// Mean and reciprocal deviation, at every place of a tensor like x.
void rowStatistics(const Tensor &x, int64_t axes, bool rms, Tensor &mean, Tensor &scale) {
  size_t outer = x.shape.size() - axes;
  double count = 1;
  for (size_t d = outer; d < x.shape.size(); ++d)
    count *= x.shape[d];
  mean.forEach([&](const Index &i) {
    Index first(x.shape.size(), 0);
    std::copy(i.begin(), i.end(), first.begin());
    double center = rms ? 0 : rowSums(x, first, axes, 0).first / count;
    mean.set(i, center);
    scale.set(i, 1 / std::sqrt(rowSums(x, first, axes, center).second / count + 1e-5));
  });
}

std::string normConfig(bool rms, int64_t axes, bool hasWeight, bool hasBias) {
  auto text = [](bool value) { return value ? "true" : "false"; };
  return std::string("kind = \"") + (rms ? "rms" : "layer") + "\", axes = " + std::to_string(axes) + " : i64, eps = 1.0e-5 : f64, has_weight = " + text(hasWeight) +
         ", has_bias = " + text(hasBias);
}

/// x is far from zero, so that a one-pass variance would cancel.
void addNorm(KernelBatch &batch, const NormCase &c, const std::string &element, bool rms, bool hasWeight, bool hasBias, const std::string &affine) {
  Index outer(c.shape.begin(), c.shape.end() - c.axes), tail(c.shape.end() - c.axes, c.shape.end());
  Tensor &x = batch.tensor(element, c.shape, c.stridesIn), &out = batch.tensor(element, c.shape, c.stridesOut);
  Tensor &weight = batch.tensor(affine, tail), &bias = batch.tensor(affine, tail), &mean = batch.tensor("f64", outer), &scale = batch.tensor("f64", outer);
  x.fill(11), weight.fill(12), bias.fill(13);
  if (element != "bf16")
    x.fillWith([&, y = x](const Index &i) { return y.get(i) + 20; });
  std::vector<Tensor *> args{&x};
  if (hasWeight)
    args.push_back(&weight);
  if (hasBias)
    args.push_back(&bias);
  args.push_back(&out);
  rowStatistics(x, c.axes, rms, mean, scale);
  batch.add("norm", args, 1, normConfig(rms, c.axes, hasWeight, hasBias), "", [=, &x, &out, &weight, &bias, &mean, &scale] {
    auto expected = [&](const Index &i) {
      Index row(i.begin(), i.begin() + outer.size()), j(i.begin() + outer.size(), i.end());
      double y = (x.get(i) - mean.get(row)) * scale.get(row);
      return y * (hasWeight ? weight.get(j) : 1) + (hasBias ? bias.get(j) : 0);
    };
    expectElements(out, expected, toleranceOf(element));
  });
}

TEST(HostNorm, EveryTypeAndShape) {
  KernelBatch batch;
  for (const std::string element : {"f64", "f32", "f16", "bf16"})
    for (const NormCase &c : kNormCases)
      for (bool rms : {false, true})
        addNorm(batch, c, element, rms, true, !rms, element);
  batch.run();
}

TEST(HostNorm, OptionalWeightAndBias) {
  KernelBatch batch;
  for (const NormCase &c : {kNormCases[1], kNormCases[4], kNormCases[7]})
    for (bool weight : {false, true})
      for (bool bias : {false, true})
        for (bool rms : {false, true})
          addNorm(batch, c, "f32", rms, weight, bias, "f32");
  batch.run();
}

TEST(HostNorm, WeightsOfAnotherType) {
  KernelBatch batch;
  for (const NormCase &c : {kNormCases[1], kNormCases[7]}) {
    addNorm(batch, c, "bf16", false, true, true, "f32");
    addNorm(batch, c, "f32", true, true, false, "f16");
    addNorm(batch, c, "f32", false, true, true, "f8E4M3FN");
  }
  batch.run();
}

TEST(HostNorm, NanStaysInItsRow) {
  Tensor x("f32", {3, 16}), out("f32", {3, 16});
  x.fill(1).set({1, 5}, kNan);
  runKernel("norm", {&x, &out}, 1, normConfig(false, 1, false, false));
  out.forEach([&](const Index &i) { EXPECT_EQ(std::isnan(out.get(i)), i[0] == 1); });
}

//===-- Reductions --------------------------------------------------------------------------------===//

struct ReduceCase {
  Index shape, strides, axes;
};

const ReduceCase kReduceCases[] = {
    {{7}, {}, {0}},
    {{4, 33}, {}, {1}},
    {{4, 33}, {}, {0}},
    {{4, 33}, {1, 4}, {1}},
    {{4, 33}, {1, 4}, {0}},
    {{3, 4, 5}, {}, {0, 2}},
    {{3, 4, 5}, {}, {1}},
    {{3, 4, 5}, {40, 1, 8}, {2}},
    {{3, 4, 5}, {}, {0, 1, 2}},
    {{2, 1500}, {}, {1}},
    {{1500, 2}, {}, {0}},
    {{3, 700}, {}, {0}},
    {{3, 0}, {}, {1}},
    {{0, 3}, {}, {1}},
    {{3, 4}, {}, {}},
};

double combine(const std::string &kind, double a, double b) {
  if (kind == "sum" || kind == "mean")
    return a + b;
  if (kind == "prod")
    return a * b;
  if (std::isnan(a) || std::isnan(b))
    return kNan;
  return kind == "max" || kind == "any" ? std::max(a, b) : std::min(a, b);
}

double identity(const std::string &kind, const std::string &element) {
  if (kind == "sum" || kind == "mean" || kind == "any")
    return 0;
  if (kind == "prod" || kind == "all")
    return 1;
  if (element == "i1")
    return kind == "min";
  return kind == "max" ? -kInf : kInf;
}

std::string listText(const Index &values) {
  std::string text;
  for (int64_t v : values)
    text += (text.empty() ? "" : ", ") + std::to_string(v);
  return values.empty() ? "array<i64>" : "array<i64: " + text + ">";
}

/// The reduction of every result at once, in double.
void reduceInto(const Tensor &x, Tensor &results, const std::string &kind) {
  results.fillWith([&](const Index &) { return identity(kind, x.element); });
  x.forEach([&](const Index &j) {
    Index at = clampToShape(j, results.shape);
    results.set(at, combine(kind, results.get(at), x.get(j)));
  });
  if (kind == "mean")
    results.fillWith([&, sums = results](const Index &i) { return sums.get(i) * results.count() / x.count(); });
}

void addReduce(KernelBatch &batch, const ReduceCase &c, const std::string &element, const std::string &kind, double tolerance) {
  Index outShape = c.shape;
  for (int64_t axis : c.axes)
    outShape[axis] = 1;
  Tensor &x = batch.tensor(element, c.shape, c.strides), &out = batch.tensor(element, outShape), &expected = batch.tensor("f64", outShape);
  bool empty = x.count() == 0 && out.count() > 0;
  if (empty && !isFloatElement(element) && element != "i1" && (kind == "max" || kind == "min"))
    return; // the identity is the smallest 64-bit integer, whatever the type keeps of it
  x.fill(21);
  if (kind == "prod" && element != "i1") // stays representable
    x.fillWith([&, y = x](const Index &i) { return y.get(i) < 0 ? -1.0 : 1.0; });
  if (kind == "sum" && !isFloatElement(element))
    x.fillWith([&, y = x](const Index &i) -> double { return static_cast<int>(y.get(i)) % 2; });
  reduceInto(x, expected, kind);
  batch.add("reduce", {&x, &out}, 1, "kind = \"" + kind + "\", axes = " + listText(c.axes), "", [=, &out, &expected] {
    auto wrapped = [&](const Index &i) -> double {
      double value = expected.get(i);
      return element == "i8" ? static_cast<int8_t>(static_cast<int>(value)) : element == "ui8" ? static_cast<uint8_t>(static_cast<int>(value)) : value;
    };
    expectElements(out, wrapped, tolerance);
  });
}

TEST(HostReduce, Floats) {
  KernelBatch batch;
  for (const std::string element : {"f64", "f32", "f16", "bf16"})
    for (const ReduceCase &c : kReduceCases)
      for (const std::string kind : {"sum", "mean", "prod", "max", "min"})
        addReduce(batch, c, element, kind, toleranceOf(element) / 2);
  batch.run();
}

TEST(HostReduce, IntegersAndBooleans) {
  KernelBatch batch;
  for (const ReduceCase &c : kReduceCases) {
    for (const std::string element : {"i64", "i32", "i16", "i8", "ui8"})
      for (const std::string kind : {"sum", "prod", "max", "min"})
        addReduce(batch, c, element, kind, 0);
    addReduce(batch, c, "i1", "any", 0);
    addReduce(batch, c, "i1", "all", 0);
  }
  batch.run();
}

TEST(HostReduce, NanPropagatesThroughMaxAndMin) {
  for (const std::string kind : {"max", "min"})
    for (Index axes : {Index{0}, Index{1}})
      for (int64_t where : {0, 7, 39}) {
        Tensor x("f32", {40, 40}), out("f32", axes[0] == 0 ? Index{1, 40} : Index{40, 1});
        x.fill(4).set({where, where}, kNan);
        runKernel("reduce", {&x, &out}, 1, "kind = \"" + kind + "\", axes = " + listText(axes));
        out.forEach([&](const Index &i) { EXPECT_EQ(std::isnan(out.get(i)), i[1 - axes[0]] == where); });
      }
}

TEST(HostReduce, LongSumsKeepTheirDigits) {
  for (Index shape : {Index{1, 1 << 20}, Index{1 << 20, 1}}) {
    Tensor x("f32", {shape[0], shape[1]}, shape[0] == 1 ? Index{} : Index{2, 1}), out("f32", {1, 1});
    x.fillWith([](const Index &) { return 0.1; });
    runKernel("reduce", {&x, &out}, 1, "kind = \"sum\", axes = array<i64: 0, 1>");
    EXPECT_EQ(out.get({0, 0}), static_cast<float>((1 << 20) * static_cast<double>(0.1f)));
  }
}

} // namespace
