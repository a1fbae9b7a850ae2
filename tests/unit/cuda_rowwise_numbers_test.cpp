// SPDX-License-Identifier: Apache-2.0
//
// Rowwise kernels against the reference evaluator: sizes, types, layouts, scalar operations, random bodies.
#include "tests/cuda_emulator/run_unit.h"
#include "tests/unit/Float8Grid.h"
#include "tests/unit/RandomRowwise.h"
#include "tests/unit/RowwiseBodies.h"
#include "tests/unit/RowwiseHarness.h"

#include <gtest/gtest.h>

using namespace ditc::test;

namespace {

void expectRight(const std::string &function, const RowwiseOptions &options = {}) {
  RowwiseOutcome outcome = runRowwise(function, options);
  EXPECT_EQ(outcome.problem, "") << function << outcome.text;
}

RowwiseOptions exact() {
  RowwiseOptions options;
  options.keepRoundings = true;
  return options;
}

//===-- Kernels of models ---------------------------------------------------------------------------===//

TEST(RowwiseNumbers, Gelu) {
  expectRight(gelu("33x33xf32"));
  expectRight(gelu("64x96xbf16"));
}

TEST(RowwiseNumbers, ResidualNormModulate) {
  expectRight(residualNormModulate("2x9x3072xbf16", "2x1x3072xbf16"));
  expectRight(residualNormModulate("2x5x72xf32", "2x1x72xf32"));
}

TEST(RowwiseNumbers, AStatisticThatNeedsAnother) {
  for (const char *type : {"40x96xbf16", "40x96xf32", "7x1000xbf16", "3x3000xf16", "5x2056xbf16"})
    expectRight(spelledVariance(type, std::string(type).substr(0, std::string(type).find('x')) + "x1" + std::string(type).substr(std::string(type).rfind('x'))));
}

TEST(RowwiseNumbers, NormAndRotaryIntoHeads) {
  for (bool interleaved : {false, true})
    expectRight(normAndRotary("2", "7", "24", interleaved), exact());
}

TEST(RowwiseNumbers, Softmax) {
  expectRight(softmax("37x300xf32", "37x1xf32"));
  expectRight(softmax("3x2000xf32", "3x1xf32"));
}

TEST(RowwiseNumbers, TwoStreams) { expectRight(twoStreams("1x50x1152xf32", "1x7x1152xf32")); }

TEST(RowwiseNumbers, ManySmallOutputs) { expectRight(tablesPlusOne("2x100xbf16", "1x100xbf16", 20)); }

//===-- Sizes ---------------------------------------------------------------------------------------===//

class RowwiseNorm : public testing::TestWithParam<int> {};

TEST_P(RowwiseNorm, IsRight) {
  std::string columns = std::to_string(GetParam());
  expectRight(norm("layer", "5x" + columns + "xf32", columns + "xf32"));
  expectRight(norm("rms", "300x" + columns + "xbf16", ""), exact());
}

INSTANTIATE_TEST_SUITE_P(Columns, RowwiseNorm, testing::Values(1, 2, 8, 33, 64, 72, 100, 128, 1152, 1536, 2000, 3072));

TEST(RowwiseNumbers, LongRowsOfSmallElements) {
  expectRight(norm("layer", "300x2432xbf16", "2432xbf16"));
  expectRight(norm("layer", "300x1152xf16", "1152xf16")); // 8 threads a row
  expectRight(norm("rms", "4x4096xf16", ""));
}

TEST(RowwiseNumbers, ShortRowsByFours) { expectRight(norm("rms", "67584x32xf64", "")); }

TEST(RowwiseNumbers, MomentsOfManyWarps) {
  expectRight(norm("layer", "5x8192xf32", "8192xf32"));
  expectRight(norm("layer", "300x12288xbf16", "12288xbf16"));
  expectRight(norm("layer", "9x6144xf32", ""));
}

TEST(RowwiseNumbers, RowsThatDoNotFitRegisters) {
  expectRight(norm("layer", "2x17001xf32", "17001xf32"));
  expectRight(norm("rms", "3x70000xf32", ""));
}

TEST(RowwiseNumbers, ReductionsOverAllSetsOfAxes) {
  expectRight(reductionsOverAllAxes("f32"));
  expectRight(reductionsOverAllAxes("i8"));
}

TEST(RowwiseNumbers, LongReductions) {
  expectRight(reduction("mean", "[0]", "500x40xf32", "1x40xf32"));   // down the columns
  expectRight(reduction("sum", "[0]", "30x8192xf32", "1x8192xf32")); // the same, one thread a column
  expectRight(reduction("sum", "[0, 1]", "40x1000xi32", "1x1xi32"));
  expectRight(reduction("min", "[0, 1]", "40x1001xf64", "1x1xf64"));
}

TEST(RowwiseNumbers, ReductionsOfNothing) {
  expectRight(reduction("sum", "[1]", "4x0xf32", "4x1xf32"));
  expectRight(reduction("max", "[1]", "4x0xf32", "4x1xf32"));
  expectRight(reduction("mean", "[1]", "4x0xf32", "4x1xf32"));
  expectRight(gelu("0x8xf32"));
}

TEST(RowwiseNumbers, ReductionsKeepNan) {
  RowwiseOptions options;
  options.special = true;
  for (const char *kind : {"max", "min", "sum"})
    expectRight(reduction(kind, "[1]", "50x9xf32", "50x1xf32"), options);
}

//===-- Types ---------------------------------------------------------------------------------------===//

TEST(RowwiseNumbers, CopiesOfEveryType) {
  RowwiseOptions options;
  options.special = true;
  expectRight(transposesOfAllTypes(), options);
  options.scramble = true;
  expectRight(transposesOfAllTypes(), options);
}

TEST(RowwiseNumbers, IntegersWrapInEveryType) {
  RowwiseOptions options;
  options.special = true;
  std::string parameters, body, results, types;
  for (std::string type : {"i64", "i32", "i16", "i8", "ui8"}) {
    std::string tensor = "tensor<640x" + type + ">";
    parameters += (parameters.empty() ? "%" : ", %") + type + ": " + tensor;
    // The product, and whether its low bits are negative: values inside a body wrap too.
    body += "  %p" + type + " = dit.map(%" + type + ") : (" + tensor + ") -> " + tensor +
            " {\n  ^bb0(%x: i64):\n    %y = arith.muli %x, %x : i64\n    dit.yield %y : i64\n  }\n" + "  %n" + type + " = dit.map(%p" + type + ") : (" +
            tensor +
            ") -> tensor<640xi1> {\n  ^bb0(%x: i64):\n    %c = arith.constant 100 : i64\n    %y = arith.cmpi slt, %x, %c : i64\n    dit.yield %y : i1\n  }\n";
    results += (results.empty() ? "%p" : ", %p") + type + ", %n" + type;
    types += (types.empty() ? "" : ", ") + tensor + ", tensor<640xi1>";
  }
  expectRight("func.func @f(" + parameters + ") -> (" + types + ") {\n" + body + "  return " + results + " : " + types + "\n}", options);
}

/// The conversions by themselves, on the bits: as sm_80 has them. Newer architectures have instructions.
TEST(RowwiseNumbers, Float8OfEveryCodeAndRounding) {
  emulator::EmulatedUnit unit("#include \"rowwise.cuh\"\nusing namespace ditc;\n"
                              "extern \"C\" __global__ void read(const E4M3 *codes, float *chunks, float *single) {\n"
                              "  int i = 8 * threadIdx.x;\n  store<4>(chunks + i, load<8, 8>(codes + i));\n"
                              "  for (int e = 0; e < 8; ++e)\n    store(single + i + e, load(codes + i + e));\n}\n"
                              "extern \"C\" __global__ void write(const float *x, E4M3 *chunks, E4M3 *single) {\n"
                              "  int i = 8 * threadIdx.x;\n  store<8>(chunks + i, load<8, 4>(x + i));\n"
                              "  for (int e = 0; e < 8; ++e)\n    store(single + i + e, load(x + i + e));\n}\n",
                              DITC_SOURCE_DIR "/codegen/templates/cuda");
  emulator::GuardedMemory codes(256), read(4 * 256), single(4 * 256);
  for (int code = 0; code < 256; ++code)
    codes.as<uint8_t>()[code] = static_cast<uint8_t>(code);
  unit.launch("read", {1}, {32}, 0, codes.data(), read.data(), single.data());
  for (int code = 0; code < 256; ++code)
    for (float number : {read.as<float>()[code], single.as<float>()[code]}) {
      EXPECT_TRUE(number == numberOfFloat8(code) || (std::isnan(number) && (code & 0x7f) == 0x7f)) << code;
      EXPECT_EQ(std::signbit(number), code >= 128) << code;
    }
  std::vector<float> numbers = numbersToRound();
  numbers.resize(numbers.size() / 8 * 8);
  emulator::GuardedMemory given(4 * numbers.size()), written(numbers.size()), alone(numbers.size());
  std::copy(numbers.begin(), numbers.end(), given.as<float>());
  for (size_t first = 0; first < numbers.size(); first += 8)
    unit.launch("write", {1}, {1}, 0, given.as<float>() + first, written.as<uint8_t>() + first, alone.as<uint8_t>() + first);
  for (size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(written.as<uint8_t>()[i], nearestFloat8(numbers[i])) << numbers[i];
    EXPECT_EQ(alone.as<uint8_t>()[i], nearestFloat8(numbers[i])) << numbers[i];
  }
}

TEST(RowwiseNumbers, RowsAsFloat8) {
  for (const char *columns : {"3072", "72", "100", "33"})
    for (const char *type : {"xbf16", "xf32"}) {
      std::string rows = "5x" + std::string(columns);
      expectRight(quantise(rows + type, "5x1xf32", rows + "xf8E4M3FN"), exact());
    }
  RowwiseOptions special;
  special.special = true;
  expectRight(gelu("40x96xf8E4M3FN"), special);
  expectRight(norm("layer", "5x1152xf8E4M3FN", "1152xf32"));
}

TEST(RowwiseNumbers, ARoundingToFloat8InsideAKernelStays) {
  std::string text = emitRowwiseUnit(quantise("5x64xf32", "5x1xf32", "5x64xf8E4M3FN")).text;
  EXPECT_NE(text.find("rounded<E4M3>"), std::string::npos) << text;
  EXPECT_NE(text.find("store<8>(out0"), std::string::npos) << text; // eight as one access
  std::string stored = emitRowwiseUnit(gelu("40x96xf8E4M3FN")).text;
  EXPECT_EQ(stored.find("rounded"), std::string::npos) << stored; // by the store itself
}

TEST(RowwiseNumbers, BordersThatAreNoNumbers) {
  for (std::string type : {"f64", "f32", "bf16"})
    for (std::string value : {type == "f64" ? "0xFFF0000000000000" : type == "f32" ? "0xFF800000" : "0xFF80", type == "f64" ? "0x7FF8000000000000" : type == "f32" ? "0x7FC00000" : "0x7FC0"})
      expectRight("func.func @f(%a: tensor<4x6x" + type + ">) -> tensor<6x6x" + type + "> {\n  %0 = dit.pad %a low [1, 0] high [1, 0] value " + value + " : " + type +
                  " : tensor<4x6x" + type + "> -> tensor<6x6x" + type + ">\n  return %0 : tensor<6x6x" + type + ">\n}");
}

TEST(RowwiseNumbers, ConstantTables) {
  expectRight("func.func @f(%a: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<2x3xbf16>, tensor<2x2xf8E4M3FN>) {\n"
              "  %t = dit.constant dense<[[1.0, 2.0, -3.5, 4.0, 1.0e-3, 7.0]]> : tensor<1x6xf32>\n"
              "  %b = dit.constant dense<[[1.0, 2.0, -3.5], [0x7F80, 0.5, 7.0]]> : tensor<2x3xbf16>\n"
              "  %0 = dit.map(%a, %t) : (tensor<4x6xf32>, tensor<1x6xf32>) -> tensor<4x6xf32> {\n  ^bb0(%x: f32, %y: f32):\n    %z = arith.mulf %x, %y : f32\n "
              "   dit.yield %z : f32\n  }\n"
              "  %e = dit.constant dense<[[1.0, 448.0], [0x7F, 0.5]]> : tensor<2x2xf8E4M3FN>\n"
              "  return %0, %b, %e : tensor<4x6xf32>, tensor<2x3xbf16>, tensor<2x2xf8E4M3FN>\n}");
}

//===-- Scalar operations ---------------------------------------------------------------------------===//

void expectScalars(const std::string &lines) {
  RowwiseOptions options;
  options.special = true;
  expectRight(scalarOperations(lines), options);
}

/// The same operations in both precisions.
std::string inBoth(const std::vector<std::string> &ops, int operands, const char *result = nullptr) {
  std::string lines;
  for (const std::string &op : ops)
    for (std::string type : {"f32", "f64"}) {
      lines += (lines.empty() ? "" : "\n") + op + "|" + type;
      for (int i = 1; i < operands; ++i)
        lines += "," + type;
      lines += "|" + (result ? std::string(result) : type);
    }
  return lines;
}

TEST(RowwiseScalars, Arithmetic) {
  expectScalars(inBoth({"arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.remf", "arith.maximumf", "arith.minimumf", "arith.maxnumf",
                        "arith.minnumf", "math.copysign"},
                       2));
  expectScalars(inBoth({"arith.negf", "math.absf", "math.sqrt", "math.rsqrt", "math.floor", "math.ceil", "math.trunc", "math.round", "math.roundeven"}, 1));
  expectScalars("math.fma|f32,f32,f32|f32\nmath.fma|f64,f64,f64|f64\nmath.clampf %a0 to [%a1, %a2] : f32|f32,f32,f32|f32\narith.select %a0, %a1, %a2 : "
                "f32|i1,f32,f32|f32");
}

TEST(RowwiseScalars, Functions) {
  expectScalars(inBoth({"math.exp", "math.exp2", "math.expm1", "math.log", "math.log2", "math.log10", "math.log1p", "math.tanh", "math.erf", "math.erfc",
                        "math.cbrt", "math.atan", "math.sinh", "math.cosh"},
                       1));
  expectScalars(inBoth({"math.asin", "math.acos", "math.asinh", "math.acosh", "math.atanh", "math.sin", "math.cos", "math.tan"}, 1));
  expectScalars(inBoth({"math.atan2", "math.powf"}, 2));
}

TEST(RowwiseScalars, Questions) {
  std::string lines;
  for (std::string predicate : {"oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno"})
    lines += "arith.cmpf " + predicate + ", $ : f32|f32,f32|i1\n";
  for (std::string predicate : {"eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"})
    lines += "arith.cmpi " + predicate + ", $ : i64|i64,i64|i1\narith.cmpi " + predicate + ", $ : i1|i1,i1|i1\n";
  for (std::string op : {"math.isnan", "math.isinf", "math.isfinite", "math.isnormal"})
    lines += op + " $ : f32|f32|i1\n" + op + " $ : f64|f64|i1\n";
  lines.pop_back();
  expectScalars(lines);
}

TEST(RowwiseScalars, Integers) {
  std::string lines;
  for (std::string op : {"addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi", "andi", "ori", "xori", "shli", "shrsi", "shrui",
                         "maxsi", "minsi", "maxui", "minui"})
    lines += "arith." + op + "|i64,i64|i64\n";
  for (std::string op : {"addi", "subi", "muli", "andi", "ori", "xori", "maxsi", "minsi", "maxui", "minui"})
    lines += "arith." + op + "|i1,i1|i1\n";
  expectScalars(lines + "math.ipowi|i64,i64|i64\nmath.absi|i64|i64");
}

TEST(RowwiseScalars, Conversions) {
  expectScalars(
      "arith.extf $ : f32 to f64|f32|f64\narith.truncf $ : f64 to f32|f64|f32\narith.sitofp $ : i64 to f32|i64|f32\narith.sitofp $ : i64 to f64|i64|f64\n"
      "arith.uitofp $ : i64 to f32|i64|f32\narith.fptosi $ : f32 to i64|f32|i64\narith.fptosi $ : f64 to i64|f64|i64\narith.fptoui $ : f32 to i64|f32|i64\n"
      "arith.extui $ : i1 to i64|i1|i64\narith.extsi $ : i1 to i64|i1|i64\narith.trunci $ : i64 to i1|i64|i1\narith.sitofp $ : i1 to f32|i1|f32\n"
      "arith.uitofp $ : i1 to f32|i1|f32\narith.bitcast $ : f64 to i64|f64|i64\narith.bitcast $ : i64 to f64|i64|f64\nmath.fpowi $ : f32, i64|f32,i64|f32");
}

TEST(RowwiseScalars, RoundingsThatAMapSpellsOut) {
  for (std::string narrow : {"bf16", "f16"})
    expectRight("func.func @f(%a: tensor<700xf32>) -> tensor<700xf32> {\n  %0 = dit.map(%a) : (tensor<700xf32>) -> tensor<700xf32> {\n  ^bb0(%x: f32):\n    %y "
                "= arith.truncf %x : f32 to " +
                narrow + "\n    %z = arith.extf %y : " + narrow + " to f32\n    dit.yield %z : f32\n  }\n  return %0 : tensor<700xf32>\n}");
}

//===-- Random bodies -------------------------------------------------------------------------------===//

class RandomBodies : public testing::TestWithParam<int> {};

TEST_P(RandomBodies, AreRight) {
  for (uint32_t seed = 3 * GetParam(); seed < 3u * GetParam() + 3; ++seed) {
    RandomBody body = randomRowwise(seed);
    RowwiseOptions options = exact();
    options.seed = seed;
    options.scramble = seed % 2;
    options.tolerance = body.hasSmallFloats ? 0.06 : 0;
    expectRight(body.function, options);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomBodies, testing::Range(0, 16));

} // namespace
