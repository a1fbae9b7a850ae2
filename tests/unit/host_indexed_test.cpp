// SPDX-License-Identifier: Apache-2.0
//
// Gather, scatter, pad, scans, sorting and the position of extremes on the host.
#include "HostHarness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

using namespace ditc;
using namespace ditc::test;

namespace {

const std::vector<std::string> kElements = {"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "ui8", "i1"};

Index joined(std::initializer_list<Index> parts) {
  Index result;
  for (const Index &part : parts)
    result.insert(result.end(), part.begin(), part.end());
  return result;
}

void checkGather(const std::string &element, const Index &tableShape, const Index &tableStrides, const Index &indexShape, int64_t axis, const std::string &indexElement) {
  Index before(tableShape.begin(), tableShape.begin() + axis), behind(tableShape.begin() + axis + 1, tableShape.end());
  Tensor table(element, tableShape, tableStrides), indices(indexElement, indexShape), out(element, joined({before, indexShape, behind}));
  table.fill(1);
  indices.fillWith([&, n = 0](const Index &) mutable { return (n += 5) % (tableShape[axis] + 3) - (indexElement == "ui8" ? 0 : 1); }); // some outside
  runKernel("gather", {&table, &indices, &out}, 1, "axis = " + std::to_string(axis) + " : i64");
  expectElements(out, [&](const Index &i) {
    Index a(i.begin(), i.begin() + axis), at(i.begin() + axis, i.begin() + axis + indexShape.size()), b(i.begin() + axis + indexShape.size(), i.end());
    int64_t row = std::clamp<int64_t>(indices.getInteger(at), 0, tableShape[axis] - 1);
    return table.get(joined({a, {row}, b}));
  });
}

TEST(HostGather, TypesShapesAndAxes) {
  for (const std::string &element : kElements) {
    checkGather(element, {10, 33}, {}, {4}, 0, "i64");
    checkGather(element, {10, 33}, {1, 10}, {2, 3}, 0, "i32");
    checkGather(element, {5, 7, 3}, {}, {4}, 1, "i16");
    checkGather(element, {5, 7}, {}, {2, 2}, 1, "ui8");
    checkGather(element, {7}, {}, {}, 0, "i8");
    checkGather(element, {7, 2}, {}, {0}, 0, "i64");
  }
}

void checkScatter(const std::string &element, bool add) {
  Tensor base(element, {6, 5}, {1, 6}), indices("i64", {8}), updates(element, {8, 5}, {10, 2}), out(element, {6, 5});
  base.fill(1), updates.fill(2);
  if (!isFloatElement(element) && element != "i1") { // sums stay in range
    base.fillWith([](const Index &i) { return i[0]; });
    updates.fillWith([](const Index &i) { return i[0] + i[1]; });
  }
  const int64_t order[] = {3, -1, 0, 3, 5, 6, 3, 0};
  indices.fillWith([&](const Index &i) -> double { return order[i[0]]; });
  runKernel("scatter", {&base, &indices, &updates, &out}, 1, std::string("add = ") + (add ? "true" : "false"));
  expectElements(out, [&](const Index &i) {
    double value = base.get(i);
    for (int64_t m = 0; m < 8; ++m)
      if (order[m] == i[0])
        value = roundTo(element, add ? value + updates.get({m, i[1]}) : updates.get({m, i[1]}));
    return value;
  });
}

TEST(HostScatter, ReplacesAndAddsInOrder) {
  for (const std::string &element : kElements) {
    checkScatter(element, false);
    checkScatter(element, true);
  }
}

TEST(HostPad, EveryTypeWithItsValue) {
  for (const std::string &element : kElements) {
    Tensor x(element, {3, 4}, {1, 3}), out(element, {6, 4}, {5, 1});
    x.fill(1);
    std::string value = isFloatElement(element) ? "-1.5 : " + element : element == "i1" ? "true" : (element == "ui8" ? "200 : ui8" : "-7 : " + element);
    double number = isFloatElement(element) ? -1.5 : element == "i1" ? 1 : element == "ui8" ? 200 : -7;
    runKernel("pad", {&x, &out}, 1, "low = array<i64: 2, 0>, high = array<i64: 1, 0>, value = " + value);
    expectElements(out, [&](const Index &i) { return i[0] >= 2 && i[0] < 5 ? x.get({i[0] - 2, i[1]}) : number; });
  }
}

TEST(HostPad, ThreeDimensionsAndAnEmptyInput) {
  Tensor x("f32", {2, 3, 4}), out("f32", {3, 5, 7}), none("f32", {0, 3}), filled("f32", {2, 3});
  x.fill(1);
  runKernel("pad", {&x, &out}, 1, "low = array<i64: 0, 1, 2>, high = array<i64: 1, 1, 1>, value = 0.25 : f32");
  expectElements(out, [&](const Index &i) { return i[0] < 2 && i[1] >= 1 && i[1] < 4 && i[2] >= 2 && i[2] < 6 ? x.get({i[0], i[1] - 1, i[2] - 2}) : 0.25; });
  runKernel("pad", {&none, &filled}, 1, "low = array<i64: 2, 0>, high = array<i64: 0, 0>, value = 3.0 : f32");
  expectElements(filled, [](const Index &) { return 3; });
}

//===-- Along one axis ----------------------------------------------------------------------------===//

struct Lines {
  Index shape, stridesIn, stridesOut;
  int64_t axis;
};
const Lines kLines[] = {{{9}, {}, {}, 0}, {{4, 33}, {}, {}, 1}, {{4, 33}, {}, {}, 0}, {{3, 4, 5}, {1, 3, 12}, {40, 1, 8}, 1}, {{2, 1100}, {}, {}, 1}, {{1, 1}, {}, {}, 0}};

Index withAxis(Index index, int64_t axis, int64_t value) {
  index[axis] = value;
  return index;
}

std::string axisText(const Lines &lines) { return "axis = " + std::to_string(lines.axis) + " : i64"; }

/// Orders numbers with NaN above all.
bool isLess(double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); }

TEST(HostArgReduce, FirstExtremeWins) {
  for (const std::string &element : kElements)
    for (const Lines &lines : kLines)
      for (const std::string kind : {"max", "min"}) {
        Tensor x(element, lines.shape, lines.stridesIn), out("i64", withAxis(lines.shape, lines.axis, 1));
        x.fill(3).fillWith([&, y = x](const Index &i) { return isFloatElement(element) ? std::floor(y.get(i)) : y.get(i); }); // many ties
        runKernel("arg_reduce", {&x, &out}, 1, "kind = \"" + kind + "\", " + axisText(lines));
        expectElements(out, [&](const Index &i) {
          int64_t best = 0;
          for (int64_t n = 1; n < lines.shape[lines.axis]; ++n) {
            double a = x.get(withAxis(i, lines.axis, n)), b = x.get(withAxis(i, lines.axis, best));
            if (kind == "max" ? a > b : a < b)
              best = n;
          }
          return best;
        });
      }
}

TEST(HostArgReduce, NanIsTheExtreme) {
  for (const std::string kind : {"max", "min"}) {
    Tensor x("f32", {20}), out("i64", {1});
    x.fill(1).set({13}, kNan);
    x.set({17}, kNan);
    runKernel("arg_reduce", {&x, &out}, 1, "kind = \"" + kind + "\", axis = 0 : i64");
    EXPECT_EQ(out.get({0}), 13);
  }
}

TEST(HostScan, SumsAndProducts) {
  for (const std::string element : {"f64", "f32", "f16", "bf16", "i64", "i32"})
    for (const Lines &lines : kLines)
      for (const std::string kind : {"sum", "prod"}) {
        Tensor x(element, lines.shape, lines.stridesIn), out(element, lines.shape, lines.stridesOut);
        x.fill(3);
        if (kind == "prod")
          x.fillWith([&, y = x](const Index &i) { return y.get(i) < 0 ? -1.0 : 1.0; });
        runKernel("scan", {&x, &out}, 1, "kind = \"" + kind + "\", " + axisText(lines));
        expectElements(out, [&](const Index &i) {
          double total = kind == "prod";
          for (int64_t n = 0; n <= i[lines.axis]; ++n) {
            double value = x.get(withAxis(i, lines.axis, n));
            total = kind == "prod" ? total * value : total + value;
          }
          return total;
        });
      }
}

void checkSort(const std::string &element, const Lines &lines, bool descending) {
  Tensor x(element, lines.shape, lines.stridesIn), values(element, lines.shape, lines.stridesOut), indices("i64", lines.shape, lines.stridesOut);
  x.fill(5);
  if (isFloatElement(element)) // ties, NaN and infinities
    x.fillWith([&, y = x, n = 0](const Index &i) mutable { return ++n % 11 == 0 ? kNan : n % 13 == 0 ? -kInf : std::floor(y.get(i)); });
  runKernel("sort", {&x, &values, &indices}, 2, axisText(lines) + ", descending = " + (descending ? "true" : "false"));
  auto expected = [&](const Index &i) {
    std::vector<int64_t> order(lines.shape[lines.axis]);
    std::iota(order.begin(), order.end(), 0);
    auto at = [&](int64_t n) { return x.get(withAxis(i, lines.axis, n)); };
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return descending ? isLess(at(b), at(a)) : isLess(at(a), at(b)); });
    return order[i[lines.axis]];
  };
  expectElements(indices, [&](const Index &i) { return i[lines.axis] % 7 && x.count() > 1000 ? indices.get(i) : expected(i); }); // a sample of long lines
  expectElements(values, [&](const Index &i) { return x.get(withAxis(i, lines.axis, indices.get(i))); });
}

TEST(HostSort, StableWithNanAsTheLargest) {
  for (const std::string &element : kElements)
    for (const Lines &lines : {kLines[0], kLines[1], kLines[3], kLines[5]})
      for (bool descending : {false, true})
        checkSort(element, lines, descending);
  checkSort("f32", kLines[4], false);
  checkSort("i32", kLines[4], true);
}

} // namespace
