// SPDX-License-Identifier: Apache-2.0
//
// QuantizeAttention: attention of 16-bit numbers multiplies 8-bit numbers instead, which tensor cores do at twice the rate:
// scores are products of i8 rows of queries and keys, from which the keys' mean is taken first, and weights and values are
// e4m3 (what is rounded where is said of dit.attention). The pass only says which attentions do so,
// and of the others why they do not (docs/quantization.md); targets quantise the operands.
//
// Before:
//   func.func @f(%q: tensor<1x24x4608x128xbf16>, %k: tensor<1x24x4608x128xbf16>, %v: tensor<1x24x4608x128xbf16>) -> tensor<1x24x4608x128xbf16> {
//     %o = dit.attention %q, %k, %v scale 0.125 : (tensor<1x24x4608x128xbf16>, tensor<1x24x4608x128xbf16>, tensor<1x24x4608x128xbf16>) -> tensor<1x24x4608x128xbf16>
//     return %o : tensor<1x24x4608x128xbf16>
//   }
// After:
//   func.func @f(%q: tensor<1x24x4608x128xbf16>, %k: tensor<1x24x4608x128xbf16>, %v: tensor<1x24x4608x128xbf16>) -> tensor<1x24x4608x128xbf16> {
//     %o = dit.attention %q, %k, %v scale 0.125 quantized : (tensor<1x24x4608x128xbf16>, tensor<1x24x4608x128xbf16>, tensor<1x24x4608x128xbf16>) -> tensor<1x24x4608x128xbf16>
//     return %o : tensor<1x24x4608x128xbf16>
//   }
#include "dialects/ModulePatterns.h"
#include "dialects/dit/Tensors.h"
#include "dialects/fusion/Cost.h"
#include "passes/MarkInvariant.h"
#include "passes/Passes.h"
#include "passes/QuantizeRemark.h"

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_QUANTIZEATTENTION
#include "passes/Passes.h.inc"

namespace {

/// Which attentions of a function are quantised, and why others are not.
class AttentionChoice {
public:
  AttentionChoice(func::FuncOp function, ModuleChoice modules) : modules(std::move(modules)), invariant(stepInvariantValues(function)) {}

  QuantizeReason whyNot(dit::AttentionOp attention) const {
    if (!is16BitFloat(elementOf(attention.getQuery())))
      return QuantizeReason::TypeUnsupported;
    int64_t columns = shapeOf(attention.getQuery()).back(), valueColumns = shapeOf(attention.getValue()).back();
    if (columns > dit::kMaxQuantizedHead || valueColumns > dit::kMaxQuantizedHead || columns % 8 != 0 || valueColumns % 8 != 0)
      return QuantizeReason::LayoutUnsupported;
    if (attention.getSoftCap() || (attention.getMask() && isa<FloatType>(elementOf(attention.getMask()))))
      return QuantizeReason::ComputedScores;
    if (llvm::all_of(attention->getOperands(), [&](Value operand) { return invariant.contains(operand); }))
      return QuantizeReason::OncePerGeneration;
    if (!modules.wants(nameOf(attention.getLoc())))
      return QuantizeReason::Excluded;
    bool pays = !modules.only.empty() || quantizingSaves(attention, *findGpu("H100")) > 0; // what is named is wanted, whatever it saves
    return pays ? QuantizeReason::Accepted : QuantizeReason::LittleWork;
  }

private:
  ModuleChoice modules;
  llvm::DenseSet<Value> invariant; ///< the same in every step
};

class QuantizeAttention : public impl::QuantizeAttentionBase<QuantizeAttention> {
public:
  using QuantizeAttentionBase::QuantizeAttentionBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    AttentionChoice choice(function, {ModulePatterns(skip), ModulePatterns(only)});
    for (dit::AttentionOp attention : function.getOps<dit::AttentionOp>()) {
      QuantizeReason reason = choice.whyNot(attention);
      remarkQuantized(attention, "QuantizeAttention", "Attention", reason);
      attention.setQuantized(reason == QuantizeReason::Accepted);
    }
  }
};

} // namespace
} // namespace ditc
