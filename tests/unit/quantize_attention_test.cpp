// SPDX-License-Identifier: Apache-2.0
//
// QuantizeAttention by numbers: the reference evaluator computes attention before and after the pass, and both are compared with
// the formula in double.
#include "QuantizedFormula.h"
#include "dialects/reference/Evaluate.h"
#include "passes/Passes.h"

#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>

using namespace mlir;

namespace ditc {
namespace {

using dit::TensorValue;
using llvm::formatv;
using llvm::make_range;
using test::QuantizedFormula;
using test::relativeL2;

constexpr int64_t kHeads = 4, kQueries = 40, kKeys = 96, kDim = 64, kValueDim = 32;
constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
/// Rounding to f16 and f32, and what they put on the other side of a tie.
constexpr double kTolerance = 1e-3;

class QuantizeAttention : public testing::Test {
protected:
  QuantizeAttention() {
    context.loadDialect<dit::DitDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect>();
    q = numbers(kHeads * kQueries * kDim, 1);
    k = numbers(kHeads * kKeys * kDim, 2);
    v = numbers(kHeads * kKeys * kValueDim, 3);
  }

  /// Normal, and in f16.
  static std::vector<double> numbers(int64_t count, unsigned seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(static_cast<_Float16>(normal(generator)));
    return values;
  }

  TensorValue tensor(std::vector<int64_t> shape, Type element, const std::vector<double> &values) {
    TensorValue value = TensorValue::zeros(RankedTensorType::get(shape, element));
    for (size_t i = 0; i < values.size(); ++i)
      if (element.isInteger(1))
        (*value.bytes)[i] = values[i] != 0;
      else
        reinterpret_cast<uint16_t *>(value.bytes->data())[i] = std::bit_cast<uint16_t>(static_cast<_Float16>(values[i]));
    return value;
  }

  std::vector<double> attention(bool isQuantized) {
    auto type = [](std::initializer_list<int64_t> shape, const char *element) { return formatv("tensor<1x{0:$[x]}x{1}>", make_range(shape.begin(), shape.end()), element).str(); };
    std::string query = type({kHeads, kQueries, kDim}, "f16"), key = type({keyHeads, kKeys, kDim}, "f16"), value = type({keyHeads, kKeys, kValueDim}, "f16"),
                mask = type({1, kQueries, kKeys}, "i1"), result = type({kHeads, kQueries, kValueDim}, "f16"), cap = softCap > 0 ? formatv("soft_cap {0:f1}", softCap).str() : "";
    std::string text = formatv("func.func @f(%q: {0}, %k: {1}, %v: {2}, %m: {3}) -> {4} {{\n"
                               "  %o = dit.attention %q, %k, %v mask %m scale 0.125 {5} : ({0}, {1}, {2}, {3}) -> {4}\n  return %o : {4}\n}",
                               query, key, value, mask, result, cap);
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    PassManager pm(&context);
    pm.addNestedPass<func::FuncOp>(createQuantizeAttention({.skip = {}, .only = {"*"}}));
    EXPECT_TRUE(!isQuantized || succeeded(pm.run(*module)));
    Type f16 = Float16Type::get(&context);
    auto results = dit::evaluateFunction(*module->getOps<func::FuncOp>().begin(),
                                         {tensor({1, kHeads, kQueries, kDim}, f16, q), tensor({1, keyHeads, kKeys, kDim}, f16, k), tensor({1, keyHeads, kKeys, kValueDim}, f16, v),
                                          tensor({1, 1, kQueries, kKeys}, IntegerType::get(&context, 1), seen)},
                                         [](StringRef) { return TensorValue(); });
    std::vector<double> values;
    for (int64_t i = 0; succeeded(results) && i < kHeads * kQueries * kValueDim; ++i)
      values.push_back(results->front().at(i));
    return values;
  }

  std::vector<double> formula(bool isQuantized) const {
    QuantizedFormula formula{kHeads, keyHeads, kQueries, kKeys, kDim, kValueDim, 0.125, softCap, [&](int64_t, int64_t i, int64_t j) { return seen[i * kKeys + j] != 0 ? 0 : -kInf; }};
    return formula.evaluate(q, k, v, isQuantized);
  }

  static std::vector<double> row(const std::vector<double> &values, int64_t head, int64_t query) {
    auto first = values.begin() + (head * kQueries + query) * kValueDim;
    return {first, first + kValueDim};
  }

  MLIRContext context;
  int64_t keyHeads = kHeads;
  double softCap = 0;
  std::vector<double> q, k, v, seen = std::vector<double>(kQueries * kKeys, 1);
};

TEST_F(QuantizeAttention, IsNearAttention) {
  std::vector<double> got = attention(true), exact = attention(false);
  EXPECT_LT(relativeL2(exact, formula(false)), 1e-3);
  EXPECT_LT(relativeL2(got, formula(true)), kTolerance);
  EXPECT_LT(relativeL2(got, exact), 0.045);
  EXPECT_GT(relativeL2(got, exact), 0.01); // it is quantised
}

TEST_F(QuantizeAttention, WhatAllKeysShareCostsNothing) {
  for (size_t i = 0; i < k.size(); ++i)
    k[i] = static_cast<_Float16>(k[i] + (i % kDim % 5 == 0 ? 48.0 : i % kDim % 5 == 1 ? -48.0 : 0.0));
  std::vector<double> got = attention(true);
  EXPECT_LT(relativeL2(got, formula(true)), kTolerance);
  EXPECT_LT(relativeL2(got, formula(false)), 0.045);
}

TEST_F(QuantizeAttention, RowsAndChannelsHaveScalesOfTheirOwn) {
  for (int64_t c = 0; c < kDim; ++c)
    q[5 * kDim + c] = static_cast<_Float16>(q[5 * kDim + c] * 0.01);
  for (int64_t j = 0; j < kHeads * kKeys; ++j)
    v[j * kValueDim + 3] *= 1024;
  std::vector<double> got = attention(true), exact = formula(false);
  EXPECT_LT(relativeL2(row(got, 0, 5), row(exact, 0, 5)), 0.06);
  for (int64_t e = 0; e < kValueDim; ++e) {
    std::vector<double> of, expected;
    for (size_t i = e; i < got.size(); i += kValueDim)
      of.push_back(got[i]), expected.push_back(exact[i]);
    EXPECT_LT(relativeL2(of, expected), 0.06) << "channel " << e;
  }
}

TEST_F(QuantizeAttention, HeadsShareKeys) {
  keyHeads = 2;
  k.resize(keyHeads * kKeys * kDim), v.resize(keyHeads * kKeys * kValueDim);
  EXPECT_LT(relativeL2(attention(true), formula(true)), kTolerance);
}

TEST_F(QuantizeAttention, RowsWithoutKeysAreZero) {
  std::fill_n(seen.begin() + 7 * kKeys, kKeys, 0.0);
  std::fill_n(seen.begin() + 8 * kKeys, kKeys - 1, 0.0);
  v[9] = kInf;
  std::vector<double> got = attention(true);
  for (int64_t head = 0; head < kHeads; ++head)
    for (double x : row(got, head, 7))
      EXPECT_EQ(x, 0);
  EXPECT_LT(relativeL2(row(got, 1, 8), row(formula(true), 1, 8)), kTolerance);
}

TEST_F(QuantizeAttention, NanAndInfinityReachWhatSeesThem) {
  q[3 * kDim + 1] = kNan;               // head 0, query 3
  q[(kQueries + 4) * kDim + 2] = kInf;  // head 1, query 4
  v[2 * kKeys * kValueDim + 6] = kNan;  // head 2, channel 6
  k[(3 * kKeys + 5) * kDim + 9] = kNan; // head 3, by the mean of its keys
  std::vector<double> got = attention(true);
  for (int64_t head = 0; head < kHeads; ++head)
    for (int64_t i = 0; i < kQueries; ++i)
      for (int64_t e = 0; e < kValueDim; ++e)
        EXPECT_EQ(std::isnan(row(got, head, i)[e]), (head == 0 && i == 3) || (head == 1 && i == 4) || (head == 2 && e == 6) || head == 3) << head << " " << i << " " << e;
}

} // namespace
} // namespace ditc
