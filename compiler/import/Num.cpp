// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/Num.h"

#include <cmath>

using namespace mlir;

namespace ditc {

Num operator-(Num x) {
  if (x.isFloat())
    return apply<arith::NegFOp>(x);
  return 0.0 - x;
}

static arith::CmpFPredicate floatPredicate(Comparison comparison) {
  switch (comparison) {
  case Comparison::Eq: return arith::CmpFPredicate::OEQ;
  case Comparison::Ne: return arith::CmpFPredicate::UNE;
  case Comparison::Lt: return arith::CmpFPredicate::OLT;
  case Comparison::Le: return arith::CmpFPredicate::OLE;
  case Comparison::Gt: return arith::CmpFPredicate::OGT;
  case Comparison::Ge: return arith::CmpFPredicate::OGE;
  }
  return arith::CmpFPredicate::OEQ;
}

/// Bools compare as unsigned: a signed i1 is 0 or -1.
static arith::CmpIPredicate intPredicate(Comparison comparison, bool isBool) {
  switch (comparison) {
  case Comparison::Eq: return arith::CmpIPredicate::eq;
  case Comparison::Ne: return arith::CmpIPredicate::ne;
  case Comparison::Lt: return isBool ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt;
  case Comparison::Le: return isBool ? arith::CmpIPredicate::ule : arith::CmpIPredicate::sle;
  case Comparison::Gt: return isBool ? arith::CmpIPredicate::ugt : arith::CmpIPredicate::sgt;
  case Comparison::Ge: return isBool ? arith::CmpIPredicate::uge : arith::CmpIPredicate::sge;
  }
  return arith::CmpIPredicate::eq;
}

Num compare(Comparison comparison, Num x, Num y) {
  ImplicitLocOpBuilder &b = x.builder();
  if (x.isFloat())
    return {b, arith::CmpFOp::create(b, floatPredicate(comparison), x.value(), y.value())};
  return {b, arith::CmpIOp::create(b, intPredicate(comparison, x.isBool()), x.value(), y.value())};
}

Num abs(Num x) {
  if (x.isFloat())
    return apply<math::AbsFOp>(x);
  return x.isBool() ? x : apply<math::AbsIOp>(x);
}

Num isNan(Num x) { return {x.builder(), arith::CmpFOp::create(x.builder(), arith::CmpFPredicate::UNO, x.value(), x.value())}; }

Num logAddExp(Num x, Num y) {
  Num larger = max(x, y);
  return select((x == y) & (abs(x) == HUGE_VAL), x, larger + log1p(exp(-abs(x - y))));
}

} // namespace ditc
