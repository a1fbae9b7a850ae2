// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/gemm/TilePull.h"

#include "codegen/cuda/gemm/TileLanes.h"
#include "dialects/dit/Tensors.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ditc {

/// Of one element. A value that is read twice is computed twice, and what it reads four times: no tile holds more.
static constexpr size_t kMostTerms = 4096;

TileExprRef TilePull::refuse(Reason reason, Value operand) {
  if (verdict)
    verdict = {reason, operand};
  return nullptr;
}

TileExprRef TilePull::at(Value value, ArrayRef<TileIndex> index) {
  walked = 0;
  TileExprRef expr = walk(value, index);
  if (!quad || (expr && staysInThreads(*expr, *quad)))
    return expr;
  std::array<TileExprRef, kQuad> lanes;
  for (int lane = 0; lane < kQuad; ++lane) {
    auto known = llvm::map_to_vector(index, [&](const TileIndex &i) { return i.with(*quad, lane); });
    if (lanes[lane] = walk(value, known); !lanes[lane])
      return nullptr;
  }
  verdict = {};
  return joinLanes(lanes, *quad);
}

TileExprRef TilePull::walk(Value value, ArrayRef<TileIndex> index) {
  if (++walked > kMostTerms)
    return refuse(Reason::NoSlot, value);
  if (stored && stored->value == value) {
    if (index.drop_back() != ArrayRef(stored->row))
      return refuse(Reason::CrossesRows, value);
    return std::make_shared<TileExpr>(TileExpr{TileExpr::Kind::Accumulator, nullptr, 0, index.back().plus(stored->firstColumn), {}});
  }
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    TileExpr load{TileExpr::Kind::Load, nullptr, argument.getArgNumber(), {}, {}};
    for (auto [i, stride, size] : llvm::zip(index, strides(argument.getArgNumber()), shapeOf(value)))
      load.index = load.index.plus(size == 1 ? TileIndex() : i.times(stride));
    return std::make_shared<TileExpr>(std::move(load));
  }
  return llvm::TypeSwitch<Operation *, TileExprRef>(value.getDefiningOp())
      .Case([&](dit::MatmulOp op) -> TileExprRef {
        std::optional<int64_t> begin = firstColumn(op, index.drop_back());
        if (!begin)
          return refuse(Reason::CrossesRows, value);
        TileExpr product{TileExpr::Kind::Accumulator, op, 0, index.back().plus(TileIndex::of(*begin)), {}};
        if (op.getBias())
          if (product.children.push_back(walk(op.getBias(), index.take_back(1))); !product.children.back())
            return nullptr;
        return std::make_shared<TileExpr>(std::move(product));
      })
      .Case([&](dit::ViewOp op) -> TileExprRef {
        auto inner = delinearise(linearise(index, shapeOf(op.getResult())), shapeOf(op.getInput()), vars);
        return inner ? walk(op.getInput(), *inner) : refuse(Reason::CrossesRows, op.getInput());
      })
      .Case([&](dit::PermuteOp op) {
        SmallVector<TileIndex> inner(index.size());
        for (auto [i, dim] : llvm::enumerate(op.getPermutation()))
          inner[dim] = index[i];
        return walk(op.getInput(), inner);
      })
      .Case([&](dit::SliceOp op) {
        SmallVector<TileIndex> inner;
        for (auto [i, offset, step] : llvm::zip(index, op.getOffsets(), op.getSteps()))
          inner.push_back(i.times(step).plus(TileIndex::of(offset)));
        return walk(op.getInput(), inner);
      })
      .Case([&](dit::ConcatOp op) { return atConcat(op, index); })
      .Case([&](dit::MapOp op) { return atMap(op, index); })
      .Case([&](dit::NormOp op) { return atNorm(op, index); })
      .Default([&](Operation *op) { return refuse(Reason::NoSlot, value); });
}

/// The part is known, or the element is not one of a tile.
TileExprRef TilePull::atConcat(dit::ConcatOp op, ArrayRef<TileIndex> index) {
  SmallVector<TileIndex> inner(index);
  TileIndex &along = inner[op.getAxis()];
  int64_t start = 0;
  for (Value input : op.getInputs()) {
    int64_t end = start + shapeOf(input)[op.getAxis()];
    if (along.constant >= start && along.largest(vars) < end) {
      along.constant -= start;
      return walk(input, inner);
    }
    start = end;
  }
  return refuse(Reason::CrossesRows, op.getResult());
}

TileExprRef TilePull::atMap(dit::MapOp op, ArrayRef<TileIndex> index) {
  TileExpr call{TileExpr::Kind::Call, op, 0, {}, {}};
  for (Value input : op.getInputs()) {
    SmallVector<TileIndex> inner(index);
    for (auto [i, size] : llvm::zip(inner, shapeOf(input)))
      if (size == 1)
        i = {};
    TileExprRef child = walk(input, inner);
    if (!child)
      return nullptr;
    call.children.push_back(child);
  }
  return std::make_shared<TileExpr>(std::move(call));
}

TileExprRef TilePull::atNorm(dit::NormOp op, ArrayRef<TileIndex> index) {
  if (op.getAxes() != 1)
    return refuse(Reason::RowStatistics, op.getInput());
  TileExpr norm{TileExpr::Kind::Norm, op, 0, {}, {}};
  TileExprRef input = walk(op.getInput(), index);
  if (!input)
    return nullptr;
  norm.row.assign(index.begin(), index.end() - 1);
  norm.children.push_back(input);
  for (Value affine : {op.getWeight(), op.getBias()}) {
    if (!affine)
      continue;
    TileExprRef child = walk(affine, index.take_back(1));
    if (!child)
      return nullptr;
    norm.children.push_back(child);
  }
  return std::make_shared<TileExpr>(std::move(norm));
}

} // namespace ditc
