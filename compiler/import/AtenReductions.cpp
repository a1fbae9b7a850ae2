// SPDX-License-Identifier: Apache-2.0
//
// Ops that combine elements along dimensions: sums, extremes, moments, norms, softmax, running sums, sorts.
#include "compiler/import/Elementwise.h"
#include "compiler/import/Reductions.h"

#include "runtime/Error.h"

using namespace mlir;

namespace ditc {

using Results = std::vector<Value>;

/// A 0-dim tensor as one element along a dimension, for operations that need an axis.
static Value atLeastOneDim(Emit &emit, Value value) { return Emit::rankOf(value) == 0 ? emit.view(value, {1}) : value; }

//===-- Plain reductions --------------------------------------------------------------------------===//

static OpImport reduction(dit::ReduceKind kind) {
  return [kind](OpContext &op) -> Results {
    Value self = op.tensor("self");
    std::vector<int64_t> axes = axesOf(op, "dim", Emit::rankOf(self));
    return {op.emit.reduce(kind, self, axes, op.flag("keepdim", false), op.resultElement())};
  };
}

/// Values and places of the extremes along one dimension.
static OpImport extremeWithIndex(dit::ReduceKind kind) {
  return [kind](OpContext &op) -> Results {
    Value self = op.tensor("self");
    int64_t rank = Emit::rankOf(self), dim = normaliseDim(op.integer("dim"), rank);
    bool keep = op.flag("keepdim", false) || rank == 0;
    Value values = op.emit.reduce(kind, self, {dim}, keep, op.resultElement());
    Value lines = atLeastOneDim(op.emit, self);
    SmallVector<int64_t> shape(Emit::shapeOf(lines));
    shape[dim] = 1;
    Type index = op.emit.builder().getI64Type();
    Value places = dit::ArgReduceOp::create(op.emit.builder(), RankedTensorType::get(shape, index), lines, kind, dim);
    return {values, op.emit.view(places, Emit::shapeOf(values))};
  };
}

static OpImport argExtreme(dit::ReduceKind kind) {
  return [kind](OpContext &op) -> Results {
    Value lines = atLeastOneDim(op.emit, op.tensor("self"));
    std::optional<int64_t> dim = op.optionalInteger("dim");
    if (!dim)
      lines = op.emit.view(lines, {Emit::typeOf(lines).getNumElements()});
    int64_t axis = normaliseDim(dim.value_or(0), Emit::rankOf(lines));
    SmallVector<int64_t> shape(Emit::shapeOf(lines));
    shape[axis] = 1;
    Type index = op.emit.builder().getI64Type();
    Value places = dit::ArgReduceOp::create(op.emit.builder(), RankedTensorType::get(shape, index), lines, kind, axis);
    return {op.emit.view(places, op.resultType().getShape())};
  };
}

static Results minAndMax(OpContext &op) {
  Value self = op.tensor("self");
  std::vector<int64_t> axes = axesOf(op, "dim", Emit::rankOf(self));
  bool keep = op.flag("keepdim", false);
  return {op.emit.reduce(dit::ReduceKind::Min, self, axes, keep, op.resultElement(0)),
          op.emit.reduce(dit::ReduceKind::Max, self, axes, keep, op.resultElement(1))};
}

static Results countNonzero(OpContext &op) {
  Value self = op.emit.cast(op.tensor("self"), op.emit.builder().getI1Type());
  return {op.emit.reduce(dit::ReduceKind::Sum, self, axesOf(op, "dim", Emit::rankOf(self)), false, op.resultElement())};
}

/// The sum of the diagonal of a matrix: every (columns + 1)-th element.
static Results trace(OpContext &op) {
  Value self = op.tensor("self");
  int64_t rows = Emit::shapeOf(self)[0], columns = Emit::shapeOf(self)[1], count = std::min(rows, columns);
  Value flat = op.emit.view(self, {rows * columns});
  Value diagonal = op.emit.slice(flat, 0, 0, count * (columns + 1), columns + 1);
  return {op.emit.reduce(dit::ReduceKind::Sum, diagonal, {}, false, op.resultElement())};
}

//===-- Moments and norms -------------------------------------------------------------------------===//

/// The number that torch subtracts from the count: `unbiased` (default true) or `correction` (None is 1).
static double correctionOf(OpContext &op) {
  if (op.node.find("unbiased"))
    return op.flag("unbiased", true) ? 1 : 0;
  return op.number("correction", 1);
}

static Results varianceRow(OpContext &op, bool root, bool withMean) {
  Value self = op.tensor("self");
  std::vector<int64_t> axes = axesOf(op, "dim", Emit::rankOf(self));
  Moments m = moments(op.emit, self, axes, correctionOf(op));
  bool keep = op.flag("keepdim", false);
  Type wide = Emit::elementOf(m.variance);
  Value spread = m.variance;
  if (root)
    spread = elementwise(op.emit, Operand(spread), dit::computeType(wide), op.resultElement(), [](ArrayRef<Num> x) { return sqrt(x[0]); });
  Results results{dropAxes(op.emit, op.emit.cast(spread, op.resultElement()), axes, keep)};
  if (withMean)
    results.push_back(dropAxes(op.emit, op.emit.cast(m.mean, op.resultElement(1)), axes, keep));
  return results;
}

static OpImport variance(bool root, bool withMean) {
  return [=](OpContext &op) { return varianceRow(op, root, withMean); };
}

static Results norm(OpContext &op) {
  Value self = op.tensor("self");
  double p = op.number(op.node.find("ord") ? "ord" : "p", 2);
  std::vector<int64_t> axes = axesOf(op, "dim", Emit::rankOf(self));
  Value result = op.emit.cast(vectorNorm(op.emit, self, p, axes), op.resultElement());
  return {dropAxes(op.emit, result, axes, op.flag("keepdim", false))};
}

/// linalg.norm: of vectors, or the Frobenius norm, which is the 2-norm of all elements.
static Results linalgNorm(OpContext &op) {
  Value self = op.tensor("self");
  int64_t rank = Emit::rankOf(self);
  std::vector<int64_t> axes = axesOf(op, "dim", rank);
  if (op.node.target.find("matrix_norm") != std::string::npos && !op.has("dim"))
    axes = {rank - 2, rank - 1};
  bool isVector = axes.size() <= 1;
  const Argument *ord = op.node.find("ord");
  bool isFrobenius = !op.has("ord") || (ord->kind == Argument::Kind::String && ord->text == "fro");
  if (!isVector && !isFrobenius)
    fail("matrix norms other than 'fro' are not supported");
  double p = isFrobenius ? 2 : op.scalar("ord").number;
  Value result = op.emit.cast(vectorNorm(op.emit, self, p, axes), op.resultElement());
  return {dropAxes(op.emit, result, axes, op.flag("keepdim", false))};
}

/// The norm of a difference.
static Results distance(OpContext &op) {
  Value self = op.tensor("self"), other = op.tensor("other");
  Value difference = op.emit.sub(self, other, wideElement(op.emit, op.resultElement()));
  auto axes = llvm::to_vector(llvm::seq<int64_t>(0, Emit::rankOf(difference)));
  return {dropAxes(op.emit, op.emit.cast(vectorNorm(op.emit, difference, op.number("p", 2), axes), op.resultElement()), axes, false)};
}

/// The norm of x1 - x2 + eps along the last dimension.
static Results pairwiseDistance(OpContext &op) {
  Type wide = wideElement(op.emit, op.resultElement());
  double eps = op.number("eps", 1e-6);
  Value difference =
      elementwise(op.emit, {operandOf(op, "x1"), operandOf(op, "x2")}, wide, wide, [&](ArrayRef<Num> x) { return x[0] - x[1] + eps; });
  std::vector<int64_t> axes{Emit::rankOf(difference) - 1};
  Value result = op.emit.cast(vectorNorm(op.emit, difference, op.number("p", 2), axes), op.resultElement());
  return {dropAxes(op.emit, result, axes, op.flag("keepdim", false))};
}

/// Norms of the differences of all pairs of rows.
static Results pairDistances(OpContext &op) {
  Value x1 = op.emit.unsqueeze(op.tensor("x1"), -2), x2 = op.emit.unsqueeze(op.tensor("x2"), -3);
  Value difference = op.emit.sub(x1, x2, wideElement(op.emit, op.resultElement()));
  std::vector<int64_t> axes{Emit::rankOf(difference) - 1};
  return {dropAxes(op.emit, op.emit.cast(vectorNorm(op.emit, difference, op.number("p", 2), axes), op.resultElement()), axes, false)};
}

//===-- Softmax -----------------------------------------------------------------------------------===//

/// With a dtype, torch casts before it computes.
static Value softmaxInput(OpContext &op) {
  Value self = op.tensor("self");
  bool narrows = op.has("dtype") && Emit::elementOf(self) != op.resultElement();
  return narrows ? op.emit.cast(self, op.resultElement()) : self;
}

static Results softmax(OpContext &op) { return {op.emit.softmax(softmaxInput(op), op.integer("dim"), op.resultElement())}; }

/// x - max - log(sum(exp(x - max)))
static Results logSoftmax(OpContext &op) {
  Value self = softmaxInput(op), lines = atLeastOneDim(op.emit, self);
  int64_t dim = normaliseDim(op.integer("dim"), Emit::rankOf(lines));
  Type wide = wideElement(op.emit, op.resultElement());
  Value largest = op.emit.reduce(dit::ReduceKind::Max, lines, {dim}, true, Emit::elementOf(lines));
  auto shifted = [](ArrayRef<Num> x) { return x[0] - x[1]; };
  Operand input{lines}, top{largest};
  Value powers = elementwise(op.emit, {input, top}, wide, wide, [&](ArrayRef<Num> x) { return exp(shifted(x)); });
  Value sum = op.emit.reduce(dit::ReduceKind::Sum, powers, {dim}, true, wide);
  Value result = elementwise(op.emit, {input, top, sum}, wide, op.resultElement(), [&](ArrayRef<Num> x) { return shifted(x) - log(x[2]); });
  return {op.emit.view(result, op.resultType().getShape())};
}

/// log(sum(exp(x))). An infinite maximum is not subtracted: -inf alone gives -inf, +inf gives +inf.
static Results logSumExp(OpContext &op) {
  Value self = op.tensor("self");
  std::vector<int64_t> axes = axesOf(op, "dim", Emit::rankOf(self));
  Type wide = wideElement(op.emit, op.resultElement());
  Value lines = atLeastOneDim(op.emit, self);
  std::vector<int64_t> lineAxes = Emit::rankOf(self) == 0 ? std::vector<int64_t>{0} : axes;
  Value largest = op.emit.reduce(dit::ReduceKind::Max, lines, lineAxes, true, wide);
  Value base = elementwise(op.emit, Operand(largest), wide, wide,
                           [](ArrayRef<Num> x) { return select(abs(x[0]) == HUGE_VAL, x[0].constant(0.0), x[0]); });
  Value powers = elementwise(op.emit, {lines, base}, wide, wide, [](ArrayRef<Num> x) { return exp(x[0] - x[1]); });
  Value sum = op.emit.reduce(dit::ReduceKind::Sum, powers, lineAxes, true, wide);
  Value result = elementwise(op.emit, {sum, base}, wide, op.resultElement(), [](ArrayRef<Num> x) { return log(x[0]) + x[1]; });
  return {op.emit.view(result, op.resultType().getShape())};
}

/// Softmax that gives zeros where everything is -inf.
static Results safeSoftmax(OpContext &op) {
  Value self = softmaxInput(op), lines = atLeastOneDim(op.emit, self);
  int64_t dim = normaliseDim(op.integer("dim"), Emit::rankOf(lines));
  Value plain = op.emit.softmax(lines, dim, op.resultElement());
  Value largest = op.emit.reduce(dit::ReduceKind::Max, lines, {dim}, true, Emit::elementOf(lines));
  Type element = op.resultElement();
  Value result = elementwise(op.emit, {plain, largest}, dit::computeType(element), element,
                             [](ArrayRef<Num> x) { return select(x[1] == -HUGE_VAL, x[0].constant(0.0), x[0]); });
  return {op.emit.view(result, op.resultType().getShape())};
}

//===-- Scans and sorts ---------------------------------------------------------------------------===//

static OpImport scan(dit::ReduceKind kind) {
  return [kind](OpContext &op) -> Results {
    Value self = atLeastOneDim(op.emit, op.tensor("self"));
    Type element = op.resultElement();
    if (dit::computeType(Emit::elementOf(self)) != dit::computeType(element))
      self = op.emit.cast(self, element);
    int64_t dim = normaliseDim(op.integer("dim"), Emit::rankOf(self));
    Value result = dit::ScanOp::create(op.emit.builder(), Emit::typeOf(self).clone(element), self, kind, dim);
    return {op.emit.view(result, op.resultType().getShape())};
  };
}

/// Differences of neighbours along a dimension, n times over.
static Results difference(OpContext &op) {
  Value value = op.tensor("self");
  int64_t dim = normaliseDim(op.integer("dim", -1), Emit::rankOf(value));
  std::vector<Value> parts;
  for (Value part : {op.optionalTensor("prepend"), value, op.optionalTensor("append")})
    if (part)
      parts.push_back(part);
  value = op.emit.concat(parts, dim);
  for (int64_t n = op.integer("n", 1); n > 0; --n) {
    int64_t size = Emit::shapeOf(value)[dim];
    value = op.emit.sub(op.emit.slice(value, dim, 1, size), op.emit.slice(value, dim, 0, size - 1), Emit::elementOf(value));
  }
  return {value};
}

/// Running extremes and where they are, by steps that double: after step s, each place knows the extreme
/// of the 2s places before it. The later of equal elements wins, and NaN stays, as in torch.
static OpImport runningExtreme(bool largest) {
  return [largest](OpContext &op) -> Results {
    Emit &emit = op.emit;
    Value self = atLeastOneDim(emit, op.tensor("self")), values = self;
    int64_t dim = normaliseDim(op.integer("dim"), Emit::rankOf(self)), size = Emit::shapeOf(self)[dim];
    SmallVector<int64_t> shape(Emit::rankOf(self), 1), low(shape.size(), 0), none(low);
    shape[dim] = size;
    Value places = emit.expand(emit.integers(shape, llvm::to_vector(llvm::seq<int64_t>(0, size))), Emit::shapeOf(self));
    Type compute = dit::computeType(Emit::elementOf(self)), index = emit.builder().getI64Type();
    auto keepsOwn = [&](ArrayRef<Num> x) { // own value, earlier value, is there an earlier one?
      Num better = largest ? x[0] >= x[1] : x[0] <= x[1];
      return !x[2] | (x[0].isFloat() ? isNan(x[0]) | (!isNan(x[1]) & better) : better);
    };
    for (int64_t step = 1; step < size; step *= 2) {
      low[dim] = step;
      auto earlier = [&](Value value) { return emit.pad(emit.slice(value, dim, 0, size - step), low, none, Scalar::of(int64_t{0})); };
      std::vector<int64_t> present(size);
      std::fill(present.begin() + step, present.end(), 1);
      Operand own{values}, before{earlier(values)},
          exists{emit.cast(emit.integers(shape, present), emit.builder().getI1Type()), emit.builder().getI1Type()};
      Value keeps = elementwise(emit, {own, before, exists}, compute, emit.builder().getI1Type(), keepsOwn);
      Operand choice{keeps, emit.builder().getI1Type()};
      auto chosen = [](ArrayRef<Num> x) { return select(x[0], x[1], x[2]); };
      values = elementwise(emit, {choice, own, before}, compute, Emit::elementOf(self), chosen);
      places = elementwise(emit, {choice, places, earlier(places)}, index, index, chosen);
    }
    ArrayRef<int64_t> result = op.resultType().getShape();
    return {emit.view(values, result), emit.view(places, result)};
  };
}

struct Sorted {
  Value values, indices;
  int64_t dim;
};

static Sorted sortLines(OpContext &op, bool descending) {
  Value self = atLeastOneDim(op.emit, op.tensor("self"));
  int64_t dim = normaliseDim(op.integer("dim", -1), Emit::rankOf(self));
  Type index = op.emit.builder().getI64Type();
  auto sort = dit::SortOp::create(op.emit.builder(), self.getType(), Emit::typeOf(self).clone(index), self, dim, descending);
  return {sort.getValues(), sort.getIndices(), dim};
}

static Results sort(OpContext &op) {
  Sorted sorted = sortLines(op, op.flag("descending", false));
  ArrayRef<int64_t> shape = op.resultType().getShape();
  return {op.emit.view(sorted.values, shape), op.emit.view(sorted.indices, shape)};
}

static Results argSort(OpContext &op) {
  return {op.emit.view(sortLines(op, op.flag("descending", false)).indices, op.resultType().getShape())};
}

/// The first k of a sort. torch leaves the order of equal elements open.
static Results topK(OpContext &op) {
  Sorted sorted = sortLines(op, op.flag("largest", true));
  int64_t k = op.integer("k");
  ArrayRef<int64_t> shape = op.resultType().getShape();
  return {op.emit.view(op.emit.slice(sorted.values, sorted.dim, 0, k), shape),
          op.emit.view(op.emit.slice(sorted.indices, sorted.dim, 0, k), shape)};
}

/// The k-th smallest and where it is.
static Results kthValue(OpContext &op) {
  Sorted sorted = sortLines(op, /*descending=*/false);
  int64_t k = op.integer("k");
  ArrayRef<int64_t> shape = op.resultType().getShape();
  return {op.emit.view(op.emit.slice(sorted.values, sorted.dim, k - 1, k), shape),
          op.emit.view(op.emit.slice(sorted.indices, sorted.dim, k - 1, k), shape)};
}

static Results sortRows(OpContext &op) {
  Value self = atLeastOneDim(op.emit, op.tensor("self"));
  auto sort = dit::SortOp::create(op.emit.builder(), self.getType(), Emit::typeOf(self).clone(op.emit.builder().getI64Type()), self, 0,
                                  /*descending=*/false);
  return {op.emit.view(sort.getValues(), op.resultType().getShape())};
}

std::vector<OpRow> atenReductions() {
  using dit::ReduceKind;
  ElementwiseRows rows;
  rows.row({"aten.sum.default", "aten.sum.dim_IntList"}, reduction(ReduceKind::Sum));
  rows.row({"aten.mean.default", "aten.mean.dim"}, reduction(ReduceKind::Mean));
  rows.row({"aten.prod.default", "aten.prod.dim_int"}, reduction(ReduceKind::Prod));
  rows.row({"aten.amax.default", "aten.max.default"}, reduction(ReduceKind::Max));
  rows.row({"aten.amin.default", "aten.min.default"}, reduction(ReduceKind::Min));
  rows.row({"aten.any.default", "aten.any.dim", "aten.any.dims"}, reduction(ReduceKind::Any));
  rows.row({"aten.all.default", "aten.all.dim", "aten.all.dims"}, reduction(ReduceKind::All));
  rows.row({"aten.max.dim"}, extremeWithIndex(ReduceKind::Max));
  rows.row({"aten.min.dim"}, extremeWithIndex(ReduceKind::Min));
  rows.row({"aten.argmax.default"}, argExtreme(ReduceKind::Max));
  rows.row({"aten.argmin.default"}, argExtreme(ReduceKind::Min));
  rows.row({"aten.aminmax.default"}, minAndMax);
  rows.row({"aten.count_nonzero.default", "aten.count_nonzero.dim_IntList"}, countNonzero);
  rows.row({"aten.var.default", "aten.var.dim", "aten.var.correction"}, variance(false, false));
  rows.row({"aten.std.default", "aten.std.dim", "aten.std.correction"}, variance(true, false));
  rows.row({"aten.var_mean.default", "aten.var_mean.dim", "aten.var_mean.correction"}, variance(false, true));
  rows.row({"aten.std_mean.default", "aten.std_mean.dim", "aten.std_mean.correction"}, variance(true, true));
  rows.row({"aten.linalg_vector_norm.default", "aten.norm.Scalar", "aten.norm.ScalarOpt_dim", "aten.norm.ScalarOpt_dtype",
            "aten.norm.ScalarOpt_dim_dtype"},
           norm);
  rows.row({"aten.linalg_norm.default", "aten.linalg_norm.ord_str", "aten.linalg_matrix_norm.str_ord", "aten.frobenius_norm.dim"},
           linalgNorm);
  rows.row({"aten.dist.default"}, distance);
  rows.row({"aten.pairwise_distance.default"}, pairwiseDistance);
  rows.row({"aten.cdist.default", "aten._cdist_forward.default"}, pairDistances);
  rows.row({"aten.softmax.int", "aten._softmax.default", "aten.special_softmax.default"}, softmax);
  rows.row({"aten.log_softmax.int", "aten._log_softmax.default", "aten.special_log_softmax.default"}, logSoftmax);
  rows.row({"aten._safe_softmax.default"}, safeSoftmax);
  rows.row({"aten.logsumexp.default", "aten.special_logsumexp.default"}, logSumExp);
  rows.row({"aten.cumsum.default"}, scan(ReduceKind::Sum));
  rows.row({"aten.cumprod.default"}, scan(ReduceKind::Prod));
  rows.row({"aten.sort.default", "aten.sort.stable"}, sort);
  rows.row({"aten.argsort.default", "aten.argsort.stable"}, argSort);
  rows.row({"aten.topk.default"}, topK);
  rows.row({"aten.kthvalue.default"}, kthValue);
  rows.row({"aten.msort.default"}, sortRows);
  rows.row({"aten.cummax.default"}, runningExtreme(true));
  rows.row({"aten.cummin.default"}, runningExtreme(false));
  rows.row({"aten.diff.default"}, difference);
  rows.row({"aten.trace.default"}, trace);
  std::vector<OpRow> result = rows.take();
  llvm::append_range(result, quantileRows());
  llvm::append_range(result, statisticsRows());
  return result;
}

} // namespace ditc
