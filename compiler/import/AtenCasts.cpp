// SPDX-License-Identifier: Apache-2.0
//
// ATen ops that keep every element's value: casts, copies, and ops that do nothing at inference.
#include "compiler/import/AtenHelpers.h"

#include "runtime/Error.h"

using namespace mlir;

namespace ditc {

using Results = std::vector<Value>;

static Results identity(OpContext &ctx) { return {ctx.tensor("self")}; }

/// `value` in the type of result `i`: real numbers get an imaginary part of 0, complex ones lose theirs.
static Value inResultType(OpContext &ctx, Value value, bool fromComplex) {
  value = ctx.emit.cast(value, ctx.resultElement());
  if (ctx.resultIsComplex() && !fromComplex) {
    value = ctx.emit.unsqueeze(value, -1);
    Value zero = ctx.emit.full(Emit::shapeOf(value), ctx.resultElement(), Scalar::of(0.0));
    return ctx.emit.concat({value, zero}, -1);
  }
  return fromComplex && !ctx.resultIsComplex() ? ctx.emit.select(value, -1, 0) : value;
}

static Results cast(OpContext &ctx) { return {inResultType(ctx, ctx.tensor("self"), ctx.isComplex("self"))}; }

/// The bits of each element as another type of the same width.
static Results reinterpretBits(OpContext &ctx) {
  Value self = ctx.tensor("self");
  Type from = Emit::elementOf(self), to = ctx.resultElement();
  if (from == to) // also complex numbers as pairs of real ones, and back
    return {ctx.emit.view(self, ctx.resultType().getShape())};
  unsigned width = from.getIntOrFloatBitWidth();
  if (width != to.getIntOrFloatBitWidth() || isa<FloatType>(from) == isa<FloatType>(to) || width < 8)
    fail("reinterprets {} as {}, which is not supported", typeText(from), typeText(to));
  return {ctx.emit.map(self, to, [&](ImplicitLocOpBuilder &body, ValueRange v) -> Value {
    Type bits = body.getIntegerType(width), compute = dit::computeType(to);
    if (isa<FloatType>(from)) {
      Value number = from == v[0].getType() ? v[0] : Value(arith::TruncFOp::create(body, from, v[0]));
      Value integer = arith::BitcastOp::create(body, bits, number);
      return width == 64 ? integer : Value(arith::ExtSIOp::create(body, compute, integer));
    }
    Value integer = width == 64 ? v[0] : Value(arith::TruncIOp::create(body, bits, v[0]));
    Value number = arith::BitcastOp::create(body, to, integer);
    return to == compute ? number : Value(arith::ExtFOp::create(body, compute, number));
  })};
}

/// self's type and shape, src's elements.
static Results copy(OpContext &ctx) {
  Value source = inResultType(ctx, ctx.tensor("src"), ctx.isComplex("src"));
  return {ctx.emit.expand(source, ctx.resultType().getShape())};
}

static Results dropout(OpContext &ctx) {
  if (ctx.flag("train", true) && ctx.number("p", 0.5) != 0)
    fail("dropout is switched on; call model.eval() before exporting");
  Value input = ctx.tensor("input");
  if (ctx.resultCount() == 1)
    return {input};
  return {input, ctx.emit.full(Emit::shapeOf(input), ctx.emit.builder().getI1Type(), Scalar::of(true))};
}

std::vector<OpRow> atenCasts() {
  using enum Aliasing;
  return {
      {"aten.to.dtype", cast, IfStrides, true},
      {"aten.to.device", cast, IfStrides, true},
      {"aten.to.dtype_layout", cast, IfStrides, true},
      {"aten.to.other", cast, IfStrides, true},
      {"aten.to.prim_Device", cast, IfStrides, true},
      {"aten.to.prim_dtype", cast, IfStrides, true},
      {"aten.type_as.default", cast, IfStrides, true},
      {"aten._to_copy.default", cast, Fresh, true},
      {"prims.convert_element_type.default", cast, Fresh, true},
      {"aten.view.dtype", reinterpretBits, View, true},
      {"aten.copy.default", copy, Fresh, true},
      {"aten.clone.default", identity, Fresh, true},
      {"aten.lift_fresh_copy.default", identity, Fresh, true},
      {"aten.lift_fresh.default", identity, View, true},
      {"aten.lift.default", identity, View, true},
      {"aten.contiguous.default", identity, IfStrides, true},
      {"aten.detach.default", identity, View, true},
      {"aten.alias.default", identity, View, true},
      {"aten.positive.default", identity, View, true},
      {"aten.resolve_neg.default", identity, View, true},
      {"aten.resolve_conj.default", identity, View, true},
      {"aten.real.default", identity, View},
      {"aten.conj.default", identity, View},
      {"aten._conj.default", identity, View},
      {"aten.conj_physical.default", identity, View},
      {"aten.dropout.default", dropout, View},
      {"aten.feature_dropout.default", dropout, View},
      {"aten.alpha_dropout.default", dropout, View},
      {"aten.feature_alpha_dropout.default", dropout, View},
      {"aten.native_dropout.default", dropout, Fresh},
  };
}

} // namespace ditc
