// SPDX-License-Identifier: Apache-2.0
#include "passes/TokenOrder.h"

#include "dialects/dit/Tensors.h"
#include "passes/Rearrangement.h"
#include "passes/Rewriting.h"
#include "passes/Strided.h"
#include "passes/Terms.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ditc {
namespace {

/// A product, or maps that may be its epilogue.
bool isOfProduct(Operation *op) {
  return isa_and_present<dit::MatmulOp>(op) || (isa_and_present<dit::MapOp>(op) && llvm::any_of(op->getOperands(), [](Value input) {
           while (isa_and_present<dit::ViewOp, dit::PermuteOp>(input.getDefiningOp()))
             input = input.getDefiningOp()->getOperand(0);
           return input.hasOneUse() && isOfProduct(input.getDefiningOp());
         }));
}

/// Does a copy at the end of the views put rows in order anyway?
bool endsInCopy(Value value) {
  while (value.hasOneUse() && isa<dit::ViewOp, dit::PermuteOp>(*value.user_begin()))
    value = value.user_begin()->getResult(0);
  return copiesFor(value) > 0;
}

/// The values that a sum's order reaches, and the operands at which it ends.
class Reach {
public:
  /// False where a copy would have to put tokens in order.
  bool follow(dit::MapOp start) {
    columns = start.getType().getShape().back();
    tokenDims[start.getResult()] = 1;
    for (Operation *op = start->getNextNode(); op; op = op->getNextNode()) {
      SmallVector<OpOperand *> reads;
      for (OpOperand &operand : op->getOpOperands())
        if (tokenDims.contains(operand.get()))
          reads.push_back(&operand);
      if (reads.empty())
        continue;
      if (std::optional<int64_t> dim = behind(op, reads))
        tokenDims[op->getResult(0)] = *dim;
      else if (!llvm::all_of(reads, [&](OpOperand *read) { return shapeOf(read->get()).size() == 3 && tokenDims.lookup(read->get()) == 1 && isEnd(*read); }))
        return false;
      else
        ends.append(reads);
    }
    return true;
  }

  SmallVector<OpOperand *> ends;

private:
  /// The dimension of tokens of the result of `op`, where it does the same with each.
  std::optional<int64_t> behind(Operation *op, ArrayRef<OpOperand *> reads) const {
    Value value = reads.front()->get();
    int64_t dim = tokenDims.lookup(value), rank = shapeOf(value).size();
    bool isFirstOnly = reads.size() == 1 && reads.front()->getOperandNumber() == 0;
    auto dimIf = [](bool condition, int64_t dim) { return condition ? std::optional(dim) : std::nullopt; };
    return llvm::TypeSwitch<Operation *, std::optional<int64_t>>(op)
        .Case([&](dit::MapOp map) {
          bool isByTokens = llvm::all_of(map.getInputs(), [&](Value input) {
            auto known = tokenDims.find(input);
            return known == tokenDims.end() ? shapeOf(input)[dim] == 1 : known->second == dim;
          });
          return dimIf(isByTokens, dim);
        })
        .Case([&](dit::MatmulOp product) { return dimIf(isFirstOnly && tensorType(product.getRhs()).getRank() == 2 && dim + 1 < rank, dim); })
        .Case([&](dit::NormOp norm) { return dimIf(isFirstOnly && dim + static_cast<int64_t>(norm.getAxes()) < rank, dim); })
        .Case([&](dit::SliceOp slice) { return dimIf(slice.getType().getDimSize(dim) == shapeOf(value)[dim], dim); })
        .Case([&](dit::PermuteOp permute) { return std::optional<int64_t>(llvm::find(permute.getPermutation(), dim) - permute.getPermutation().begin()); })
        .Case([&](dit::ViewOp view) { return keptAxis(shapeOf(value), view.getType().getShape(), dim); })
        .Case([&](dit::AttentionOp attention) {
          bool isByPlace = attention.getCausal() || attention.getWindow() || (attention.getMask() && shapeOf(attention.getMask())[2] != 1);
          return dimIf(isFirstOnly && dim == 2 && !isByPlace, 2);
        })
        .Default(std::nullopt);
  }

  /// Is the old order had for nothing there, or for a copy of much less than the sum?
  bool isEnd(OpOperand &read) const {
    if (isa<func::ReturnOp>(read.getOwner()))
      return shapeOf(read.get()).back() * kMuchLess <= columns;
    if (isa<dit::MapOp>(read.getOwner()) && isOfProduct(read.getOwner()))
      return true;
    if (!isa<dit::ViewOp, dit::PermuteOp>(read.getOwner()))
      return false;
    Operation *source = read.get().getDefiningOp();
    return endsInCopy(read.getOwner()->getResult(0)) || (isa<dit::NormOp, dit::MapOp>(source) && !isOfProduct(source));
  }

  static constexpr int64_t kMuchLess = 4;

  llvm::DenseMap<Value, int64_t> tokenDims;
  int64_t columns = 0; ///< of the sum
};

/// [B, N, C], with the N tokens cut into dimensions of which the product has another order.
struct Tokens {
  SmallVector<int64_t> sizes; ///< in the product's order, with the batch in front
  SmallVector<int64_t> order; ///< of the model, with batch and columns

  /// In the product's order, cut, of what the model has; what it repeats stays one element.
  Value cut(OpBuilder &b, Value value) const {
    ArrayRef<int64_t> shape = shapeOf(value);
    bool isRepeated = shape[1] == 1;
    SmallVector<int64_t> cuts{shape[0]};
    for (int64_t dim : ArrayRef(order).drop_front().drop_back())
      cuts.push_back(isRepeated ? 1 : sizes[dim]);
    cuts.push_back(shape[2]);
    Value apart = viewAs(b, value.getLoc(), value, cuts);
    return inOneStep(b, permuted(b, value.getLoc(), apart, invertPermutationVector(order)));
  }

  /// In the model's order, of [B, N, C] in the product's.
  Value restored(OpBuilder &b, Value value) const {
    SmallVector<int64_t> cuts(sizes);
    cuts.push_back(shapeOf(value)[2]);
    return inOneStep(b, viewAs(b, value.getLoc(), permuted(b, value.getLoc(), viewAs(b, value.getLoc(), value, cuts), order), shapeOf(value)));
  }
};

/// Is nothing else made of `source` than `end`, by views?
bool isReadAlone(Value source, Value end) {
  for (; end != source; end = end.getDefiningOp()->getOperand(0))
    if (!end.hasOneUse())
      return false;
  return source.hasOneUse();
}

/// Of a map and what it reads, if that is a product for it alone, with tokens in another order.
std::optional<Tokens> tokensOf(dit::MapOp map, Value input) {
  std::optional<Rearrangement> whole = shapeOf(input) == map.getType().getShape() && shapeOf(input).size() == 3 ? Rearrangement::of(input) : std::nullopt;
  if (!whole || !isOfProduct(whole->source().getDefiningOp()) || whole->isReshape() || !whole->keepsColumns() || !isReadAlone(whole->source(), input))
    return std::nullopt;
  SmallVector<int64_t> parts = whole->partSizes();
  ArrayRef<size_t> batches = whole->partsOf(0);
  if (batches.size() > 1 || (batches.size() == 1 && batches[0] != 0))
    return std::nullopt;
  Tokens tokens;
  if (batches.empty())
    tokens.sizes.push_back(1);
  tokens.sizes.append(parts.begin(), parts.end() - 1);
  tokens.order.push_back(0);
  for (size_t part : whole->partsOf(1))
    tokens.order.push_back(static_cast<int64_t>(part + batches.empty()));
  tokens.order.push_back(static_cast<int64_t>(tokens.sizes.size()));
  return tokens;
}

void keepOrder(dit::MapOp map) {
  std::optional<Tokens> tokens;
  for (Value input : map.getInputs())
    if (!tokens)
      tokens = tokensOf(map, input);
  if (!tokens)
    return;
  Reach reach;
  bool isReadByMap = map->hasOneUse() && isa<dit::MapOp>(*map->user_begin()); // which decides
  if (isReadByMap)
    reach.ends.push_back(&*map->use_begin());
  else if (!reach.follow(map))
    return;
  OpBuilder b(map);
  IRMapping mapping;
  for (Value input : map.getInputs())
    mapping.map(input, tokens->cut(b, input));
  auto own = cast<dit::MapOp>(b.clone(*map, mapping));
  SmallVector<int64_t> shape(tokens->sizes);
  shape.push_back(map.getType().getShape().back());
  own.getResult().setType(map.getType().clone(shape));
  map.getResult().replaceAllUsesWith(viewAs(b, map.getLoc(), own.getResult(), map.getType().getShape()));
  map.erase();
  for (OpOperand *end : reach.ends) {
    b.setInsertionPoint(end->getOwner());
    end->set(tokens->restored(b, end->get()));
  }
  eraseDead(*own->getBlock()); // views: what the next map reads is read alone
}

} // namespace

void keepTokenOrder(func::FuncOp function) {
  for (dit::MapOp map : llvm::make_early_inc_range(function.getBody().front().getOps<dit::MapOp>()))
    keepOrder(map);
}

} // namespace ditc
