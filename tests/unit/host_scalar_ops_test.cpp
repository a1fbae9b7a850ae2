// SPDX-License-Identifier: Apache-2.0
//
// Every scalar operation of map bodies on numbers of every kind, against C++.
#include "HostHarness.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace ditc;
using namespace ditc::test;

namespace {

const std::vector<double> kNumbers = {0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, -7.25, 0.1, 100, -1000.75, 1e-3, 1e10, -1e20, 1e-40, 0x1p-149, 0x1.fffffep127, kInf, -kInf, kNan};
const std::vector<int64_t> kIntegers = {0, 1, -1, 2, -2, 3, 7, -7, 31, 63, 64, 65, 100, -100, 1LL << 40, INT64_MIN, INT64_MIN + 1, INT64_MAX};

//===-- Floats ------------------------------------------------------------------------------------===//

using Unary = double (*)(double);
using Binary = double (*)(double, double);

/// Values that two floats must share: equal numbers with equal signs, or NaN both.
void expectSame(double got, double want, const std::string &what) {
  if (std::isnan(want))
    EXPECT_TRUE(std::isnan(got)) << what << ": " << got << ", expected nan";
  else
    EXPECT_TRUE(got == want && std::signbit(got) == std::signbit(want)) << what << ": " << got << ", expected " << want;
}

class FloatOps {
public:
  explicit FloatOps(std::string element) : element(std::move(element)) {}

  /// `%r = op %a0` must be `function`, computed in this type.
  void unary(const std::string &op, Unary function) {
    Tensor &x = batch.tensor(element, {count()}), &out = batch.tensor(element, {count()});
    x.fillWith([](const Index &i) { return kNumbers[i[0]]; });
    batch.add("map", {&x, &out}, 1, "", mapBody({element}, "%r = " + op + " %a0 : " + element, element), [=, this, &x, &out] {
      x.forEach([&](const Index &i) { expectSame(out.get(i), roundTo(element, function(x.get(i))), op + " " + std::to_string(x.get(i))); });
    });
  }

  /// `lines` defines %r of `type` from %a0 and %a1, for all pairs of numbers.
  void binary(const std::string &lines, Binary function, const std::string &type = "") {
    std::string result = type.empty() ? element : type;
    Tensor &x = batch.tensor(element, {count(), 1}), &y = batch.tensor(element, {1, count()}), &out = batch.tensor(result, {count(), count()});
    x.fillWith([](const Index &i) { return kNumbers[i[0]]; }), y.fillWith([](const Index &i) { return kNumbers[i[1]]; });
    batch.add("map", {&x, &y, &out}, 1, "", mapBody({element, element}, lines, result), [=, &x, &y, &out] {
      out.forEach([&](const Index &i) {
        double a = x.get({i[0], 0}), b = y.get({0, i[1]});
        expectSame(out.get(i), roundTo(result, function(a, b)), lines + " " + std::to_string(a) + " " + std::to_string(b));
      });
    });
  }
  void binaryOp(const std::string &op, Binary function) { binary("%r = " + op + " %a0, %a1 : " + element, function); }
  void compare(const std::string &predicate, Binary function) { binary("%r = arith.cmpf " + predicate + ", %a0, %a1 : " + element, function, "i1"); }

  void run() { batch.run(); }
  const std::string element;

private:
  static int64_t count() { return static_cast<int64_t>(kNumbers.size()); }
  KernelBatch batch;
};

/// A function of <cmath> in the type that the kernel computes in.
#define IN_TYPE(name) (f32 ? +[](double x) -> double { return std::name(static_cast<float>(x)); } : +[](double x) -> double { return std::name(x); })
#define IN_TYPE2(name)                                                                                                                                \
  (f32 ? +[](double x, double y) -> double { return std::name(static_cast<float>(x), static_cast<float>(y)); } : +[](double x, double y) -> double { return std::name(x, y); })

class HostFloatOps : public testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(Types, HostFloatOps, testing::Values("f32", "f64"), [](const auto &info) { return std::string(info.param); });

TEST_P(HostFloatOps, Arithmetic) {
  FloatOps ops(GetParam());
  ops.binaryOp("arith.addf", [](double a, double b) { return a + b; });
  ops.binaryOp("arith.subf", [](double a, double b) { return a - b; });
  ops.binaryOp("arith.mulf", [](double a, double b) { return a * b; });
  ops.binaryOp("arith.divf", [](double a, double b) { return a / b; });
  ops.binaryOp("arith.remf", [](double a, double b) { return std::fmod(a, b); });
  ops.binaryOp("math.copysign", [](double a, double b) { return std::copysign(a, b); });
  ops.unary("arith.negf", [](double a) { return -a; });
  ops.unary("math.absf", [](double a) { return std::fabs(a); });
  ops.unary("math.floor", [](double a) { return std::floor(a); });
  ops.unary("math.ceil", [](double a) { return std::ceil(a); });
  ops.unary("math.trunc", [](double a) { return std::trunc(a); });
  ops.unary("math.round", [](double a) { return std::round(a); });
  ops.unary("math.roundeven", [](double a) { return std::nearbyint(a); });
  ops.unary("math.sqrt", [](double a) { return std::sqrt(a); });
  ops.run();
}

TEST_P(HostFloatOps, MaximaAndMinima) {
  FloatOps ops(GetParam());
  auto larger = [](double a, double b) { return a == b ? (std::signbit(a) ? b : a) : a > b ? a : b; };
  auto smaller = [](double a, double b) { return a == b ? (std::signbit(a) ? a : b) : a < b ? a : b; };
  static auto max = larger;
  static auto min = smaller;
  ops.binaryOp("arith.maximumf", [](double a, double b) { return std::isnan(a) || std::isnan(b) ? kNan : max(a, b); });
  ops.binaryOp("arith.minimumf", [](double a, double b) { return std::isnan(a) || std::isnan(b) ? kNan : min(a, b); });
  // The sign of a zero is free here: adding 0 hides it.
  std::string t = ops.element, zero = "\n%z = arith.constant 0.0 : " + t + "\n%r = arith.addf %m, %z : " + t;
  ops.binary("%m = arith.maxnumf %a0, %a1 : " + t + zero, [](double a, double b) { return std::fmax(a, b) + 0.0; });
  ops.binary("%m = arith.minnumf %a0, %a1 : " + t + zero, [](double a, double b) { return std::fmin(a, b) + 0.0; });
  ops.binary("%one = arith.constant 1.0 : " + t + "\n%r = math.clampf %a0 to [%a1, %one] : " + t, [](double a, double b) {
    double low = std::isnan(a) || std::isnan(b) ? kNan : max(a, b);
    return std::isnan(low) ? kNan : min(low, 1.0);
  });
  ops.run();
}

TEST_P(HostFloatOps, Comparisons) {
  FloatOps ops(GetParam());
#define UNORDERED (std::isnan(a) || std::isnan(b))
  ops.compare("false", [](double, double) { return 0.0; });
  ops.compare("oeq", [](double a, double b) -> double { return a == b; });
  ops.compare("ogt", [](double a, double b) -> double { return a > b; });
  ops.compare("oge", [](double a, double b) -> double { return a >= b; });
  ops.compare("olt", [](double a, double b) -> double { return a < b; });
  ops.compare("ole", [](double a, double b) -> double { return a <= b; });
  ops.compare("one", [](double a, double b) -> double { return a < b || a > b; });
  ops.compare("ord", [](double a, double b) -> double { return !UNORDERED; });
  ops.compare("ueq", [](double a, double b) -> double { return a == b || UNORDERED; });
  ops.compare("ugt", [](double a, double b) -> double { return a > b || UNORDERED; });
  ops.compare("uge", [](double a, double b) -> double { return a >= b || UNORDERED; });
  ops.compare("ult", [](double a, double b) -> double { return a < b || UNORDERED; });
  ops.compare("ule", [](double a, double b) -> double { return a <= b || UNORDERED; });
  ops.compare("une", [](double a, double b) -> double { return a != b; });
  ops.compare("uno", [](double a, double b) -> double { return UNORDERED; });
  ops.compare("true", [](double, double) { return 1.0; });
  ops.binary("%c = arith.cmpf olt, %a0, %a1 : " + ops.element + "\n%r = arith.select %c, %a0, %a1 : " + ops.element, [](double a, double b) { return a < b ? a : b; });
  std::string t = ops.element;
  auto classify = [&](const std::string &op, Binary function) { ops.binary("%r = " + op + " %a0 : " + t, function, "i1"); };
  classify("math.isnan", [](double a, double) -> double { return std::isnan(a); });
  classify("math.isinf", [](double a, double) -> double { return std::isinf(a); });
  classify("math.isfinite", [](double a, double) -> double { return std::isfinite(a); });
  static bool isF32;
  isF32 = t == "f32";
  classify("math.isnormal", [](double a, double) -> double { return isF32 ? std::isnormal(static_cast<float>(a)) : std::isnormal(a); });
  ops.run();
}

TEST_P(HostFloatOps, FunctionsOfLibm) {
  FloatOps ops(GetParam());
  bool f32 = ops.element == "f32";
  ops.unary("math.exp2", IN_TYPE(exp2));
  ops.unary("math.expm1", IN_TYPE(expm1));
  ops.unary("math.log", IN_TYPE(log));
  ops.unary("math.log2", IN_TYPE(log2));
  ops.unary("math.log10", IN_TYPE(log10));
  ops.unary("math.log1p", IN_TYPE(log1p));
  ops.unary("math.sin", IN_TYPE(sin));
  ops.unary("math.cos", IN_TYPE(cos));
  ops.unary("math.tan", IN_TYPE(tan));
  ops.unary("math.asin", IN_TYPE(asin));
  ops.unary("math.acos", IN_TYPE(acos));
  ops.unary("math.atan", IN_TYPE(atan));
  ops.unary("math.sinh", IN_TYPE(sinh));
  ops.unary("math.cosh", IN_TYPE(cosh));
  ops.unary("math.asinh", IN_TYPE(asinh));
  ops.unary("math.acosh", IN_TYPE(acosh));
  ops.unary("math.atanh", IN_TYPE(atanh));
  ops.unary("math.erfc", IN_TYPE(erfc));
  ops.unary("math.cbrt", IN_TYPE(cbrt));
  ops.binaryOp("math.powf", IN_TYPE2(pow));
  ops.binaryOp("math.atan2", IN_TYPE2(atan2));
  if (!f32) { // the f32 versions are ditc's own: host_functions_test.cpp
    ops.unary("math.exp", [](double x) { return std::exp(x); });
    ops.unary("math.tanh", [](double x) { return std::tanh(x); });
    ops.unary("math.erf", [](double x) { return std::erf(x); });
  }
  ops.unary("math.rsqrt", f32 ? +[](double x) -> double { return 1.0f / std::sqrt(static_cast<float>(x)); } : +[](double x) { return 1.0 / std::sqrt(x); });
  std::string t = ops.element;
  ops.binary("%r = math.fma %a0, %a1, %a0 : " + t, f32 ? +[](double a, double b) -> double { return std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(a)); }
                                                       : +[](double a, double b) { return std::fma(a, b, a); });
  ops.binary("%n = arith.constant 3 : i64\n%r = math.fpowi %a0, %n : " + t + ", i64", f32 ? +[](double a, double) -> double { return std::pow(static_cast<float>(a), 3.0f); }
                                                                                            : +[](double a, double) { return std::pow(a, 3.0); });
  ops.run();
}

//===-- Integers ----------------------------------------------------------------------------------===//

using IntegerFunction = int64_t (*)(int64_t, int64_t);

void setInteger(Tensor &tensor, int64_t place, int64_t value) { std::memcpy(tensor.data() + 8 * place, &value, 8); }

class IntegerOps {
public:
  /// `lines` defines %r of `type` from %a0 and %a1: i64, for all pairs of integers.
  void add(const std::string &lines, IntegerFunction function, const std::string &type = "i64") {
    auto count = static_cast<int64_t>(kIntegers.size());
    Tensor &x = batch.tensor("i64", {count, 1}), &y = batch.tensor("i64", {1, count}), &out = batch.tensor(type, {count, count});
    for (int64_t i = 0; i < count; ++i)
      setInteger(x, i, kIntegers[i]), setInteger(y, i, kIntegers[i]);
    batch.add("map", {&x, &y, &out}, 1, "", mapBody({"i64", "i64"}, lines, type), [=, &out] {
      out.forEach([&](const Index &i) {
        int64_t a = kIntegers[i[0]], b = kIntegers[i[1]];
        EXPECT_EQ(out.getInteger(i), function(a, b)) << lines << " " << a << " " << b;
      });
    });
  }
  void op(const std::string &name, IntegerFunction function) { add("%r = " + name + " %a0, %a1 : i64", function); }
  void run() { batch.run(); }

private:
  KernelBatch batch;
};

int64_t wrap(uint64_t value) { return static_cast<int64_t>(value); }
int64_t quotient(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? wrap(-static_cast<uint64_t>(a)) : a / b; }
uint64_t u(int64_t a) { return static_cast<uint64_t>(a); }

TEST(HostIntegerOps, Arithmetic) {
  IntegerOps ops;
  ops.op("arith.addi", [](int64_t a, int64_t b) { return wrap(u(a) + u(b)); });
  ops.op("arith.subi", [](int64_t a, int64_t b) { return wrap(u(a) - u(b)); });
  ops.op("arith.muli", [](int64_t a, int64_t b) { return wrap(u(a) * u(b)); });
  ops.op("arith.maxsi", [](int64_t a, int64_t b) { return std::max(a, b); });
  ops.op("arith.minsi", [](int64_t a, int64_t b) { return std::min(a, b); });
  ops.op("arith.maxui", [](int64_t a, int64_t b) { return wrap(std::max(u(a), u(b))); });
  ops.op("arith.minui", [](int64_t a, int64_t b) { return wrap(std::min(u(a), u(b))); });
  ops.add("%r = math.absi %a0 : i64", [](int64_t a, int64_t) { return a < 0 ? wrap(-u(a)) : a; });
  ops.add("%r = math.ctlz %a0 : i64", [](int64_t a, int64_t) -> int64_t { return a == 0 ? 64 : __builtin_clzll(u(a)); });
  ops.add("%r = math.cttz %a0 : i64", [](int64_t a, int64_t) -> int64_t { return a == 0 ? 64 : __builtin_ctzll(u(a)); });
  ops.add("%r = math.ctpop %a0 : i64", [](int64_t a, int64_t) -> int64_t { return __builtin_popcountll(u(a)); });
  ops.run();
}

TEST(HostIntegerOps, DivisionsNeverTrap) {
  IntegerOps ops;
  ops.op("arith.divsi", quotient);
  ops.op("arith.remsi", [](int64_t a, int64_t b) { return b == 0 ? a : b == -1 ? 0 : a % b; });
  ops.op("arith.divui", [](int64_t a, int64_t b) { return b == 0 ? 0 : wrap(u(a) / u(b)); });
  ops.op("arith.remui", [](int64_t a, int64_t b) { return b == 0 ? a : wrap(u(a) % u(b)); });
  ops.op("arith.ceildivui", [](int64_t a, int64_t b) { return b == 0 ? int64_t(a != 0) : wrap(u(a) / u(b) + (u(a) % u(b) != 0)); });
  ops.op("arith.floordivsi", [](int64_t a, int64_t b) {
    bool inexact = b != 0 && b != -1 && a % b != 0;
    return quotient(a, b) - (inexact && (a < 0) != (b < 0));
  });
  ops.op("arith.ceildivsi", [](int64_t a, int64_t b) {
    bool inexact = b != 0 && b != -1 && a % b != 0;
    return quotient(a, b) + (inexact && (a < 0) == (b < 0));
  });
  ops.run();
}

TEST(HostIntegerOps, BitsAndShifts) {
  IntegerOps ops;
  ops.op("arith.andi", [](int64_t a, int64_t b) { return a & b; });
  ops.op("arith.ori", [](int64_t a, int64_t b) { return a | b; });
  ops.op("arith.xori", [](int64_t a, int64_t b) { return a ^ b; });
  ops.op("arith.shli", [](int64_t a, int64_t b) { return u(b) < 64 ? wrap(u(a) << b) : 0; });
  ops.op("arith.shrui", [](int64_t a, int64_t b) { return u(b) < 64 ? wrap(u(a) >> b) : 0; });
  ops.op("arith.shrsi", [](int64_t a, int64_t b) { return a >> (u(b) < 64 ? b : 63); });
  ops.run();
}

TEST(HostIntegerOps, Powers) {
  IntegerOps ops;
  ops.op("math.ipowi", [](int64_t a, int64_t b) -> int64_t {
    if (b < 0)
      return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    uint64_t power = 1, square = u(a);
    for (uint64_t n = u(b); n; n >>= 1, square *= square)
      power *= n & 1 ? square : 1;
    return wrap(power);
  });
  ops.run();
}

TEST(HostIntegerOps, Comparisons) {
  IntegerOps ops;
  auto compare = [&](const std::string &predicate, IntegerFunction function) { ops.add("%r = arith.cmpi " + predicate + ", %a0, %a1 : i64", function, "i1"); };
  compare("eq", [](int64_t a, int64_t b) -> int64_t { return a == b; });
  compare("ne", [](int64_t a, int64_t b) -> int64_t { return a != b; });
  compare("slt", [](int64_t a, int64_t b) -> int64_t { return a < b; });
  compare("sle", [](int64_t a, int64_t b) -> int64_t { return a <= b; });
  compare("sgt", [](int64_t a, int64_t b) -> int64_t { return a > b; });
  compare("sge", [](int64_t a, int64_t b) -> int64_t { return a >= b; });
  compare("ult", [](int64_t a, int64_t b) -> int64_t { return u(a) < u(b); });
  compare("ule", [](int64_t a, int64_t b) -> int64_t { return u(a) <= u(b); });
  compare("ugt", [](int64_t a, int64_t b) -> int64_t { return u(a) > u(b); });
  compare("uge", [](int64_t a, int64_t b) -> int64_t { return u(a) >= u(b); });
  ops.run();
}

TEST(HostIntegerOps, Widths) {
  IntegerOps ops;
  ops.add("%t = arith.trunci %a0 : i64 to i8\n%r = arith.extsi %t : i8 to i64", [](int64_t a, int64_t) -> int64_t { return static_cast<int8_t>(a); });
  ops.add("%t = arith.trunci %a0 : i64 to i32\n%r = arith.extui %t : i32 to i64", [](int64_t a, int64_t) -> int64_t { return static_cast<uint32_t>(a); });
  ops.add("%t = arith.trunci %a0 : i64 to i1\n%r = arith.extui %t : i1 to i64", [](int64_t a, int64_t) -> int64_t { return a & 1; });
  ops.add("%t = arith.index_cast %a0 : i64 to index\n%r = arith.index_cast %t : index to i64", [](int64_t a, int64_t) { return a; });
  ops.add("%c = arith.constant -5 : i64\n%r = arith.addi %c, %a0 : i64", [](int64_t a, int64_t) { return wrap(u(a) - 5); });
  ops.add("%c = arith.constant true\n%d = arith.constant false\n%s = arith.xori %c, %d : i1\n%r = arith.select %s, %a0, %a1 : i64", [](int64_t a, int64_t) { return a; });
  ops.run();
}

//===-- Conversions -------------------------------------------------------------------------------===//

TEST(HostConversions, FloatToIntegerSaturates) {
  auto count = static_cast<int64_t>(kNumbers.size());
  Tensor x("f32", {count}), s("i64", {count}), n("i64", {count}), narrow("i64", {count});
  x.fillWith([](const Index &i) { return kNumbers[i[0]]; });
  runKernel("map", {&x, &s, &n, &narrow}, 3, "",
            "{\n^bb0(%a: f32):\n%s = arith.fptosi %a : f32 to i64\n%u = arith.fptoui %a : f32 to i64\n%b = arith.fptosi %a : f32 to i8\n%c = arith.extsi %b : i8 to i64\n"
            "dit.yield %s, %u, %c : i64, i64, i64\n}");
  auto clamp = [](double value, double low, double high) { return std::isnan(value) ? 0 : std::trunc(std::min(std::max(value, low), high)); };
  x.forEach([&](const Index &i) {
    double value = x.get(i);
    EXPECT_EQ(s.getInteger(i), value >= 0x1p63 ? INT64_MAX : value < -0x1p63 ? INT64_MIN : static_cast<int64_t>(clamp(value, -0x1p63, 0x1p62)));
    EXPECT_EQ(u(n.getInteger(i)), value >= 0x1p64 ? UINT64_MAX : static_cast<uint64_t>(clamp(value, 0, 0x1p63)));
    EXPECT_EQ(narrow.getInteger(i), clamp(value, -128, 127));
  });
}

TEST(HostConversions, IntegerToFloat) {
  auto count = static_cast<int64_t>(kIntegers.size());
  Tensor x("i64", {count}), s("f32", {count}), n("f64", {count});
  for (int64_t i = 0; i < count; ++i)
    setInteger(x, i, kIntegers[i]);
  runKernel("map", {&x, &s, &n}, 2, "", "{\n^bb0(%a: i64):\n%s = arith.sitofp %a : i64 to f32\n%u = arith.uitofp %a : i64 to f64\ndit.yield %s, %u : f32, f64\n}");
  expectElements(s, [](const Index &i) { return static_cast<float>(kIntegers[i[0]]); });
  expectElements(n, [](const Index &i) { return static_cast<double>(u(kIntegers[i[0]])); });
}

TEST(HostConversions, DoubleAndFloat) {
  auto count = static_cast<int64_t>(kNumbers.size());
  Tensor x("f64", {count}), narrow("f32", {count}), small("f64", {count}), half("f64", {count});
  x.fillWith([](const Index &i) { return kNumbers[i[0]] * (1 + 0x1p-30); });
  runKernel("map", {&x, &narrow, &small, &half}, 3, "",
            "{\n^bb0(%a: f64):\n%n = arith.truncf %a : f64 to f32\n%s = arith.truncf %a : f64 to bf16\n%t = arith.extf %s : bf16 to f64\n"
            "%h = arith.truncf %a : f64 to f16\n%i = arith.extf %h : f16 to f64\ndit.yield %n, %t, %i : f32, f64, f64\n}");
  expectElements(narrow, [&](const Index &i) { return x.get(i); });
  expectElements(small, [&](const Index &i) { return roundTo("bf16", x.get(i)); });
  expectElements(half, [&](const Index &i) { return roundTo("f16", x.get(i)); });
}

TEST(HostConversions, Bitcasts) {
  auto count = static_cast<int64_t>(kNumbers.size());
  Tensor x("f32", {count}), bits("i64", {count}), back("f32", {count}), small("i64", {count}), half("f32", {count});
  x.fillWith([](const Index &i) { return kNumbers[i[0]]; });
  runKernel("map", {&x, &bits, &back, &small, &half}, 4, "",
            "{\n^bb0(%a: f32):\n%b = arith.bitcast %a : f32 to i32\n%w = arith.extui %b : i32 to i64\n%c = arith.bitcast %b : i32 to f32\n%n = arith.truncf %a : f32 to bf16\n"
            "%s = arith.bitcast %n : bf16 to i16\n%t = arith.extui %s : i16 to i64\n%h = arith.constant 0x3c01 : i16\n%f = arith.bitcast %h : i16 to f16\n"
            "%g = arith.extf %f : f16 to f32\ndit.yield %w, %c, %t, %g : i64, f32, i64, f32\n}");
  x.forEach([&](const Index &i) {
    auto number = static_cast<float>(x.get(i)), rounded = static_cast<float>(roundTo("bf16", x.get(i)));
    uint32_t expected, roundedBits;
    std::memcpy(&expected, &number, 4), std::memcpy(&roundedBits, &rounded, 4);
    if (!std::isnan(number)) {
      EXPECT_EQ(bits.getInteger(i), expected);
      EXPECT_EQ(small.getInteger(i), roundedBits >> 16);
    }
  });
  expectElements(back, [&](const Index &i) { return x.get(i); });
  expectElements(half, [](const Index &) { return 1 + 0x1p-10; });
}

} // namespace
