// SPDX-License-Identifier: Apache-2.0
//
// ATen ops that compare positions or values with a row of numbers: triangles, diagonals, one-hot, buckets.
#include "compiler/import/AtenHelpers.h"

#include "runtime/Error.h"

using namespace mlir;

namespace ditc {

using Results = std::vector<Value>;

//===-- Matrices ----------------------------------------------------------------------------------===//

/// Keeps one triangle of the last two dimensions.
static Results triangle(OpContext &ctx, arith::CmpIPredicate keep) {
  Value self = ctx.tensor("self");
  int64_t rank = Emit::rankOf(self), diagonal = ctx.integer("diagonal", 0);
  Value rows = iota(ctx.emit, Emit::shapeOf(self)[rank - 2], rank - 2, rank),
        columns = iota(ctx.emit, Emit::shapeOf(self)[rank - 1], rank - 1, rank);
  return {ctx.emit.map(
      {self, rows, columns}, Emit::elementOf(self), [&](ImplicitLocOpBuilder &body, ValueRange v) -> Value {
        Value offset = arith::SubIOp::create(body, v[2], v[1]);
        Value kept =
            arith::CmpIOp::create(body, keep, offset, Emit::scalar(body, offset.getType(), Scalar::of(diagonal)));
        return arith::SelectOp::create(body, kept, v[0], Emit::scalar(body, v[0].getType(), Scalar::of(int64_t{0})));
      })};
}

/// The vectors in the last dimension as diagonals of matrices of zeros, which are the last two dimensions.
static Value diagonalMatrix(Emit &emit, Value self, int64_t offset) {
  int64_t rank = Emit::rankOf(self) + 1, size = Emit::shapeOf(self).back() + std::abs(offset);
  SmallVector<int64_t> low(rank - 1, 0), high(rank - 1, 0);
  high.back() = std::abs(offset);
  // Above the main diagonal an element's row says which it is, below its column.
  Value line = emit.unsqueeze(emit.pad(self, low, high, Scalar::of(int64_t{0})), offset >= 0 ? -1 : -2);
  Value rows = iota(emit, size, rank - 2, rank), columns = iota(emit, size, rank - 1, rank);
  return emit.map({line, rows, columns}, Emit::elementOf(self), [&](ImplicitLocOpBuilder &body, ValueRange v) -> Value {
    Value distance = arith::SubIOp::create(body, v[2], v[1]);
    Value kept = arith::CmpIOp::create(body, arith::CmpIPredicate::eq, distance,
                                       Emit::scalar(body, distance.getType(), Scalar::of(offset)));
    return arith::SelectOp::create(body, kept, v[0], Emit::scalar(body, v[0].getType(), Scalar::of(int64_t{0})));
  });
}

static Results diagEmbed(OpContext &ctx) {
  Value matrix = diagonalMatrix(ctx.emit, ctx.tensor("self"), ctx.integer("offset", 0));
  int64_t rank = Emit::rankOf(matrix), rowDim = dimArgument(ctx, "dim1", -2, rank),
          columnDim = dimArgument(ctx, "dim2", -1, rank);
  SmallVector<int64_t> order;
  for (int64_t i = 0, next = 0; i < rank; ++i)
    order.push_back(i == rowDim ? rank - 2 : i == columnDim ? rank - 1 : next++);
  return {ctx.emit.permute(matrix, order)};
}

/// A matrix of a vector, or the diagonal of a matrix.
static Results diag(OpContext &ctx) {
  Value self = ctx.tensor("self");
  int64_t offset = ctx.integer("diagonal", 0);
  return {Emit::rankOf(self) == 1 ? diagonalMatrix(ctx.emit, self, offset) : takeDiagonal(ctx.emit, self, offset)};
}

static Results oneHot(OpContext &ctx) {
  int64_t classes = ctx.resultType().getShape().back(), rank = ctx.resultType().getRank();
  Value indices = ctx.emit.unsqueeze(ctx.tensor("self"), -1);
  return {ctx.emit.map({indices, iota(ctx.emit, classes, rank - 1, rank)}, ctx.resultElement(),
                       [](ImplicitLocOpBuilder &body, ValueRange v) -> Value {
                         return arith::CmpIOp::create(body, arith::CmpIPredicate::eq, v[0], v[1]);
                       })};
}

/// Elements of source, one behind the other, where the mask is set: a running count says which is next.
static Results maskedScatter(OpContext &ctx) {
  Emit &emit = ctx.emit;
  Value self = ctx.tensor("self"), source = ctx.tensor("source");
  int64_t count = ctx.resultType().getNumElements();
  Value shaped = emit.expand(ctx.tensor("mask"), ctx.resultType().getShape());
  Value flat = emit.cast(emit.view(shaped, {count}), emit.builder().getI64Type());
  Value counted = dit::ScanOp::create(emit.builder(), flat.getType(), flat, dit::ReduceKind::Sum, 0);
  Value next = emit.sub(counted, emit.full({}, emit.builder().getI64Type(), Scalar::of(int64_t{1})));
  Value taken =
      emit.gather(emit.view(source, {Emit::typeOf(source).getNumElements()}), next, 0); // -1 is clamped, and not chosen
  SmallVector<Value> operands{shaped, emit.view(taken, ctx.resultType().getShape()), self};
  return {emit.map(operands, ctx.resultElement(), [](ImplicitLocOpBuilder &body, ValueRange v) -> Value {
    return arith::SelectOp::create(body, Emit::convert(body, v[0], body.getI1Type()), v[1], v[2]);
  })};
}

/// Which elements are among a few others.
static Results isIn(OpContext &ctx) {
  Value elements = ctx.tensorOrScalar(ctx.has("elements") ? "elements" : "element");
  Value others = ctx.tensorOrScalar(ctx.has("test_elements") ? "test_elements" : "test_element");
  bool invert = ctx.flag("invert", false);
  Emit &emit = ctx.emit;
  Type compare = isa<FloatType>(Emit::elementOf(elements)) || isa<FloatType>(Emit::elementOf(others))
                     ? Type(emit.builder().getF64Type())
                     : Type(emit.builder().getI64Type());
  SmallVector<Value> operands{emit.unsqueeze(elements, -1), emit.view(others, {Emit::typeOf(others).getNumElements()})};
  Value equal = emit.map(operands, emit.builder().getI1Type(), [&](ImplicitLocOpBuilder &body, ValueRange v) -> Value {
    Value x = Emit::convert(body, v[0], compare), y = Emit::convert(body, v[1], compare);
    if (isa<FloatType>(compare))
      return arith::CmpFOp::create(body, arith::CmpFPredicate::OEQ, x, y);
    return arith::CmpIOp::create(body, arith::CmpIPredicate::eq, x, y);
  });
  Value found = emit.reduce(dit::ReduceKind::Any, equal, {-1}, /*keepDims=*/false, emit.builder().getI1Type());
  if (!invert)
    return {found};
  return {emit.map(found, Emit::elementOf(found), [](ImplicitLocOpBuilder &body, ValueRange v) -> Value {
    return arith::XOrIOp::create(body, v[0], Emit::scalar(body, v[0].getType(), Scalar::of(true)));
  })};
}

/// How many boundaries lie before each value; lines of values have lines of boundaries, or all have the same. Their order does
/// not matter.
static Value countBefore(OpContext &ctx, Value values, Value boundaries, bool right) {
  if (Emit::rankOf(boundaries) > 1)
    boundaries = ctx.emit.unsqueeze(boundaries, -2);
  Emit &emit = ctx.emit;
  Type compare = isa<FloatType>(Emit::elementOf(values)) || isa<FloatType>(Emit::elementOf(boundaries))
                     ? Type(emit.builder().getF64Type())
                     : Type(emit.builder().getI64Type());
  Value before = emit.map(
      {emit.unsqueeze(values, -1), boundaries}, emit.builder().getI64Type(),
      [&](ImplicitLocOpBuilder &body, ValueRange v) -> Value {
        Value x = Emit::convert(body, v[0], compare), bound = Emit::convert(body, v[1], compare);
        if (isa<FloatType>(compare)) // NaN sorts behind all boundaries
          return arith::CmpFOp::create(body, right ? arith::CmpFPredicate::ULE : arith::CmpFPredicate::ULT, bound, x);
        return arith::CmpIOp::create(body, right ? arith::CmpIPredicate::sle : arith::CmpIPredicate::slt, bound, x);
      });
  return emit.cast(emit.reduce(dit::ReduceKind::Sum, before, {-1}, /*keepDims=*/false, emit.builder().getI64Type()),
                   ctx.resultElement());
}

static Results bucketize(OpContext &ctx) {
  return {countBefore(ctx, ctx.tensorOrScalar("self"), ctx.tensor("boundaries"), ctx.flag("right", false))};
}

static Results searchSorted(OpContext &ctx) {
  bool right = ctx.flag("right", false) || ctx.text("side", "left") == "right";
  return {countBefore(ctx, ctx.tensorOrScalar("self"), ctx.tensor("sorted_sequence"), right)};
}

/// Where a tensor that is known now is not zero.
static Results nonzero(OpContext &ctx) {
  std::optional<dit::TensorValue> known = ctx.constantTensor("self");
  if (!known)
    fail("the size of its result depends on data; write it with a mask, or compute it outside the model");
  int64_t rank = known->type.getRank(), count = 0;
  std::vector<int64_t> table;
  for (int64_t i = 0; i < known->type.getNumElements(); ++i) {
    if (known->at(i) == 0)
      continue;
    ++count;
    table.resize(table.size() + rank);
    for (int64_t d = rank, rest = i; d-- > 0; rest /= known->type.getDimSize(d))
      table[(count - 1) * rank + d] = rest % known->type.getDimSize(d);
  }
  return {ctx.emit.integers({count, rank}, table)};
}

std::vector<OpRow> atenMasks() {
  return {
      {"aten.tril.default", [](OpContext &ctx) { return triangle(ctx, arith::CmpIPredicate::sle); }},
      {"aten.triu.default", [](OpContext &ctx) { return triangle(ctx, arith::CmpIPredicate::sge); }},
      {"aten.diag_embed.default", diagEmbed},
      {"aten.one_hot.default", oneHot},
      {"aten.masked_scatter.default", maskedScatter},
      {"aten.isin.Tensor_Tensor", isIn},
      {"aten.isin.Tensor_Scalar", isIn},
      {"aten.isin.Scalar_Tensor", isIn},
      {"aten.bucketize.Tensor", bucketize},
      {"aten.bucketize.Scalar", bucketize},
      {"aten.searchsorted.Tensor", searchSorted},
      {"aten.searchsorted.Scalar", searchSorted},
      {"aten.nonzero.default", nonzero},
      {"aten.diag.default", diag},
  };
}

} // namespace ditc
