// SPDX-License-Identifier: Apache-2.0
#include "passes/HiddenQueries.h"

#include "dialects/dit/Tensors.h"
#include "passes/MaskParts.h"
#include "passes/Rewriting.h"
#include "passes/Terms.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace ditc {

namespace {

/// Puts zeros into the rows of a value for which `shown` is false, as far behind it as one can: views of the value are views of
/// `shown`, of which a part may be known (tokens of the image are never hidden), and a product's epilogue does it for nothing.
class RowHider {
public:
  explicit RowHider(RewriterBase &rewriter) : rewriter(rewriter) {}

  void hide(Value value, const MaskPart &shown) {
    SmallVector<OpOperand *> readers;
    for (OpOperand &use : llvm::make_early_inc_range(value.getUses()))
      if (!hideBehind(use, shown))
        readers.push_back(&use);
    if (readers.empty())
      return;
    rewriter.setInsertionPointAfterValue(value);
    Value zero = zerosLike(value);
    replace(readers, selected(shown, value, zero));
  }

private:
  bool hideBehind(OpOperand &use, const MaskPart &shown) {
    Operation *reader = use.getOwner();
    if (auto product = dyn_cast<dit::MatmulOp>(reader))
      return use.getOperandNumber() == 0 && hideBehindProduct(product, shown);
    auto map = dyn_cast<dit::MapOp>(reader);
    bool isCast = map && map.isIdentity() && shapeOf(map.getInputs()[0]) == map.getType().getShape();
    std::optional<MaskPart> moved = isCast ? std::optional(shown) : dit::isViewOp(reader) ? rearranged(reader, shown) : std::nullopt;
    if (moved)
      hide(reader->getResult(0), *moved);
    return moved.has_value();
  }

  /// A row of zeros times a matrix is one of zeros, or what is added to it.
  bool hideBehindProduct(dit::MatmulOp product, const MaskPart &shown) {
    Value result = product.getResult(), lhs = product.getLhs();
    if (shown.shape.back() != 1 || product.getRhs() == lhs || tensorType(result).getNumElements() > tensorType(lhs).getNumElements())
      return false;
    SmallVector<OpOperand *> readers;
    for (OpOperand &use : result.getUses())
      readers.push_back(&use);
    rewriter.setInsertionPointAfter(product);
    SmallVector<int64_t> row(shapeOf(result).size(), 1);
    row.back() = shapeOf(result).back();
    Value hidden = product.getBias() ? viewAs(rewriter, product.getLoc(), product.getBias(), row) : zerosLike(result);
    replace(readers, selected(shown, result, hidden));
    return true;
  }

  Value zerosLike(Value value) {
    RankedTensorType type = tensorType(value).clone(SmallVector<int64_t>(shapeOf(value).size(), 1));
    return dit::ConstantOp::create(rewriter, value.getLoc(), DenseElementsAttr::get(type, rewriter.getZeroAttr(type.getElementType())));
  }

  Value selected(const MaskPart &shown, Value value, Value hidden) {
    Value mask = shown.make(rewriter);
    return mapOf(rewriter, value.getLoc(), tensorType(value), {mask, value, hidden},
                 [](OpBuilder &b, Location loc, ValueRange in) -> Value { return arith::SelectOp::create(b, loc, in[0], in[1], in[2]); });
  }

  void replace(ArrayRef<OpOperand *> readers, Value value) {
    for (OpOperand *use : readers)
      rewriter.modifyOpInPlace(use->getOwner(), [&] { use->set(value); });
  }

  RewriterBase &rewriter;
};

/// Is a mask of all queries by all keys larger than what attention gives? Zeros cost one more pass over that where no kernel beside
/// them takes them, and a mask is made once for many attentions.
bool isLarge(ArrayRef<MaskPart> parts, dit::AttentionOp op) {
  SmallVector<int64_t> shape = allOf(op.getLoc(), parts).shape;
  ArrayRef<int64_t> result = shapeOf(op.getResult());
  int64_t masks = shape[0] * shape[1];
  return masks * shapeOf(op.getKey())[2] > result[0] * result[1] * result[3] * dit::elementBytes(elementOf(op.getResult()));
}

} // namespace

bool splitMask(dit::AttentionOp op, RewriterBase &rewriter) {
  Value mask = op.getMask();
  if (!mask || !elementOf(mask).isInteger(1))
    return false;
  SmallVector<MaskPart> parts = partsOfMask(mask), ofKeys, ofQueries;
  for (const MaskPart &part : parts) {
    bool hasQueries = part.shape[2] != 1, hasKeys = part.shape[3] != 1;
    if (hasQueries && hasKeys)
      return false;
    (hasKeys ? ofKeys : ofQueries).push_back(part);
  }
  if (ofQueries.empty() || !isLarge(parts, op))
    return false;
  rewriter.setInsertionPoint(op);
  Value keys = ofKeys.empty() ? Value() : allOf(op.getLoc(), ofKeys).make(rewriter);
  rewriter.modifyOpInPlace(op, [&] { keys ? op.getMaskMutable().assign(keys) : op.getMaskMutable().clear(); });
  RowHider(rewriter).hide(op.getResult(), allOf(op.getLoc(), ofQueries));
  return true;
}

} // namespace ditc
