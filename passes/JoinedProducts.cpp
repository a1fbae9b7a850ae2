// SPDX-License-Identifier: Apache-2.0
#include "passes/JoinedProducts.h"

#include "dialects/dit/Tensors.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace ditc {

namespace {

/// Known once weights are bound.
bool isStable(Value value) {
  Operation *def = value.getDefiningOp();
  return def && (isa<dit::WeightOp, dit::ConstantOp>(def) || (def->getNumOperands() > 0 && llvm::all_of(def->getOperands(), isStable)));
}

/// Two products can be columns of one: equal left sides and spelling (transposed right side 1, bias 2).
using Key = std::pair<Value, unsigned>;

int64_t weightBytes(ArrayRef<dit::MatmulOp> products) {
  int64_t bytes = 0;
  for (dit::MatmulOp op : products)
    bytes += dit::tensorBytes(tensorType(op->getOperand(1)));
  return bytes;
}

/// What the fusion is given where its body has `value`; null for what is made inside.
Value outside(dit::FusionOp fusion, Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument ? fusion.getInputs()[argument.getArgNumber()] : Value();
}

bool isJoinable(dit::FusionOp fusion, dit::MatmulOp op) {
  auto known = [&](Value value) { Value source = outside(fusion, value); return source && isStable(source); };
  return tensorType(op.getRhs()).getRank() == 2 && known(op.getRhs()) && (!op.getBias() || known(op.getBias()));
}

/// An operand of all products, side by side, as a new input of the fusion.
Value joinOperands(OpBuilder &b, dit::FusionOp fusion, ArrayRef<Value> operands, int64_t axis) {
  SmallVector<Value> parts;
  SmallVector<int64_t> shape(tensorType(operands.front()).getShape());
  shape[axis] = 0;
  for (Value operand : operands) {
    parts.push_back(outside(fusion, operand));
    shape[axis] += tensorType(operand).getDimSize(axis);
  }
  b.setInsertionPoint(fusion);
  auto type = tensorType(operands.front()).clone(shape);
  Value joined = dit::ConcatOp::create(b, b.getFusedLoc(llvm::map_to_vector(parts, [](Value part) { return part.getLoc(); })), type, parts, axis);
  fusion.getInputsMutable().append(joined);
  return fusion.getBodyBlock().addArgument(type, joined.getLoc());
}

void dropUnusedInputs(dit::FusionOp fusion) {
  Block &body = fusion.getBodyBlock();
  for (unsigned i = body.getNumArguments(); i-- > 0;)
    if (body.getArgument(i).use_empty()) {
      body.eraseArgument(i);
      fusion.getInputsMutable().erase(i);
    }
}

void join(OpBuilder &b, dit::FusionOp fusion, ArrayRef<dit::MatmulOp> products) {
  dit::MatmulOp first = products.front();
  Value weights =
      joinOperands(b, fusion, llvm::map_to_vector(products, [](dit::MatmulOp op) -> Value { return op.getRhs(); }), first.getTransposeRhs() ? 0 : 1);
  Value bias = first.getBias() ? joinOperands(b, fusion, llvm::map_to_vector(products, [](dit::MatmulOp op) -> Value { return op.getBias(); }), 0) : Value();
  SmallVector<int64_t> shape(tensorType(first.getResult()).getShape());
  shape.back() = tensorType(weights).getDimSize(first.getTransposeRhs() ? 0 : 1);
  b.setInsertionPoint(first);
  Location loc = b.getFusedLoc(llvm::map_to_vector(products, [](dit::MatmulOp op) { return op.getLoc(); }));
  Value product = dit::MatmulOp::create(b, loc, tensorType(first.getResult()).clone(shape), first.getLhs(), weights, bias, first.getTransposeRhs());
  SmallVector<int64_t> offsets(shape.size(), 0), steps(shape.size(), 1);
  for (dit::MatmulOp op : products) {
    Value part = dit::SliceOp::create(b, op.getLoc(), op.getType(), product, offsets, steps);
    offsets.back() += tensorType(part).getShape().back();
    op.getResult().replaceAllUsesWith(part);
  }
  for (dit::MatmulOp op : products)
    op.erase();
  dropUnusedInputs(fusion);
}

} // namespace

void joinProducts(OpBuilder &b, dit::FusionOp fusion, const TargetKernels &kernels) {
  llvm::MapVector<Key, SmallVector<dit::MatmulOp>> groups;
  for (dit::MatmulOp op : fusion.getBodyBlock().getOps<dit::MatmulOp>())
    if (isJoinable(fusion, op))
      groups[{op.getLhs(), (op.getTransposeRhs() ? 1 : 0) + (op.getBias() ? 2 : 0)}].push_back(op);
  for (auto &[key, products] : groups)
    if (products.size() > 1 && kernels.joiningPays(products.size(), weightBytes(products)))
      join(b, fusion, products);
}

} // namespace ditc
