// SPDX-License-Identifier: Apache-2.0
//
// RecogniseNorms: an RMSNorm or LayerNorm that the model spells out becomes one dit.norm, so that kernels see it
// as what it is. Spellings: x * rsqrt(mean(x²) + eps), x / sqrt(...), pow(..., -0.5); the same of x - mean(x) with the
// mean of its squares or torch's var (without correction) for a LayerNorm; squares as x * x or pow(x, 2); casts
// to f32 where the model has them. Rows of length 1 (`F.normalize`: x / max(|x|, c) with c of at most 1e-10) are an RMSNorm
// of eps c² / n, divided by the root of n: the same but for rows about as short as c. A weight or bias of the model that is applied right behind becomes the norm's
// own, and a cast to f32 in front of a norm goes, as norms compute in f32 anyway.
//
// Runs before maps are fused, while each operation of the source is still a map of its own. With `keep-roundings`
// only what computes in f32 throughout is recognised.
//
// Before:
//   func.func @f(%x: tensor<2x64xbf16>) -> tensor<2x64xf32> {
//     %x32 = dit.map(%x) : (tensor<2x64xbf16>) -> tensor<2x64xf32> {
//     ^bb0(%a: f32):
//       dit.yield %a : f32
//     }
//     %s = dit.map(%x32) : (tensor<2x64xf32>) -> tensor<2x64xf32> {
//     ^bb0(%a: f32):
//       %m = arith.mulf %a, %a : f32
//       dit.yield %m : f32
//     }
//     %v = dit.reduce mean %s axes [1] : (tensor<2x64xf32>) -> tensor<2x1xf32>
//     %e = dit.map(%v) : (tensor<2x1xf32>) -> tensor<2x1xf32> {
//     ^bb0(%a: f32):
//       %c = arith.constant 1.000000e-06 : f32
//       %m = arith.addf %a, %c : f32
//       dit.yield %m : f32
//     }
//     %r = dit.map(%e) : (tensor<2x1xf32>) -> tensor<2x1xf32> {
//     ^bb0(%a: f32):
//       %m = math.rsqrt %a : f32
//       dit.yield %m : f32
//     }
//     %y = dit.map(%x, %r) : (tensor<2x64xbf16>, tensor<2x1xf32>) -> tensor<2x64xf32> {
//     ^bb0(%a: f32, %b: f32):
//       %m = arith.mulf %a, %b : f32
//       dit.yield %m : f32
//     }
//     return %y : tensor<2x64xf32>
//   }
// After:
//   func.func @f(%x: tensor<2x64xbf16>) -> tensor<2x64xf32> {
//     %y = dit.norm rms %x axes 1 eps 9.9999999747524271E-7 : (tensor<2x64xbf16>) -> tensor<2x64xf32>
//     return %y : tensor<2x64xf32>
//   }
#include "dialects/dit/Tensors.h"
#include "passes/Passes.h"
#include "passes/Rewriting.h"
#include "passes/Terms.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace ditc {
#define GEN_PASS_DEF_RECOGNISENORMS
#include "passes/Passes.h.inc"

namespace {

//===-- Formulas ----------------------------------------------------------------------------------===//

/// The mean of `of` over trailing dimensions.
struct Mean {
  Term of;
  int64_t axes;
};

/// A reduction, or a sum that is divided by its count.
std::optional<Mean> meanOf(const Term &term, bool keepRoundings) {
  if (auto reduce = term.leaf<dit::ReduceOp>()) {
    std::optional<int64_t> axes = trailingAxes(reduce);
    bool isMean = axes && reduce.getKind() == dit::ReduceKind::Mean && staysWide(reduce.getResult(), keepRoundings);
    return isMean ? std::optional(Mean{Term(reduce.getInput(), keepRoundings), *axes}) : std::nullopt;
  }
  if (!term.is<arith::DivFOp>())
    return std::nullopt;
  auto sum = term.operand(0).leaf<dit::ReduceOp>();
  std::optional<int64_t> axes = sum ? trailingAxes(sum) : std::nullopt;
  if (!axes || sum.getKind() != dit::ReduceKind::Sum || !staysWide(sum.getResult(), keepRoundings))
    return std::nullopt;
  double count = tensorType(sum.getInput()).getNumElements() / std::max<int64_t>(1, tensorType(sum.getResult()).getNumElements());
  return term.operand(1).constant() == count ? std::optional(Mean{Term(sum.getInput(), keepRoundings), *axes}) : std::nullopt;
}

/// x where `term` is x·x or x².
std::optional<Term> squaredOf(const Term &term) {
  bool product = term.is<arith::MulFOp>() && term.operand(0) == term.operand(1);
  bool power = term.is<math::PowFOp>() && term.operand(1).constant() == 2.0;
  return product || power ? std::optional(term.operand(0)) : std::nullopt;
}

/// sqrt(of + eps), or one divided by that.
struct Root {
  Term of;
  double eps;
  bool reciprocal;
};

std::optional<Root> rootOf(const Term &term) {
  if (term.is<arith::DivFOp>() && term.operand(0).constant() == 1.0) {
    std::optional<Root> below = rootOf(term.operand(1));
    return below ? std::optional(Root{below->of, below->eps, !below->reciprocal}) : std::nullopt;
  }
  std::optional<double> exponent = term.is<math::RsqrtOp>() ? std::optional(-0.5) : term.is<math::SqrtOp>() ? std::optional(0.5) : std::nullopt;
  if (term.is<math::PowFOp>())
    exponent = term.operand(1).constant();
  if (!exponent || std::abs(*exponent) != 0.5)
    return std::nullopt;
  Term sum = term.operand(0);
  if (!sum.is<arith::AddFOp>())
    return std::nullopt;
  for (unsigned i : {0u, 1u})
    if (std::optional<double> eps = sum.operand(i).constant())
      return Root{sum.operand(1 - i), *eps, *exponent < 0};
  return std::nullopt;
}

/// x where `term` is x - mean(x).
std::optional<Mean> centredOf(const Term &term, bool keepRoundings) {
  if (!term.is<arith::SubFOp>())
    return std::nullopt;
  std::optional<Mean> mean = meanOf(term.operand(1), keepRoundings);
  return mean && mean->of == term.operand(0) ? std::optional(Mean{term.operand(0), mean->axes}) : std::nullopt;
}

/// What is divided by a root, and the root.
std::optional<std::pair<Term, Root>> quotientOf(const Term &term) {
  bool product = term.is<arith::MulFOp>();
  if (!product && !term.is<arith::DivFOp>())
    return std::nullopt;
  for (unsigned i : {0u, 1u}) {
    if (!product && i == 1)
      continue;
    std::optional<Root> root = rootOf(term.operand(1 - i));
    if (root && root->reciprocal == product)
      return std::pair(term.operand(i), *root);
  }
  return std::nullopt;
}

/// Largest c of x / max(|x|, c) that is taken for c² in the root: such rows are all but zero, and are so short in no model.
constexpr double kShortest = 1e-10;

/// max(|x|, c), the length of x over trailing dimensions; also rounded, and repeated for each of its elements.
struct Length {
  Term of;
  int64_t axes;
  double shortest;
};

/// What a cast that may be skipped rounds.
Term behindRounding(const Term &term, bool keepRoundings) {
  auto cast = term.leaf<dit::MapOp>();
  return cast && cast.isIdentity() && staysWide(cast.getResult(), keepRoundings) ? Term(cast.getInputs()[0], keepRoundings) : term;
}

std::optional<Length> lengthOf(Term term, bool keepRoundings) {
  if (auto expand = term.leaf<dit::ExpandOp>())
    term = Term(expand.getInput(), keepRoundings);
  if (!term.is<arith::MaximumFOp>())
    return std::nullopt;
  bool isFirst = term.operand(0).constant().has_value();
  std::optional<double> shortest = term.operand(isFirst ? 0 : 1).constant();
  Term root = behindRounding(term.operand(isFirst ? 1 : 0), keepRoundings);
  if (!shortest || *shortest <= 0 || *shortest > kShortest || !root.is<math::SqrtOp>())
    return std::nullopt;
  auto sum = root.operand(0).leaf<dit::ReduceOp>();
  std::optional<int64_t> axes = sum ? trailingAxes(sum) : std::nullopt;
  if (!axes || sum.getKind() != dit::ReduceKind::Sum || !staysWide(sum.getResult(), keepRoundings))
    return std::nullopt;
  std::optional<Term> squared = squaredOf(Term(sum.getInput(), keepRoundings));
  return squared ? std::optional(Length{*squared, *axes, *shortest}) : std::nullopt;
}

//===-- Patterns ----------------------------------------------------------------------------------===//

/// What `map` yields, when that is an operation of its own body. Its rounding will be that of the norm's result.
std::optional<Term> resultOf(dit::MapOp map, bool keepRoundings) {
  Term term = Term::yieldedBy(map, keepRoundings);
  bool own = term.op() && term.op()->getParentOp() == map;
  return own ? std::optional(term) : std::nullopt;
}

/// x / sqrt(mean(x²) + eps), where x may be y - mean(y).
struct SpelledNorm : OpRewritePattern<dit::MapOp> {
  SpelledNorm(MLIRContext *context, bool keepRoundings) : OpRewritePattern(context), keepRoundings(keepRoundings) {}

  LogicalResult matchAndRewrite(dit::MapOp op, PatternRewriter &rewriter) const override {
    std::optional<Term> result = resultOf(op, keepRoundings);
    auto quotient = result ? quotientOf(*result) : std::nullopt;
    if (!quotient)
      return failure();
    auto &[value, root] = *quotient;
    std::optional<Mean> mean = meanOf(root.of, keepRoundings);
    std::optional<Term> squared = mean ? squaredOf(mean->of) : std::nullopt;
    if (!squared)
      return failure();
    std::optional<Mean> centred = centredOf(value, keepRoundings), deviation = centredOf(*squared, keepRoundings);
    if (centred && deviation && centred->of == deviation->of && centred->axes == mean->axes && deviation->axes == mean->axes)
      return rewrite(op, centred->of.tensor(), dit::NormKind::Layer, mean->axes, root.eps, rewriter);
    return *squared == value ? rewrite(op, value.tensor(), dit::NormKind::Rms, mean->axes, root.eps, rewriter) : failure();
  }

  static LogicalResult rewrite(dit::MapOp op, Value input, dit::NormKind kind, int64_t axes, double eps, PatternRewriter &rewriter) {
    if (!input || tensorType(input).getShape() != op.getType().getShape())
      return failure();
    rewriter.replaceOpWithNewOp<dit::NormOp>(op, op.getType(), behindWidening(input), Value(), Value(), kind, axes, APFloat(eps));
    return success();
  }

  bool keepRoundings;
};

/// x / max(|x|, c).
struct SpelledLength : OpRewritePattern<dit::MapOp> {
  SpelledLength(MLIRContext *context, bool keepRoundings) : OpRewritePattern(context), keepRoundings(keepRoundings) {}

  LogicalResult matchAndRewrite(dit::MapOp op, PatternRewriter &rewriter) const override {
    std::optional<Term> result = resultOf(op, keepRoundings);
    if (!result || !result->is<arith::DivFOp>())
      return failure();
    Term value = result->operand(0);
    std::optional<Length> length = lengthOf(result->operand(1), keepRoundings);
    if (!length || !(length->of == value) || !value.tensor() || tensorType(value.tensor()).getShape() != op.getType().getShape())
      return failure();
    Type wide = dit::computeType(elementOf(op.getResult()));
    double count = ShapedType::getNumElements(op.getType().getShape().take_back(length->axes));
    auto norm = dit::NormOp::create(rewriter, op.getLoc(), op.getType().clone(wide), behindWidening(value.tensor()), Value(), Value(), dit::NormKind::Rms, length->axes,
                                    APFloat(length->shortest * length->shortest / count));
    rewriter.replaceOp(op, mapOf(rewriter, op.getLoc(), op.getType(), norm.getResult(), [&](OpBuilder &b, Location loc, ValueRange in) -> Value {
                         Value factor = arith::ConstantOp::create(b, loc, b.getFloatAttr(wide, 1 / std::sqrt(count)));
                         return arith::MulFOp::create(b, loc, in[0], factor);
                       }));
    return success();
  }

  bool keepRoundings;
};

/// A weight or bias of the model that is all that a map brings to a norm: norm(x)·w + b.
struct AffineNorm : OpRewritePattern<dit::MapOp> {
  AffineNorm(MLIRContext *context, bool keepRoundings) : OpRewritePattern(context), keepRoundings(keepRoundings) {}

  LogicalResult matchAndRewrite(dit::MapOp op, PatternRewriter &rewriter) const override {
    std::optional<Term> result = resultOf(op, keepRoundings);
    if (!result || !(result->is<arith::MulFOp>() || result->is<arith::AddFOp>()))
      return failure();
    for (unsigned i : {0u, 1u}) {
      Term normal = result->operand(i), parameter = result->operand(1 - i);
      auto norm = normal.leaf<dit::NormOp>();
      if (!norm || !norm->hasOneUse() || norm.getType().getShape() != op.getType().getShape() || !parameter.tensor())
        continue;
      bool isWeight = result->is<arith::MulFOp>();
      if (norm.getBias() || (isWeight && norm.getWeight()) || !staysWide(norm.getResult(), keepRoundings))
        continue;
      if (Value affine = parameterOf(parameter.tensor(), norm, rewriter)) {
        Value weight = isWeight ? affine : norm.getWeight(), bias = isWeight ? Value() : affine;
        rewriter.replaceOpWithNewOp<dit::NormOp>(op, op.getType(), norm.getInput(), weight, bias, norm.getKind(), norm.getAxes(), norm.getEps());
        return success();
      }
    }
    return failure();
  }

  /// `value` in the shape of the dimensions that are normalised, when it is a weight of the model.
  static Value parameterOf(Value value, dit::NormOp norm, PatternRewriter &rewriter) {
    ArrayRef<int64_t> shape = tensorType(value).getShape(), tail = norm.getType().getShape().take_back(norm.getAxes());
    if (shape.take_back(norm.getAxes()) != tail || llvm::any_of(shape.drop_back(norm.getAxes()), [](int64_t size) { return size != 1; }))
      return {};
    Value source = value;
    while (Operation *def = source.getDefiningOp()) {
      bool isCast = isa<dit::MapOp>(def) && behindWidening(source) != source;
      if (!isCast && !isa<dit::ViewOp>(def))
        break;
      source = def->getOperand(0);
    }
    return source.getDefiningOp<dit::WeightOp>() ? viewAs(rewriter, value.getLoc(), source, tail) : Value();
  }

  bool keepRoundings;
};

/// norm(f32(x)) is norm(x).
struct WidenedOperand : OpRewritePattern<dit::NormOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(dit::NormOp op, PatternRewriter &rewriter) const override {
    bool changed = false;
    for (OpOperand &operand : op->getOpOperands())
      if (Value narrow = behindWidening(operand.get()); narrow != operand.get()) {
        rewriter.modifyOpInPlace(op, [&] { operand.set(narrow); });
        changed = true;
      }
    return success(changed);
  }
};

class RecogniseNorms : public impl::RecogniseNormsBase<RecogniseNorms> {
public:
  using RecogniseNormsBase::RecogniseNormsBase;

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<SpelledNorm, SpelledLength, AffineNorm>(&getContext(), keepRoundings);
    patterns.add<WidenedOperand>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace ditc
