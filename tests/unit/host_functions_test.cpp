// SPDX-License-Identifier: Apache-2.0
//
// The accuracy of ditc's own exp, tanh and erf in f32: over a dense sample of all floats, the error against libm in
// double stays below 1.5 units in the last place.
#include "HostHarness.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace ditc;
using namespace ditc::test;

namespace {

/// Distance in units of the last place of the float nearest to `want` (of the smallest normal below it).
double ulps(double got, double want) {
  double unit = std::ldexp(1.0, std::max(std::ilogb(want), -126) - 23);
  return std::fabs(got - want) / unit;
}

/// One float in 1021 of all 2^32, which meets every exponent and all parts of a period.
Tensor sampleOfFloats() {
  constexpr uint64_t kStep = 1021;
  Tensor x("f32", {static_cast<int64_t>((1ull << 32) / kStep)});
  for (int64_t i = 0; i < x.count(); ++i) {
    auto bits = static_cast<uint32_t>(i * kStep);
    std::memcpy(x.data() + 4 * i, &bits, 4);
  }
  return x;
}

void checkFunction(const std::string &name, double (*function)(double), const std::string &cpu) {
  Tensor x = sampleOfFloats(), out("f32", x.shape);
  runKernel("map", {&x, &out}, 1, "", mapBody({"f32"}, "%r = math." + name + " %a0 : f32", "f32"), {.cpu = cpu});
  double worst = 0, where = 0;
  for (int64_t i = 0; i < x.count(); ++i) {
    double number = x.get({i}), want = function(number), got = out.get({i});
    if (std::isnan(want) || want == 0 || std::fabs(want) >= 0x1.ffffffp127) {
      if (std::isnan(want))
        ASSERT_TRUE(std::isnan(got)) << number;
      else
        ASSERT_TRUE(got == (want == 0 ? 0 : std::copysign(kInf, want)) && std::signbit(got) == std::signbit(want)) << name << " of " << number << " is " << got;
      continue;
    }
    if (double error = ulps(got, want); error > worst)
      worst = error, where = number;
  }
  EXPECT_LT(worst, 1.5) << name << " of " << where;
  testing::Test::RecordProperty("worst_ulps", std::to_string(worst));
}

class HostFunctions : public testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(Cpus, HostFunctions, testing::Values("x86-64-v3", "x86-64"), [](const auto &info) { return std::string(info.param) == "x86-64" ? "WithoutFma" : "WithFma"; });

TEST_P(HostFunctions, Exp) { checkFunction("exp", std::exp, GetParam()); }
TEST_P(HostFunctions, Tanh) { checkFunction("tanh", std::tanh, GetParam()); }
TEST_P(HostFunctions, Erf) { checkFunction("erf", std::erf, GetParam()); }

} // namespace
