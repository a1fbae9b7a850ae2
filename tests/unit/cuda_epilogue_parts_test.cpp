// SPDX-License-Identifier: Apache-2.0
//
// Ranges of columns that an epilogue treats alike are one function, whatever their operands are called.
#include "codegen/cuda/gemm/EpilogueParts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace ditc;
using testing::HasSubstr;
using testing::Not;

namespace {

EpilogueFunctions written(const std::vector<EpiloguePart> &parts, std::vector<std::string> types = {"BF16", "BF16", "BF16", "float"}) {
  return writeParts(parts, types, "float (&x)[COLUMNS / 2], const Place &at", "x, at");
}

std::string bias(int pointer) { return "    x[0] += loadOne(in" + std::to_string(pointer) + " + (at.firstColumn - BEGIN));\n"; }

} // namespace

TEST(EpilogueParts, OneRangeIsCalledAsItIs) {
  EpilogueFunctions functions = written({{0, 64, bias(0)}});
  EXPECT_EQ(functions.dispatch, "    part0(x, at);\n");
  EXPECT_THAT(functions.definitions, HasSubstr("in0 + at.firstColumn)"));
  EXPECT_THAT(functions.definitions, HasSubstr("/// Columns 0 to 63."));
}

TEST(EpilogueParts, NeighboursWithOtherOperandsShareAFunction) {
  EpilogueFunctions functions = written({{0, 64, bias(0)}, {64, 64, bias(1)}, {128, 64, bias(2)}});
  EXPECT_THAT(functions.definitions, HasSubstr("part0(float (&x)[COLUMNS / 2], const Place &at, int begin, const BF16 *own0) const"));
  EXPECT_THAT(functions.definitions, HasSubstr("own0 + (at.firstColumn - begin)"));
  EXPECT_THAT(functions.definitions, Not(HasSubstr("part1")));
  EXPECT_EQ(functions.dispatch, "    int which = (at.firstColumn >= 64) + (at.firstColumn >= 128);\n"
                                "    part0(x, at, which == 0 ? 0 : which == 1 ? 64 : 128, which == 0 ? in0 : which == 1 ? in1 : in2);\n");
}

TEST(EpilogueParts, PlacesOfTheWholeProductFollowTheRange) {
  std::string body = "    x[0] += loadOne(in0 + head * 64 + BEGIN);\n";
  EpilogueFunctions functions = written({{0, 64, body}, {64, 64, body}});
  EXPECT_THAT(functions.definitions, HasSubstr("in0 + head * 64 + begin)"));
  EXPECT_THAT(functions.dispatch, HasSubstr("part0(x, at, which == 0 ? 0 : 64);"));
  functions = written({{0, 64, body}, {64, 64, bias(1)}, {128, 64, body}});
  EXPECT_THAT(functions.definitions, HasSubstr("in0 + head * 64);"));
  EXPECT_THAT(functions.definitions, HasSubstr("in0 + head * 64 + 128);"));
}

TEST(EpilogueParts, OperandsInCommonAreNoParameters) {
  EpilogueFunctions functions = written({{0, 64, "    use(in0, in3);\n"}, {64, 64, "    use(in1, in3);\n"}, {128, 64, "    other(in2);\n"}});
  EXPECT_THAT(functions.definitions, HasSubstr("const Place &at, const BF16 *own0) const {\n    use(own0, in3);"));
  EXPECT_EQ(functions.dispatch, "    if (at.firstColumn < 128) {\n      int which = (at.firstColumn >= 64);\n      return part0(x, at, which == 0 ? in0 : in1);\n    }\n    part1(x, at);\n");
}

TEST(EpilogueParts, OtherTypesAndOtherRolesAreOtherFunctions) {
  EXPECT_THAT(written({{0, 64, bias(0)}, {64, 64, bias(3)}}).definitions, HasSubstr("part1")); // float
  EXPECT_THAT(written({{0, 64, "    use(in0, in0);\n"}, {64, 64, "    use(in1, in2);\n"}}).definitions, HasSubstr("part1"));
  EXPECT_THAT(written({{0, 64, bias(0)}, {64, 64, bias(1) + "    more();\n"}}).definitions, HasSubstr("in1 + (at.firstColumn - 64)"));
}
