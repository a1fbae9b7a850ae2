// SPDX-License-Identifier: Apache-2.0
#include "passes/QuantizeChoice.h"

#include "dialects/dit/Tensors.h"
#include "dialects/fusion/Cost.h"
#include "passes/MarkInvariant.h"

#include <map>

using namespace mlir;

namespace ditc {

namespace {

/// Products of so few rows wait for their weights: a gemv.
constexpr int64_t kFewRows = 16;
/// fp8 numbers that make a piece of 16 bytes, and 16-bit numbers that do.
constexpr int64_t kDepthStep = 16, kWidthStep = 8;

int64_t rowsOf(dit::MatmulOp product) { return product.getType().getNumElements() / std::max<int64_t>(product.getType().getShape().back(), 1); }

/// Weights, and what is made from weights (views, casts, sums of adapters) and constants.
llvm::DenseSet<Value> valuesOfWeights(func::FuncOp function) {
  llvm::DenseSet<Value> weights, constants;
  for (Operation &op : function.getBody().front().without_terminator()) {
    bool isFixed = llvm::all_of(op.getOperands(), [&](Value operand) { return weights.contains(operand) || constants.contains(operand); });
    bool hasWeight = isa<dit::WeightOp>(op) || llvm::any_of(op.getOperands(), [&](Value operand) { return weights.contains(operand); });
    if (isFixed)
      (hasWeight ? weights : constants).insert(op.result_begin(), op.result_end());
  }
  return weights;
}

/// Products of one input are quantised together, as its cost is theirs. Streams of one block (image and text) are as well,
/// or they could not be one launch: groups that have weights of equal shapes.
std::string classOf(ArrayRef<dit::MatmulOp> group) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  for (dit::MatmulOp product : group)
    stream << product.getRhs().getType() << (product.getTransposeRhs() ? "t " : " ");
  return text;
}

} // namespace

QuantizeChoice::QuantizeChoice(func::FuncOp function, ModuleChoice chosen)
    : modules(std::move(chosen)), invariant(stepInvariantValues(function)), weights(valuesOfWeights(function)) {
  for (dit::MatmulOp product : function.getOps<dit::MatmulOp>())
    reasons[product] = whyNot(product);
  if (modules.only.empty())
    refuseLittleWork();
}

QuantizeReason QuantizeChoice::whyNot(dit::MatmulOp product) const {
  if (!weights.contains(product.getRhs()))
    return QuantizeReason::NoWeight;
  if (!is16BitFloat(elementOf(product.getLhs())))
    return QuantizeReason::TypeUnsupported;
  if (rowsOf(product) <= kFewRows)
    return QuantizeReason::FewRows;
  ArrayRef<int64_t> shape = shapeOf(product.getLhs());
  if (tensorType(product.getRhs()).getRank() != 2 || shape.back() == 0 || shape.back() % kDepthStep != 0 || product.getType().getShape().back() % kWidthStep != 0)
    return QuantizeReason::LayoutUnsupported;
  if (invariant.contains(product.getLhs()))
    return QuantizeReason::OncePerGeneration;
  return modules.wants(nameOf(product.getLoc())) ? QuantizeReason::Accepted : QuantizeReason::Excluded;
}

void QuantizeChoice::refuseLittleWork() {
  llvm::MapVector<Value, SmallVector<dit::MatmulOp>> groups; // by input
  for (auto [product, reason] : reasons)
    if (reason == QuantizeReason::Accepted)
      groups[product.getLhs()].push_back(product);
  std::map<std::string, double> saved;
  for (auto &[input, group] : groups)
    saved[classOf(group)] += quantizingSaves(group, *findGpu("H100"));
  for (auto &[input, group] : groups)
    if (saved[classOf(group)] <= 0)
      for (dit::MatmulOp product : group)
        reasons[product] = QuantizeReason::LittleWork;
}

} // namespace ditc
