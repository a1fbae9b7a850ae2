// SPDX-License-Identifier: Apache-2.0
//
// The reference evaluator: each operation on small tensors whose results are known.
#include "dialects/reference/Evaluate.h"

#include "dialects/dit/Dit.h"
#include "dialects/reference/Elements.h"
#include "tests/unit/Float8Grid.h"

#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace mlir;
using ditc::dit::TensorValue;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class Evaluate : public testing::Test {
protected:
  Evaluate() { context.loadDialect<ditc::dit::DitDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect>(); }

  /// Runs `body`, the lines of a function that returns `%r : type`, and gives the elements of %r.
  std::vector<double> run(const std::string &body, const std::string &type) {
    std::string text = "func.func @f() -> " + type + " {\n" + body + "\nreturn %r : " + type + "\n}";
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    if (!module)
      return {};
    auto function = *module->getOps<func::FuncOp>().begin();
    auto weight = [&](StringRef name) {
      return ditc::dit::fromElements(DenseElementsAttr::get(RankedTensorType::get({2}, Float32Type::get(&context)), {3.0f, 4.0f}));
    };
    FailureOr<SmallVector<TensorValue>> results = ditc::dit::evaluateFunction(function, {}, weight);
    if (failed(results))
      return {};
    std::vector<double> numbers;
    for (int64_t i = 0; i < results->front().type.getNumElements(); ++i)
      numbers.push_back(results->front().at(i));
    return numbers;
  }

  /// Applies a map body, which yields %y, to `operands` ("dense<...> : tensor<...>").
  std::vector<double> map(const std::string &constant, const std::string &scalar, const std::string &body, const std::string &result,
                          const std::string &yielded) {
    std::string type = constant.substr(constant.rfind("tensor<"));
    return run("%x = dit.constant " + constant + "\n%r = dit.map(%x) : (" + type + ") -> " + result + " {\n^bb0(%a: " + scalar + "):\n" +
                   body + "\ndit.yield %y : " + yielded + "\n}",
               result);
  }

  std::vector<double> floats(const std::string &values, const std::string &body) {
    size_t count = std::count(values.begin(), values.end(), ',') + 1;
    std::string type = "tensor<" + std::to_string(count) + "xf32>";
    return map("dense<[" + values + "]> : " + type, "f32", body, type, "f32");
  }

  MLIRContext context;
};

void expectNear(const std::vector<double> &got, const std::vector<double> &expected, double tolerance = 1e-6) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(expected[i]) || std::isinf(expected[i]))
      EXPECT_TRUE(got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]))) << "element " << i << " is " << got[i];
    else
      EXPECT_NEAR(got[i], expected[i], tolerance * std::max(1.0, std::fabs(expected[i]))) << "element " << i;
  }
}

TEST_F(Evaluate, MapRunsFloatOps) {
  expectNear(floats("0.0, 1.0, -2.0", "%y = math.exp %a : f32"), {1, std::exp(1), std::exp(-2)});
  expectNear(floats("0.5, 1.5, 2.5", "%y = math.roundeven %a : f32"), {0, 2, 2});
  expectNear(floats("4.0, 0.25, 1.0", "%y = math.rsqrt %a : f32"), {0.5, 2, 1});
  expectNear(floats("-1.0, 0.5, 3.0", "%z = arith.constant 0.0 : f32\n%y = arith.maximumf %a, %z : f32"), {0, 0.5, 3});
  expectNear(floats("-1.0, 2.0", "%t = arith.mulf %a, %a : f32\n%u = arith.addf %t, %a : f32\n%y = arith.subf %u, %t : f32"), {-1, 2});
}

TEST_F(Evaluate, MapComparesWithNan) {
  std::string nan = "dense<[0x7fc00000, 1.0]> : tensor<2xf32>";
  auto test = [&](const std::string &predicate) {
    return map(nan, "f32", "%o = arith.constant 1.0 : f32\n%y = arith.cmpf " + predicate + ", %a, %o : f32", "tensor<2xi1>", "i1");
  };
  expectNear(test("oeq"), {0, 1});
  expectNear(test("une"), {1, 0});
  expectNear(test("ult"), {1, 0});
  expectNear(test("ord"), {0, 1});
  expectNear(map(nan, "f32", "%o = arith.constant 2.0 : f32\n%y = arith.maximumf %a, %o : f32", "tensor<2xf32>", "f32"), {kNan, 2});
  expectNear(map(nan, "f32", "%o = arith.constant 2.0 : f32\n%y = arith.maxnumf %a, %o : f32", "tensor<2xf32>", "f32"), {2, 2});
}

TEST_F(Evaluate, MapRunsIntegerOps) {
  auto ints = [&](const std::string &body) {
    return map("dense<[-7, 7, 0]> : tensor<3xi64>", "i64", "%c = arith.constant 2 : i64\n%z = arith.constant 0 : i64\n" + body,
               "tensor<3xi64>", "i64");
  };
  expectNear(ints("%y = arith.floordivsi %a, %c : i64"), {-4, 3, 0});
  expectNear(ints("%y = arith.divsi %a, %c : i64"), {-3, 3, 0});
  expectNear(ints("%y = arith.remsi %a, %c : i64"), {-1, 1, 0});
  expectNear(ints("%y = arith.divsi %a, %z : i64"), {0, 0, 0});
  expectNear(ints("%y = arith.remsi %a, %z : i64"), {-7, 7, 0});
  expectNear(ints("%y = math.ipowi %a, %c : i64"), {49, 49, 0});
  expectNear(ints("%y = arith.shrsi %a, %c : i64"), {-2, 1, 0});
  expectNear(ints("%p = arith.cmpi slt, %a, %z : i64\n%y = arith.select %p, %c, %a : i64"), {2, 7, 0});
}

TEST_F(Evaluate, MapConvertsAndRounds) {
  expectNear(map("dense<[1.00390625, 1.01171875, -3.0]> : tensor<3xf32>", "f32", "%y = arith.addf %a, %a : f32", "tensor<3xbf16>", "f32"),
             {2.0, 2.03125, -6}, 0);
  expectNear(map("dense<[65519.0, 65520.0, 6.0e-8, 0.1]> : tensor<4xf32>", "f32", "%y = math.absf %a : f32", "tensor<4xf16>", "f32"),
             {65504, kInfinity, 5.9604644775390625e-08, 0.0999755859375}, 1e-12);
  expectNear(map("dense<[300, -1, 5]> : tensor<3xi64>", "i64", "%y = math.absi %a : i64", "tensor<3xui8>", "i64"), {44, 1, 5});
  expectNear(map("dense<[2.7, -2.7, 1.0e30]> : tensor<3xf32>", "f32", "%y = arith.fptosi %a : f32 to i64", "tensor<3xi64>", "i64"),
             {2, -2, 9223372036854775807.0});
  expectNear(floats("1.0, -2.0", "%b = arith.bitcast %a : f32 to i32\n%w = arith.extsi %b : i32 to i64\n%y = arith.sitofp %w : i64 to f32"),
             {0x3f800000, -0x40000000});
  expectNear(map("dense<[true, false]> : tensor<2xi1>", "i1", "%y = arith.uitofp %a : i1 to f32", "tensor<2xf32>", "f32"), {1, 0});
  expectNear(map("dense<0.1> : tensor<2xf64>", "f64", "%f = arith.truncf %a : f64 to bf16\n%y = arith.extf %f : bf16 to f32",
                 "tensor<2xf32>", "f32"),
             {0.10009765625, 0.10009765625}, 0);
}

TEST_F(Evaluate, Float8OfEveryCodeAndRounding) {
  for (int code = 0; code < 256; ++code) {
    float number = ditc::dit::float8ToFloat(static_cast<uint8_t>(code));
    double expected = ditc::test::numberOfFloat8(code);
    EXPECT_TRUE(number == expected || std::isnan(expected)) << code;
    EXPECT_EQ(std::isnan(number), std::isnan(expected)) << code;
    EXPECT_EQ(std::signbit(number), std::signbit(expected)) << code;
  }
  for (float number : ditc::test::numbersToRound()) {
    int code = ditc::dit::floatToFloat8(number);
    EXPECT_EQ(code, ditc::test::nearestFloat8(number)) << number;
    APFloat rounded(number);
    bool lossy = false;
    rounded.convert(APFloat::Float8E4M3FN(), APFloat::rmNearestTiesToEven, &lossy);
    EXPECT_EQ(code, static_cast<int>(rounded.bitcastToAPInt().getZExtValue())) << number;
  }
}

TEST_F(Evaluate, Float8InConstantsMapsAndProducts) {
  expectNear(map("dense<[0.1, 464.0, 465.0, -0.0009, 0x7f800000]> : tensor<5xf32>", "f32", "%y = math.absf %a : f32", "tensor<5xf8E4M3FN>", "f32"),
             {0.1015625, 448, kNan, 0, kNan}, 0);
  expectNear(map("dense<[1.5, -448.0, 0x7f]> : tensor<3xf8E4M3FN>", "f32", "%y = math.absf %a : f32", "tensor<3xf32>", "f32"), {1.5, 448, kNan}, 0);
  expectNear(map("dense<[0.3, 17.0]> : tensor<2xf64>", "f64", "%s = arith.truncf %a : f64 to f8E4M3FN\n%y = arith.extf %s : f8E4M3FN to f32", "tensor<2xf32>", "f32"),
             {0.3125, 16}, 0);
  expectNear(run("%x = dit.constant dense<[[1.5, 2.0]]> : tensor<1x2xf8E4M3FN>\n"
                 "%r = dit.matmul %x, %x transpose_rhs : (tensor<1x2xf8E4M3FN>, tensor<1x2xf8E4M3FN>) -> tensor<1x1xf32>",
                 "tensor<1x1xf32>"),
             {6.25}, 0);
}

TEST_F(Evaluate, MapBroadcasts) {
  std::string body = R"(
    %a = dit.constant dense<[[[1.0, 2.0, 3.0]], [[4.0, 5.0, 6.0]]]> : tensor<2x1x3xf32>
    %b = dit.constant dense<[[[10.0], [20.0]]]> : tensor<1x2x1xf32>
    %r = dit.map(%a, %b) : (tensor<2x1x3xf32>, tensor<1x2x1xf32>) -> tensor<2x2x3xf32> {
    ^bb0(%p: f32, %q: f32):
      %s = arith.addf %p, %q : f32
      dit.yield %s : f32
    })";
  expectNear(run(body, "tensor<2x2x3xf32>"), {11, 12, 13, 21, 22, 23, 14, 15, 16, 24, 25, 26});
}

TEST_F(Evaluate, MapCrossesBlocks) {
  std::string body = R"(
    %a = dit.constant dense<2.0> : tensor<3x700xf32>
    %b = dit.constant dense<[[1.0], [2.0], [3.0]]> : tensor<3x1xf32>
    %c = dit.map(%a, %b) : (tensor<3x700xf32>, tensor<3x1xf32>) -> tensor<3x700xf32> {
    ^bb0(%p: f32, %q: f32):
      %s = arith.mulf %p, %q : f32
      dit.yield %s : f32
    }
    %r = dit.reduce sum %c axes [1] : (tensor<3x700xf32>) -> tensor<3x1xf32>)";
  expectNear(run(body, "tensor<3x1xf32>"), {1400, 2800, 4200});
}

TEST_F(Evaluate, RefusesUnknownScalarOps) {
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
  EXPECT_TRUE(floats("1.0, 2.0", "%y, %c = math.sincos %a : f32").empty());
}

TEST_F(Evaluate, Matmul) {
  std::string body = R"(
    %a = dit.constant dense<[[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]> : tensor<2x2x2xf32>
    %w = dit.constant dense<[[1.0, 1.0], [1.0, -1.0], [0.0, 2.0]]> : tensor<3x2xf32>
    %b = dit.constant dense<[0.5, 0.0, -1.0]> : tensor<3xf32>
    %r = dit.matmul %a, %w bias %b transpose_rhs : (tensor<2x2x2xf32>, tensor<3x2xf32>, tensor<3xf32>) -> tensor<2x2x3xf32>)";
  expectNear(run(body, "tensor<2x2x3xf32>"), {3.5, -1, 3, 7.5, -1, 7, 11.5, -1, 11, 15.5, -1, 15});
  std::string batched = R"(
    %a = dit.constant dense<[[[1, 2]], [[3, 4]]]> : tensor<2x1x2xi64>
    %b = dit.constant dense<[[[1, 0], [0, 2]]]> : tensor<1x2x2xi64>
    %r = dit.matmul %a, %b : (tensor<2x1x2xi64>, tensor<1x2x2xi64>) -> tensor<2x1x2xi64>)";
  expectNear(run(batched, "tensor<2x1x2xi64>"), {1, 4, 3, 8});
}

TEST_F(Evaluate, MatmulOfLongRows) {
  std::string body = R"(
    %a = dit.constant dense<0.125> : tensor<5x1100xf32>
    %b = dit.constant dense<2.0> : tensor<1100x9xf32>
    %r = dit.matmul %a, %b : (tensor<5x1100xf32>, tensor<1100x9xf32>) -> tensor<5x9xf32>)";
  expectNear(run(body, "tensor<5x9xf32>"), std::vector<double>(45, 275));
}

TEST_F(Evaluate, AttentionMasks) {
  std::string head = R"(
    %q = dit.constant dense<[[[[1.0, 0.0], [0.0, 1.0]]]]> : tensor<1x1x2x2xf32>
    %v = dit.constant dense<[[[[1.0], [3.0]]]]> : tensor<1x1x2x1xf32>)";
  std::string types = "(tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>, tensor<1x1x2x1xf32>";
  double p = std::exp(1.0) / (std::exp(1.0) + 1);
  expectNear(run(head + "%r = dit.attention %q, %q, %v scale 1.0 : " + types + ") -> tensor<1x1x2x1xf32>", "tensor<1x1x2x1xf32>"),
             {p + 3 * (1 - p), 1 - p + 3 * p});
  expectNear(run(head + "%r = dit.attention %q, %q, %v causal scale 1.0 : " + types + ") -> tensor<1x1x2x1xf32>", "tensor<1x1x2x1xf32>"),
             {1, 1 - p + 3 * p});
  std::string mask = "%m = dit.constant dense<[[[[false, true], [false, false]]]]> : tensor<1x1x2x2xi1>\n";
  expectNear(
      run(head + mask + "%r = dit.attention %q, %q, %v mask %m scale 1.0 : " + types + ", tensor<1x1x2x2xi1>) -> tensor<1x1x2x1xf32>",
          "tensor<1x1x2x1xf32>"),
      {3, 0});
}

TEST_F(Evaluate, AttentionOfGroups) {
  std::string body = R"(
    %q = dit.constant dense<1.0> : tensor<1x4x1x2xbf16>
    %k = dit.constant dense<1.0> : tensor<1x2x3x2xbf16>
    %v = dit.constant dense<[[[[1.0], [1.0], [1.0]], [[2.0], [2.0], [2.0]]]]> : tensor<1x2x3x1xbf16>
    %r = dit.attention %q, %k, %v scale 0.5 : (tensor<1x4x1x2xbf16>, tensor<1x2x3x2xbf16>, tensor<1x2x3x1xbf16>) -> tensor<1x4x1x1xbf16>)";
  expectNear(run(body, "tensor<1x4x1x1xbf16>"), {1, 1, 2, 2});
}

TEST_F(Evaluate, ConvolutionsOfEachRank) {
  std::string line = R"(
    %x = dit.constant dense<[[[1.0, 2.0, 3.0, 4.0]]]> : tensor<1x1x4xf32>
    %w = dit.constant dense<[[[1.0, 0.0, -1.0]]]> : tensor<1x1x3xf32>
    %b = dit.constant dense<[0.5]> : tensor<1xf32>
    %r = dit.conv %x, %w bias %b {strides = array<i64: 2>, padding_low = array<i64: 1>, padding_high = array<i64: 1>, dilations = array<i64: 1>, groups = 1 : i64}
       : (tensor<1x1x4xf32>, tensor<1x1x3xf32>, tensor<1xf32>) -> tensor<1x1x2xf32>)";
  expectNear(run(line, "tensor<1x1x2xf32>"), {-1.5, -1.5});
  std::string depthwise = R"(
    %x = dit.constant dense<[[[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]]> : tensor<1x2x2x2xf32>
    %w = dit.constant dense<[[[[1.0, 1.0], [1.0, 1.0]]], [[[1.0, 0.0], [0.0, -1.0]]]]> : tensor<2x1x2x2xf32>
    %r = dit.conv %x, %w {strides = array<i64: 1, 1>, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 2 : i64}
       : (tensor<1x2x2x2xf32>, tensor<2x1x2x2xf32>) -> tensor<1x2x1x1xf32>)";
  expectNear(run(depthwise, "tensor<1x2x1x1xf32>"), {10, -3});
  std::string volume = R"(
    %x = dit.constant dense<1.0> : tensor<1x2x2x4x4xbf16>
    %w = dit.constant dense<0.5> : tensor<3x2x1x2x2xbf16>
    %r = dit.conv %x, %w {strides = array<i64: 1, 2, 2>, padding_low = array<i64: 0, 0, 0>, padding_high = array<i64: 0, 0, 0>, dilations = array<i64: 1, 2, 2>, groups = 1 : i64}
       : (tensor<1x2x2x4x4xbf16>, tensor<3x2x1x2x2xbf16>) -> tensor<1x3x2x1x1xbf16>)";
  expectNear(run(volume, "tensor<1x3x2x1x1xbf16>"), std::vector<double>(6, 4));
}

TEST_F(Evaluate, Norms) {
  std::string head = R"(
    %x = dit.constant dense<[[1.0, 3.0], [2.0, -2.0]]> : tensor<2x2xf32>
    %w = dit.constant dense<[2.0, 1.0]> : tensor<2xf32>
    %b = dit.constant dense<[0.0, 1.0]> : tensor<2xf32>)";
  expectNear(run(head + "%r = dit.norm layer %x weight %w bias %b axes 1 eps 0.0 : (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>) -> "
                        "tensor<2x2xf32>",
                 "tensor<2x2xf32>"),
             {-2, 2, 2, 0});
  double rms = std::sqrt(5.0);
  expectNear(
      run(head + "%r = dit.norm rms %x bias %b axes 1 eps 0.0 : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>", "tensor<2x2xf32>"),
      {1 / rms, 3 / rms + 1, 1, 0});
}

TEST_F(Evaluate, Reductions) {
  std::string head = "%x = dit.constant dense<[[1.0, 4.0, 2.0], [0.5, -1.0, 3.0]]> : tensor<2x3xf32>\n";
  auto reduce = [&](const std::string &kind, const std::string &axes, const std::string &shape) {
    return run(head + "%r = dit.reduce " + kind + " %x axes [" + axes + "] : (tensor<2x3xf32>) -> tensor<" + shape + "xf32>",
               "tensor<" + shape + "xf32>");
  };
  expectNear(reduce("sum", "1", "2x1"), {7, 2.5});
  expectNear(reduce("mean", "0, 1", "1x1"), {9.5 / 6});
  expectNear(reduce("prod", "0", "1x3"), {0.5, -4, 6});
  expectNear(reduce("max", "1", "2x1"), {4, 3});
  expectNear(reduce("min", "0", "1x3"), {0.5, -1, 2});
  expectNear(run(head + "%r = dit.arg_reduce max %x axis 1 : (tensor<2x3xf32>) -> tensor<2x1xi64>", "tensor<2x1xi64>"), {1, 2});
  expectNear(run(head + "%r = dit.scan sum %x axis 1 : (tensor<2x3xf32>) -> tensor<2x3xf32>", "tensor<2x3xf32>"),
             {1, 5, 7, 0.5, -0.5, 2.5});
  expectNear(run(head + "%v, %r = dit.sort %x axis 1 : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xi64>)", "tensor<2x3xi64>"),
             {0, 2, 1, 1, 0, 2});
  expectNear(run("%x = dit.constant dense<[[true, false], [true, true]]> : tensor<2x2xi1>\n%r = dit.reduce all %x axes [1] : "
                 "(tensor<2x2xi1>) -> tensor<2x1xi1>",
                 "tensor<2x1xi1>"),
             {0, 1});
}

TEST_F(Evaluate, ReductionsOfNanAndNothing) {
  std::string nan = "%x = dit.constant dense<[[1.0, 0x7fc00000, 2.0]]> : tensor<1x3xf32>\n";
  expectNear(run(nan + "%r = dit.reduce max %x axes [1] : (tensor<1x3xf32>) -> tensor<1x1xf32>", "tensor<1x1xf32>"), {kNan});
  expectNear(run(nan + "%r = dit.arg_reduce min %x axis 1 : (tensor<1x3xf32>) -> tensor<1x1xi64>", "tensor<1x1xi64>"), {1});
  expectNear(
      run(nan + "%r, %i = dit.sort %x axis 1 descending : (tensor<1x3xf32>) -> (tensor<1x3xf32>, tensor<1x3xi64>)", "tensor<1x3xf32>"),
      {kNan, 2, 1});
  std::string empty = "%x = dit.constant dense<> : tensor<2x0xf32>\n";
  expectNear(run(empty + "%r = dit.reduce sum %x axes [1] : (tensor<2x0xf32>) -> tensor<2x1xf32>", "tensor<2x1xf32>"), {0, 0});
  expectNear(run(empty + "%r = dit.reduce mean %x axes [1] : (tensor<2x0xf32>) -> tensor<2x1xf32>", "tensor<2x1xf32>"), {kNan, kNan});
  expectNear(run(empty + "%r = dit.reduce max %x axes [1] : (tensor<2x0xf32>) -> tensor<2x1xf32>", "tensor<2x1xf32>"),
             {-kInfinity, -kInfinity});
}

TEST_F(Evaluate, GatherAndScatter) {
  std::string head = R"(
    %t = dit.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
    %i = dit.constant dense<[[2, 0], [1, 9]]> : tensor<2x2xi64>
    %j = dit.constant dense<[1, 1, 7]> : tensor<3xi64>
    %u = dit.constant dense<[[10, 10, 10], [20, 20, 20], [30, 30, 30]]> : tensor<3x3xi32>)";
  expectNear(run(head + "%r = dit.gather %t[%i] axis 1 : (tensor<2x3xi32>, tensor<2x2xi64>) -> tensor<2x2x2xi32>", "tensor<2x2x2xi32>"),
             {3, 1, 2, 3, 6, 4, 5, 6});
  std::string types = "(tensor<2x3xi32>, tensor<3xi64>, tensor<3x3xi32>) -> tensor<2x3xi32>";
  expectNear(run(head + "%r = dit.scatter %t[%j], %u : " + types, "tensor<2x3xi32>"), {1, 2, 3, 20, 20, 20});
  expectNear(run(head + "%r = dit.scatter %t[%j], %u add : " + types, "tensor<2x3xi32>"), {1, 2, 3, 34, 35, 36});
}

TEST_F(Evaluate, Views) {
  std::string head = "%x = dit.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xbf16>\n";
  expectNear(run(head + "%r = dit.view %x : tensor<2x3xbf16> -> tensor<3x2xbf16>", "tensor<3x2xbf16>"), {1, 2, 3, 4, 5, 6});
  expectNear(run(head + "%r = dit.permute %x [1, 0] : tensor<2x3xbf16> -> tensor<3x2xbf16>", "tensor<3x2xbf16>"), {1, 4, 2, 5, 3, 6});
  expectNear(run(head + "%r = dit.slice %x offsets [1, 0] steps [1, 2] : tensor<2x3xbf16> -> tensor<1x2xbf16>", "tensor<1x2xbf16>"),
             {4, 6});
  expectNear(run(head + "%r = dit.concat(%x, %x) axis 1 : (tensor<2x3xbf16>, tensor<2x3xbf16>) -> tensor<2x6xbf16>", "tensor<2x6xbf16>"),
             {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6});
  expectNear(
      run(head + "%r = dit.pad %x low [0, 1] high [1, 0] value 9.0 : bf16 : tensor<2x3xbf16> -> tensor<3x4xbf16>", "tensor<3x4xbf16>"),
      {9, 1, 2, 3, 9, 4, 5, 6, 9, 9, 9, 9});
  std::string column = "%c = dit.constant dense<[[1.0], [2.0]]> : tensor<2x1xf64>\n";
  expectNear(run(column + "%r = dit.expand %c : tensor<2x1xf64> -> tensor<2x3xf64>", "tensor<2x3xf64>"), {1, 1, 1, 2, 2, 2});
}

TEST_F(Evaluate, WeightsComeByName) {
  expectNear(run("%w = dit.weight \"a.b\" : tensor<2xf32>\n%r = dit.view %w : tensor<2xf32> -> tensor<2x1xf32>", "tensor<2x1xf32>"),
             {3, 4});
}

TEST_F(Evaluate, ConstantsKeepTheirBytes) {
  auto roundTrip = [&](TensorValue value) { return ditc::dit::fromElements(ditc::dit::toElements(value)); };
  auto i1 = RankedTensorType::get({11}, IntegerType::get(&context, 1));
  TensorValue flags = TensorValue::zeros(i1);
  (*flags.bytes)[3] = (*flags.bytes)[10] = 1;
  EXPECT_EQ(*roundTrip(flags).bytes, *flags.bytes);
  TensorValue large = TensorValue::zeros(RankedTensorType::get({700}, BFloat16Type::get(&context)));
  EXPECT_TRUE(cast<DenseElementsAttr>(ditc::dit::toElements(large)).isSplat());
  for (size_t i = 0; i < large.bytes->size(); ++i)
    (*large.bytes)[i] = static_cast<uint8_t>(i * 7);
  EXPECT_TRUE(isa<DenseResourceElementsAttr>(ditc::dit::toElements(large)));
  EXPECT_EQ(*roundTrip(large).bytes, *large.bytes);
  TensorValue none = TensorValue::zeros(RankedTensorType::get({0, 4}, Float32Type::get(&context)));
  EXPECT_EQ(*roundTrip(none).bytes, *none.bytes);
}

} // namespace
