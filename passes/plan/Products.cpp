// SPDX-License-Identifier: Apache-2.0
#include "passes/plan/Products.h"

#include "passes/Strided.h"

using namespace mlir;

namespace ditc {

/// Rows of the result lie apart by any stride, but a row is dense.
static bool isWritableByBlas(Value memref, ArrayRef<int64_t> shape) {
  auto type = memoryType(memref);
  std::optional<plan::Layout> layout = reshapeLayout(type.getShape(), plan::layoutOf(type), shape);
  if (!layout)
    return false;
  std::optional<plan::BlasMatrix> matrix = plan::blasMatrix(plan::makeMemRef(shape, type.getElementType(), *layout));
  return matrix && !matrix->transposed;
}

Value Products::transposed(Location loc, Value source) {
  auto type = memoryType(source);
  plan::Layout layout = plan::layoutOf(type);
  SmallVector<int64_t> shape(type.getShape());
  std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  std::swap(layout.strides[shape.size() - 1], layout.strides[shape.size() - 2]);
  return program.createView(loc, source, shape, layout);
}

/// The same elements as a matrix of `shape`, copied when they do not lie so.
Value Products::flattenRows(Location loc, Value source, ArrayRef<int64_t> shape) {
  auto type = memoryType(source);
  std::optional<plan::Layout> layout = reshapeLayout(type.getShape(), plan::layoutOf(type), shape);
  if (!layout) {
    source = launches.makeContiguous(loc, source);
    layout = plan::layoutOf(memoryType(source));
    layout->strides = plan::contiguousStrides(shape);
  }
  return program.createView(loc, source, shape, *layout);
}

/// The operand under `batch` (leading dimensions of size 1 repeated), as a matrix that the BLAS can read.
Value Products::blasOperand(Location loc, Value source, ArrayRef<int64_t> batch) {
  if (!plan::blasMatrix(memoryType(source)))
    source = launches.makeContiguous(loc, source);
  auto type = memoryType(source);
  plan::Layout layout = plan::layoutOf(type);
  plan::Layout result{SmallVector<int64_t>(batch.size(), 0), layout.offset};
  size_t missing = batch.size() + 2 - type.getRank();
  for (size_t i = missing; i < batch.size(); ++i)
    result.strides[i] = type.getDimSize(i - missing) == 1 ? 0 : layout.strides[i - missing];
  SmallVector<int64_t> shape(batch);
  llvm::append_range(shape, type.getShape().take_back(2));
  llvm::append_range(result.strides, ArrayRef(layout.strides).take_back(2));
  return program.createView(loc, source, shape, result);
}

void Products::lower(dit::MatmulOp op) {
  if (isForBlas(tensorType(op.getResult()).getElementType()))
    lowerToBlas(op);
  else
    lowerToKernel(op);
}

bool Products::isForBlas(Type element) const { return device ? isa<FloatType>(element) : element.isF32() || element.isF64(); }

void Products::lowerToBlas(dit::MatmulOp op) {
  auto type = tensorType(op.getResult());
  Location loc = op.getLoc();
  Value lhs = program.memoryOf(op.getLhs()), rhs = program.memoryOf(op.getRhs());
  bool prepared = isStable(lhs) && isStable(rhs);
  Value result = placement.allocate(loc, op.getResult(), prepared);
  // A shared right side: the batch joins the rows when the left side lies so, and one product serves all.
  SmallVector<int64_t> batch(type.getShape().drop_back(2));
  int64_t k = tensorType(op.getLhs()).getShape().back(), rows = tensorType(op.getLhs()).getNumElements() / std::max<int64_t>(k, 1);
  bool joinsRows = tensorType(op.getRhs()).getRank() == 2 && !batch.empty() && k > 0;
  if (!isWritableByBlas(result, joinsRows ? ArrayRef<int64_t>{rows, type.getShape().back()} : type.getShape()))
    result = program.createResult(loc, type, prepared);
  program.setMemory(op.getResult(), result);
  if (type.getNumElements() == 0)
    return;
  if (op.getTransposeRhs())
    rhs = transposed(loc, rhs);
  if (joinsRows) {
    lhs = flattenRows(loc, lhs, {rows, k});
    result = flattenRows(loc, result, {rows, type.getShape().back()});
    batch.clear();
  }
  lhs = blasOperand(loc, lhs, batch);
  rhs = blasOperand(loc, rhs, batch);
  program.setPhase(prepared);
  plan::GemmOp::create(program.b, loc, lhs, rhs, result, op.getBias() ? launches.makeContiguous(loc, program.memoryOf(op.getBias())) : Value());
}

/// Integer products, which no BLAS has: a kernel that reads b as [..., K, N] whatever its strides.
void Products::lowerToKernel(dit::MatmulOp op) {
  Location loc = op.getLoc();
  Value lhs = program.memoryOf(op.getLhs()), rhs = program.memoryOf(op.getRhs());
  bool prepared = isStable(lhs) && isStable(rhs);
  if (op.getTransposeRhs())
    rhs = transposed(loc, rhs);
  SmallVector<int64_t> batch(tensorType(op.getResult()).getShape().drop_back(2));
  lhs = blasOperand(loc, lhs, batch);
  rhs = blasOperand(loc, rhs, batch);
  Value result = placement.allocate(loc, op.getResult(), prepared);
  program.setMemory(op.getResult(), result);
  launches.launch(loc, {.family = "matmul", .config = program.b.getDictionaryAttr({})}, {lhs, rhs, result}, prepared);
}

} // namespace ditc
