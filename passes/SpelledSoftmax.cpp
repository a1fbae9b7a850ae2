// SPDX-License-Identifier: Apache-2.0
#include "passes/SpelledSoftmax.h"

#include "dialects/dit/Tensors.h"

#include "mlir/IR/Matchers.h"

#include <cmath>
#include <utility>

using namespace mlir;

namespace ditc {

/// A finite number that masked scores take must swallow any score that is added to it in f32.
static constexpr double kHides = -1e30;

std::optional<Scaled> scaledBy(const Term &term) {
  if (term.is<arith::DivFOp>())
    if (std::optional<double> divisor = term.operand(1).constant(); divisor && *divisor != 0)
      return Scaled{term.operand(0), 1 / *divisor};
  if (term.is<arith::MulFOp>())
    for (unsigned i : {0u, 1u})
      if (std::optional<double> factor = term.operand(i).constant())
        return Scaled{term.operand(1 - i), *factor};
  return std::nullopt;
}

Value SpelledSoftmax::maskFor(OpBuilder &b, Value tensor) const {
  if (!tensorType(tensor).getElementType().isInteger(1) || (!hides && !hidden))
    return tensor;
  Type element = hidden ? Type(b.getF32Type()) : Type(b.getI1Type());
  auto map = dit::MapOp::create(b, tensor.getLoc(), tensorType(tensor).clone(element), tensor);
  OpBuilder::InsertionGuard guard(b);
  Block *body = b.createBlock(&map.getBody());
  Value isSet = body->addArgument(b.getI1Type(), tensor.getLoc());
  Value result;
  if (hidden) {
    Value low = arith::ConstantOp::create(b, tensor.getLoc(), b.getF32FloatAttr(*hidden));
    Value zero = arith::ConstantOp::create(b, tensor.getLoc(), b.getF32FloatAttr(0));
    result = arith::SelectOp::create(b, tensor.getLoc(), isSet, hides ? low : zero, hides ? zero : low);
  } else {
    Value one = arith::ConstantOp::create(b, tensor.getLoc(), b.getBoolAttr(true));
    result = arith::XOrIOp::create(b, tensor.getLoc(), isSet, one);
  }
  dit::YieldOp::create(b, tensor.getLoc(), result);
  return map.getResult();
}

namespace {

/// Reads from the weights back to the scores.
class Reader {
public:
  explicit Reader(bool keepRoundings) : keepRoundings(keepRoundings) {}

  std::optional<SpelledSoftmax> read(Value weights) {
    std::optional<Term> softmax = softmaxAt(weights);
    std::optional<Term> logits = softmax ? logitsOf(*softmax) : std::nullopt;
    return logits && readLogits(*logits) ? std::optional(result) : std::nullopt;
  }

private:
  /// The term behind views and casts that nobody else reads.
  std::optional<Term> softmaxAt(Value value) const {
    while (value.hasOneUse()) {
      Value source = behindBatchView(value);
      auto map = source.getDefiningOp<dit::MapOp>();
      auto from = map && map.isIdentity() ? tensorType(map.getInputs()[0]) : RankedTensorType();
      if (from && isa<FloatType>(from.getElementType()) && from.getShape() == map.getType().getShape() && !keepRoundings)
        source = map.getInputs()[0];
      if (source == value)
        return Term(value, keepRoundings);
      value = source;
    }
    return std::nullopt;
  }

  dit::ReduceOp rowReduce(const Term &term, dit::ReduceKind kind) const {
    auto reduce = term.leaf<dit::ReduceOp>();
    return reduce && reduce.getKind() == kind && trailingAxes(reduce) == 1 && staysWide(reduce.getResult(), keepRoundings) ? reduce : dit::ReduceOp();
  }

  /// z where `term` is exp(z - max(z)) / sum(exp(z - max(z))), or that with 0 for rows that are all -inf.
  std::optional<Term> logitsOf(const Term &term) const {
    if (term.is<arith::SelectOp>()) {
      std::optional<Term> logits = term.operand(1).constant() == 0.0 ? logitsOf(term.operand(2)) : std::nullopt;
      return logits && isAllHidden(term.operand(0), *logits) ? logits : std::nullopt;
    }
    if (!term.is<arith::DivFOp>())
      return std::nullopt;
    Term power = term.operand(0);
    dit::ReduceOp sum = rowReduce(term.operand(1), dit::ReduceKind::Sum);
    if (!sum || !power.is<math::ExpOp>() || !(Term(sum.getInput(), keepRoundings) == power) || !power.operand(0).is<arith::SubFOp>())
      return std::nullopt;
    Term logits = power.operand(0).operand(0);
    dit::ReduceOp largest = rowReduce(power.operand(0).operand(1), dit::ReduceKind::Max);
    return largest && Term(largest.getInput(), keepRoundings) == logits ? std::optional(logits) : std::nullopt;
  }

  static bool isMinusInfinity(const Term &term) { return term.constant() == -HUGE_VAL; }

  /// max(z) == -inf, all(z == -inf), or not any(not z == -inf).
  bool isAllHidden(const Term &condition, const Term &logits) const {
    auto [rows, flipped] = behindNots(condition);
    dit::ReduceOp all = rowReduce(rows, flipped ? dit::ReduceKind::Any : dit::ReduceKind::All);
    auto [compared, flippedInside] = all ? behindNots(Term(all.getInput(), keepRoundings)) : std::pair(rows, flipped);
    auto equal = compared.op() ? dyn_cast<arith::CmpFOp>(compared.op()) : arith::CmpFOp();
    if (flippedInside != flipped || !equal || equal.getPredicate() != arith::CmpFPredicate::OEQ || !isMinusInfinity(compared.operand(1)))
      return false;
    if (all)
      return compared.operand(0) == logits;
    dit::ReduceOp largest = rowReduce(compared.operand(0), dit::ReduceKind::Max);
    return !flipped && largest && Term(largest.getInput(), keepRoundings) == logits;
  }

  /// A boolean behind negations, and whether there is an odd number of them.
  static std::pair<Term, bool> behindNots(Term term) {
    bool flipped = false;
    while (Operation *op = term.op()) {
      auto equal = dyn_cast<arith::CmpIOp>(op);
      bool isNot = (equal && equal.getPredicate() == arith::CmpIPredicate::eq && matchPattern(op->getOperand(1), m_Zero())) ||
                   (isa<arith::XOrIOp>(op) && matchPattern(op->getOperand(1), m_One()));
      if (!isNot)
        break;
      term = term.operand(0);
      flipped = !flipped;
    }
    return {term, flipped};
  }

  //===-- Scale and mask --------------------------------------------------------------------------===//

  bool readLogits(Term term) {
    if (term.isLeaf()) {
      Value source = behindBatchView(term.tensor());
      if (source != term.tensor())
        return readLogits(Term(source, keepRoundings));
      auto product = term.leaf<dit::MatmulOp>();
      result.scores = product;
      return product && !product.getBias() && staysWide(product.getResult(), keepRoundings) &&
             tensorType(product.getRhs()).getRank() == product.getType().getRank();
    }
    if (term.is<arith::AddFOp>() && term.operand(1).constant() == 0.0)
      return readLogits(term.operand(0)); // a mask of zeros, folded
    if (std::optional<Scaled> scaled = scaledBy(term)) {
      result.scale *= scaled->factor;
      return readLogits(scaled->of);
    }
    if (term.is<arith::MulFOp>())
      return readFactor(term);
    if (term.is<math::TanhOp>())
      return readSoftCap(term.operand(0));
    return !result.mask && !result.softCap && !result.factor && result.scale == 1 && (term.is<arith::SelectOp>() ? readSelect(term) : term.is<arith::AddFOp>() && readSum(term));
  }

  /// Scores times a tensor that is the same for all queries and keys.
  bool readFactor(const Term &product) {
    Value scores = levelOf(product);
    for (unsigned i : {0u, 1u}) {
      Value factor = product.operand(i).tensor();
      auto type = factor ? tensorType(factor) : RankedTensorType();
      if (!type || !scores || result.factor || !isa<FloatType>(type.getElementType()) || llvm::any_of(type.getShape().take_back(2), [](int64_t size) { return size != 1; }))
        continue;
      if (readBeside(&SpelledSoftmax::factor, &SpelledSoftmax::factorLevel, factor, scores, product.operand(1 - i)))
        return true;
    }
    return false;
  }

  /// Takes a tensor that meets the scores where they are `scores`, and reads on; what was known stays when that fails.
  bool readBeside(Value SpelledSoftmax::*tensor, SmallVector<int64_t> SpelledSoftmax::*level, Value value, Value scores, const Term &rest) {
    SpelledSoftmax saved = result;
    result.*tensor = value;
    result.*level = SmallVector<int64_t>(tensorType(scores).getShape());
    if (readLogits(rest))
      return true;
    result = saved;
    return false;
  }

  /// The factor of the tangent is the cap, whatever divides its argument: c · tanh(a · x) is c · tanh((a · c) · x / c).
  bool readSoftCap(const Term &argument) {
    double cap = std::exchange(result.scale, 1);
    if (result.softCap || result.factor || !(cap > 0))
      return false;
    result.softCap = cap;
    bool found = readLogits(argument);
    result.scale *= cap;
    return found;
  }

  bool readSum(const Term &sum) {
    for (unsigned i : {0u, 1u}) {
      Value mask = sum.operand(i).tensor(), scores = levelOf(sum);
      if (mask && scores && readBeside(&SpelledSoftmax::mask, &SpelledSoftmax::maskLevel, mask, scores, sum.operand(1 - i)))
        return true;
    }
    return false;
  }

  /// select(seen, scores, low) or select(hidden, low, scores)
  bool readSelect(const Term &select) {
    for (unsigned i : {1u, 2u}) {
      std::optional<double> low = select.operand(i).constant();
      Value mask = select.operand(0).tensor(), scores = levelOf(select);
      if (!low || !(*low <= kHides) || !mask || !scores || !tensorType(mask).getElementType().isInteger(1))
        continue;
      result.mask = mask;
      result.maskLevel = SmallVector<int64_t>(tensorType(scores).getShape());
      result.hides = i == 1;
      if (*low != -HUGE_VAL)
        result.hidden = *low;
      return readLogits(select.operand(3 - i));
    }
    return false;
  }

  /// The map that computes a term.
  static Value levelOf(const Term &term) {
    auto map = dyn_cast<dit::MapOp>(term.op()->getParentOp());
    return map ? map.getResult() : Value();
  }

  bool keepRoundings;
  SpelledSoftmax result;
};

} // namespace

std::optional<SpelledSoftmax> spelledSoftmaxOf(Value weights, bool keepRoundings) { return Reader(keepRoundings).read(weights); }

} // namespace ditc
