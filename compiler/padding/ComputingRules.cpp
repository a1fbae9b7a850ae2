// SPDX-License-Identifier: Apache-2.0
//
// Rules of operations that compute: rows stay apart, and what sums, normalises or attends along a dimension takes padding
// only where its value is known to change nothing.
#include "compiler/padding/PaddingRules.h"

#include "compiler/padding/KnownScalars.h"

#include <fmt/format.h>
#include <limits>

using namespace mlir;

namespace ditc {

static void setTail(dit::MapOp op, PaddedDim &dim, size_t d, const KnownPadding &known) {
  SmallVector<Attribute> tails;
  for (Value input : op.getInputs()) {
    const PaddedShape &shape = known.at(input);
    tails.push_back(isPadded(shape.dims[d]) && !shape.uniform ? tailOf(shape.dims[d]) : shape.uniform);
  }
  Attribute tail = evaluateKnown(op, tails);
  for (Factor &factor : dim)
    factor.tail = tail;
}

PaddedShape paddingOf(dit::MapOp op, const KnownPadding &known) {
  PaddedShape out;
  ArrayRef<int64_t> shape = shapeOf(op.getResult());
  for (size_t d = 0; d < shape.size(); ++d) {
    const PaddedDim *layout = nullptr;
    for (Value input : op.getInputs()) {
      const PaddedDim &dim = known.dims(input)[d];
      if (shapeOf(input)[d] == 1 && !isPadded(dim))
        continue;
      if (layout && !sameLayout(*layout, dim))
        refuse(*op, fmt::format("combines padding along dimension {} with elements that are none", d));
      layout = &dim;
    }
    out.dims.push_back(layout ? *layout : plainDim(shape[d]));
    setTail(op, out.dims.back(), d, known);
  }
  SmallVector<Attribute> uniform;
  for (Value input : op.getInputs())
    uniform.push_back(known.at(input).uniform);
  out.uniform = evaluateKnown(op, uniform);
  return out;
}

/// A dimension of two operands, of which one may have a single element.
static PaddedDim joinBroadcast(Operation &op, const PaddedDim &a, const PaddedDim &b) {
  if (sizeOf(b) == 1 && !isPadded(b))
    return a;
  if (sizeOf(a) == 1 && !isPadded(a))
    return b;
  if (!sameLayout(a, b))
    refuse(op, "combines padding with elements that are none");
  return a;
}

PaddedShape paddingOf(dit::MatmulOp op, const KnownPadding &known) {
  const PaddedDims &lhs = known.dims(op.getLhs()), &rhs = known.dims(op.getRhs());
  size_t rank = lhs.size(), rhsRank = rhs.size();
  const PaddedDim &k = rhs[rhsRank - (op.getTransposeRhs() ? 1 : 2)], &n = rhs[rhsRank - (op.getTransposeRhs() ? 2 : 1)];
  if (isPadded(lhs[rank - 1]) || isPadded(k))
    refuse(*op, "sums over padding");
  if (op.getBias() && (known.any(op.getBias()) || isPadded(n)))
    refuse(*op, "has columns of padding");
  PaddedShape out;
  for (size_t d = 0; d + 2 < rank; ++d)
    out.dims.push_back(withoutTail(rhsRank == 2 ? lhs[d] : joinBroadcast(*op, lhs[d], rhs[d])));
  out.dims.push_back(withoutTail(lhs[rank - 2]));
  out.dims.push_back(withoutTail(n));
  return out;
}

static void checkKeysMasked(dit::AttentionOp op, const KnownPadding &known, MaskedKeys &masks) {
  if (!op.getMask() || !isPadded(known.dims(op.getMask())[3]))
    refuse(*op, "reads padding as keys, and no mask hides it");
  const PaddedShape &mask = known.at(op.getMask());
  Attribute tail = mask.uniform ? mask.uniform : tailOf(mask.dims[3]);
  if (!tail)
    refuse(*op, "reads padding as keys; what its mask holds there is not known");
  double value = numberOf(tail);
  bool isBoolean = elementOf(op.getMask()).isInteger(1);
  if (!isBoolean)
    masks.added.push_back(value);
  if (isBoolean ? value != 0 : value > masks.highest)
    refuse(*op, fmt::format("reads padding as keys, which its mask does not hide for certain: it holds {} there", value));
}

PaddedShape paddingOf(dit::AttentionOp op, const KnownPadding &known, MaskedKeys &masks) {
  const PaddedDims &q = known.dims(op.getQuery()), &k = known.dims(op.getKey()), &v = known.dims(op.getValue());
  if (!sameLayout(q[0], k[0]) || !sameLayout(q[0], v[0]))
    refuse(*op, "combines padding along the batch with elements that are none");
  if (isPadded(q[1]) || isPadded(k[1]) || isPadded(v[1]) || isPadded(q[3]) || isPadded(k[3]) || isPadded(v[3]))
    refuse(*op, "has padding among its heads or their elements");
  if (!sameLayout(k[2], v[2]))
    refuse(*op, "has padding among its keys that its values do not have");
  if (op.getMask())
    for (auto [d, dim] : llvm::enumerate(known.dims(op.getMask()))) {
      const PaddedDim &own = d == 3 ? k[2] : q[d];
      if (isPadded(dim) && !sameLayout(dim, own))
        refuse(*op, "has padding in its mask that the product does not have");
      if (!isPadded(dim) && isPadded(own) && sizeOf(dim) != 1)
        refuse(*op, "has a mask without the padding of the product");
    }
  bool causalRows = op.getCausal() && isPaddedAtEnd(k[2]) && sameLayout(q[2], k[2]);
  if (isPadded(k[2]) && !causalRows)
    checkKeysMasked(op, known, masks);
  return {{withoutTail(q[0]), q[1], withoutTail(q[2]), v[3]}, {}};
}

PaddedShape paddingOf(dit::ConvOp op, const KnownPadding &known) {
  PaddedShape out = plainShape(shapeOf(op.getResult()));
  for (auto [d, dim] : llvm::enumerate(known.dims(op.getInput())))
    if (d > 0 && isPadded(dim))
      refuse(*op, "moves a window over padding");
  if (known.any(op.getFilter()))
    refuse(*op, "has padding in its filter");
  out.dims[0] = withoutTail(known.dims(op.getInput())[0]);
  return out;
}

PaddedShape paddingOf(dit::NormOp op, const KnownPadding &known) {
  PaddedShape out;
  const PaddedDims &dims = known.dims(op.getInput());
  for (auto [d, dim] : llvm::enumerate(dims)) {
    if (d + op.getAxes() >= dims.size() && isPadded(dim))
      refuse(*op, "normalises over padding");
    out.dims.push_back(withoutTail(dim));
  }
  for (Value operand : op->getOperands().drop_front())
    if (known.any(operand))
      refuse(*op, "has padding in its weights");
  return out;
}

static bool isIdentityOf(dit::ReduceKind kind, double value) {
  switch (kind) {
  case dit::ReduceKind::Sum:
  case dit::ReduceKind::Any: return value == 0;
  case dit::ReduceKind::Prod:
  case dit::ReduceKind::All: return value == 1;
  case dit::ReduceKind::Max: return value == -std::numeric_limits<double>::infinity();
  case dit::ReduceKind::Min: return value == std::numeric_limits<double>::infinity();
  case dit::ReduceKind::Mean: return false;
  }
  return false;
}

PaddedShape paddingOf(dit::ReduceOp op, const KnownPadding &known) {
  PaddedShape out;
  for (auto [d, dim] : llvm::enumerate(known.dims(op.getInput()))) {
    bool reduced = llvm::is_contained(op.getAxes(), static_cast<int64_t>(d));
    Attribute tail = tailOf(dim);
    if (reduced && isPadded(dim) && (!tail || !isIdentityOf(op.getKind(), numberOf(tail))))
      refuse(*op, "reduces over padding");
    out.dims.push_back(reduced ? plainDim(1) : withoutTail(dim));
  }
  return out;
}

PaddedShape paddingAlongAxis(Operation &op, int64_t axis, bool mayBePadded, const KnownPadding &known) {
  PaddedShape out;
  for (auto [d, dim] : llvm::enumerate(known.dims(op.getOperand(0)))) {
    bool along = static_cast<int64_t>(d) == axis;
    if (along && isPadded(dim) && !(mayBePadded && isPaddedAtEnd(dim)))
      refuse(op, "takes padding into account");
    out.dims.push_back(along && isa<dit::ArgReduceOp>(op) ? plainDim(1) : withoutTail(dim));
  }
  return out;
}

} // namespace ditc
