// SPDX-License-Identifier: Apache-2.0
//
// Scalars of a map body that read like arithmetic: `x / (1.0 + exp(-x))` emits the operations for x's type
// (float, integer or bool). It is what keeps an element-wise op one row of the ATen table.
#pragma once

#include "compiler/import/Emit.h"

#include <initializer_list>

namespace ditc {

class Num {
public:
  Num(mlir::ImplicitLocOpBuilder &builder, Value value) : b(&builder), v(value) {}

  mlir::ImplicitLocOpBuilder &builder() const { return *b; }
  Value value() const { return v; }
  Type type() const { return v.getType(); }
  bool isFloat() const { return mlir::isa<mlir::FloatType>(type()); }
  bool isBool() const { return type().isInteger(1); }

  /// A constant of this scalar's type.
  Num constant(Scalar number) const { return {*b, Emit::scalar(*b, type(), number)}; }
  Num constant(double number) const { return constant(Scalar::of(number)); }
  /// Converted as torch casts.
  Num to(Type computeType) const { return {*b, Emit::convert(*b, v, computeType)}; }
  Num toBool() const { return to(b->getI1Type()); }

private:
  mlir::ImplicitLocOpBuilder *b;
  Value v;
};

template <typename Op> Num apply(Num x) { return {x.builder(), Op::create(x.builder(), x.value())}; }
template <typename Op> Num combine(Num x, Num y) { return {x.builder(), Op::create(x.builder(), x.value(), y.value())}; }
/// FloatOp, IntOp or BoolOp, by the type of `x`.
template <typename FloatOp, typename IntOp, typename BoolOp> Num applyByType(Num x, Num y) {
  if (x.isFloat())
    return combine<FloatOp>(x, y);
  return x.isBool() ? combine<BoolOp>(x, y) : combine<IntOp>(x, y);
}

// Arithmetic. Of bools: + is or, - is exclusive or, * is and, as torch has it. Integers divide towards 0.
inline Num operator+(Num x, Num y) { return applyByType<mlir::arith::AddFOp, mlir::arith::AddIOp, mlir::arith::OrIOp>(x, y); }
inline Num operator-(Num x, Num y) { return applyByType<mlir::arith::SubFOp, mlir::arith::SubIOp, mlir::arith::XOrIOp>(x, y); }
inline Num operator*(Num x, Num y) { return applyByType<mlir::arith::MulFOp, mlir::arith::MulIOp, mlir::arith::AndIOp>(x, y); }
inline Num operator/(Num x, Num y) { return applyByType<mlir::arith::DivFOp, mlir::arith::DivSIOp, mlir::arith::AndIOp>(x, y); }
/// The remainder that has the sign of `x`.
inline Num fmod(Num x, Num y) { return applyByType<mlir::arith::RemFOp, mlir::arith::RemSIOp, mlir::arith::RemUIOp>(x, y); }
Num operator-(Num x);
inline Num operator+(Num x, double y) { return x + x.constant(y); }
inline Num operator-(Num x, double y) { return x - x.constant(y); }
inline Num operator*(Num x, double y) { return x * x.constant(y); }
inline Num operator/(Num x, double y) { return x / x.constant(y); }
inline Num operator+(double x, Num y) { return y.constant(x) + y; }
inline Num operator-(double x, Num y) { return y.constant(x) - y; }
inline Num operator*(double x, Num y) { return y.constant(x) * y; }
inline Num operator/(double x, Num y) { return y.constant(x) / y; }

// Comparisons give bools; with NaN all are false but !=. Bits of integers and bools.
enum class Comparison { Eq, Ne, Lt, Le, Gt, Ge };
Num compare(Comparison comparison, Num x, Num y);
inline Num operator==(Num x, Num y) { return compare(Comparison::Eq, x, y); }
inline Num operator!=(Num x, Num y) { return compare(Comparison::Ne, x, y); }
inline Num operator<(Num x, Num y) { return compare(Comparison::Lt, x, y); }
inline Num operator<=(Num x, Num y) { return compare(Comparison::Le, x, y); }
inline Num operator>(Num x, Num y) { return compare(Comparison::Gt, x, y); }
inline Num operator>=(Num x, Num y) { return compare(Comparison::Ge, x, y); }
inline Num operator==(Num x, double y) { return x == x.constant(y); }
inline Num operator!=(Num x, double y) { return x != x.constant(y); }
inline Num operator<(Num x, double y) { return x < x.constant(y); }
inline Num operator<=(Num x, double y) { return x <= x.constant(y); }
inline Num operator>(Num x, double y) { return x > x.constant(y); }
inline Num operator>=(Num x, double y) { return x >= x.constant(y); }
inline Num operator&(Num x, Num y) { return combine<mlir::arith::AndIOp>(x, y); }
inline Num operator|(Num x, Num y) { return combine<mlir::arith::OrIOp>(x, y); }
inline Num operator^(Num x, Num y) { return combine<mlir::arith::XOrIOp>(x, y); }
inline Num operator!(Num x) { return x ^ x.constant(Scalar::of(true)); } // of bools
inline Num select(Num condition, Num x, Num y) {
  return {x.builder(), mlir::arith::SelectOp::create(x.builder(), condition.value(), x.value(), y.value())};
}

/// The larger and the smaller; NaN wins.
inline Num max(Num x, Num y) { return applyByType<mlir::arith::MaximumFOp, mlir::arith::MaxSIOp, mlir::arith::OrIOp>(x, y); }
inline Num min(Num x, Num y) { return applyByType<mlir::arith::MinimumFOp, mlir::arith::MinSIOp, mlir::arith::AndIOp>(x, y); }
inline Num max(Num x, double y) { return max(x, x.constant(y)); }
inline Num min(Num x, double y) { return min(x, x.constant(y)); }
Num abs(Num x);
Num isNan(Num x); ///< of floats

// Functions of floats.
inline Num exp(Num x) { return apply<mlir::math::ExpOp>(x); }
inline Num expm1(Num x) { return apply<mlir::math::ExpM1Op>(x); }
inline Num log(Num x) { return apply<mlir::math::LogOp>(x); }
inline Num log1p(Num x) { return apply<mlir::math::Log1pOp>(x); }
inline Num sin(Num x) { return apply<mlir::math::SinOp>(x); }
inline Num tanh(Num x) { return apply<mlir::math::TanhOp>(x); }
inline Num erf(Num x) { return apply<mlir::math::ErfOp>(x); }
inline Num sqrt(Num x) { return apply<mlir::math::SqrtOp>(x); }
inline Num rsqrt(Num x) { return apply<mlir::math::RsqrtOp>(x); }
inline Num pow(Num x, Num y) { return combine<mlir::math::PowFOp>(x, y); }
inline Num floor(Num x) { return apply<mlir::math::FloorOp>(x); }
inline Num trunc(Num x) { return apply<mlir::math::TruncOp>(x); }
inline Num roundEven(Num x) { return apply<mlir::math::RoundEvenOp>(x); }
Num logAddExp(Num x, Num y); ///< log(exp(x) + exp(y))
inline Num copysign(Num x, Num y) { return combine<mlir::math::CopySignOp>(x, y); }

} // namespace ditc
