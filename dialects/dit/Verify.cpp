// SPDX-License-Identifier: Apache-2.0
//
// Verifiers of the `dit` operations: shapes and types fit, so that passes and kernels need not ask again.
#include "dialects/dit/Dit.h"
#include "dialects/dit/Tensors.h"

using namespace mlir;

namespace ditc::dit {

static LogicalResult sameElement(Operation *op, Value a, Value b) {
  if (elementOf(a) != elementOf(b))
    return op->emitOpError("element types differ: ") << elementOf(a) << " and " << elementOf(b);
  return success();
}

static LogicalResult axisInRange(Operation *op, int64_t axis, int64_t rank) {
  if (axis < 0 || axis >= rank)
    return op->emitOpError("axis ") << axis << " is outside rank " << rank;
  return success();
}

static LogicalResult expectShape(Operation *op, Value value, ArrayRef<int64_t> expected) {
  if (shapeOf(value) != expected)
    return op->emitOpError("has shape [") << shapeOf(value) << "], expected [" << expected << "]";
  return success();
}

LogicalResult MapOp::verify() {
  Block &body = getBodyBlock();
  if (body.getNumArguments() != getInputs().size())
    return emitOpError("has ") << getInputs().size() << " operands but its body takes " << body.getNumArguments();
  ArrayRef<int64_t> shape = shapeOf(getResult());
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    if (tensorType(input).getRank() != static_cast<int64_t>(shape.size()))
      return emitOpError("operand ") << i << " has rank " << tensorType(input).getRank() << ", the result " << shape.size();
    for (auto [size, resultSize] : llvm::zip(shapeOf(input), shape))
      if (size != resultSize && size != 1)
        return emitOpError("operand ") << i << " of shape [" << shapeOf(input) << "] does not broadcast to [" << shape << "]";
    if (body.getArgument(i).getType() != computeType(elementOf(input)))
      return emitOpError("body argument ") << i << " is " << body.getArgument(i).getType() << ", expected " << computeType(elementOf(input));
  }
  auto yield = dyn_cast<YieldOp>(body.getTerminator());
  if (!yield || yield.getValues().size() != 1)
    return emitOpError("body must yield one value");
  if (yield.getValues()[0].getType() != computeType(elementOf(getResult())))
    return emitOpError("yields ") << yield.getValues()[0].getType() << ", expected " << computeType(elementOf(getResult()));
  for (Operation &op : body)
    if (!isa<YieldOp>(op) && (!op.getDialect() || (op.getDialect()->getNamespace() != "arith" && op.getDialect()->getNamespace() != "math")))
      return emitOpError("body holds '") << op.getName() << "'; only scalar arith and math are allowed";
  return success();
}

LogicalResult MatmulOp::verify() {
  ArrayRef<int64_t> lhs = shapeOf(getLhs()), rhs = shapeOf(getRhs()), result = shapeOf(getResult());
  if (lhs.size() < 2 || rhs.size() < 2)
    return emitOpError("needs operands of rank 2 or more");
  if (rhs.size() != 2 && rhs.size() != lhs.size())
    return emitOpError("ranks do not fit: ") << lhs.size() << " and " << rhs.size();
  if (failed(sameElement(*this, getLhs(), getRhs())))
    return failure();
  if (isa<FloatType>(elementOf(getLhs())) != isa<FloatType>(elementOf(getResult())))
    return emitOpError("multiplies ") << elementOf(getLhs()) << " into " << elementOf(getResult());
  int64_t k = getTransposeRhs() ? rhs.back() : rhs[rhs.size() - 2];
  int64_t n = getTransposeRhs() ? rhs[rhs.size() - 2] : rhs.back();
  if (lhs.back() != k)
    return emitOpError("contracts ") << lhs.back() << " with " << k;
  SmallVector<int64_t> expected(lhs);
  expected.back() = n;
  if (rhs.size() == lhs.size())
    for (size_t i = 0; i + 2 < lhs.size(); ++i) {
      if (lhs[i] != rhs[i] && lhs[i] != 1 && rhs[i] != 1)
        return emitOpError("batch dimension ") << i << " differs: " << lhs[i] << " and " << rhs[i];
      expected[i] = lhs[i] == 1 ? rhs[i] : lhs[i];
    }
  if (result != ArrayRef<int64_t>(expected))
    return emitOpError("has shape [") << result << "], expected [" << expected << "]";
  if (getBias() && shapeOf(getBias()) != ArrayRef<int64_t>{n})
    return emitOpError("bias has shape [") << shapeOf(getBias()) << "], expected [" << n << "]";
  return success();
}

LogicalResult AttentionOp::verify() {
  ArrayRef<int64_t> q = shapeOf(getQuery()), k = shapeOf(getKey()), v = shapeOf(getValue());
  if (q.size() != 4 || k.size() != 4 || v.size() != 4)
    return emitOpError("needs query, key and value of rank 4");
  if (q[0] != k[0] || q[0] != v[0] || k[1] != v[1] || k[2] != v[2] || q[3] != k[3] || k[1] == 0 || q[1] % k[1] != 0)
    return emitOpError("shapes do not fit: query [") << q << "], key [" << k << "], value [" << v << "]";
  if (failed(sameElement(*this, getQuery(), getKey())) || failed(sameElement(*this, getQuery(), getValue())))
    return failure();
  if (getMask()) {
    ArrayRef<int64_t> mask = shapeOf(getMask());
    int64_t full[4] = {q[0], q[1], q[2], k[2]};
    if (mask.size() != 4)
      return emitOpError("mask has rank ") << mask.size() << ", expected 4";
    for (int i = 0; i < 4; ++i)
      if (mask[i] != full[i] && mask[i] != 1)
        return emitOpError("mask of shape [") << mask << "] does not broadcast to [" << ArrayRef<int64_t>(full) << "]";
    if (!elementOf(getMask()).isInteger(1) && !isa<FloatType>(elementOf(getMask())))
      return emitOpError("mask must be boolean or floating point");
  }
  if (getSoftCap() && !(getSoftCap()->convertToDouble() > 0))
    return emitOpError("soft cap must be above 0");
  if (getWindow() && (getWindow()->size() != 2 || (*getWindow())[0] < 0 || (*getWindow())[1] < 0))
    return emitOpError("window must be two numbers of keys, before and after a query's own");
  if (getQuantized() && !is16BitFloat(elementOf(getQuery())))
    return emitOpError("quantized needs bf16 or f16 operands, not ") << elementOf(getQuery());
  if (getQuantized() && std::max(q[3], v[3]) > kMaxQuantizedHead)
    return emitOpError("quantized takes heads of up to ") << kMaxQuantizedHead << " channels, not " << std::max(q[3], v[3]);
  return expectShape(*this, getResult(), {q[0], q[1], q[2], v[3]});
}

/// What linear attention's operations have in common: tokens [B, H, N, channels], of numbers that fp32 holds.
static LogicalResult verifyTokens(Operation *op, Value tokens, StringRef name) {
  if (shapeOf(tokens).size() != 4)
    return op->emitOpError("needs a ") << name << " of rank 4";
  if (elementOf(tokens).isF64())
    return op->emitOpError("computes in f32, its ") << name << " is f64";
  return success();
}

LogicalResult LinearStateOp::verify() {
  if (failed(verifyTokens(*this, getKey(), "key")) || failed(verifyTokens(*this, getValue(), "value")))
    return failure();
  ArrayRef<int64_t> k = shapeOf(getKey()), v = shapeOf(getValue()), state = shapeOf(getState());
  if (k.drop_back() != v.drop_back())
    return emitOpError("shapes do not fit: key [") << k << "], value [" << v << "]";
  if (!elementOf(getState()).isF32() || state.size() != 5)
    return emitOpError("gives f32 of rank 5");
  if (state[0] < 1 || k[2] % state[0] != 0)
    return emitOpError("cannot cut ") << k[2] << " tokens into " << state[0] << " equal parts";
  return expectShape(*this, getState(), {state[0], k[0], k[1], v[3] + getNormaliser(), k[3]});
}

LogicalResult LinearApplyOp::verify() {
  if (failed(verifyTokens(*this, getQuery(), "query")) || failed(verifyTokens(*this, getResult(), "result")))
    return failure();
  ArrayRef<int64_t> q = shapeOf(getQuery()), state = shapeOf(getState());
  if (!elementOf(getState()).isF32() || state.size() != 5)
    return emitOpError("needs an f32 state of rank 5");
  if (state[1] != q[0] || state[2] != q[1] || state[4] != q[3] || state[3] < 1 + getNormaliser())
    return emitOpError("shapes do not fit: query [") << q << "], state [" << state << "]";
  return expectShape(*this, getResult(), {q[0], q[1], q[2], state[3] - getNormaliser()});
}

LogicalResult ConvOp::verify() {
  ArrayRef<int64_t> input = shapeOf(getInput()), filter = shapeOf(getFilter());
  if (input.size() < 3 || input.size() > 5 || filter.size() != input.size())
    return emitOpError("needs input and filter of one rank, 3 to 5");
  size_t spatial = input.size() - 2;
  if (getStrides().size() != spatial || getPaddingLow().size() != spatial || getPaddingHigh().size() != spatial || getDilations().size() != spatial)
    return emitOpError("needs ") << spatial << " strides, paddings and dilations";
  int64_t groups = getGroups();
  if (groups < 1 || input[1] != filter[1] * groups || filter[0] % groups != 0)
    return emitOpError("channels do not fit: input ") << input[1] << ", filter " << filter[1] << ", groups " << groups;
  SmallVector<int64_t> expected{input[0], filter[0]};
  for (size_t i = 0; i < spatial; ++i) {
    if (getStrides()[i] < 1 || getDilations()[i] < 1)
      return emitOpError("strides and dilations must be at least 1");
    int64_t room = input[i + 2] + getPaddingLow()[i] + getPaddingHigh()[i] - getDilations()[i] * (filter[i + 2] - 1) - 1;
    expected.push_back(room < 0 ? 0 : room / getStrides()[i] + 1);
  }
  if (getBias() && shapeOf(getBias()) != ArrayRef<int64_t>{filter[0]})
    return emitOpError("bias has shape [") << shapeOf(getBias()) << "], expected [" << filter[0] << "]";
  return expectShape(*this, getResult(), expected);
}

LogicalResult NormOp::verify() {
  ArrayRef<int64_t> shape = shapeOf(getInput());
  if (getAxes() < 1 || static_cast<size_t>(getAxes()) > shape.size())
    return emitOpError("normalises ") << getAxes() << " dimensions of rank " << shape.size();
  ArrayRef<int64_t> tail = shape.take_back(getAxes());
  for (Value affine : {getWeight(), getBias()})
    if (affine && shapeOf(affine) != tail)
      return emitOpError("weight or bias has shape [") << shapeOf(affine) << "], expected [" << tail << "]";
  return expectShape(*this, getResult(), shape);
}

LogicalResult ReduceOp::verify() {
  SmallVector<int64_t> expected(shapeOf(getInput()));
  for (int64_t axis : getAxes()) {
    if (failed(axisInRange(*this, axis, expected.size())))
      return failure();
    expected[axis] = 1;
  }
  bool logical = getKind() == ReduceKind::Any || getKind() == ReduceKind::All;
  if (logical && !elementOf(getInput()).isInteger(1))
    return emitOpError("any and all reduce i1 only");
  return expectShape(*this, getResult(), expected);
}

LogicalResult ArgReduceOp::verify() {
  SmallVector<int64_t> expected(shapeOf(getInput()));
  if (failed(axisInRange(*this, getAxis(), expected.size())))
    return failure();
  if (getKind() != ReduceKind::Max && getKind() != ReduceKind::Min)
    return emitOpError("finds max or min only");
  if (expected[getAxis()] == 0)
    return emitOpError("has nothing to choose from along axis ") << getAxis();
  expected[getAxis()] = 1;
  return expectShape(*this, getResult(), expected);
}

LogicalResult ScanOp::verify() {
  if (getKind() != ReduceKind::Sum && getKind() != ReduceKind::Prod)
    return emitOpError("accumulates sum or prod only");
  if (failed(axisInRange(*this, getAxis(), tensorType(getInput()).getRank())))
    return failure();
  return expectShape(*this, getResult(), shapeOf(getInput()));
}

LogicalResult SortOp::verify() {
  if (failed(axisInRange(*this, getAxis(), tensorType(getInput()).getRank())) || failed(sameElement(*this, getInput(), getValues())))
    return failure();
  if (failed(expectShape(*this, getValues(), shapeOf(getInput()))))
    return failure();
  return expectShape(*this, getIndices(), shapeOf(getInput()));
}

LogicalResult GatherOp::verify() {
  ArrayRef<int64_t> table = shapeOf(getTable());
  if (failed(axisInRange(*this, getAxis(), table.size())) || failed(sameElement(*this, getTable(), getResult())))
    return failure();
  SmallVector<int64_t> expected(table.take_front(getAxis()));
  llvm::append_range(expected, shapeOf(getIndices()));
  llvm::append_range(expected, table.drop_front(getAxis() + 1));
  if (table[getAxis()] == 0 && tensorType(getResult()).getNumElements() != 0)
    return emitOpError("takes rows from an empty table");
  return expectShape(*this, getResult(), expected);
}

LogicalResult ScatterOp::verify() {
  ArrayRef<int64_t> base = shapeOf(getBase()), updates = shapeOf(getUpdates());
  if (base.empty() || updates.empty() || shapeOf(getIndices()) != updates.take_front(1) || base.drop_front() != updates.drop_front())
    return emitOpError("shapes do not fit: base [") << base << "], indices [" << shapeOf(getIndices()) << "], updates [" << updates << "]";
  if (failed(sameElement(*this, getBase(), getUpdates())) || failed(sameElement(*this, getBase(), getResult())))
    return failure();
  return expectShape(*this, getResult(), base);
}

LogicalResult ViewOp::verify() {
  if (failed(sameElement(*this, getInput(), getResult())))
    return failure();
  if (tensorType(getInput()).getNumElements() != tensorType(getResult()).getNumElements())
    return emitOpError("changes the number of elements: [") << shapeOf(getInput()) << "] to [" << shapeOf(getResult()) << "]";
  return success();
}

LogicalResult PermuteOp::verify() {
  ArrayRef<int64_t> shape = shapeOf(getInput());
  SmallVector<bool> seen(shape.size(), false);
  SmallVector<int64_t> expected;
  if (getPermutation().size() != shape.size())
    return emitOpError("permutes ") << getPermutation().size() << " of " << shape.size() << " dimensions";
  for (int64_t dim : getPermutation()) {
    if (dim < 0 || dim >= static_cast<int64_t>(shape.size()) || seen[dim])
      return emitOpError("[") << getPermutation() << "] is not a permutation";
    seen[dim] = true;
    expected.push_back(shape[dim]);
  }
  return failed(sameElement(*this, getInput(), getResult())) ? failure() : expectShape(*this, getResult(), expected);
}

LogicalResult SliceOp::verify() {
  ArrayRef<int64_t> shape = shapeOf(getInput()), result = shapeOf(getResult());
  if (result.size() != shape.size() || getOffsets().size() != shape.size() || getSteps().size() != shape.size())
    return emitOpError("needs one offset, step and size per dimension");
  for (size_t i = 0; i < shape.size(); ++i) {
    if (getOffsets()[i] < 0 || getSteps()[i] < 1)
      return emitOpError("offsets must not be negative and steps at least 1");
    if (result[i] > 0 && getOffsets()[i] + (result[i] - 1) * getSteps()[i] >= shape[i])
      return emitOpError("reads past dimension ") << i << " of size " << shape[i];
  }
  return sameElement(*this, getInput(), getResult());
}

LogicalResult ConcatOp::verify() {
  if (getInputs().empty())
    return emitOpError("needs an operand");
  ArrayRef<int64_t> result = shapeOf(getResult());
  if (failed(axisInRange(*this, getAxis(), result.size())))
    return failure();
  int64_t total = 0;
  for (Value input : getInputs()) {
    SmallVector<int64_t> expected(result);
    if (tensorType(input).getRank() != static_cast<int64_t>(result.size()))
      return emitOpError("operands must have the result's rank");
    expected[getAxis()] = shapeOf(input)[getAxis()];
    total += expected[getAxis()];
    if (failed(sameElement(*this, input, getResult())))
      return failure();
    if (shapeOf(input) != ArrayRef<int64_t>(expected))
      return emitOpError("operand of shape [") << shapeOf(input) << "] does not fit [" << result << "]";
  }
  if (total != result[getAxis()])
    return emitOpError("operands add up to ") << total << " along axis " << getAxis() << ", the result has " << result[getAxis()];
  return success();
}

LogicalResult PadOp::verify() {
  ArrayRef<int64_t> shape = shapeOf(getInput());
  if (getLow().size() != shape.size() || getHigh().size() != shape.size())
    return emitOpError("needs two amounts per dimension");
  SmallVector<int64_t> expected(shape);
  for (size_t i = 0; i < shape.size(); ++i) {
    if (getLow()[i] < 0 || getHigh()[i] < 0)
      return emitOpError("amounts must not be negative");
    expected[i] += getLow()[i] + getHigh()[i];
  }
  if (getValue().getType() != elementOf(getInput()))
    return emitOpError("value is ") << getValue().getType() << ", elements are " << elementOf(getInput());
  return failed(sameElement(*this, getInput(), getResult())) ? failure() : expectShape(*this, getResult(), expected);
}

LogicalResult ExpandOp::verify() {
  ArrayRef<int64_t> shape = shapeOf(getInput()), result = shapeOf(getResult());
  if (shape.size() != result.size())
    return emitOpError("keeps the rank; got ") << shape.size() << " and " << result.size();
  for (auto [size, resultSize] : llvm::zip(shape, result))
    if (size != resultSize && size != 1)
      return emitOpError("[") << shape << "] does not broadcast to [" << result << "]";
  return sameElement(*this, getInput(), getResult());
}

LogicalResult FusionOp::verify() {
  Block &body = getBodyBlock();
  if (body.getArgumentTypes() != getInputs().getTypes())
    return emitOpError("body arguments do not have the operands' types");
  auto yield = dyn_cast<YieldOp>(body.getTerminator());
  if (!yield || yield.getOperandTypes() != getResultTypes())
    return emitOpError("body does not yield the results' types");
  for (Operation &op : body)
    if (op.getName().getDialectNamespace() != "dit" || isa<FusionOp, WeightOp>(op))
      return emitOpError("body holds '") << op.getName() << "'; only dit operations on its operands are allowed";
  return success();
}

} // namespace ditc::dit
