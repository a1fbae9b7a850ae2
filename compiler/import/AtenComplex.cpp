// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on complex tensors, which are real tensors with a last dimension of 2: real part, imaginary part.
// Shape ops need no rows here: theirs cope with the last dimension.
#include "compiler/import/AtenHelpers.h"
#include "compiler/import/Products.h"

#include "runtime/Error.h"

using namespace mlir;

namespace ditc {

using Results = std::vector<Value>;

//===-- Parts -------------------------------------------------------------------------------------===//

static Value re(Emit &emit, Value value) { return emit.select(value, -1, 0); }
static Value im(Emit &emit, Value value) { return emit.select(value, -1, 1); }
static Value pair(Emit &emit, Value real, Value imaginary) {
  return emit.concat({emit.unsqueeze(real, -1), emit.unsqueeze(imaginary, -1)}, -1);
}

/// The real type that the node's complex numbers are made of.
static Type partType(OpContext &ctx) { return ctx.resultElement(); }

namespace {

/// An operand of a complex op; `value` is real, without the last dimension, unless `complex`.
struct Operand {
  Value value;
  bool complex;
};

} // namespace

static Operand operand(OpContext &ctx, std::string_view name) {
  if (std::optional<std::complex<double>> number = ctx.complexNumber(name))
    return {tabulate(ctx.emit, RankedTensorType::get({2}, partType(ctx)),
                     [&](int64_t i) { return i == 0 ? number->real() : number->imag(); }),
            true};
  return {ctx.emit.cast(ctx.tensorOrScalar(name), partType(ctx)), ctx.isComplex(name)};
}

/// With an imaginary part of 0 when it is real.
static Value widened(OpContext &ctx, Operand x) {
  return x.complex ? x.value
                   : pair(ctx.emit, x.value,
                          ctx.emit.full(Emit::shapeOf(x.value), Emit::elementOf(x.value), Scalar::of(0.0)));
}

static Value complexTensor(OpContext &ctx, std::string_view name) {
  if (!ctx.isComplex(name))
    fail("argument '{}' is not complex", name);
  return ctx.tensor(name);
}

//===-- Arithmetic --------------------------------------------------------------------------------===//

static Value product(OpContext &ctx, Operand x, Operand y) {
  Emit &emit = ctx.emit;
  if (!x.complex)
    return emit.mul(emit.unsqueeze(x.value, -1), y.value, partType(ctx));
  if (!y.complex)
    return emit.mul(x.value, emit.unsqueeze(y.value, -1), partType(ctx));
  Value a = re(emit, x.value), b = im(emit, x.value), c = re(emit, y.value), d = im(emit, y.value);
  using Builder = ImplicitLocOpBuilder;
  Value real = emit.map({a, b, c, d}, partType(ctx), [](Builder &body, ValueRange v) -> Value {
    return arith::SubFOp::create(body, arith::MulFOp::create(body, v[0], v[2]),
                                 arith::MulFOp::create(body, v[1], v[3]));
  });
  Value imaginary = emit.map({a, b, c, d}, partType(ctx), [](Builder &body, ValueRange v) -> Value {
    return arith::AddFOp::create(body, arith::MulFOp::create(body, v[0], v[3]),
                                 arith::MulFOp::create(body, v[1], v[2]));
  });
  return pair(emit, real, imaginary);
}

static Value conjugated(OpContext &ctx, Value value) {
  Value signs = tabulate(ctx.emit, RankedTensorType::get({2}, Emit::elementOf(value)),
                         [](int64_t i) { return i == 0 ? 1.0 : -1.0; });
  return ctx.emit.mul(value, signs, Emit::elementOf(value));
}

/// re² + im².
static Value squaredLength(OpContext &ctx, Value value) {
  Type part = Emit::elementOf(value);
  return ctx.emit.map({re(ctx.emit, value), im(ctx.emit, value)}, part,
                      [](ImplicitLocOpBuilder &body, ValueRange v) -> Value {
                        return arith::AddFOp::create(body, arith::MulFOp::create(body, v[0], v[0]),
                                                     arith::MulFOp::create(body, v[1], v[1]));
                      });
}

static Value quotient(OpContext &ctx, Operand x, Operand y) {
  if (!y.complex)
    return ctx.emit.div(x.value, ctx.emit.unsqueeze(y.value, -1), partType(ctx));
  Value numerator = product(ctx, x, {conjugated(ctx, y.value), true});
  return ctx.emit.div(numerator, ctx.emit.unsqueeze(squaredLength(ctx, y.value), -1), partType(ctx));
}

static Results mul(OpContext &ctx) { return {product(ctx, operand(ctx, "self"), operand(ctx, "other"))}; }
static Results div(OpContext &ctx) { return {quotient(ctx, operand(ctx, "self"), operand(ctx, "other"))}; }

/// self + sign · alpha · other.
static Value sum(OpContext &ctx, double sign) {
  Value x = widened(ctx, operand(ctx, "self")), y = widened(ctx, operand(ctx, "other"));
  double factor = sign * ctx.number("alpha", 1);
  return ctx.emit.add(x, factor == 1 ? y : ctx.emit.mul(y, factor), partType(ctx));
}

static Results reciprocal(OpContext &ctx) {
  Value self = complexTensor(ctx, "self");
  return {ctx.emit.div(conjugated(ctx, self), ctx.emit.unsqueeze(squaredLength(ctx, self), -1), partType(ctx))};
}

static Results square(OpContext &ctx) {
  Operand self = operand(ctx, "self");
  return {product(ctx, self, self)};
}

/// Whole exponents by repeated products.
static Results power(OpContext &ctx) {
  Operand self = operand(ctx, "self");
  double exponent = ctx.scalar("exponent").number;
  if (exponent != static_cast<int>(exponent) || exponent < 1 || exponent > 16)
    fail("complex power with exponent {} is not supported, only 1 to 16", exponent);
  Value result = self.value;
  for (int i = 1; i < exponent; ++i)
    result = product(ctx, {result, true}, self);
  return {result};
}

/// Of parts by a product that is linear in both: matrices, einsum.
static Value bilinear(OpContext &ctx, Operand x, Operand y, llvm::function_ref<Value(Value, Value)> realProduct) {
  Emit &emit = ctx.emit;
  Value a = x.complex ? re(emit, x.value) : x.value, c = y.complex ? re(emit, y.value) : y.value;
  Value real = realProduct(a, c), imaginary;
  if (x.complex)
    imaginary = realProduct(im(emit, x.value), c);
  if (y.complex) {
    Value crossed = realProduct(a, im(emit, y.value));
    imaginary = imaginary ? emit.add(imaginary, crossed, partType(ctx)) : crossed;
  }
  if (x.complex && y.complex)
    real = emit.sub(real, realProduct(im(emit, x.value), im(emit, y.value)), partType(ctx));
  return pair(emit, real, imaginary);
}

static Value matrixProduct(OpContext &ctx, Operand x, Operand y) {
  return bilinear(ctx, x, y, [&](Value a, Value b) { return matmulOf(ctx.emit, a, b, partType(ctx)); });
}

static OpImport matrixProduct(const char *second) {
  return [=](OpContext &ctx) -> Results { return {matrixProduct(ctx, operand(ctx, "self"), operand(ctx, second))}; };
}

static Results vectorProduct(OpContext &ctx) { // vdot: self is conjugated
  Operand self = operand(ctx, "self");
  if (self.complex)
    self.value = conjugated(ctx, self.value);
  return {matrixProduct(ctx, self, operand(ctx, "other"))};
}

static Results linear(OpContext &ctx) {
  auto real = [&](Value a, Value b) { return matmulOf(ctx.emit, a, ctx.emit.transpose(b, 0, 1), partType(ctx)); };
  Value result = bilinear(ctx, operand(ctx, "input"), operand(ctx, "weight"), real);
  return {ctx.has("bias") ? ctx.emit.add(result, widened(ctx, operand(ctx, "bias")), partType(ctx)) : result};
}

/// addmm and its like: beta · self + alpha · product; with beta 0 the contents of self do not matter.
static OpImport addProduct(const char *first, const char *second) {
  return [=](OpContext &ctx) -> Results {
    auto times = [&](Value value, const char *name) {
      double factor = ctx.number(name, 1);
      return factor == 1 ? value : ctx.emit.mul(value, factor);
    };
    Value result = times(matrixProduct(ctx, operand(ctx, first), operand(ctx, second)), "alpha");
    if (ctx.number("beta", 1) != 0)
      result = ctx.emit.add(times(widened(ctx, operand(ctx, "self")), "beta"), result, partType(ctx));
    return {result};
  };
}

static Results outer(OpContext &ctx) {
  Operand column = operand(ctx, "self"), row = operand(ctx, "vec2");
  return {product(ctx, {ctx.emit.unsqueeze(column.value, 1), column.complex}, {ctx.emit.unsqueeze(row.value, 0), row.complex})};
}

static Results einsum(OpContext &ctx) {
  std::vector<Value> operands = ctx.tensors("tensors");
  if (operands.size() != 2)
    fail("einsum of {} tensors, some of them complex, is not supported, only of two; multiply them pair by pair", operands.size());
  std::string equation = ctx.text("equation", "");
  auto real = [&](Value a, Value b) { return einsumOf(ctx.emit, equation, {a, b}, partType(ctx)); };
  return {bilinear(ctx, {operands[0], true}, {operands[1], true}, real)};
}

//===-- Polar form --------------------------------------------------------------------------------===//

template <typename Op> static Value unary(Emit &emit, Value value) {
  return emit.map(value, Emit::elementOf(value),
                  [](ImplicitLocOpBuilder &body, ValueRange v) -> Value { return Op::create(body, v[0]); });
}

static Value fromPolar(OpContext &ctx, Value length, Value angle) {
  Emit &emit = ctx.emit;
  return pair(emit, emit.mul(length, unary<math::CosOp>(emit, angle), partType(ctx)),
              emit.mul(length, unary<math::SinOp>(emit, angle), partType(ctx)));
}

static Results polar(OpContext &ctx) { return {fromPolar(ctx, ctx.tensor("abs"), ctx.tensor("angle"))}; }

static Results exponential(OpContext &ctx) {
  Value self = complexTensor(ctx, "self");
  return {fromPolar(ctx, unary<math::ExpOp>(ctx.emit, re(ctx.emit, self)), im(ctx.emit, self))};
}

static Results absolute(OpContext &ctx) {
  return {unary<math::SqrtOp>(ctx.emit, squaredLength(ctx, complexTensor(ctx, "self")))};
}

static Results angle(OpContext &ctx) {
  Value self = complexTensor(ctx, "self");
  return {ctx.emit.map(
      {im(ctx.emit, self), re(ctx.emit, self)}, partType(ctx),
      [](ImplicitLocOpBuilder &body, ValueRange v) -> Value { return math::Atan2Op::create(body, v[0], v[1]); })};
}

//===-- Between real and complex ------------------------------------------------------------------===//

static Results fromParts(OpContext &ctx) {
  Value real = ctx.tensor("real"), imaginary = ctx.tensor("imag");
  ArrayRef<int64_t> shape = ctx.resultType().getShape().drop_back();
  return {pair(ctx.emit, ctx.emit.expand(real, shape), ctx.emit.expand(imaginary, shape))};
}

static Results realPart(OpContext &ctx) { return {re(ctx.emit, complexTensor(ctx, "self"))}; }
static Results imaginaryPart(OpContext &ctx) { return {im(ctx.emit, complexTensor(ctx, "self"))}; }
static Results reinterpret(OpContext &ctx) { return {ctx.tensor("self")}; }
static Results conjugate(OpContext &ctx) { return {conjugated(ctx, complexTensor(ctx, "self"))}; }

static Results adjoint(OpContext &ctx) {
  Value self = complexTensor(ctx, "self");
  int64_t rank = Emit::rankOf(self) - 1;
  return {conjugated(ctx, ctx.emit.transpose(self, rank - 2, rank - 1))};
}

static Results negate(OpContext &ctx) { return {unary<arith::NegFOp>(ctx.emit, complexTensor(ctx, "self"))}; }

static Results select(OpContext &ctx) {
  Value condition = ctx.emit.unsqueeze(ctx.tensor("condition"), -1);
  Value x = widened(ctx, operand(ctx, "self")), y = widened(ctx, operand(ctx, "other"));
  return {ctx.emit.map({condition, x, y}, partType(ctx), [](ImplicitLocOpBuilder &body, ValueRange v) -> Value {
    return arith::SelectOp::create(body, v[0], v[1], v[2]);
  })};
}

//===-- Reductions --------------------------------------------------------------------------------===//

static Results reduce(OpContext &ctx, dit::ReduceKind kind) {
  Value self = ctx.emit.cast(complexTensor(ctx, "self"), partType(ctx));
  int64_t rank = Emit::rankOf(self) - 1;
  std::vector<int64_t> axes = ctx.integers("dim", {});
  for (int64_t &axis : axes)
    axis = normaliseDim(axis, rank);
  if (axes.empty())
    axes.assign(llvm::seq<int64_t>(0, rank).begin(), llvm::seq<int64_t>(0, rank).end());
  return {rank == 0 ? self : ctx.emit.reduce(kind, self, axes, ctx.flag("keepdim", false), partType(ctx))};
}

static Results total(OpContext &ctx) { return reduce(ctx, dit::ReduceKind::Sum); }
static Results mean(OpContext &ctx) { return reduce(ctx, dit::ReduceKind::Mean); }

std::vector<OpRow> atenComplex() {
  using enum Aliasing;
  auto add = [](OpContext &ctx) { return Results{sum(ctx, 1)}; };
  auto sub = [](OpContext &ctx) { return Results{sum(ctx, -1)}; };
  return {
      {"aten.view_as_real.default", reinterpret, View},
      {"aten.view_as_complex.default", reinterpret, View},
      {"aten.real.default", realPart, View},
      {"aten.imag.default", imaginaryPart, View},
      {"aten.complex.default", fromParts},
      {"aten.polar.default", polar},
      {"aten.conj.default", conjugate, View}, // torch keeps a flag on a view; ours cannot be followed back
      {"aten._conj.default", conjugate, View},
      {"aten.conj_physical.default", conjugate},
      {"aten._conj_physical.default", conjugate},
      {"aten.mH.default", adjoint, View},
      {"aten.adjoint.default", adjoint, View},
      {"aten.neg.default", negate},
      {"aten.add.Tensor", add},
      {"aten.add.Scalar", add},
      {"aten.sub.Tensor", sub},
      {"aten.sub.Scalar", sub},
      {"aten.mul.Tensor", mul},
      {"aten.mul.Scalar", mul},
      {"aten.multiply.Tensor", mul},
      {"aten.div.Tensor", div},
      {"aten.div.Scalar", div},
      {"aten.matmul.default", matrixProduct("other")},
      {"aten.__matmul__.default", matrixProduct("other")},
      {"aten.mm.default", matrixProduct("mat2")},
      {"aten.bmm.default", matrixProduct("mat2")},
      {"aten.mv.default", matrixProduct("vec")},
      {"aten.dot.default", matrixProduct("tensor")},
      {"aten.vdot.default", vectorProduct},
      {"aten.linear.default", linear},
      {"aten.addmm.default", addProduct("mat1", "mat2")},
      {"aten.baddbmm.default", addProduct("batch1", "batch2")},
      {"aten.outer.default", outer},
      {"aten.einsum.default", einsum},
      {"aten.reciprocal.default", reciprocal},
      {"aten.square.default", square},
      {"aten.pow.Tensor_Scalar", power},
      {"aten.exp.default", exponential},
      {"aten.abs.default", absolute},
      {"aten.angle.default", angle},
      {"aten.where.self", select},
      {"aten.sum.default", total},
      {"aten.sum.dim_IntList", total},
      {"aten.mean.default", mean},
      {"aten.mean.dim", mean},
  };
}

} // namespace ditc
