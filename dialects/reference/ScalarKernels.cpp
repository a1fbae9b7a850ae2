// SPDX-License-Identifier: Apache-2.0
//
// One row per scalar operation. What hardware leaves undefined is defined, as the host target defines it:
// integers wrap, a division by zero gives 0 (and the dividend as remainder), a shift by the width or more
// gives 0 (the sign for shrsi).
#include "dialects/reference/ScalarKernels.h"

#include "dialects/dit/Tensors.h"
#include "dialects/reference/Elements.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ditc::dit {

int64_t heldBytes(Type type) {
  return withArithmeticType(type, [](auto number) { return static_cast<int64_t>(sizeof(number)); });
}

namespace {

template <auto F, typename R, typename A> void unaryLoop(int64_t count, void *result, const void *const *operands) {
  auto *r = static_cast<R *>(result);
  auto *a = static_cast<const A *>(operands[0]);
  for (int64_t i = 0; i < count; ++i)
    r[i] = static_cast<R>(F(a[i]));
}

template <auto F, typename R, typename A> void binaryLoop(int64_t count, void *result, const void *const *operands) {
  auto *r = static_cast<R *>(result);
  auto *a = static_cast<const A *>(operands[0]);
  auto *b = static_cast<const A *>(operands[1]);
  for (int64_t i = 0; i < count; ++i)
    r[i] = static_cast<R>(F(a[i], b[i]));
}

template <auto F, typename A> void ternaryLoop(int64_t count, void *result, const void *const *operands) {
  auto *r = static_cast<A *>(result);
  const A *a = static_cast<const A *>(operands[0]), *b = static_cast<const A *>(operands[1]), *c = static_cast<const A *>(operands[2]);
  for (int64_t i = 0; i < count; ++i)
    r[i] = F(a[i], b[i], c[i]);
}

template <typename T> void selectLoop(int64_t count, void *result, const void *const *operands) {
  auto *r = static_cast<T *>(result);
  auto *condition = static_cast<const uint8_t *>(operands[0]);
  const T *a = static_cast<const T *>(operands[1]), *b = static_cast<const T *>(operands[2]);
  for (int64_t i = 0; i < count; ++i)
    r[i] = condition[i] ? a[i] : b[i];
}

/// f(x) on f32 or f64.
template <auto F> ScalarKernel floats1(Type type) {
  if (type.isF64())
    return unaryLoop<F, double, double>;
  return type.isF32() ? unaryLoop<F, float, float> : nullptr;
}

template <auto F> ScalarKernel floats2(Type type) {
  if (type.isF64())
    return binaryLoop<F, double, double>;
  return type.isF32() ? binaryLoop<F, float, float> : nullptr;
}

template <auto F> ScalarKernel floats3(Type type) {
  if (type.isF64())
    return ternaryLoop<F, double>;
  return type.isF32() ? ternaryLoop<F, float> : nullptr;
}

/// A question about a float.
template <auto F> ScalarKernel floatTest(Type type) {
  if (type.isF64())
    return unaryLoop<F, uint8_t, double>;
  return type.isF32() ? unaryLoop<F, uint8_t, float> : nullptr;
}

template <auto F> ScalarKernel ints1(Type type) { return type.isInteger(64) ? unaryLoop<F, int64_t, int64_t> : nullptr; }

/// f(a, b) on i64; on i1 the same function, whose lowest bit counts.
template <auto F> ScalarKernel ints2(Type type) {
  if (type.isInteger(64))
    return binaryLoop<F, int64_t, int64_t>;
  constexpr auto lowestBit = [](uint8_t a, uint8_t b) { return static_cast<uint8_t>(F(int64_t(a), int64_t(b)) & 1); };
  return type.isInteger(1) ? binaryLoop<lowestBit, uint8_t, uint8_t> : nullptr;
}

constexpr int64_t kSmallest = std::numeric_limits<int64_t>::min();

/// int64 arithmetic that wraps instead of being undefined.
template <auto F>
constexpr auto kWrapped = [](int64_t a, int64_t b) { return static_cast<int64_t>(F(static_cast<uint64_t>(a), static_cast<uint64_t>(b))); };

constexpr auto kDivide = [](int64_t a, int64_t b) -> int64_t {
  return b == 0 ? 0 : (b == -1 ? static_cast<int64_t>(-static_cast<uint64_t>(a)) : a / b);
};
constexpr auto kRemainder = [](int64_t a, int64_t b) -> int64_t { return b == 0 ? a : (b == -1 ? 0 : a % b); };
constexpr auto kFloorDivide = [](int64_t a, int64_t b) -> int64_t {
  return b == 0 ? 0 : kDivide(a, b) - (kRemainder(a, b) != 0 && (a < 0) != (b < 0));
};
constexpr auto kCeilDivide = [](int64_t a, int64_t b) -> int64_t {
  return b == 0 ? 0 : kDivide(a, b) + (kRemainder(a, b) != 0 && (a < 0) == (b < 0));
};
constexpr auto kDivideUnsigned = [](uint64_t a, uint64_t b) { return b == 0 ? 0 : a / b; };
constexpr auto kRemainderUnsigned = [](uint64_t a, uint64_t b) { return b == 0 ? a : a % b; };

/// By squaring. A negative exponent gives the reciprocal as an integer: 0 but for 1 and -1.
constexpr auto kIntegerPower = [](int64_t base, int64_t exponent) -> int64_t {
  if (exponent < 0)
    return base == 1 ? 1 : base != -1 ? 0 : exponent & 1 ? -1 : 1;
  uint64_t power = 1;
  for (uint64_t square = static_cast<uint64_t>(base); exponent > 0; exponent >>= 1, square *= square)
    if (exponent & 1)
      power *= square;
  return static_cast<int64_t>(power);
};

/// IEEE 754-2019 maximum and minimum: NaN wins, -0 is below +0.
constexpr auto kMaximum = [](auto a, auto b) {
  return std::isnan(a) ? a : std::isnan(b) ? b : a == b ? (std::signbit(a) ? b : a) : (a > b ? a : b);
};
constexpr auto kMinimum = [](auto a, auto b) {
  return std::isnan(a) ? a : std::isnan(b) ? b : a == b ? (std::signbit(a) ? a : b) : (a < b ? a : b);
};

ScalarKernel compareFloats(arith::CmpFPredicate predicate, Type type) {
  using P = arith::CmpFPredicate;
  auto pick = [&]<auto F>() -> ScalarKernel {
    if (type.isF64())
      return binaryLoop<F, uint8_t, double>;
    return type.isF32() ? binaryLoop<F, uint8_t, float> : nullptr;
  };
  switch (predicate) {
  case P::OEQ: return pick.template operator()<[](auto a, auto b) { return a == b; }>();
  case P::OGT: return pick.template operator()<[](auto a, auto b) { return a > b; }>();
  case P::OGE: return pick.template operator()<[](auto a, auto b) { return a >= b; }>();
  case P::OLT: return pick.template operator()<[](auto a, auto b) { return a < b; }>();
  case P::OLE: return pick.template operator()<[](auto a, auto b) { return a <= b; }>();
  case P::ONE: return pick.template operator()<[](auto a, auto b) { return a < b || a > b; }>();
  case P::ORD: return pick.template operator()<[](auto a, auto b) { return a == a && b == b; }>();
  case P::UEQ: return pick.template operator()<[](auto a, auto b) { return !(a < b || a > b); }>();
  case P::UGT: return pick.template operator()<[](auto a, auto b) { return !(a <= b); }>();
  case P::UGE: return pick.template operator()<[](auto a, auto b) { return !(a < b); }>();
  case P::ULT: return pick.template operator()<[](auto a, auto b) { return !(a >= b); }>();
  case P::ULE: return pick.template operator()<[](auto a, auto b) { return !(a > b); }>();
  case P::UNE: return pick.template operator()<[](auto a, auto b) { return a != b; }>();
  case P::UNO: return pick.template operator()<[](auto a, auto b) { return a != a || b != b; }>();
  default: return nullptr; // "always" predicates fold away
  }
}

/// Integers of 64 bits, or i1. A signed i1 is 0 or -1, as MLIR has it.
ScalarKernel compareInts(arith::CmpIPredicate predicate, Type type) {
  using P = arith::CmpIPredicate;
  auto pick = [&]<auto F>() -> ScalarKernel {
    constexpr auto onBits = [](uint8_t a, uint8_t b) { return F(-int64_t(a), -int64_t(b)); };
    if (type.isInteger(1))
      return binaryLoop<onBits, uint8_t, uint8_t>;
    return type.isInteger(64) ? binaryLoop<F, uint8_t, int64_t> : nullptr;
  };
  using U = uint64_t;
  switch (predicate) {
  case P::eq: return pick.template operator()<[](int64_t a, int64_t b) { return a == b; }>();
  case P::ne: return pick.template operator()<[](int64_t a, int64_t b) { return a != b; }>();
  case P::slt: return pick.template operator()<[](int64_t a, int64_t b) { return a < b; }>();
  case P::sle: return pick.template operator()<[](int64_t a, int64_t b) { return a <= b; }>();
  case P::sgt: return pick.template operator()<[](int64_t a, int64_t b) { return a > b; }>();
  case P::sge: return pick.template operator()<[](int64_t a, int64_t b) { return a >= b; }>();
  case P::ult: return pick.template operator()<[](int64_t a, int64_t b) { return U(a) < U(b); }>();
  case P::ule: return pick.template operator()<[](int64_t a, int64_t b) { return U(a) <= U(b); }>();
  case P::ugt: return pick.template operator()<[](int64_t a, int64_t b) { return U(a) > U(b); }>();
  case P::uge: return pick.template operator()<[](int64_t a, int64_t b) { return U(a) >= U(b); }>();
  }
  return nullptr;
}

/// A conversion whose rule is `F`, between the held types of the scalars.
template <auto F> ScalarKernel conversion(Operation *op) {
  return withArithmeticType(op->getOperand(0).getType(), [&](auto from) -> ScalarKernel {
    return withArithmeticType(op->getResult(0).getType(), [&](auto to) -> ScalarKernel {
      return unaryLoop<[](decltype(from) x) { return F.template operator()<decltype(to)>(x); }, decltype(to), decltype(from)>;
    });
  });
}

/// Float to float; a value that stays f16, bf16 or fp8 within a body is held as a float that has been rounded.
ScalarKernel convertFloat(Operation *op) {
  Type to = op->getResult(0).getType();
  if (to.isBF16())
    return conversion<[]<typename T>(auto x) { return T(brainToFloat(floatToBrain(static_cast<float>(x)))); }>(op);
  if (to.isF16())
    return conversion<[]<typename T>(auto x) { return T(halfToFloat(floatToHalf(static_cast<float>(x)))); }>(op);
  if (is8BitFloat(to))
    return conversion<[]<typename T>(auto x) { return T(float8ToFloat(floatToFloat8(static_cast<float>(x)))); }>(op);
  return conversion<[]<typename T>(auto x) { return static_cast<T>(x); }>(op);
}

/// Integer to a narrower integer: low bits, sign extended (narrow integers are held as int64).
ScalarKernel truncateInt(Operation *op) {
  switch (op->getResult(0).getType().getIntOrFloatBitWidth()) {
  case 1: return conversion<[]<typename T>(auto x) { return static_cast<T>(static_cast<int64_t>(x) & 1); }>(op);
  case 8: return conversion<[]<typename T>(auto x) { return static_cast<T>(static_cast<int8_t>(x)); }>(op);
  case 16: return conversion<[]<typename T>(auto x) { return static_cast<T>(static_cast<int16_t>(x)); }>(op);
  case 32: return conversion<[]<typename T>(auto x) { return static_cast<T>(static_cast<int32_t>(x)); }>(op);
  default: return nullptr;
  }
}

ScalarKernel zeroExtend(Operation *op) {
  switch (op->getOperand(0).getType().getIntOrFloatBitWidth()) {
  case 1: return conversion<[]<typename T>(auto x) { return static_cast<T>(x); }>(op);
  case 8: return conversion<[]<typename T>(auto x) { return static_cast<T>(static_cast<uint8_t>(x)); }>(op);
  case 16: return conversion<[]<typename T>(auto x) { return static_cast<T>(static_cast<uint16_t>(x)); }>(op);
  case 32: return conversion<[]<typename T>(auto x) { return static_cast<T>(static_cast<uint32_t>(x)); }>(op);
  default: return nullptr;
  }
}

/// -x for a signed i1, x for everything wider.
constexpr auto kSignedValue = []<typename T>(auto x) {
  if constexpr (std::is_same_v<decltype(x), uint8_t>)
    return static_cast<T>(-static_cast<int>(x));
  else
    return static_cast<T>(x);
};

/// A float to the power of an integer: the operands are held in different types.
template <typename T> void integerExponentLoop(int64_t count, void *result, const void *const *operands) {
  auto *r = static_cast<T *>(result);
  auto *base = static_cast<const T *>(operands[0]);
  auto *exponent = static_cast<const int64_t *>(operands[1]);
  for (int64_t i = 0; i < count; ++i)
    r[i] = std::pow(base[i], static_cast<T>(exponent[i]));
}

ScalarKernel integerExponent(Type base, Type exponent) {
  if (!exponent.isInteger(64))
    return nullptr;
  return base.isF64() ? integerExponentLoop<double> : base.isF32() ? integerExponentLoop<float> : ScalarKernel(nullptr);
}

/// The bits of a scalar as another type of the same width. Narrow integers are held sign extended, small
/// floats as f32.
ScalarKernel reinterpretBits(Type from, Type to) {
  if (from.isF64() && to.isInteger(64))
    return unaryLoop<[](double x) { return std::bit_cast<int64_t>(x); }, int64_t, double>;
  if (from.isInteger(64) && to.isF64())
    return unaryLoop<[](int64_t x) { return std::bit_cast<double>(x); }, double, int64_t>;
  if (from.isF32() && to.isInteger(32))
    return unaryLoop<[](float x) { return std::bit_cast<int32_t>(x); }, int64_t, float>;
  if (from.isInteger(32) && to.isF32())
    return unaryLoop<[](int64_t x) { return std::bit_cast<float>(static_cast<int32_t>(x)); }, float, int64_t>;
  if (from.isBF16() && to.isInteger(16))
    return unaryLoop<[](float x) { return static_cast<int16_t>(floatToBrain(x)); }, int64_t, float>;
  if (from.isInteger(16) && to.isBF16())
    return unaryLoop<[](int64_t x) { return brainToFloat(static_cast<uint16_t>(x)); }, float, int64_t>;
  if (from.isF16() && to.isInteger(16))
    return unaryLoop<[](float x) { return static_cast<int16_t>(floatToHalf(x)); }, int64_t, float>;
  if (from.isInteger(16) && to.isF16())
    return unaryLoop<[](int64_t x) { return halfToFloat(static_cast<uint16_t>(x)); }, float, int64_t>;
  if (is8BitFloat(from) && to.isInteger(8))
    return unaryLoop<[](float x) { return static_cast<int8_t>(floatToFloat8(x)); }, int64_t, float>;
  if (from.isInteger(8) && is8BitFloat(to))
    return unaryLoop<[](int64_t x) { return float8ToFloat(static_cast<uint8_t>(x)); }, float, int64_t>;
  return nullptr;
}

ScalarKernel conversionKernel(Operation *op) {
  return llvm::TypeSwitch<Operation *, ScalarKernel>(op)
      .Case<arith::ExtFOp, arith::TruncFOp>([](auto op) { return convertFloat(op); })
      .Case<arith::ExtSIOp, arith::SIToFPOp>([](auto op) { return conversion<kSignedValue>(op); })
      .Case([](arith::UIToFPOp op) { return conversion<[]<typename T>(auto x) { return static_cast<T>(static_cast<uint64_t>(x)); }>(op); })
      .Case([](arith::ExtUIOp op) { return zeroExtend(op); })
      .Case([](arith::TruncIOp op) { return truncateInt(op); })
      .Case<arith::FPToSIOp, arith::FPToUIOp>(
          [](auto op) { return conversion<[]<typename T>(auto x) { return convertNumber<T>(x); }>(op); })
      .Case([](arith::BitcastOp op) { return reinterpretBits(op.getIn().getType(), op.getType()); })
      .Case([](math::FPowIOp op) { return integerExponent(op.getLhs().getType(), op.getRhs().getType()); })
      .Case([](arith::SelectOp op) -> ScalarKernel {
        if (!op.getCondition().getType().isInteger(1))
          return nullptr;
        return withArithmeticType(op.getType(), [](auto number) -> ScalarKernel { return selectLoop<decltype(number)>; });
      })
      .Case([](arith::CmpFOp op) { return compareFloats(op.getPredicate(), op.getLhs().getType()); })
      .Case([](arith::CmpIOp op) { return compareInts(op.getPredicate(), op.getLhs().getType()); })
      .Default([](Operation *) { return nullptr; });
}

// A row: the operation, the family of loops, the function on numbers.
#define DITC_ROW(OP, FAMILY, ...) .Case([&](OP) { return FAMILY<__VA_ARGS__>(type); })

ScalarKernel arithKernel(Operation *op, Type type) {
  return llvm::TypeSwitch<Operation *, ScalarKernel>(op)
      // clang-format off
      DITC_ROW(arith::AddFOp, floats2, [](auto a, auto b) { return a + b; })
      DITC_ROW(arith::SubFOp, floats2, [](auto a, auto b) { return a - b; })
      DITC_ROW(arith::MulFOp, floats2, [](auto a, auto b) { return a * b; })
      DITC_ROW(arith::DivFOp, floats2, [](auto a, auto b) { return a / b; })
      DITC_ROW(arith::RemFOp, floats2, [](auto a, auto b) { return std::fmod(a, b); })
      DITC_ROW(arith::NegFOp, floats1, [](auto a) { return -a; })
      DITC_ROW(arith::MaximumFOp, floats2, kMaximum)
      DITC_ROW(arith::MinimumFOp, floats2, kMinimum)
      DITC_ROW(arith::MaxNumFOp, floats2, [](auto a, auto b) { return std::isnan(a) ? b : std::isnan(b) ? a : kMaximum(a, b); })
      DITC_ROW(arith::MinNumFOp, floats2, [](auto a, auto b) { return std::isnan(a) ? b : std::isnan(b) ? a : kMinimum(a, b); })
      DITC_ROW(arith::AddIOp, ints2, kWrapped<[](uint64_t a, uint64_t b) { return a + b; }>)
      DITC_ROW(arith::SubIOp, ints2, kWrapped<[](uint64_t a, uint64_t b) { return a - b; }>)
      DITC_ROW(arith::MulIOp, ints2, kWrapped<[](uint64_t a, uint64_t b) { return a * b; }>)
      DITC_ROW(arith::DivSIOp, ints2, kDivide)
      DITC_ROW(arith::DivUIOp, ints2, kWrapped<kDivideUnsigned>)
      DITC_ROW(arith::RemSIOp, ints2, kRemainder)
      DITC_ROW(arith::RemUIOp, ints2, kWrapped<kRemainderUnsigned>)
      DITC_ROW(arith::FloorDivSIOp, ints2, kFloorDivide)
      DITC_ROW(arith::CeilDivSIOp, ints2, kCeilDivide)
      DITC_ROW(arith::AndIOp, ints2, [](int64_t a, int64_t b) { return a & b; })
      DITC_ROW(arith::OrIOp, ints2, [](int64_t a, int64_t b) { return a | b; })
      DITC_ROW(arith::XOrIOp, ints2, [](int64_t a, int64_t b) { return a ^ b; })
      DITC_ROW(arith::ShLIOp, ints2, kWrapped<[](uint64_t a, uint64_t b) { return b < 64 ? a << b : 0; }>)
      DITC_ROW(arith::ShRSIOp, ints2, [](int64_t a, int64_t b) { return a >> (static_cast<uint64_t>(b) < 64 ? b : 63); })
      DITC_ROW(arith::ShRUIOp, ints2, kWrapped<[](uint64_t a, uint64_t b) { return b < 64 ? a >> b : 0; }>)
      DITC_ROW(arith::MaxSIOp, ints2, [](int64_t a, int64_t b) { return a > b ? a : b; })
      DITC_ROW(arith::MinSIOp, ints2, [](int64_t a, int64_t b) { return a < b ? a : b; })
      DITC_ROW(arith::MaxUIOp, ints2, kWrapped<[](uint64_t a, uint64_t b) { return a > b ? a : b; }>)
      DITC_ROW(arith::MinUIOp, ints2, kWrapped<[](uint64_t a, uint64_t b) { return a < b ? a : b; }>)
      DITC_ROW(math::IPowIOp, ints2, kIntegerPower)
      DITC_ROW(math::AbsIOp, ints1, [](int64_t a) { return a == kSmallest || a >= 0 ? a : -a; })
                                                                      // clang-format on
                                                                      .Default([](Operation *) { return nullptr; });
}

ScalarKernel mathKernel(Operation *op, Type type) {
  return llvm::TypeSwitch<Operation *, ScalarKernel>(op)
      // clang-format off
      DITC_ROW(math::AbsFOp, floats1, [](auto a) { return std::fabs(a); })
      DITC_ROW(math::ExpOp, floats1, [](auto a) { return std::exp(a); })
      DITC_ROW(math::Exp2Op, floats1, [](auto a) { return std::exp2(a); })
      DITC_ROW(math::ExpM1Op, floats1, [](auto a) { return std::expm1(a); })
      DITC_ROW(math::LogOp, floats1, [](auto a) { return std::log(a); })
      DITC_ROW(math::Log2Op, floats1, [](auto a) { return std::log2(a); })
      DITC_ROW(math::Log10Op, floats1, [](auto a) { return std::log10(a); })
      DITC_ROW(math::Log1pOp, floats1, [](auto a) { return std::log1p(a); })
      DITC_ROW(math::SinOp, floats1, [](auto a) { return std::sin(a); })
      DITC_ROW(math::CosOp, floats1, [](auto a) { return std::cos(a); })
      DITC_ROW(math::TanOp, floats1, [](auto a) { return std::tan(a); })
      DITC_ROW(math::AsinOp, floats1, [](auto a) { return std::asin(a); })
      DITC_ROW(math::AcosOp, floats1, [](auto a) { return std::acos(a); })
      DITC_ROW(math::AtanOp, floats1, [](auto a) { return std::atan(a); })
      DITC_ROW(math::SinhOp, floats1, [](auto a) { return std::sinh(a); })
      DITC_ROW(math::CoshOp, floats1, [](auto a) { return std::cosh(a); })
      DITC_ROW(math::TanhOp, floats1, [](auto a) { return std::tanh(a); })
      DITC_ROW(math::AsinhOp, floats1, [](auto a) { return std::asinh(a); })
      DITC_ROW(math::AcoshOp, floats1, [](auto a) { return std::acosh(a); })
      DITC_ROW(math::AtanhOp, floats1, [](auto a) { return std::atanh(a); })
      DITC_ROW(math::Atan2Op, floats2, [](auto a, auto b) { return std::atan2(a, b); })
      DITC_ROW(math::SqrtOp, floats1, [](auto a) { return std::sqrt(a); })
      DITC_ROW(math::RsqrtOp, floats1, [](auto a) { return 1 / std::sqrt(a); })
      DITC_ROW(math::CbrtOp, floats1, [](auto a) { return std::cbrt(a); })
      DITC_ROW(math::PowFOp, floats2, [](auto a, auto b) { return std::pow(a, b); })
      DITC_ROW(math::ErfOp, floats1, [](auto a) { return std::erf(a); })
      DITC_ROW(math::ErfcOp, floats1, [](auto a) { return std::erfc(a); })
      DITC_ROW(math::CeilOp, floats1, [](auto a) { return std::ceil(a); })
      DITC_ROW(math::FloorOp, floats1, [](auto a) { return std::floor(a); })
      DITC_ROW(math::TruncOp, floats1, [](auto a) { return std::trunc(a); })
      DITC_ROW(math::RoundOp, floats1, [](auto a) { return std::round(a); })
      DITC_ROW(math::RoundEvenOp, floats1, [](auto a) { return std::nearbyint(a); })
      DITC_ROW(math::CopySignOp, floats2, [](auto a, auto b) { return std::copysign(a, b); })
      DITC_ROW(math::FmaOp, floats3, [](auto a, auto b, auto c) { return std::fma(a, b, c); })
      DITC_ROW(math::ClampFOp, floats3, [](auto a, auto low, auto high) { return kMinimum(kMaximum(a, low), high); })
      DITC_ROW(math::IsNormalOp, floatTest, [](auto a) { return std::isnormal(a); })
      DITC_ROW(math::IsNaNOp, floatTest, [](auto a) { return std::isnan(a); })
      DITC_ROW(math::IsInfOp, floatTest, [](auto a) { return std::isinf(a); })
      DITC_ROW(math::IsFiniteOp, floatTest, [](auto a) { return std::isfinite(a); })
                                                                                  // clang-format on
                                                                                  .Default([](Operation *) { return nullptr; });
}
#undef DITC_ROW

} // namespace

ScalarKernel scalarKernel(Operation *op) {
  if (op->getNumOperands() == 0 || op->getNumResults() != 1)
    return nullptr;
  Type type = op->getOperand(0).getType();
  if (ScalarKernel kernel = conversionKernel(op))
    return kernel;
  if (ScalarKernel kernel = arithKernel(op, type))
    return kernel;
  return mathKernel(op, type);
}

} // namespace ditc::dit
