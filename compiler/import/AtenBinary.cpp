// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on two operands, either of which may be a number.
#include "compiler/import/Elementwise.h"

#include "runtime/Error.h"

using namespace mlir;

namespace ditc {

//===-- Division ----------------------------------------------------------------------------------===//

/// Signs differ (0 counts as positive).
static Num signsDiffer(Num x, Num y) { return (x < 0.0) ^ (y < 0.0); }

/// Python's remainder: it has the sign of the divisor.
static Num pythonRemainder(Num x, Num y) {
  Num rest = fmod(x, y);
  return select((rest != 0.0) & signsDiffer(rest, y), rest + y, rest);
}

/// torch's floor division of floats: exact where x / y would round up to the next whole number. Its
/// steps are those of Python's float.__floordiv__.
static Num floorDivideFloats(Num x, Num y) {
  Num rest = fmod(x, y);
  Num quotient = (x - rest) / y;
  quotient = select((rest != 0.0) & signsDiffer(rest, y), quotient - 1.0, quotient);
  Num whole = floor(quotient);
  whole = select(quotient - whole > 0.5, whole + 1.0, whole);
  Num zero = copysign(x.constant(0.0), x / y);
  return select(y == 0.0, x / y, select(quotient == 0.0, zero, whole));
}

static Num floorDivide(Num x, Num y) { return x.isFloat() ? floorDivideFloats(x, y) : combine<arith::FloorDivSIOp>(x, y); }

static Num divide(OpContext &op, Num x, Num y) {
  std::string mode = op.text("rounding_mode", "");
  if (mode.empty())
    return x / y;
  if (mode == "floor")
    return floorDivide(x, y);
  if (mode != "trunc")
    fail("division has no rounding mode '{}'", mode);
  return x.isFloat() ? trunc(x / y) : x / y;
}

//===-- Powers ------------------------------------------------------------------------------------===//

/// Integer powers by squaring: they wrap as torch's do.
static Num integerPower(Num x, int64_t exponent) {
  if (exponent < 0)
    fail("integers to negative powers are not supported");
  Num result = x.constant(1.0);
  bool started = false;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) {
      result = started ? result * x : x;
      started = true;
    }
    if (exponent > 1)
      x = x * x;
  }
  return result;
}

/// The exponents that torch computes without pow().
static Num constantPower(Num x, Scalar exponent) {
  if (!x.isFloat())
    return integerPower(x, exponent.integer);
  double e = exponent.number;
  if (e == 0)
    return x.constant(1.0);
  if (e == 1)
    return x;
  if (e == 2)
    return x * x;
  if (e == 3)
    return x * x * x;
  if (e == 0.5)
    return sqrt(x);
  if (e == -0.5)
    return rsqrt(x);
  if (e == -1)
    return 1.0 / x;
  if (e == -2)
    return 1.0 / (x * x);
  return pow(x, x.constant(exponent));
}

/// Integers go by way of f64, which is exact up to 2^53. A negative power of 0 is 0, as torch has it.
static Num power(Num x, Num y) {
  if (x.isFloat())
    return pow(x, y);
  Type wide = x.builder().getF64Type();
  return select((x == 0.0) & (y < 0.0), x, pow(x.to(wide), y.to(wide)).to(x.type()));
}

static std::vector<Value> powerRow(OpContext &op) {
  Type element = op.resultElement(), compute = dit::computeType(element);
  Operand base = roundedTo(op.emit, operandOf(op, "self"), element), exponent = operandOf(op, "exponent");
  if (!exponent.tensor)
    return {elementwise(op.emit, base, compute, element, [&](ArrayRef<Num> x) { return constantPower(x[0], exponent.number); })};
  exponent = roundedTo(op.emit, exponent, element);
  return {elementwise(op.emit, {base, exponent}, compute, element, [](ArrayRef<Num> x) { return power(x[0], x[1]); })};
}

//===-- Others ------------------------------------------------------------------------------------===//

/// alpha * y; alpha is 1 nearly always.
static Num scaled(OpContext &op, Num y) {
  Scalar alpha = op.scalar("alpha", Scalar::of(int64_t{1}));
  return alpha.number == 1 ? y : y * y.constant(alpha);
}

/// NaN only where both are NaN.
static Num fmax(Num x, Num y) { return x.isFloat() ? combine<arith::MaxNumFOp>(x, y) : max(x, y); }
static Num fmin(Num x, Num y) { return x.isFloat() ? combine<arith::MinNumFOp>(x, y) : min(x, y); }

/// By way of f64, where squares of f32 neither overflow nor vanish. Infinite beside NaN too.
static Num hypotenuse(Num x, Num y) {
  Type wide = x.builder().getF64Type();
  Num a = abs(x.to(wide)), b = abs(y.to(wide));
  return select((a == HUGE_VAL) | (b == HUGE_VAL), a.constant(HUGE_VAL), sqrt(a * a + b * b)).to(x.type());
}

/// x * log(y), and 0 where x is 0 unless y is NaN.
static Num xlogy(Num x, Num y) { return select(isNan(y), y, select(x == 0.0, x.constant(0.0), x * log(y))); }
static Num xlog1py(Num x, Num y) { return select(isNan(y), y, select(x == 0.0, x.constant(0.0), x * log1p(y))); }

/// log(exp(x) + exp(y)) without overflow; equal infinities stay.
static Num logAddExp2(Num x, Num y) {
  Num larger = max(x, y);
  Num powers = apply<math::Exp2Op>(-abs(x - y)) + 1.0;
  return select((x == y) & (abs(x) == HUGE_VAL), x, larger + apply<math::Log2Op>(powers));
}

static void addArithmetic(ElementwiseRows &rows) {
  rows.binary({"aten.add.Tensor", "aten.add.Scalar"}, Numbers::Exact, [](OpContext &op, Num x, Num y) { return x + scaled(op, y); });
  rows.binary({"aten.sub.Tensor", "aten.sub.Scalar", "aten.subtract.Tensor", "aten.subtract.Scalar"}, Numbers::Exact,
              [](OpContext &op, Num x, Num y) { return x - scaled(op, y); });
  rows.binary({"aten.rsub.Tensor", "aten.rsub.Scalar"}, Numbers::Exact, [](OpContext &op, Num x, Num y) { return y - scaled(op, x); });
  rows.binary({"aten.mul.Tensor", "aten.mul.Scalar", "aten.multiply.Tensor", "aten.multiply.Scalar"}, Numbers::Exact,
              [](Num x, Num y) { return x * y; });
  rows.binary({"aten.div.Tensor", "aten.div.Scalar", "aten.div.Tensor_mode", "aten.div.Scalar_mode", "aten.divide.Tensor",
               "aten.divide.Scalar", "aten.divide.Tensor_mode", "aten.divide.Scalar_mode", "aten.true_divide.Tensor",
               "aten.true_divide.Scalar"},
              Numbers::Exact, divide);
  rows.binary({"aten.floor_divide.default", "aten.floor_divide.Scalar"}, Numbers::Exact, floorDivide);
  rows.binary({"aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor"}, Numbers::Rounded, pythonRemainder);
  rows.binary({"aten.fmod.Tensor", "aten.fmod.Scalar"}, Numbers::Rounded, [](Num x, Num y) { return fmod(x, y); });
  rows.row({"aten.pow.Tensor_Tensor", "aten.pow.Tensor_Scalar", "aten.pow.Scalar", "aten.float_power.Tensor_Tensor",
            "aten.float_power.Tensor_Scalar", "aten.float_power.Scalar"},
           powerRow);
}

static void addBitwise(ElementwiseRows &rows) {
  rows.binary({"aten.bitwise_and.Tensor", "aten.bitwise_and.Scalar", "aten.bitwise_and.Scalar_Tensor", "aten.__and__.Tensor",
               "aten.__and__.Scalar"},
              Numbers::Exact, [](Num x, Num y) { return x & y; });
  rows.binary(
      {"aten.bitwise_or.Tensor", "aten.bitwise_or.Scalar", "aten.bitwise_or.Scalar_Tensor", "aten.__or__.Tensor", "aten.__or__.Scalar"},
      Numbers::Exact, [](Num x, Num y) { return x | y; });
  rows.binary({"aten.bitwise_xor.Tensor", "aten.bitwise_xor.Scalar", "aten.bitwise_xor.Scalar_Tensor", "aten.__xor__.Tensor",
               "aten.__xor__.Scalar"},
              Numbers::Exact, [](Num x, Num y) { return x ^ y; });
  rows.binary({"aten.bitwise_left_shift.Tensor", "aten.bitwise_left_shift.Tensor_Scalar", "aten.bitwise_left_shift.Scalar_Tensor",
               "aten.__lshift__.Tensor", "aten.__lshift__.Scalar"},
              Numbers::Exact, [](Num x, Num y) { return combine<arith::ShLIOp>(x, y); });
  rows.binary({"aten.bitwise_right_shift.Tensor", "aten.bitwise_right_shift.Tensor_Scalar", "aten.bitwise_right_shift.Scalar_Tensor",
               "aten.__rshift__.Tensor", "aten.__rshift__.Scalar"},
              Numbers::Exact, [](Num x, Num y) { return combine<arith::ShRSIOp>(x, y); });
}

void addBinaryRows(ElementwiseRows &rows) {
  addArithmetic(rows);
  addBitwise(rows);
  rows.binary({"aten.maximum.default", "aten.max.other"}, Numbers::Rounded, [](Num x, Num y) { return max(x, y); });
  rows.binary({"aten.minimum.default", "aten.min.other"}, Numbers::Rounded, [](Num x, Num y) { return min(x, y); });
  rows.binary({"aten.fmax.default"}, Numbers::Rounded, fmax);
  rows.binary({"aten.fmin.default"}, Numbers::Rounded, fmin);
  rows.binary({"aten.atan2.default", "aten.arctan2.default"}, Numbers::Rounded, [](Num x, Num y) { return combine<math::Atan2Op>(x, y); });
  rows.binary({"aten.hypot.default"}, Numbers::Rounded, hypotenuse);
  rows.binary({"aten.copysign.Tensor", "aten.copysign.Scalar"}, Numbers::Rounded, [](Num x, Num y) { return copysign(x, y); });
  rows.binary({"aten.xlogy.Tensor", "aten.xlogy.Scalar_Other", "aten.xlogy.Scalar_Self", "aten.special_xlogy.default"}, Numbers::Rounded,
              xlogy);
  rows.binary({"aten.special_xlog1py.default"}, Numbers::Rounded, xlog1py);
  rows.binary({"aten.logaddexp.default"}, Numbers::Rounded, logAddExp);
  rows.binary({"aten.ldexp.Tensor"}, Numbers::Rounded, [](Num x, Num y) { return x * apply<math::Exp2Op>(y); });
  rows.binary({"aten.logaddexp2.default"}, Numbers::Rounded, logAddExp2);
  rows.row({"aten.heaviside.default"}, [](OpContext &op) -> std::vector<Value> {
    Type element = op.resultElement();
    return {elementwise(op.emit, {operandOf(op, "self"), operandOf(op, "values")}, dit::computeType(element), element, [](ArrayRef<Num> x) {
      return select(x[0] == 0.0, x[1], select(x[0] > 0.0, x[0].constant(1.0), x[0].constant(0.0)));
    })};
  });
}

} // namespace ditc
