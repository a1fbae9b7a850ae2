// SPDX-License-Identifier: Apache-2.0
//
// QuantizeProducts by numbers: the reference evaluator computes a product before and after the pass.
#include "dialects/reference/Evaluate.h"
#include "passes/Passes.h"

#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

using namespace mlir;

namespace ditc {
namespace {

using dit::TensorValue;

constexpr int64_t kRows = 24, kDepth = 64, kColumns = 16;
constexpr const char *kLinear = R"(
func.func @f(%x: tensor<24x64xbf16>) -> tensor<24x16xbf16> {
  %w = dit.weight "w" : tensor<16x64xbf16>
  %b = dit.weight "b" : tensor<16xbf16>
  %y = dit.matmul %x, %w bias %b transpose_rhs : (tensor<24x64xbf16>, tensor<16x64xbf16>, tensor<16xbf16>) -> tensor<24x16xbf16>
  return %y : tensor<24x16xbf16>
})";

class QuantizeProducts : public testing::Test {
protected:
  QuantizeProducts() {
    context.loadDialect<dit::DitDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect>();
    x = numbers(kRows * kDepth, 1);
    w = numbers(kColumns * kDepth, 2);
    b = numbers(kColumns, 3);
  }

  static std::vector<float> numbers(int64_t count, unsigned seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    std::ranges::generate(values, [&] { return normal(generator); });
    return values;
  }

  TensorValue tensor(std::vector<int64_t> shape, const std::vector<float> &values) {
    TensorValue value = TensorValue::zeros(RankedTensorType::get(shape, BFloat16Type::get(&context)));
    auto *bits = reinterpret_cast<uint16_t *>(value.bytes->data());
    for (size_t i = 0; i < values.size(); ++i)
      bits[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(values[i]) >> 16);
    return value;
  }

  std::vector<double> product(bool isQuantized) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(kLinear, &context);
    PassManager pm(&context);
    pm.addNestedPass<func::FuncOp>(createQuantizeProducts({.skip = {}, .only = {"*"}}));
    EXPECT_TRUE(!isQuantized || succeeded(pm.run(*module)));
    auto weight = [&](StringRef name) { return name == "w" ? tensor({kColumns, kDepth}, w) : tensor({kColumns}, b); };
    FailureOr<SmallVector<TensorValue>> results = dit::evaluateFunction(*module->getOps<func::FuncOp>().begin(), {tensor({kRows, kDepth}, x)}, weight);
    std::vector<double> values;
    for (int64_t i = 0; succeeded(results) && i < kRows * kColumns; ++i)
      values.push_back(results->front().at(i));
    return values;
  }

  /// Of rows [from, to).
  static double relativeL2(const std::vector<double> &got, const std::vector<double> &expected, int64_t from = 0, int64_t to = kRows) {
    double error = 0, all = 0;
    for (int64_t i = from * kColumns; i < to * kColumns; ++i) {
      error += (got[i] - expected[i]) * (got[i] - expected[i]);
      all += expected[i] * expected[i];
    }
    return std::sqrt(error / all);
  }

  float *row(int64_t i) { return &x[i * kDepth]; }

  MLIRContext context;
  std::vector<float> x, w, b;
};

TEST_F(QuantizeProducts, IsNearTheProduct) {
  double error = relativeL2(product(true), product(false));
  EXPECT_LT(error, 0.05);
  EXPECT_GT(error, 0.01); // it is quantised
}

TEST_F(QuantizeProducts, RowsHaveScalesOfTheirOwn) {
  std::ranges::fill(b, 0.0f);
  for (int64_t k = 0; k < kDepth; ++k)
    row(3)[k] *= 1e-6f, row(4)[k] *= 1e6f, w[5 * kDepth + k] *= 1e-3f;
  std::vector<double> got = product(true), expected = product(false);
  for (int64_t i = 0; i < kRows; ++i)
    EXPECT_LT(relativeL2(got, expected, i, i + 1), 0.08) << "row " << i;
  for (int64_t i = 0; i < kRows; ++i)
    EXPECT_NEAR(got[i * kColumns + 5] / (i == 4 ? 1e6 : 1), expected[i * kColumns + 5] / (i == 4 ? 1e6 : 1), 2e-3) << "row " << i;
}

TEST_F(QuantizeProducts, RowsOfZerosGiveTheBias) {
  std::fill_n(row(7), kDepth, 0.0f);
  std::fill_n(&w[2 * kDepth], kDepth, -0.0f);
  std::vector<double> got = product(true), expected = product(false);
  for (int64_t n = 0; n < kColumns; ++n)
    EXPECT_EQ(got[7 * kColumns + n], expected[7 * kColumns + n]);
  for (int64_t m = 0; m < kRows; ++m)
    EXPECT_EQ(got[m * kColumns + 2], expected[m * kColumns + 2]);
}

TEST_F(QuantizeProducts, InfinityAndNanStayInTheirRow) {
  row(1)[5] = std::numeric_limits<float>::infinity();
  row(2)[9] = std::numeric_limits<float>::quiet_NaN();
  std::vector<double> got = product(true), expected = product(false);
  for (int64_t n = 0; n < kColumns; ++n) {
    EXPECT_TRUE(std::isnan(got[1 * kColumns + n]));
    EXPECT_TRUE(std::isnan(got[2 * kColumns + n]));
  }
  EXPECT_LT(relativeL2(got, expected, 3), 0.05);
}

} // namespace
} // namespace ditc
