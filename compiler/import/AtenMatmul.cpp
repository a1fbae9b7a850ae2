// SPDX-License-Identifier: Apache-2.0
//
// Linear layers and matrix products in all their spellings.
#include "compiler/import/Elementwise.h"
#include "compiler/import/Products.h"
#include "compiler/import/Reductions.h"

#include "runtime/Error.h"

using namespace mlir;

namespace ditc {

using Results = std::vector<Value>;

/// What `value` is the transpose of in its last two dimensions; null when it is none.
static Value transposeSource(Value value) {
  auto permute = value.getDefiningOp<dit::PermuteOp>();
  if (!permute)
    return {};
  auto swapped = llvm::to_vector(llvm::seq<int64_t>(0, permute.getPermutation().size()));
  std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 2]);
  return permute.getPermutation() == ArrayRef<int64_t>(swapped) ? permute.getInput() : Value();
}

/// `value` with `rank` dimensions; new ones come first.
static Value withRank(Emit &emit, Value value, int64_t rank) {
  SmallVector<int64_t> shape(std::max<int64_t>(rank - Emit::rankOf(value), 0), 1);
  llvm::append_range(shape, Emit::shapeOf(value));
  return emit.view(value, shape);
}

Value product(Emit &emit, Value lhs, Value rhs, Type element, Value bias) {
  bool transposed = false;
  if (Value source = transposeSource(rhs)) {
    rhs = source;
    transposed = true;
  }
  int64_t rank = std::max(Emit::rankOf(lhs), Emit::rankOf(rhs));
  lhs = withRank(emit, lhs, rank);
  if (Emit::rankOf(rhs) > 2)
    rhs = withRank(emit, rhs, rank);
  ArrayRef<int64_t> a = Emit::shapeOf(lhs), b = Emit::shapeOf(rhs);
  SmallVector<int64_t> shape(a);
  shape.back() = transposed ? b[b.size() - 2] : b.back();
  int64_t depth = transposed ? b.back() : b[b.size() - 2];
  if (a.back() != depth)
    fail("a product of matrices contracts {} with {} elements", a.back(), depth);
  if (a.size() == b.size())
    for (size_t i = 0; i + 2 < a.size(); ++i)
      shape[i] = a[i] == 1 ? b[i] : a[i];
  return dit::MatmulOp::create(emit.builder(), RankedTensorType::get(shape, element), lhs, rhs, bias, transposed);
}

Value matmulOf(Emit &emit, Value lhs, Value rhs, Type element) {
  bool isRow = Emit::rankOf(lhs) == 1, isColumn = Emit::rankOf(rhs) == 1;
  if (Emit::rankOf(lhs) == 0 || Emit::rankOf(rhs) == 0)
    fail("a 0-dim tensor has no matrix product");
  Value a = isRow ? emit.unsqueeze(lhs, 0) : lhs, b = isColumn ? emit.unsqueeze(rhs, 1) : rhs;
  Value result = product(emit, a, b, element);
  if (isColumn)
    result = emit.squeeze(result, -1);
  return isRow ? emit.squeeze(result, isColumn ? -1 : -2) : result;
}

//===-- Products ----------------------------------------------------------------------------------===//

static Results linear(OpContext &op) {
  Value input = op.tensor("input"), weight = op.tensor("weight"), bias = op.optionalTensor("bias");
  if (Emit::rankOf(weight) != 2)
    fail("linear has a weight of rank {}, expected 2", Emit::rankOf(weight));
  Value rows = Emit::rankOf(input) == 1 ? op.emit.unsqueeze(input, 0) : input;
  if (bias && Emit::rankOf(bias) != 1)
    bias = op.emit.view(bias, {Emit::typeOf(bias).getNumElements()});
  SmallVector<int64_t> shape(Emit::shapeOf(rows));
  shape.back() = Emit::shapeOf(weight)[0];
  Value result = dit::MatmulOp::create(op.emit.builder(), RankedTensorType::get(shape, op.resultElement()), rows, weight, bias,
                                       /*transpose_rhs=*/true);
  return {op.emit.view(result, op.resultType().getShape())};
}

/// A product of the arguments called `lhs` and `rhs`.
static OpImport matmul(const char *lhs, const char *rhs) {
  return [=](OpContext &op) -> Results { return {matmulOf(op.emit, op.tensor(lhs), op.tensor(rhs), op.resultElement())}; };
}

/// A bias that dit.matmul takes: one row, of the operands' type, added as it is.
static Value asBias(OpContext &op, Value value, Value rhs) {
  ArrayRef<int64_t> shape = Emit::shapeOf(value);
  int64_t columns = op.resultType().getShape().back();
  bool isRow = !shape.empty() && shape.back() == columns && Emit::typeOf(value).getNumElements() == columns;
  if (!isRow || op.number("alpha", 1) != 1 || op.number("beta", 1) != 1 || Emit::elementOf(value) != Emit::elementOf(rhs))
    return {};
  return op.emit.view(value, {columns});
}

/// beta * self + alpha * product; with beta 0 the contents of self do not matter, NaN included.
static Value scaledSum(OpContext &op, Value self, Value product) {
  Scalar alpha = op.scalar("alpha", Scalar::of(int64_t{1})), beta = op.scalar("beta", Scalar::of(int64_t{1}));
  SmallVector<Operand> operands{product};
  if (beta.number != 0)
    operands.push_back(self);
  auto times = [](Num x, Scalar factor) { return factor.number == 1 ? x : x * x.constant(factor); };
  Type element = op.resultElement();
  return elementwise(op.emit, operands, dit::computeType(element), element, [&](ArrayRef<Num> x) {
    Num result = times(x[0], alpha);
    return beta.number == 0 ? result : times(x[1], beta) + result;
  });
}

/// addmm, addmv and their like: `self` plus the product of `lhs` and `rhs`.
static OpImport addProduct(const char *lhs, const char *rhs) {
  return [=](OpContext &op) -> Results {
    Value self = op.tensor("self"), a = op.tensor(lhs), b = op.tensor(rhs);
    Value bias = Emit::rankOf(a) == 2 && Emit::rankOf(b) == 2 ? asBias(op, self, b) : Value();
    if (bias)
      return {product(op.emit, a, b, op.resultElement(), bias)};
    return {scaledSum(op, self, matmulOf(op.emit, a, b, dit::computeType(op.resultElement())))};
  };
}

/// self plus the sum of the products of a batch: one product over batch and depth.
static Results addBatchProduct(OpContext &op) {
  Type wide = dit::computeType(op.resultElement());
  return {scaledSum(op, op.tensor("self"), einsumOf(op.emit, "bnm,bmp->np", {op.tensor("batch1"), op.tensor("batch2")}, wide))};
}

static Value outerProduct(Emit &emit, Value column, Value row, Type element) {
  return emit.mul(emit.unsqueeze(column, -1), emit.unsqueeze(row, 0), element);
}

static OpImport outer(const char *row) {
  return [=](OpContext &op) -> Results { return {outerProduct(op.emit, op.tensor("self"), op.tensor(row), op.resultElement())}; };
}

static Results addOuter(OpContext &op) {
  return {
      scaledSum(op, op.tensor("self"), outerProduct(op.emit, op.tensor("vec1"), op.tensor("vec2"), dit::computeType(op.resultElement())))};
}

/// The last dimensions of both are contracted; a 0-dim operand only scales.
static Results inner(OpContext &op) {
  Value self = op.tensor("self"), other = op.tensor("other");
  if (Emit::rankOf(self) == 0 || Emit::rankOf(other) == 0)
    return {op.emit.mul(self, other, op.resultElement())};
  int64_t depth = Emit::shapeOf(self).back();
  auto rows = [&](Value value) { return op.emit.view(value, {depth == 0 ? 0 : Emit::typeOf(value).getNumElements() / depth, depth}); };
  Value result = product(op.emit, rows(self), op.emit.transpose(rows(other), 0, 1), op.resultElement());
  return {op.emit.view(result, op.resultType().getShape())};
}

static Results chain(OpContext &op) {
  std::vector<Value> factors = op.tensors(op.node.find("tensors") ? "tensors" : "matrices");
  Value result = factors.front();
  for (size_t i = 1; i < factors.size(); ++i)
    result = matmulOf(op.emit, result, factors[i], op.resultElement());
  return {result};
}

static Results kronecker(OpContext &op) {
  Value self = op.tensor("self"), other = op.tensor("other");
  int64_t rank = std::max(Emit::rankOf(self), Emit::rankOf(other));
  auto spread = [&](Value value, bool first) {
    SmallVector<int64_t> shape;
    for (int64_t size : Emit::shapeOf(withRank(op.emit, value, rank))) {
      shape.push_back(first ? size : 1);
      shape.push_back(first ? 1 : size);
    }
    return op.emit.view(value, shape);
  };
  return {op.emit.view(op.emit.mul(spread(self, true), spread(other, false), op.resultElement()), op.resultType().getShape())};
}

/// The cross product along a dimension of size 3; without `dim`, along the first such dimension.
static Results cross(OpContext &op) {
  Value self = op.tensor("self"), other = op.tensor("other");
  std::optional<int64_t> dim = op.optionalInteger("dim");
  ArrayRef<int64_t> shape = op.resultType().getShape();
  if (!dim && op.node.target.find("linalg") != std::string::npos)
    dim = -1;
  int64_t axis = dim ? normaliseDim(*dim, shape.size()) : llvm::find(shape, 3) - shape.begin();
  if (axis == static_cast<int64_t>(shape.size()) || shape[axis] != 3)
    fail("a cross product needs a dimension of size 3");
  auto turned = [&](Value value, int64_t by) {
    Value full = op.emit.expand(value, shape);
    return op.emit.gather(full, {by % 3, (by + 1) % 3, (by + 2) % 3}, axis);
  };
  Type element = op.resultElement();
  return {elementwise(op.emit, {turned(self, 1), turned(other, 2), turned(self, 2), turned(other, 1)}, dit::computeType(element), element,
                      [](ArrayRef<Num> x) { return x[0] * x[1] - x[2] * x[3]; })};
}

//===-- Einsum and its relatives ------------------------------------------------------------------===//

static Results einsum(OpContext &op) { return {einsumOf(op.emit, op.text("equation", ""), op.tensors("tensors"), op.resultElement())}; }

/// Contracts the listed dimensions pairwise; the others stay in order.
static Results tensorDot(OpContext &op) {
  Value self = op.tensor("self"), other = op.tensor("other");
  std::vector<int64_t> selfDims = op.integers("dims_self"), otherDims = op.integers("dims_other");
  if (selfDims.size() != otherDims.size() || Emit::rankOf(self) + Emit::rankOf(other) > 26)
    fail("tensordot contracts {} with {} dimensions", selfDims.size(), otherDims.size());
  std::string left, right, result;
  for (int64_t i = 0; i < Emit::rankOf(self); ++i)
    left += static_cast<char>('a' + i);
  for (int64_t i = 0; i < Emit::rankOf(other); ++i)
    right += static_cast<char>('A' + i);
  for (auto [a, b] : llvm::zip(selfDims, otherDims))
    right[normaliseDim(b, right.size())] = left[normaliseDim(a, left.size())];
  for (char label : left + right)
    if ((left.find(label) == std::string::npos) != (right.find(label) == std::string::npos))
      result += label;
  return {einsumOf(op.emit, left + "," + right + "->" + result, {self, other}, op.resultElement())};
}

static Results bilinear(OpContext &op) {
  Type wide = dit::computeType(op.resultElement());
  Value result = einsumOf(op.emit, "...i,oij,...j->...o", {op.tensor("input1"), op.tensor("weight"), op.tensor("input2")}, wide);
  Value bias = op.optionalTensor("bias");
  return {bias ? op.emit.add(result, bias, op.resultElement()) : op.emit.cast(result, op.resultElement())};
}

static Results refuseScaled(OpContext &) { fail("products of fp8 operands with scales are not supported; export the model in bf16"); }

std::vector<OpRow> atenMatmul() {
  ElementwiseRows rows;
  rows.row({"aten.linear.default"}, linear);
  rows.row({"aten.mm.default", "aten.bmm.default", "aten._int_mm.default"}, matmul("self", "mat2"));
  rows.row({"aten.matmul.default", "aten.linalg_matmul.default", "aten.__matmul__.default", "aten.vdot.default"}, matmul("self", "other"));
  rows.row({"aten.mv.default"}, matmul("self", "vec"));
  rows.row({"aten.dot.default"}, matmul("self", "tensor"));
  rows.row({"aten.linalg_vecdot.default"}, [](OpContext &op) -> Results {
    Value products = op.emit.mul(op.tensor("x"), op.tensor("y"), dit::computeType(op.resultElement()));
    return {op.emit.reduce(dit::ReduceKind::Sum, products, {op.integer("dim", -1)}, false, op.resultElement())};
  });
  rows.row({"aten.addmm.default"}, addProduct("mat1", "mat2"));
  rows.row({"aten.addmv.default"}, addProduct("mat", "vec"));
  rows.row({"aten.baddbmm.default"}, addProduct("batch1", "batch2"));
  rows.row({"aten.addbmm.default"}, addBatchProduct);
  rows.row({"aten.outer.default", "aten.ger.default"}, outer("vec2"));
  rows.row({"aten.addr.default"}, addOuter);
  rows.row({"aten.inner.default"}, inner);
  rows.row({"aten.linalg_multi_dot.default", "aten.chain_matmul.default"}, chain);
  rows.row({"aten.kron.default"}, kronecker);
  rows.row({"aten.cross.default", "aten.linalg_cross.default"}, cross);
  rows.row({"aten.einsum.default"}, einsum);
  rows.row({"aten.tensordot.default"}, tensorDot);
  rows.row({"aten.bilinear.default"}, bilinear);
  rows.row({"aten._scaled_mm.default"}, refuseScaled);
  std::vector<OpRow> result = rows.take();
  llvm::append_range(result, attentionRows());
  llvm::append_range(result, layerRows());
  return result;
}

} // namespace ditc
