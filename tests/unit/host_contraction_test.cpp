// SPDX-License-Identifier: Apache-2.0
//
// Convolutions and the generic matrix product on the host against plain loops.
#include "HostHarness.h"

#include <gtest/gtest.h>

using namespace ditc;
using namespace ditc::test;

namespace {

double toleranceOf(const std::string &element) {
  if (element == "f64")
    return 1e-12;
  return element == "f32" ? 1e-5 : element == "f16" ? 2e-3 : 1e-2;
}

std::string listText(const Index &values) {
  std::string text;
  for (int64_t v : values)
    text += (text.empty() ? "" : ", ") + std::to_string(v);
  return "array<i64: " + text + ">";
}

struct ConvCase {
  Index input, filter, steps, low, high, dilations;
  int64_t groups = 1;
  Index stridesIn = {}, stridesFilter = {}, stridesOut = {};
};

Index outputShape(const ConvCase &c) {
  Index shape{c.input[0], c.filter[0]};
  for (size_t d = 0; d < c.steps.size(); ++d)
    shape.push_back((c.input[d + 2] + c.low[d] + c.high[d] - c.dilations[d] * (c.filter[d + 2] - 1) - 1) / c.steps[d] + 1);
  return shape;
}

double convElement(const ConvCase &c, const Tensor &in, const Tensor &filter, const Index &at) {
  double sum = 0;
  int64_t perGroup = c.filter[0] / c.groups;
  Tensor window(std::string("i1"), Index(c.filter.begin() + 1, c.filter.end()));
  window.forEach([&](const Index &w) {
    Index from{at[0], at[1] / perGroup * c.filter[1] + w[0]}, tap{at[1], w[0]};
    for (size_t d = 0; d < c.steps.size(); ++d) {
      int64_t position = at[d + 2] * c.steps[d] + w[d + 1] * c.dilations[d] - c.low[d];
      if (position < 0 || position >= c.input[d + 2])
        return;
      from.push_back(position);
      tap.push_back(w[d + 1]);
    }
    sum += in.get(from) * filter.get(tap);
  });
  return sum;
}

void addConv(KernelBatch &batch, const ConvCase &c, const std::string &element, bool hasBias) {
  Tensor &in = batch.tensor(element, c.input, c.stridesIn), &filter = batch.tensor(element, c.filter, c.stridesFilter);
  Tensor &bias = batch.tensor(element, {c.filter[0]}), &out = batch.tensor(element, outputShape(c), c.stridesOut);
  in.fill(1), filter.fill(2), bias.fill(3);
  std::vector<Tensor *> args{&in, &filter};
  if (hasBias)
    args.push_back(&bias);
  args.push_back(&out);
  std::string config = "strides = " + listText(c.steps) + ", padding_low = " + listText(c.low) + ", padding_high = " + listText(c.high) + ", dilations = " + listText(c.dilations) +
                       ", groups = " + std::to_string(c.groups) + " : i64, has_bias = " + (hasBias ? "true" : "false");
  batch.add("conv", args, 1, config, "", [=, &c, &in, &filter, &bias, &out] {
    expectElements(out, [&](const Index &i) { return convElement(c, in, filter, i) + (hasBias ? bias.get({i[1]}) : 0); }, toleranceOf(element));
  });
}

const ConvCase kConvCases[] = {
    {{1, 3, 8, 8}, {5, 3, 1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
    {{2, 3, 9, 7}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {{1, 4, 16, 16}, {20, 4, 2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}},                   // patches
    {{1, 2, 11, 12}, {3, 2, 3, 2}, {2, 3}, {2, 1}, {0, 4}, {2, 1}},                    // everything uneven
    {{2, 6, 5, 5}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2},                   // groups
    {{1, 4, 6, 6}, {4, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 4},                   // depthwise
    {{2, 3, 20}, {4, 3, 5}, {1}, {4}, {0}, {1}},                                       // one dimension, causal
    {{1, 2, 4, 5, 6}, {3, 2, 2, 3, 3}, {1, 2, 1}, {0, 1, 1}, {1, 1, 1}, {1, 1, 2}},    // three
    {{1, 30, 12, 12}, {300, 30, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},                // several tiles and pieces
    {{1, 3, 6, 5}, {2, 3, 2, 2}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 1, {90, 1, 15, 3}, {1, 2, 12, 6}, {40, 1, 8, 2}}, // channels last
    {{1, 1, 2, 2}, {1, 1, 3, 3}, {1, 1}, {5, 5}, {5, 5}, {1, 1}},                      // windows wholly in the border
};

TEST(HostConv, EveryShapeAndType) {
  KernelBatch batch;
  for (const ConvCase &c : kConvCases) {
    addConv(batch, c, "f32", true);
    addConv(batch, c, "bf16", false);
  }
  for (const std::string element : {"f64", "f16"})
    addConv(batch, kConvCases[3], element, true);
  batch.run();
}

//===-- Matrix products ---------------------------------------------------------------------------===//

void addMatmul(KernelBatch &batch, const std::string &element, const Index &a, const Index &b, const Index &stridesA, const Index &stridesB) {
  Index shape = a;
  shape.back() = b.back();
  Tensor &left = batch.tensor(element, a, stridesA), &right = batch.tensor(element, b, stridesB), &out = batch.tensor(element, shape);
  left.fill(1), right.fill(2);
  if (element == "i8" || element == "i16" || element == "ui8")
    left.fillWith([](const Index &i) { return i.back() % 3 == 0; }), right.fillWith([](const Index &i) { return i.back() % 2; });
  batch.add("matmul", {&left, &right, &out}, 1, "", "", [=, &left, &right, &out] {
    size_t rank = a.size();
    auto product = [&](const Index &i) {
      double sum = 0;
      for (int64_t k = 0; k < a.back(); ++k) {
        Index l = i, r = i;
        l[rank - 1] = k, r[rank - 2] = k;
        sum += left.get(l) * right.get(r);
      }
      return sum;
    };
    expectElements(out, product, isFloatElement(element) ? toleranceOf(element) : 0);
  });
}

TEST(HostMatmul, TypesAndStrides) {
  KernelBatch batch;
  for (const std::string element : {"i64", "i32", "i16", "i8", "ui8", "f32", "f64", "f16", "bf16", "f8E4M3FN"}) {
    addMatmul(batch, element, {3, 4}, {4, 5}, {}, {});
    addMatmul(batch, element, {3, 4}, {4, 5}, {1, 3}, {1, 4});
    addMatmul(batch, element, {2, 40, 150}, {2, 150, 70}, {}, {0, 70, 1});
    addMatmul(batch, element, {2, 3, 1, 7}, {2, 3, 7, 1}, {}, {});
    addMatmul(batch, element, {2, 0}, {0, 3}, {}, {});
  }
  batch.run();
}

TEST(HostMatmul, IntegersWrap) {
  Tensor a("i64", {1, 2}), b("i64", {2, 1}), out("i64", {1, 1});
  a.fillWith([](const Index &) { return 0x1p62; }), b.fillWith([](const Index &) { return 2; });
  runKernel("matmul", {&a, &b, &out}, 1, "");
  EXPECT_EQ(out.getInteger({0, 0}), 0);
}

} // namespace
