// SPDX-License-Identifier: Apache-2.0
#include "passes/TrailingViews.h"

#include "dialects/dit/Tensors.h"
#include "passes/Fusions.h"
#include "passes/Rewriting.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace ditc {
namespace {

/// What makes the result of a fusion of one product: the product, maps, and views, each in order.
struct Chain {
  dit::MatmulOp product;
  SmallVector<dit::MapOp> maps;
  SmallVector<Operation *> views;
};

std::optional<Chain> chainOf(dit::FusionOp fusion) {
  Chain chain;
  Block &body = fusion.getBodyBlock();
  if (fusion.getNumResults() != 1)
    return std::nullopt;
  Value value = body.getTerminator()->getOperand(0);
  while (Operation *op = value.getDefiningOp()) {
    if ((chain.product = dyn_cast<dit::MatmulOp>(op)))
      break;
    auto map = dyn_cast<dit::MapOp>(op);
    bool isUnary = map && map.getInputs().size() == 1 && shapeOf(map.getInputs()[0]) == shapeOf(value); // repeats nothing
    if (!value.hasOneUse() || (map && !isUnary) || !isa<dit::MapOp, dit::ViewOp, dit::PermuteOp>(op))
      return std::nullopt;
    if (map)
      chain.maps.insert(chain.maps.begin(), map);
    else
      chain.views.insert(chain.views.begin(), op);
    value = op->getOperand(0);
  }
  size_t count = 1 + chain.maps.size() + chain.views.size() + 1; // with the terminator
  bool isAll = chain.product && chain.product.getResult().hasOneUse() && llvm::range_size(body.getOperations()) == count;
  return isAll && !chain.views.empty() ? std::optional(chain) : std::nullopt;
}

bool isReadByConvolutionsOnly(Value value) {
  return !value.use_empty() && llvm::all_of(value.getUses(), [](OpOperand &use) {
    auto fusion = dyn_cast<dit::FusionOp>(use.getOwner());
    return use.getOperandNumber() == 0 && (isa<dit::ConvOp>(use.getOwner()) || (fusion && fusion.getFamily() == "conv"));
  });
}

} // namespace

dit::FusionOp putViewsBehind(OpBuilder &b, dit::FusionOp fusion, const TargetKernels &kernels) {
  std::optional<Chain> chain = fusion.getFamily() == "gemm" && isReadByConvolutionsOnly(fusion.getResult(0)) ? chainOf(fusion) : std::nullopt;
  if (!chain || kernels.takes(fusion))
    return {};
  IRMapping values;
  for (auto [argument, input] : llvm::zip(fusion.getBodyBlock().getArguments(), fusion.getInputs()))
    values.map(argument, input);
  b.setInsertionPoint(fusion);
  SmallVector<Operation *> ops{b.clone(*chain->product, values)};
  for (dit::MapOp map : chain->maps) {
    Value before = ops.back()->getResult(0);
    values.map(map.getInputs()[0], before);
    ops.push_back(b.clone(*map, values));
    ops.back()->getResult(0).setType(tensorType(before).clone(elementOf(map.getResult())));
  }
  Value last = ops.back()->getResult(0);
  dit::FusionOp flat = makeFusion(b, "gemm", ops, last);
  if (!kernels.takes(flat)) {
    flat.erase();
    return {};
  }
  Value result = flat.getResult(0);
  for (Operation *view : chain->views)
    result = viewOf(b, view, result);
  fusion.getResult(0).replaceAllUsesWith(result);
  fusion.erase();
  return flat;
}

} // namespace ditc
