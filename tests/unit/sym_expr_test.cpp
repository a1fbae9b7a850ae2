// SPDX-License-Identifier: Apache-2.0
//
// Symbolic sizes: the grammar, every function's value, and the refusals.
#include "ReaderFixture.h"

#include "compiler/import/SymExpr.h"

#include <limits>

using namespace ditc;
using namespace ditc::test;
using testing::HasSubstr;

namespace {

const SymBindings kBindings = {{"a", int64_t{7}}, {"b", int64_t{-7}}, {"f", 2.5}, {"t", true}};

SymValue value(const std::string &text) { return evaluate(*parseSymExpr(text), kBindings); }
int64_t integer(const std::string &text) { return evaluateInt(*parseSymExpr(text), kBindings); }
double real(const std::string &text) { return std::get<double>(value(text)); }
bool truth(const std::string &text) { return std::get<bool>(value(text)); }
std::string parseError(const std::string &text) {
  return errorOf([&] { parseSymExpr(text); });
}
std::string valueError(const std::string &text) {
  return errorOf([&] { value(text); });
}
std::string infix(const std::string &text) { return toString(*parseSymExpr(text)); }

/// "A" stands for the symbol a, "B" for b, "2" for an integer: srepr is too long to read in tables.
std::string I(int64_t value) { return "Integer(" + std::to_string(value) + ")"; }
const std::string A = "Symbol('a', positive=True, integer=True)", B = "Symbol(\"b\")", F = "Symbol('f')";
std::string call(const std::string &name, const std::vector<std::string> &args) {
  std::string out = name + "(";
  for (size_t i = 0; i < args.size(); ++i)
    out += (i ? ", " : "") + args[i];
  return out + ")";
}

} // namespace

TEST(SymExprTest, Leaves) {
  EXPECT_EQ(integer(A), 7);
  EXPECT_EQ(integer("Integer(-9223372036854775808)"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(real("Float('-0.5', precision=53)"), -0.5);
  EXPECT_EQ(real("Float('1.0e-3', precision=53)"), 1e-3);
  EXPECT_EQ(real("Rational(1, 2)"), 0.5);
  EXPECT_EQ(integer("Rational(6, -3)"), -2);
  EXPECT_TRUE(truth("true"));
  EXPECT_FALSE(truth("false"));
  EXPECT_TRUE(truth("Symbol('t')"));
}

TEST(SymExprTest, Arithmetic) {
  EXPECT_EQ(integer(call("Add", {A, B, I(3)})), 3);
  EXPECT_EQ(integer(call("Mul", {I(-1), A, B})), 49);
  EXPECT_EQ(integer(call("Mul", {"Rational(1, 2)", call("Add", {A, I(1)})})), 4) << "rationals stay exact";
  EXPECT_EQ(integer(call("Add", {"Rational(1, 2)", "Rational(1, 3)", "Rational(1, 6)"})), 1);
  EXPECT_EQ(integer(call("Pow", {A, I(2)})), 49);
  EXPECT_EQ(integer(call("Pow", {A, I(0)})), 1);
  EXPECT_EQ(integer(call("Pow", {I(-1), I(1'000'000'001)})), -1);
  EXPECT_EQ(integer(call("Mul", {call("Pow", {A, I(-1)}), A})), 1);
  EXPECT_EQ(integer(call("PowByNatural", {I(2), I(62)})), int64_t{1} << 62);
  EXPECT_EQ(real(call("Pow", {I(2), "Rational(1, 2)"})), std::sqrt(2.0));
  EXPECT_EQ(real(call("FloatPow", {A, I(2)})), 49.0);
  EXPECT_EQ(integer(call("Max", {I(1), A, B})), 7);
  EXPECT_EQ(integer(call("Min", {I(1), A, B})), -7);
  EXPECT_EQ(real(call("Max", {I(1), F})), 2.5);
  EXPECT_EQ(integer(call("Identity", {A})), 7);
  EXPECT_EQ(real(call("Mul", {A, F})), 17.5);
}

TEST(SymExprTest, IntegerDivisionFollowsPython) {
  EXPECT_EQ(integer(call("FloorDiv", {A, I(2)})), 3);
  EXPECT_EQ(integer(call("FloorDiv", {B, I(2)})), -4);
  EXPECT_EQ(integer(call("FloorDiv", {A, I(-2)})), -4);
  EXPECT_EQ(integer(call("FloorDiv", {call("Mul", {"Rational(1, 2)", A}), I(2)})), 1);
  EXPECT_EQ(integer(call("CleanDiv", {I(12), I(4)})), 3);
  EXPECT_EQ(integer(call("CeilDiv", {A, I(2)})), 4);
  EXPECT_EQ(integer(call("CeilDiv", {B, I(2)})), -3);
  EXPECT_EQ(integer(call("Mod", {A, I(4)})), 3);
  EXPECT_EQ(integer(call("PythonMod", {B, I(4)})), 1);
  EXPECT_EQ(integer(call("PythonMod", {A, I(-4)})), -1);
  EXPECT_EQ(integer(call("ModularIndexing", {I(29), I(2), I(5)})), 4);
  EXPECT_EQ(integer(call("LShift", {A, I(3)})), 56);
  EXPECT_EQ(integer(call("RShift", {B, I(1)})), -4);
  EXPECT_EQ(integer(call("BitwiseFn_bitwise_and", {A, I(5)})), 5);
  EXPECT_EQ(integer(call("BitwiseFn_bitwise_or", {I(8), I(5)})), 13);
  EXPECT_EQ(integer(call("BitwiseFn_bitwise_xor", {A, I(5)})), 2);
}

TEST(SymExprTest, FloatsAndRounding) {
  EXPECT_EQ(real(call("ToFloat", {A})), 7.0);
  EXPECT_EQ(real(call("IntTrueDiv", {A, I(2)})), 3.5);
  EXPECT_EQ(real(call("FloatTrueDiv", {F, I(2)})), 1.25);
  EXPECT_EQ(real(call("IntTrueDiv", {"Integer(9007199254740993)", I(1)})), 9007199254740992.0);
  EXPECT_EQ(integer(call("TruncToInt", {call("Mul", {I(-1), F})})), -2);
  EXPECT_EQ(integer(call("FloorToInt", {call("Mul", {I(-1), F})})), -3);
  EXPECT_EQ(integer(call("CeilToInt", {F})), 3);
  EXPECT_EQ(integer(call("RoundToInt", {F})), 2) << "half to even";
  EXPECT_EQ(integer(call("RoundToInt", {"Float('3.5', precision=53)"})), 4);
  EXPECT_EQ(integer(call("FloorToInt", {"Rational(-7, 2)"})), -4);
  EXPECT_EQ(integer(call("CeilToInt", {"Rational(-7, 2)"})), -3);
  EXPECT_EQ(integer(call("TruncToInt", {"Rational(-7, 2)"})), -3);
  EXPECT_EQ(integer(call("FloorToInt", {A})), 7);
  EXPECT_EQ(real(call("TruncToFloat", {F})), 2.0);
  EXPECT_EQ(real(call("RoundDecimal", {"Float('2.675', precision=53)", I(2)})), 2.67);
  EXPECT_EQ(real(call("OpaqueUnaryFn_sqrt", {I(49)})), 7.0);
  EXPECT_EQ(real(call("OpaqueUnaryFn_exp", {I(0)})), 1.0);
}

TEST(SymExprTest, Logic) {
  EXPECT_TRUE(truth(call("Equality", {A, I(7)})));
  EXPECT_TRUE(truth(call("Unequality", {A, B})));
  EXPECT_TRUE(truth(call("StrictLessThan", {B, A})));
  EXPECT_TRUE(truth(call("LessThan", {A, I(7)})));
  EXPECT_TRUE(truth(call("LessThan", {A, "Integer(37830236869912166400)"}))) << "torch's bound of what has none";
  EXPECT_FALSE(truth(call("StrictGreaterThan", {A, I(7)})));
  EXPECT_TRUE(truth(call("GreaterThan", {A, F})));
  EXPECT_TRUE(truth(call("Equality", {"Symbol('t')", "true"})));
  EXPECT_FALSE(truth(call("And", {"true", "false"})));
  EXPECT_TRUE(truth(call("Or", {"true", call("Equality", {call("FloorDiv", {A, I(0)}), I(1)})}))) << "stops early";
  EXPECT_FALSE(truth(call("Not", {"true"})));
  EXPECT_FALSE(truth(call("StrictLessThan", {"Integer(9007199254740993)", "Float('9007199254740992', precision=53)"})));
  EXPECT_EQ(integer(call("Where", {call("GreaterThan", {A, I(7)}), I(1), I(2)})), 1);
  EXPECT_EQ(integer(call("Piecewise", {call("ExprCondPair", {I(1), call("StrictLessThan", {A, I(3)})}),
                                       call("ExprCondPair", {I(2), "true"})})),
            2);
}

TEST(SymExprTest, RefusesTextOutsideTheGrammar) {
  EXPECT_THAT(parseError("s0 + 1"), HasSubstr("symbolic size 's0 + 1': expected '(' at position 3; expected sympy's "
                                              "srepr text such as Symbol('s0')"));
  EXPECT_THAT(parseError(""), HasSubstr("expected a name at position 0"));
  EXPECT_THAT(parseError("1"), HasSubstr("expected a name at position 0"));
  EXPECT_THAT(parseError("Add(Integer(1)"), HasSubstr("expected ')' at position 14"));
  EXPECT_THAT(parseError("Add(Integer(1)) x"), HasSubstr("unexpected text at position 16"));
  EXPECT_THAT(parseError("Symbol(s0)"), HasSubstr("expected a quoted string at position 7"));
  EXPECT_THAT(parseError("Symbol('s0)"), HasSubstr("a quoted string does not end"));
  EXPECT_THAT(parseError("Symbol('')"), HasSubstr("a quoted string is empty or has an escape"));
  EXPECT_THAT(parseError("Symbol('s0', positive=maybe)"), HasSubstr("'maybe' is not a keyword's value"));
  EXPECT_THAT(parseError("Integer(x)"), HasSubstr("expected a number at position 8"));
  EXPECT_THAT(parseError("Integer(-9223372036854775809)"), HasSubstr("does not fit into 64 bits"));
  EXPECT_THAT(parseError("Float('one')"), HasSubstr("'one' is not a number"));
  EXPECT_THAT(parseError("Float('inf')"), HasSubstr("'inf' is not a number"));
  EXPECT_THAT(parseError(std::string((1 << 20) + 1, 'x')), HasSubstr("it is longer than a megabyte"));
}

TEST(SymExprTest, BoundsDepth) {
  auto nested = [](int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i)
      text += "Identity(";
    return text + "Integer(1)" + std::string(static_cast<size_t>(depth), ')');
  };
  EXPECT_EQ(integer(nested(200)), 1);
  EXPECT_THAT(parseError(nested(201)), HasSubstr("it is nested deeper than 200 levels"));
  EXPECT_THAT(parseError(nested(50'000)), HasSubstr("it is nested deeper than 200 levels"));
}

TEST(SymExprTest, TimeIsLinearInDepth) {
  for (const char *function : {"FloorDiv", "Max", "Mod", "PowByNatural", "IntTrueDiv", "Add"}) {
    std::string text = I(1);
    for (int i = 0; i < 190; ++i)
      text = call(function, {text, I(1)});
    if (std::string(function) == "IntTrueDiv")
      EXPECT_EQ(real(text), 1.0);
    else
      EXPECT_GE(integer(text), 0) << function;
  }
}

TEST(SymExprTest, RefusesValues) {
  EXPECT_THAT(valueError("Symbol('s9')"), HasSubstr("the symbol 's9' has no value; give it one, for example with a "
                                                    "bucket that sets s9=..."));
  EXPECT_THAT(valueError(call("FloorDiv", {A, I(0)})), HasSubstr("symbolic size 'a//0': division by zero"));
  EXPECT_THAT(valueError(call("Mod", {A, I(0)})), HasSubstr("division by zero"));
  EXPECT_THAT(valueError(call("IntTrueDiv", {A, I(0)})), HasSubstr("division by zero"));
  EXPECT_THAT(valueError(call("Pow", {I(0), I(-1)})), HasSubstr("division by zero"));
  EXPECT_THAT(valueError("Rational(1, 0)"), HasSubstr("division by zero"));
  EXPECT_THAT(valueError(call("FloorDiv", {"Rational(1, 2)", I(0)})), HasSubstr("division by zero"));
  EXPECT_THAT(valueError(call("IsNonOverlappingAndDenseIndicator", {A})),
              HasSubstr("the function IsNonOverlappingAndDenseIndicator is not supported"));
  EXPECT_THAT(valueError(call("OpaqueUnaryFn_gamma", {A})), HasSubstr("the function gamma is not supported"));
  EXPECT_THAT(valueError(call("OpaqueUnaryFn_log", {I(0)})), HasSubstr("log of 0 has no finite value"));
  EXPECT_THAT(valueError(call("FloatPow", {B, "Rational(1, 2)"})), HasSubstr("a power has no finite value"));
  EXPECT_THAT(valueError(call("RShift", {A, I(64)})), HasSubstr("a shift by 64 bits"));
  EXPECT_THAT(valueError(call("PowByNatural", {A, I(-1)})), HasSubstr("PowByNatural has the exponent -1"));
  EXPECT_THAT(valueError(call("RoundDecimal", {F, I(-1)})), HasSubstr("RoundDecimal to -1 digits is not supported"));
  EXPECT_THAT(valueError(call("Piecewise", {call("ExprCondPair", {I(1), "false"})})),
              HasSubstr("no condition of Piecewise holds"));
}

TEST(SymExprTest, RefusesOverflow) {
  std::string most = "Integer(9223372036854775807)", least = "Integer(-9223372036854775808)";
  for (const std::string &text : {call("Add", {most, I(1)}), call("Mul", {most, I(2)}), call("Pow", {I(10), I(19)}),
                                  call("LShift", {I(1), I(63)}), call("FloorDiv", {least, I(-1)}),
                                  call("CeilDiv", {least, I(1)}), call("Mul", {least, I(-1)})})
    EXPECT_THAT(valueError(text), HasSubstr("the value overflows 64 bits; choose smaller sizes")) << text;
  EXPECT_THAT(valueError(call("TruncToInt", {call("FloatPow", {I(2), I(63)})})),
              HasSubstr("does not fit into a 64-bit integer"));
}

TEST(SymExprTest, RefusesTypes) {
  EXPECT_THAT(valueError(call("Add", {A, "true"})), HasSubstr("Add takes numbers, not truth values"));
  EXPECT_THAT(valueError("Add()"), HasSubstr("Add has no arguments"));
  EXPECT_THAT(valueError(call("Mod", {A, F})), HasSubstr("Mod takes integers only"));
  EXPECT_THAT(valueError(call("And", {A, A})), HasSubstr("And takes truth values"));
  EXPECT_THAT(valueError(call("Equality", {A, "true"})), HasSubstr("Equality compares a number with a truth value"));
  EXPECT_THAT(valueError(call("FloorDiv", {A})), HasSubstr("FloorDiv has 1 arguments, expected 2"));
  EXPECT_THAT(valueError(call("Piecewise", {A})), HasSubstr("Piecewise takes pairs of value and condition"));
  EXPECT_THAT(errorOf([] { integer(F); }), HasSubstr("the value 2.5 is not an integer"));
  EXPECT_THAT(errorOf([] { integer("Float('2.0', precision=53)"); }), HasSubstr("the value 2 is not an integer"));
  EXPECT_THAT(errorOf([] { integer("true"); }), HasSubstr("it is a truth value, expected an integer"));
}

TEST(SymExprTest, CollectsSymbols) {
  std::set<std::string> symbols;
  collectSymbols(*parseSymExpr(call("Add", {A, call("FloorDiv", {B, A}), I(1)})), symbols);
  EXPECT_THAT(symbols, testing::ElementsAre("a", "b"));
}

TEST(SymExprTest, PrintsInfix) {
  EXPECT_EQ(infix(call("Mul", {call("FloorDiv", {A, I(2)}), I(4)})), "(a//2)*4");
  EXPECT_EQ(infix(call("Add", {A, call("Mul", {I(-1), B}), I(-3)})), "a - b - 3");
  EXPECT_EQ(infix(call("Add", {call("Mul", {I(2), A}), call("Mod", {A, I(3)})})), "2*a + a%3");
  EXPECT_EQ(infix(call("Max", {I(1), call("Pow", {A, I(2)})})), "Max(1, a**2)");
  EXPECT_EQ(infix(call("StrictLessThan", {call("Add", {A, I(1)}), B})), "(a + 1) < b");
  EXPECT_EQ(infix("Rational(1, 2)"), "1/2");
  EXPECT_EQ(infix("Float('0.5', precision=53)"), "0.5");
  EXPECT_EQ(infix("true"), "true");
}
