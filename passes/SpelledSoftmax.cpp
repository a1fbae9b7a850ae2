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
/// Numbers from here on mean the same: the lowest f16, -1e4. What is left of such a key is 0 in f32, unless all keys have it.
static constexpr double kMeansHidden = -1e4;

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

static bool isBoolean(Value tensor) { return tensorType(tensor).getElementType().isInteger(1); }

/// The type in which masks are added: that of the model's sums, or f32 where a finite number hides keys.
static Type sumType(ArrayRef<SpelledMask> masks, OpBuilder &b) {
  Type type;
  for (const SpelledMask &mask : masks) {
    Type own = isBoolean(mask.tensor) ? Type() : tensorType(mask.tensor).getElementType();
    if (mask.hidden || (type && own && type != own) || (own && !isa<FloatType>(own)))
      return b.getF32Type();
    type = own ? own : type;
  }
  return type;
}

static SmallVector<int64_t> broadcastShape(ArrayRef<Value> tensors) {
  SmallVector<int64_t> shape(tensorType(tensors[0]).getShape());
  for (Value tensor : tensors)
    for (auto [size, own] : llvm::zip(shape, tensorType(tensor).getShape()))
      size = size == 1 ? own : size;
  return shape;
}

/// What a mask adds in a map of compute type `type`; whether its key is seen where that is boolean.
static Value termOf(const SpelledMask &mask, Value element, Type type, OpBuilder &b) {
  Location loc = element.getLoc();
  auto number = [&](double value) { return arith::ConstantOp::create(b, loc, b.getFloatAttr(type, value)).getResult(); };
  if (type.isInteger(1))
    return mask.hides ? arith::XOrIOp::create(b, loc, element, arith::ConstantOp::create(b, loc, b.getBoolAttr(true))).getResult() : element;
  if (element.getType().isInteger(1)) {
    Value low = number(mask.hidden.value_or(-HUGE_VAL)), zero = number(0);
    return arith::SelectOp::create(b, loc, element, mask.hides ? low : zero, mask.hides ? zero : low);
  }
  if (isa<IntegerType>(element.getType()))
    element = arith::SIToFPOp::create(b, loc, type, element);
  else if (element.getType() != type)
    element = type.isF64() ? arith::ExtFOp::create(b, loc, type, element).getResult() : arith::TruncFOp::create(b, loc, type, element).getResult();
  return mask.factor == 1 ? element : arith::MulFOp::create(b, loc, element, number(mask.factor)).getResult();
}

Value SpelledSoftmax::maskFor(OpBuilder &b, ArrayRef<Value> tensors) const {
  if (masks.empty())
    return {};
  const SpelledMask &first = masks[0];
  if (masks.size() == 1 && (isBoolean(first.tensor) ? !first.hides && !first.hidden : first.factor == 1))
    return tensors[0];
  bool allBoolean = llvm::all_of(masks, [](const SpelledMask &mask) { return isBoolean(mask.tensor) && !mask.hidden; });
  Type element = allBoolean ? b.getI1Type() : sumType(masks, b), compute = allBoolean ? element : dit::computeType(element);
  Location loc = tensors[0].getLoc();
  auto map = dit::MapOp::create(b, loc, RankedTensorType::get(broadcastShape(tensors), element), tensors);
  OpBuilder::InsertionGuard guard(b);
  Block *body = b.createBlock(&map.getBody());
  Value result;
  for (auto [mask, tensor] : llvm::zip(masks, tensors)) {
    Value term = termOf(mask, body->addArgument(dit::computeType(tensorType(tensor).getElementType()), loc), compute, b);
    if (!result)
      result = term;
    else
      result = allBoolean ? arith::AndIOp::create(b, loc, result, term).getResult() : arith::AddFOp::create(b, loc, result, term).getResult();
  }
  dit::YieldOp::create(b, loc, result);
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
  /// A cast of floats that need not round.
  bool isLooseCast(dit::MapOp map) const {
    if (!map.isIdentity() || keepRoundings || is8BitFloat(map.getType().getElementType()))
      return false;
    RankedTensorType from = tensorType(map.getInputs()[0]);
    return isa<FloatType>(from.getElementType()) && from.getShape() == map.getType().getShape();
  }

  /// The term behind views and casts that nobody else reads.
  std::optional<Term> softmaxAt(Value value) const {
    while (value.hasOneUse()) {
      Value source = behindBatchView(value);
      if (auto map = source.getDefiningOp<dit::MapOp>(); map && isLooseCast(map))
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

  /// Behind views and, unless roundings are kept, casts.
  Value behindViewsAndCasts(Value value) const {
    while (true) {
      Value source = behindBatchView(value);
      if (auto map = source.getDefiningOp<dit::MapOp>(); map && isLooseCast(map))
        source = map.getInputs()[0];
      if (source == value)
        return value;
      value = source;
    }
  }

  bool readLogits(Term term) {
    if (term.isLeaf()) {
      Value source = behindViewsAndCasts(term.leafTensor());
      if (source != term.leafTensor())
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
    return !result.softCap && !result.factor && (term.is<arith::SelectOp>() ? readSelect(term) : term.is<arith::AddFOp>() && readSum(term));
  }

  /// Scores times a tensor that is the same for all queries and keys.
  bool readFactor(const Term &product) {
    Value scores = levelOf(product);
    for (unsigned i : {0u, 1u}) {
      Value factor = product.operand(i).tensor();
      auto type = factor ? tensorType(factor) : RankedTensorType();
      if (!type || !scores || result.factor || !isa<FloatType>(type.getElementType()) || llvm::any_of(type.getShape().take_back(2), [](int64_t size) { return size != 1; }))
        continue;
      SpelledSoftmax saved = result;
      result.factor = factor;
      result.factorLevel = SmallVector<int64_t>(tensorType(scores).getShape());
      if (readLogits(product.operand(1 - i)))
        return true;
      result = saved;
    }
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

  /// Takes a mask that meets the scores in the map of `at`, and reads on; what was known stays when that fails.
  bool readBeside(SpelledMask mask, const Term &at, const Term &rest) {
    Value scores = levelOf(at);
    if (!mask.tensor || !scores)
      return false;
    SpelledSoftmax saved = result;
    mask.level = SmallVector<int64_t>(tensorType(scores).getShape());
    result.masks.push_back(mask);
    if (readLogits(rest))
      return true;
    result = saved;
    return false;
  }

  bool readSum(const Term &sum) {
    for (unsigned i : {0u, 1u}) {
      SpelledMask mask;
      mask.tensor = sum.operand(i).tensor();
      mask.factor = result.scale;
      if (readBeside(mask, sum, sum.operand(1 - i)))
        return true;
    }
    return false;
  }

  /// select(seen, scores, low) or select(hidden, low, scores)
  bool readSelect(const Term &select) {
    for (unsigned i : {1u, 2u}) {
      std::optional<double> low = select.operand(i).constant();
      SpelledMask mask;
      mask.tensor = select.operand(0).tensor();
      if (!low || !(*low * result.scale <= kMeansHidden) || !mask.tensor || !isBoolean(mask.tensor))
        continue;
      mask.hides = i == 1;
      if (*low != -HUGE_VAL)
        mask.hidden = std::min(*low, kHides);
      return readBeside(mask, select, select.operand(3 - i));
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
