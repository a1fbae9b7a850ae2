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

const std::vector<std::string> kElements = {"f64", "f32", "f16", "bf16", "f8E4M3FN", "i64", "i32", "i16", "i8", "ui8", "i1"};

Index joined(std::initializer_list<Index> parts) {
  Index result;
  for (const Index &part : parts)
    result.insert(result.end(), part.begin(), part.end());
  return result;
}

void addGather(KernelBatch &batch, const std::string &element, const Index &tableShape, const Index &tableStrides, const Index &indexShape, int64_t axis, const std::string &indexElement) {
  Index before(tableShape.begin(), tableShape.begin() + axis), behind(tableShape.begin() + axis + 1, tableShape.end());
  Tensor &table = batch.tensor(element, tableShape, tableStrides), &indices = batch.tensor(indexElement, indexShape);
  Tensor &out = batch.tensor(element, joined({before, indexShape, behind}));
  table.fill(1);
  indices.fillWith([&, n = 0](const Index &) mutable { return (n += 5) % (tableShape[axis] + 3) - (indexElement == "ui8" ? 0 : 1); }); // some outside
  batch.add("gather", {&table, &indices, &out}, 1, "axis = " + std::to_string(axis) + " : i64", "", [=, &table, &indices, &out] {
    expectElements(out, [&](const Index &i) {
      auto first = i.begin() + axis, last = first + indexShape.size();
      int64_t row = std::clamp<int64_t>(indices.getInteger(Index(first, last)), 0, tableShape[axis] - 1);
      return table.get(joined({Index(i.begin(), first), {row}, Index(last, i.end())}));
    });
  });
}

TEST(HostGather, TypesShapesAndAxes) {
  KernelBatch batch;
  for (const std::string &element : kElements) {
    addGather(batch, element, {10, 33}, {}, {4}, 0, "i64");
    addGather(batch, element, {10, 33}, {1, 10}, {2, 3}, 0, "i32");
    addGather(batch, element, {5, 7, 3}, {}, {4}, 1, "i16");
    addGather(batch, element, {5, 7}, {}, {2, 2}, 1, "ui8");
    addGather(batch, element, {7}, {}, {}, 0, "i8");
    addGather(batch, element, {7, 2}, {}, {0}, 0, "i64");
  }
  batch.run();
}

void addScatter(KernelBatch &batch, const std::string &element, bool add) {
  Tensor &base = batch.tensor(element, {6, 5}, {1, 6}), &indices = batch.tensor("i64", {8}), &updates = batch.tensor(element, {8, 5}, {10, 2}), &out = batch.tensor(element, {6, 5});
  base.fill(1), updates.fill(2);
  if (!isFloatElement(element) && element != "i1") { // sums stay in range
    base.fillWith([](const Index &i) { return i[0]; });
    updates.fillWith([](const Index &i) { return i[0] + i[1]; });
  }
  const Index order{3, -1, 0, 3, 5, 6, 3, 0};
  indices.fillWith([&](const Index &i) -> double { return order[i[0]]; });
  batch.add("scatter", {&base, &indices, &updates, &out}, 1, std::string("add = ") + (add ? "true" : "false"), "", [=, &base, &updates, &out] {
    expectElements(out, [&](const Index &i) {
      double value = base.get(i);
      for (int64_t m = 0; m < 8; ++m)
        if (order[m] == i[0])
          value = roundTo(element, add ? value + updates.get({m, i[1]}) : updates.get({m, i[1]}));
      return value;
    });
  });
}

TEST(HostScatter, ReplacesAndAddsInOrder) {
  KernelBatch batch;
  for (const std::string &element : kElements) {
    addScatter(batch, element, false);
    addScatter(batch, element, true);
  }
  batch.run();
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
  KernelBatch batch;
  for (const std::string &element : kElements)
    for (const Lines &lines : kLines)
      for (const std::string kind : {"max", "min"}) {
        Tensor &x = batch.tensor(element, lines.shape, lines.stridesIn), &out = batch.tensor("i64", withAxis(lines.shape, lines.axis, 1));
        x.fill(3).fillWith([&, y = x](const Index &i) { return isFloatElement(element) ? std::floor(y.get(i)) : y.get(i); }); // many ties
        batch.add("arg_reduce", {&x, &out}, 1, "kind = \"" + kind + "\", " + axisText(lines), "", [=, &x, &out] {
          expectElements(out, [&](const Index &i) {
            int64_t best = 0;
            for (int64_t n = 1; n < lines.shape[lines.axis]; ++n) {
              double a = x.get(withAxis(i, lines.axis, n)), b = x.get(withAxis(i, lines.axis, best));
              if (kind == "max" ? a > b : a < b)
                best = n;
            }
            return best;
          });
        });
      }
  batch.run();
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
  KernelBatch batch;
  for (const std::string element : {"f64", "f32", "f16", "bf16", "i64", "i32"})
    for (const Lines &lines : kLines)
      for (const std::string kind : {"sum", "prod"}) {
        Tensor &x = batch.tensor(element, lines.shape, lines.stridesIn), &out = batch.tensor(element, lines.shape, lines.stridesOut);
        x.fill(3);
        if (kind == "prod")
          x.fillWith([&, y = x](const Index &i) { return y.get(i) < 0 ? -1.0 : 1.0; });
        batch.add("scan", {&x, &out}, 1, "kind = \"" + kind + "\", " + axisText(lines), "", [=, &x, &out] {
          expectElements(out, [&](const Index &i) {
            double total = kind == "prod";
            for (int64_t n = 0; n <= i[lines.axis]; ++n) {
              double value = x.get(withAxis(i, lines.axis, n));
              total = kind == "prod" ? total * value : total + value;
            }
            return total;
          });
        });
      }
  batch.run();
}

/// The source of each element of one sorted line.
Index sortedOrder(const Tensor &x, const Index &line, int64_t axis, bool descending) {
  std::vector<std::pair<double, int64_t>> entries;
  for (int64_t n = 0; n < x.shape[axis]; ++n)
    entries.push_back({x.get(withAxis(line, axis, n)), n});
  std::sort(entries.begin(), entries.end(), [&](const auto &a, const auto &b) {
    if (isLess(a.first, b.first) || isLess(b.first, a.first))
      return isLess(a.first, b.first) != descending;
    return a.second < b.second;
  });
  Index order;
  for (const auto &entry : entries)
    order.push_back(entry.second);
  return order;
}

void addSort(KernelBatch &batch, const std::string &element, const Lines &lines, bool descending) {
  Tensor &x = batch.tensor(element, lines.shape, lines.stridesIn), &values = batch.tensor(element, lines.shape, lines.stridesOut), &indices = batch.tensor("i64", lines.shape, lines.stridesOut);
  x.fill(5);
  if (isFloatElement(element)) // ties, NaN and infinities
    x.fillWith([&, y = x, n = 0](const Index &i) mutable { return ++n % 11 == 0 ? kNan : n % 13 == 0 ? -kInf : std::floor(y.get(i)); });
  batch.add("sort", {&x, &values, &indices}, 2, axisText(lines) + ", descending = " + (descending ? "true" : "false"), "", [=, &x, &values, &indices] {
    Tensor expected("i64", lines.shape);
    expected.forEach([&](const Index &i) {
      if (i[lines.axis] != 0)
        return;
      Index order = sortedOrder(x, i, lines.axis, descending);
      for (size_t n = 0; n < order.size(); ++n)
        expected.set(withAxis(i, lines.axis, n), order[n]);
    });
    expectElements(indices, [&](const Index &i) { return expected.get(i); });
    expectElements(values, [&](const Index &i) { return x.get(withAxis(i, lines.axis, expected.get(i))); });
  });
}

TEST(HostSort, StableWithNanAsTheLargest) {
  KernelBatch batch;
  for (const std::string &element : kElements)
    for (const Lines &lines : kLines)
      for (bool descending : {false, true})
        addSort(batch, element, lines, descending);
  batch.run();
}

} // namespace
