// SPDX-License-Identifier: Apache-2.0
//
// The table of scalar operations. Everything that the hardware leaves undefined is defined here, since a value
// from a user's tensor must never stop the process: division by zero gives 0 (and the
// dividend as remainder), the smallest integer divided by -1 wraps, a shift by the width or more gives 0 (the sign for shrsi), conversion to an integer saturates.
#include "codegen/host/ScalarOps.h"

#include "codegen/host/Elements.h"
#include "dialects/dit/Tensors.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/Module.h"

namespace ditc {
namespace {

using llvm::Intrinsic::ID;
using llvm::Value;
using Values = llvm::ArrayRef<Value *>;
using Predicate = llvm::CmpInst::Predicate;

/// What a row may use: the builder, the operation, its operands and the LLVM type of its result.
struct Row {
  llvm::IRBuilderBase &b;
  mlir::Operation &op;
  Values in;
  llvm::Type *type;

  mlir::Type from() const { return op.getOperand(0).getType(); }
  mlir::Type to() const { return op.getResult(0).getType(); }
  llvm::Constant *integer(int64_t value) const { return llvm::ConstantInt::getSigned(type, value); }
};
using Emit = Value *(*)(const Row &);

//===-- Building blocks ---------------------------------------------------------------------------===//

template <llvm::Instruction::BinaryOps OP> Value *binary(const Row &r) { return r.b.CreateBinOp(OP, r.in[0], r.in[1]); }
template <ID INTRINSIC> Value *unaryIntrinsic(const Row &r) { return r.b.CreateUnaryIntrinsic(INTRINSIC, r.in[0]); }
template <ID INTRINSIC> Value *binaryIntrinsic(const Row &r) { return r.b.CreateBinaryIntrinsic(INTRINSIC, r.in[0], r.in[1]); }
template <ID INTRINSIC> Value *countIntrinsic(const Row &r) { return r.b.CreateBinaryIntrinsic(INTRINSIC, r.in[0], r.b.getFalse()); }
template <llvm::Instruction::CastOps OP> Value *convert(const Row &r) { return r.b.CreateCast(OP, r.in[0], r.type); }

/// Calls a function that depends on its arguments only, all of one type.
Value *callPure(llvm::IRBuilderBase &b, llvm::StringRef symbol, Values in) {
  llvm::Type *type = in[0]->getType();
  llvm::SmallVector<llvm::Type *> types(in.size(), type);
  llvm::Module *module = b.GetInsertBlock()->getModule();
  llvm::FunctionCallee callee = module->getOrInsertFunction(symbol, llvm::FunctionType::get(type, types, false));
  auto *function = llvm::cast<llvm::Function>(callee.getCallee());
  function->setDoesNotAccessMemory();
  function->setDoesNotThrow();
  function->setWillReturn();
  return b.CreateCall(callee, in);
}

/// A function of libm: `name` for f64, `name` + "f" for f32.
Value *callMath(llvm::IRBuilderBase &b, llvm::StringRef name, Values in) {
  return callPure(b, in[0]->getType()->isDoubleTy() ? name.str() : name.str() + "f", in);
}

/// A function of libm whose name is the operation's.
Value *sameNameInLibm(const Row &r) { return callMath(r.b, r.op.getName().stripDialect(), r.in); }

/// In f32 a function of templates/host/functions.h, which vectorises; in f64 libm's.
Value *ownFunction(const Row &r) {
  if (r.type->isDoubleTy())
    return sameNameInLibm(r);
  return callPure(r.b, ("ditc_math_" + r.op.getName().stripDialect()).str(), r.in);
}

//===-- Integers ----------------------------------------------------------------------------------===//

/// The divisor with 0 replaced by 1; the caller replaces the result.
Value *safeDivisor(const Row &r) { return r.b.CreateSelect(r.b.CreateIsNull(r.in[1]), r.integer(1), r.in[1]); }

template <llvm::Instruction::BinaryOps OP> Value *divideUnsigned(const Row &r) {
  Value *byZero = OP == llvm::Instruction::URem ? r.in[0] : r.integer(0);
  return r.b.CreateSelect(r.b.CreateIsNull(r.in[1]), byZero, r.b.CreateBinOp(OP, r.in[0], safeDivisor(r)));
}

/// Both hardware traps at once: a divisor of 0 or -1 divides by 1 instead.
Value *divideSigned(const Row &r) {
  Value *minusOne = r.b.CreateICmpEQ(r.in[1], r.integer(-1)), *zero = r.b.CreateIsNull(r.in[1]);
  Value *divisor = r.b.CreateSelect(r.b.CreateOr(minusOne, zero), r.integer(1), r.in[1]);
  Value *quotient = r.b.CreateSelect(minusOne, r.b.CreateNeg(r.in[0]), r.b.CreateSDiv(r.in[0], divisor));
  return r.b.CreateSelect(zero, r.integer(0), quotient);
}

Value *remainderSigned(const Row &r) { return r.b.CreateSub(r.in[0], r.b.CreateMul(divideSigned(r), r.in[1])); }

/// Division towards minus infinity (`down`) or plus infinity: the truncated quotient, one off where a
/// remainder is left and the signs differ (or agree).
Value *divideTowards(const Row &r, bool down) {
  Value *quotient = divideSigned(r);
  Value *inexact = r.b.CreateICmpNE(r.b.CreateMul(quotient, r.in[1]), r.in[0]);
  Value *differ = r.b.CreateICmpSLT(r.b.CreateXor(r.in[0], r.in[1]), r.integer(0));
  Value *apply = r.b.CreateAnd(inexact, down ? differ : r.b.CreateNot(differ));
  Value *corrected = r.b.CreateAdd(quotient, r.integer(down ? -1 : 1));
  return r.b.CreateSelect(r.b.CreateIsNull(r.in[1]), r.integer(0), r.b.CreateSelect(apply, corrected, quotient));
}

Value *ceilDivideUnsigned(const Row &r) {
  Value *nonZero = r.b.CreateICmpNE(r.in[0], r.integer(0));
  Value *less = r.b.CreateSub(r.in[0], r.b.CreateZExt(nonZero, r.type));
  return r.b.CreateAdd(divideUnsigned<llvm::Instruction::UDiv>({r.b, r.op, {less, r.in[1]}, r.type}), r.b.CreateZExt(nonZero, r.type));
}

template <llvm::Instruction::BinaryOps OP> Value *shift(const Row &r) {
  unsigned width = r.type->getIntegerBitWidth();
  Value *fits = r.b.CreateICmpULT(r.in[1], r.integer(width));
  if (OP == llvm::Instruction::AShr)
    return r.b.CreateAShr(r.in[0], r.b.CreateSelect(fits, r.in[1], r.integer(width - 1)));
  return r.b.CreateSelect(fits, r.b.CreateBinOp(OP, r.in[0], r.b.CreateSelect(fits, r.in[1], r.integer(0))), r.integer(0));
}

/// x to an integer power by squaring, unrolled over the bits of the exponent: no loop, so maps still vectorise.
/// A negative exponent gives the reciprocal rounded to an integer: 1 for 1, ±1 for -1, else 0.
Value *integerPower(const Row &r) {
  Value *power = r.integer(1), *square = r.in[0];
  for (unsigned bit = 0, width = r.type->getIntegerBitWidth(); bit + 1 < width && bit < 63; ++bit) {
    Value *set = r.b.CreateTrunc(r.b.CreateLShr(r.in[1], bit), r.b.getInt1Ty());
    power = r.b.CreateSelect(set, r.b.CreateMul(power, square), power);
    square = r.b.CreateMul(square, square);
  }
  Value *odd = r.b.CreateTrunc(r.in[1], r.b.getInt1Ty());
  Value *ofMinusOne = r.b.CreateSelect(odd, r.integer(-1), r.integer(1));
  Value *reciprocal = r.b.CreateSelect(r.b.CreateICmpEQ(r.in[0], r.integer(-1)), ofMinusOne, r.integer(0));
  reciprocal = r.b.CreateSelect(r.b.CreateICmpEQ(r.in[0], r.integer(1)), r.integer(1), reciprocal);
  return r.b.CreateSelect(r.b.CreateICmpSLT(r.in[1], r.integer(0)), reciprocal, power);
}

Value *absoluteInteger(const Row &r) { return r.b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, r.in[0], r.b.getFalse()); }

Value *compareIntegers(const Row &r) {
  static constexpr Predicate kPredicates[] = {Predicate::ICMP_EQ,  Predicate::ICMP_NE,  Predicate::ICMP_SLT, Predicate::ICMP_SLE, Predicate::ICMP_SGT,
                                              Predicate::ICMP_SGE, Predicate::ICMP_ULT, Predicate::ICMP_ULE, Predicate::ICMP_UGT, Predicate::ICMP_UGE};
  return r.b.CreateICmp(kPredicates[static_cast<int>(llvm::cast<mlir::arith::CmpIOp>(r.op).getPredicate())], r.in[0], r.in[1]);
}

Value *resizeSigned(const Row &r) { return r.b.CreateSExtOrTrunc(r.in[0], r.type); }
Value *resizeUnsigned(const Row &r) { return r.b.CreateZExtOrTrunc(r.in[0], r.type); }

//===-- Floats ------------------------------------------------------------------------------------===//

Value *compareFloats(const Row &r) {
  using P = mlir::arith::CmpFPredicate;
  static_assert(static_cast<int>(P::OEQ) == Predicate::FCMP_OEQ && static_cast<int>(P::ORD) == Predicate::FCMP_ORD);
  static constexpr Predicate kUnordered[] = {Predicate::FCMP_UEQ, Predicate::FCMP_UGT, Predicate::FCMP_UGE, Predicate::FCMP_ULT,
                                             Predicate::FCMP_ULE, Predicate::FCMP_UNE, Predicate::FCMP_UNO, Predicate::FCMP_TRUE};
  int predicate = static_cast<int>(llvm::cast<mlir::arith::CmpFOp>(r.op).getPredicate());
  bool ordered = predicate <= static_cast<int>(P::ORD); // AlwaysFalse, OEQ ... ORD are numbered as LLVM's are
  return r.b.CreateFCmp(ordered ? static_cast<Predicate>(predicate) : kUnordered[predicate - static_cast<int>(P::UEQ)], r.in[0], r.in[1]);
}

Value *negate(const Row &r) { return r.b.CreateFNeg(r.in[0]); }

Value *reciprocalRoot(const Row &r) {
  return r.b.CreateFDiv(llvm::ConstantFP::get(r.type, 1.0), r.b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, r.in[0]));
}

Value *fusedMultiplyAdd(const Row &r) { return r.b.CreateIntrinsic(llvm::Intrinsic::fma, {r.type}, {r.in[0], r.in[1], r.in[2]}); }

Value *clampFloat(const Row &r) {
  Value *low = r.b.CreateBinaryIntrinsic(llvm::Intrinsic::maximum, r.in[0], r.in[1]);
  return r.b.CreateBinaryIntrinsic(llvm::Intrinsic::minimum, low, r.in[2]);
}

Value *power(const Row &r) { return callMath(r.b, "pow", r.in); }
Value *powerOfInteger(const Row &r) { return callMath(r.b, "pow", {r.in[0], r.b.CreateSIToFP(r.in[1], r.type)}); }
Value *absoluteFloat(const Row &r) { return r.b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, r.in[0]); }

Value *isNan(const Row &r) { return r.b.CreateFCmpUNO(r.in[0], r.in[0]); }

Value *magnitudeAgainst(const Row &r, Predicate predicate, llvm::Constant *(*limit)(llvm::Type *)) {
  return r.b.CreateFCmp(predicate, r.b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, r.in[0]), limit(r.in[0]->getType()));
}
llvm::Constant *infinity(llvm::Type *type) { return llvm::ConstantFP::getInfinity(type); }
llvm::Constant *smallestNormal(llvm::Type *type) {
  return llvm::ConstantFP::get(type, llvm::APFloat::getSmallestNormalized(type->getFltSemantics()));
}
Value *isInf(const Row &r) { return magnitudeAgainst(r, Predicate::FCMP_OEQ, infinity); }
Value *isFinite(const Row &r) { return magnitudeAgainst(r, Predicate::FCMP_OLT, infinity); }
Value *isNormal(const Row &r) { return r.b.CreateAnd(isFinite(r), magnitudeAgainst(r, Predicate::FCMP_OGE, smallestNormal)); }

//===-- Conversions -------------------------------------------------------------------------------===//

template <ID INTRINSIC> Value *toInteger(const Row &r) { return r.b.CreateIntrinsic(INTRINSIC, {r.type, r.in[0]->getType()}, {r.in[0]}); }

/// extf and truncf: small floats are kept as f32, so only the step between f32 and f64 is an instruction here.
Value *resizeFloat(const Row &r) { return r.b.CreateFPCast(r.in[0], r.type); }

Value *reinterpret(const Row &r) {
  Value *value = r.in[0];
  if (isSmallFloat(r.from()))
    value = smallFloatBits(r.b, r.from(), value);
  return isSmallFloat(r.to()) ? smallFloatFromBits(r.b, r.to(), value) : r.b.CreateBitCast(value, r.type);
}

Value *constant(const Row &r) {
  mlir::TypedAttr value = llvm::cast<mlir::arith::ConstantOp>(r.op).getValue();
  if (auto integer = llvm::dyn_cast<mlir::IntegerAttr>(value))
    return llvm::ConstantInt::get(r.type, integer.getValue().sextOrTrunc(r.type->getIntegerBitWidth()));
  llvm::APFloat number = llvm::cast<mlir::FloatAttr>(value).getValue();
  bool lossy = false;
  number.convert(r.type->getFltSemantics(), llvm::APFloat::rmNearestTiesToEven, &lossy);
  return llvm::ConstantFP::get(r.type, number);
}

Value *select(const Row &r) { return r.b.CreateSelect(r.in[0], r.in[1], r.in[2]); }

//===-- The table ---------------------------------------------------------------------------------===//

using I = llvm::Instruction;
namespace intrinsic = llvm::Intrinsic;

constexpr std::pair<llvm::StringLiteral, Emit> kRows[] = {
    {"arith.constant", constant},
    {"arith.select", select},
    {"arith.bitcast", reinterpret},
    // floats
    {"arith.addf", binary<I::FAdd>},
    {"arith.subf", binary<I::FSub>},
    {"arith.mulf", binary<I::FMul>},
    {"arith.divf", binary<I::FDiv>},
    {"arith.remf", binary<I::FRem>},
    {"arith.negf", negate},
    {"arith.cmpf", compareFloats},
    {"arith.maximumf", binaryIntrinsic<intrinsic::maximum>},
    {"arith.minimumf", binaryIntrinsic<intrinsic::minimum>},
    {"arith.maxnumf", binaryIntrinsic<intrinsic::maxnum>},
    {"arith.minnumf", binaryIntrinsic<intrinsic::minnum>},
    {"arith.extf", resizeFloat},
    {"arith.truncf", resizeFloat},
    {"arith.sitofp", convert<I::SIToFP>},
    {"arith.uitofp", convert<I::UIToFP>},
    {"arith.fptosi", toInteger<intrinsic::fptosi_sat>},
    {"arith.fptoui", toInteger<intrinsic::fptoui_sat>},
    // integers
    {"arith.addi", binary<I::Add>},
    {"arith.subi", binary<I::Sub>},
    {"arith.muli", binary<I::Mul>},
    {"arith.divsi", divideSigned},
    {"arith.divui", divideUnsigned<I::UDiv>},
    {"arith.remsi", remainderSigned},
    {"arith.remui", divideUnsigned<I::URem>},
    {"arith.floordivsi", [](const Row &r) { return divideTowards(r, true); }},
    {"arith.ceildivsi", [](const Row &r) { return divideTowards(r, false); }},
    {"arith.ceildivui", ceilDivideUnsigned},
    {"arith.andi", binary<I::And>},
    {"arith.ori", binary<I::Or>},
    {"arith.xori", binary<I::Xor>},
    {"arith.shli", shift<I::Shl>},
    {"arith.shrsi", shift<I::AShr>},
    {"arith.shrui", shift<I::LShr>},
    {"arith.cmpi", compareIntegers},
    {"arith.maxsi", binaryIntrinsic<intrinsic::smax>},
    {"arith.minsi", binaryIntrinsic<intrinsic::smin>},
    {"arith.maxui", binaryIntrinsic<intrinsic::umax>},
    {"arith.minui", binaryIntrinsic<intrinsic::umin>},
    {"arith.extsi", convert<I::SExt>},
    {"arith.extui", convert<I::ZExt>},
    {"arith.trunci", convert<I::Trunc>},
    {"arith.index_cast", resizeSigned},
    {"arith.index_castui", resizeUnsigned},
    {"math.absi", absoluteInteger},
    {"math.ctlz", countIntrinsic<intrinsic::ctlz>},
    {"math.cttz", countIntrinsic<intrinsic::cttz>},
    {"math.ctpop", unaryIntrinsic<intrinsic::ctpop>},
    {"math.ipowi", integerPower},
    // functions with an instruction or a short sequence
    {"math.absf", absoluteFloat},
    {"math.sqrt", unaryIntrinsic<intrinsic::sqrt>},
    {"math.rsqrt", reciprocalRoot},
    {"math.fma", fusedMultiplyAdd},
    {"math.clampf", clampFloat},
    {"math.copysign", binaryIntrinsic<intrinsic::copysign>},
    {"math.floor", unaryIntrinsic<intrinsic::floor>},
    {"math.ceil", unaryIntrinsic<intrinsic::ceil>},
    {"math.trunc", unaryIntrinsic<intrinsic::trunc>},
    {"math.round", unaryIntrinsic<intrinsic::round>},
    {"math.roundeven", unaryIntrinsic<intrinsic::roundeven>},
    {"math.isnan", isNan},
    {"math.isinf", isInf},
    {"math.isfinite", isFinite},
    {"math.isnormal", isNormal},
    // activations
    {"math.exp", ownFunction},
    {"math.tanh", ownFunction},
    {"math.erf", ownFunction},
    // libm
    {"math.exp2", sameNameInLibm},
    {"math.expm1", sameNameInLibm},
    {"math.log", sameNameInLibm},
    {"math.log2", sameNameInLibm},
    {"math.log10", sameNameInLibm},
    {"math.log1p", sameNameInLibm},
    {"math.sin", sameNameInLibm},
    {"math.cos", sameNameInLibm},
    {"math.tan", sameNameInLibm},
    {"math.asin", sameNameInLibm},
    {"math.acos", sameNameInLibm},
    {"math.atan", sameNameInLibm},
    {"math.atan2", sameNameInLibm},
    {"math.sinh", sameNameInLibm},
    {"math.cosh", sameNameInLibm},
    {"math.asinh", sameNameInLibm},
    {"math.acosh", sameNameInLibm},
    {"math.atanh", sameNameInLibm},
    {"math.erfc", sameNameInLibm},
    {"math.cbrt", sameNameInLibm},
    {"math.powf", power},
    {"math.fpowi", powerOfInteger},
};

Emit findRow(llvm::StringRef name) {
  const auto *row = llvm::find_if(kRows, [&](const auto &entry) { return entry.first == name; });
  return row == std::end(kRows) ? nullptr : row->second;
}

} // namespace

llvm::Expected<llvm::SmallVector<Value *>> emitScalarBody(llvm::IRBuilderBase &b, mlir::Block &body, llvm::ArrayRef<Value *> args) {
  llvm::DenseMap<mlir::Value, Value *> values;
  for (auto [argument, value] : llvm::zip(body.getArguments(), args))
    values[argument] = value;
  llvm::SmallVector<Value *> in;
  for (mlir::Operation &op : body) {
    in.clear();
    for (mlir::Value operand : op.getOperands())
      in.push_back(values.lookup(operand));
    if (&op == &body.back())
      break;
    Emit emit = op.getNumResults() == 1 ? findRow(op.getName().getStringRef()) : nullptr;
    if (!emit)
      return llvm::createStringError("the host target has no scalar code for '" + op.getName().getStringRef() + "'");
    mlir::Type type = op.getResult(0).getType();
    if (!type.isIntOrIndexOrFloat())
      return llvm::createStringError("the body of a map is scalar, but '" + op.getName().getStringRef() + "' has another result type");
    values[op.getResult(0)] = roundToSmallFloat(b, type, emit({b, op, in, scalarType(b.getContext(), type)}));
  }
  return in;
}

} // namespace ditc
