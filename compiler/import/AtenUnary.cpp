// SPDX-License-Identifier: Apache-2.0
//
// Functions of one tensor, element by element.
#include "compiler/import/Elementwise.h"

#include <cmath>
#include <numbers>

using namespace mlir;

namespace ditc {

/// Rounding to whole numbers leaves integers and bools as they are.
template <typename Op> static Num wholeNumber(Num x) { return x.isFloat() ? apply<Op>(x) : x; }

/// -1, 0 or 1; 0 for NaN, as torch has it.
static Num sign(Num x) {
  if (x.isBool())
    return x;
  return select(x > 0.0, x.constant(1.0), select(x < 0.0, x.constant(-1.0), x.constant(0.0)));
}

static Num signBit(Num x) { return (x.isFloat() ? copysign(x.constant(1.0), x) : x) < 0.0; }

/// torch.round(decimals=d): whole numbers of 10^-d. torch multiplies for positive d and divides for
/// negative d, in the type that it computes in.
static Num roundDecimals(OpContext &op, Num x) {
  int64_t decimals = op.integer("decimals", 0);
  if (!x.isFloat() || decimals == 0)
    return wholeNumber<math::RoundEvenOp>(x);
  double power = std::pow(10.0, std::abs(decimals));
  return decimals > 0 ? roundEven(x * power) / power : roundEven(x / power) * power;
}

/// log(x / (1 - x)); x is kept in [eps, 1 - eps] when there is an eps.
static Num logit(OpContext &op, Num x) {
  if (std::optional<double> eps = op.optionalNumber("eps"))
    x = min(max(x, *eps), 1.0 - *eps);
  return log(x / (1.0 - x));
}

static Num sinc(Num x) {
  Num scaled = x * std::numbers::pi;
  return select(x == 0.0, x.constant(1.0), sin(scaled) / scaled);
}

/// Largest finite number of a float type.
static double largestFinite(Type element) { return APFloat::getLargest(cast<FloatType>(element).getFloatSemantics()).convertToDouble(); }

static Num nanToNum(OpContext &op, Num x) {
  if (!x.isFloat())
    return x;
  double largest = largestFinite(op.resultElement()), infinity = HUGE_VAL;
  Num low = select(x == -infinity, x.constant(op.number("neginf", -largest)), x);
  Num high = select(x == infinity, x.constant(op.number("posinf", largest)), low);
  return select(isNan(x), x.constant(op.number("nan", 0.0)), high);
}

static Num bitNot(Num x) { return x.isBool() ? !x : x ^ x.constant(-1.0); }

/// Of a real number: that of the negative half of the axis, or 0.
static Num angle(Num x) { return select(isNan(x), x, select(x < 0.0, x.constant(std::numbers::pi), x.constant(0.0))); }

static void addRounding(ElementwiseRows &rows) {
  rows.unary({"aten.floor.default"}, wholeNumber<math::FloorOp>);
  rows.unary({"aten.ceil.default"}, wholeNumber<math::CeilOp>);
  rows.unary({"aten.trunc.default", "aten.fix.default"}, wholeNumber<math::TruncOp>);
  rows.unary({"aten.round.default"}, wholeNumber<math::RoundEvenOp>);
  rows.unary({"aten.round.decimals", "aten.special_round.default"}, roundDecimals);
  rows.unary({"aten.frac.default"}, [](Num x) { return x - trunc(x); });
}

static void addTrigonometry(ElementwiseRows &rows) {
  rows.unary({"aten.sin.default"}, apply<math::SinOp>);
  rows.unary({"aten.cos.default"}, apply<math::CosOp>);
  rows.unary({"aten.tan.default"}, apply<math::TanOp>);
  rows.unary({"aten.asin.default", "aten.arcsin.default"}, apply<math::AsinOp>);
  rows.unary({"aten.acos.default", "aten.arccos.default"}, apply<math::AcosOp>);
  rows.unary({"aten.atan.default", "aten.arctan.default"}, apply<math::AtanOp>);
  rows.unary({"aten.sinh.default"}, apply<math::SinhOp>);
  rows.unary({"aten.cosh.default"}, apply<math::CoshOp>);
  rows.unary({"aten.tanh.default"}, apply<math::TanhOp>);
  rows.unary({"aten.asinh.default", "aten.arcsinh.default"}, apply<math::AsinhOp>);
  rows.unary({"aten.acosh.default", "aten.arccosh.default"}, apply<math::AcoshOp>);
  rows.unary({"aten.atanh.default", "aten.arctanh.default"}, apply<math::AtanhOp>);
  rows.unary({"aten.sinc.default", "aten.special_sinc.default"}, sinc);
  rows.unary({"aten.angle.default"}, angle);
  rows.unary({"aten.deg2rad.default"}, [](Num x) { return x * (std::numbers::pi / 180); });
  rows.unary({"aten.rad2deg.default"}, [](Num x) { return x * (180 / std::numbers::pi); });
}

static void addExponentials(ElementwiseRows &rows) {
  rows.unary({"aten.exp.default"}, apply<math::ExpOp>);
  rows.unary({"aten.exp2.default", "aten.special_exp2.default"}, apply<math::Exp2Op>);
  rows.unary({"aten.expm1.default", "aten.special_expm1.default"}, apply<math::ExpM1Op>);
  rows.unary({"aten.log.default"}, apply<math::LogOp>);
  rows.unary({"aten.log2.default"}, apply<math::Log2Op>);
  rows.unary({"aten.log10.default"}, apply<math::Log10Op>);
  rows.unary({"aten.log1p.default", "aten.special_log1p.default"}, apply<math::Log1pOp>);
  rows.unary({"aten.erf.default", "aten.special_erf.default"}, apply<math::ErfOp>);
  rows.unary({"aten.erfc.default", "aten.special_erfc.default"}, apply<math::ErfcOp>);
  rows.unary({"aten.special_ndtr.default"}, [](Num x) { return 0.5 * apply<math::ErfcOp>(x * -std::numbers::sqrt2 / 2.0); });
  rows.unary({"aten.sigmoid.default", "aten.special_expit.default"}, [](Num x) { return 1.0 / (1.0 + exp(-x)); });
  rows.unary({"aten.logit.default", "aten.special_logit.default"}, logit);
}

void addUnaryRows(ElementwiseRows &rows) {
  rows.unary({"aten.abs.default", "aten.absolute.default"}, abs);
  rows.unary({"aten.neg.default", "aten.negative.default"}, [](Num x) { return -x; });
  rows.unary({"aten.sign.default", "aten.sgn.default"}, sign);
  rows.unary({"aten.square.default"}, [](Num x) { return x * x; });
  rows.unary({"aten.reciprocal.default"}, [](Num x) { return 1.0 / x; });
  rows.unary({"aten.sqrt.default"}, apply<math::SqrtOp>);
  rows.unary({"aten.rsqrt.default"}, apply<math::RsqrtOp>);
  rows.unary({"aten.nan_to_num.default"}, nanToNum);
  rows.unary({"aten.bitwise_not.default"}, bitNot);
  addRounding(rows);
  addTrigonometry(rows);
  addExponentials(rows);

  rows.test({"aten.isnan.default"}, [](Num x) { return x.isFloat() ? isNan(x) : (x != x); });
  rows.test({"aten.isinf.default"}, [](Num x) { return x.isFloat() ? abs(x) == HUGE_VAL : (x != x); });
  rows.test({"aten.isfinite.default"}, [](Num x) { return x.isFloat() ? abs(x) < HUGE_VAL : (x == x); });
  rows.test({"aten.isposinf.default"}, [](Num x) { return x.isFloat() ? x == HUGE_VAL : (x != x); });
  rows.test({"aten.isneginf.default"}, [](Num x) { return x.isFloat() ? x == -HUGE_VAL : (x != x); });
  rows.test({"aten.signbit.default"}, signBit);
  rows.test({"aten.logical_not.default"}, [](Num x) { return x == 0.0; });
}

} // namespace ditc
