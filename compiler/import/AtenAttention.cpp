// SPDX-License-Identifier: Apache-2.0
//
// Scaled dot product attention, whole and in the forms that decompositions leave. Operands of any number of
// batch dimensions become [batch, heads, tokens, width].
#include "compiler/import/Products.h"

#include "runtime/Error.h"

#include <cmath>

using namespace mlir;

namespace ditc {

using Results = std::vector<Value>;

namespace {

class Attention {
public:
  explicit Attention(OpContext &op);
  Value run(Value mask, bool causal, bool grouped);

private:
  void shareHeads(bool grouped);
  void shareBatch();
  Value maskOf(Value mask);
  Value repeatHeads(Value value, int64_t heads);
  int64_t heads(Value value) const { return rank < 3 ? 1 : Emit::shapeOf(value)[rank - 3]; }
  /// [batch..., heads, tokens, width] with the batch dimensions as one.
  Value flat(Value value);

  OpContext &op;
  Emit &emit;
  Value query, key, value;
  int64_t rank;
};

} // namespace

Attention::Attention(OpContext &op) : op(op), emit(op.emit), query(op.tensor("query")), key(op.tensor("key")), value(op.tensor("value")) {
  rank = std::max({Emit::rankOf(query), Emit::rankOf(key), Emit::rankOf(value)});
  if (std::min({Emit::rankOf(query), Emit::rankOf(key), Emit::rankOf(value)}) < 2)
    fail("attention needs operands of rank 2 or more");
  if (op.number("dropout_p", 0) != 0)
    fail("attention has dropout {}; call model.eval() before exporting", op.number("dropout_p", 0));
  for (Value *operand : {&query, &key, &value}) {
    SmallVector<int64_t> shape(rank - Emit::rankOf(*operand), 1);
    llvm::append_range(shape, Emit::shapeOf(*operand));
    *operand = emit.view(*operand, shape);
  }
}

/// Each head repeated until there are `heads`, neighbours equal.
Value Attention::repeatHeads(Value value, int64_t count) {
  if (heads(value) == count)
    return value;
  if (count % heads(value) != 0)
    fail("{} query heads do not divide among {} key or value heads", count, heads(value));
  SmallVector<int64_t> shape(Emit::shapeOf(value)), repeated(shape);
  repeated.insert(repeated.begin() + rank - 2, count / heads(value));
  shape[rank - 3] = count;
  return emit.view(emit.expand(emit.unsqueeze(value, rank - 2), repeated), shape);
}

/// Keys and values with equally many heads, which divide the query's. Without `grouped`, heads only
/// broadcast.
void Attention::shareHeads(bool grouped) {
  if (rank < 3)
    return;
  if (!grouped && heads(query) == 1 && std::max(heads(key), heads(value)) > 1)
    query = repeatHeads(query, std::max(heads(key), heads(value)));
  for (Value operand : {key, value})
    if (heads(query) % heads(operand) != 0 || (!grouped && heads(operand) != 1 && heads(operand) != heads(query)))
      fail("{} query heads do not fit {} key or value heads", heads(query), heads(operand));
  if (heads(key) == heads(value))
    return;
  key = repeatHeads(key, heads(query));
  value = repeatHeads(value, heads(query));
}

void Attention::shareBatch() {
  for (int64_t dim = 0; dim < rank - 3; ++dim) {
    int64_t size = 1;
    for (Value operand : {query, key, value})
      size = Emit::shapeOf(operand)[dim] == 1 ? size : Emit::shapeOf(operand)[dim];
    for (Value *operand : {&query, &key, &value}) {
      SmallVector<int64_t> shape(Emit::shapeOf(*operand));
      shape[dim] = size;
      *operand = emit.expand(*operand, shape);
    }
  }
}

Value Attention::flat(Value value) {
  ArrayRef<int64_t> shape = Emit::shapeOf(value);
  int64_t batch = rank < 4 ? 1 : ShapedType::getNumElements(shape.take_front(rank - 3));
  return emit.view(value, {batch, heads(value), shape[rank - 2], shape[rank - 1]});
}

/// The mask as [batch or 1, heads or 1, queries or 1, keys or 1].
Value Attention::maskOf(Value mask) {
  if (!mask)
    return mask;
  if (Emit::rankOf(mask) > std::max<int64_t>(rank, 2))
    fail("the attention mask has rank {}, the operands {}", Emit::rankOf(mask), rank);
  SmallVector<int64_t> shape(rank - Emit::rankOf(mask), 1);
  llvm::append_range(shape, Emit::shapeOf(mask));
  mask = emit.view(mask, shape);
  // Several batch dimensions become one where the mask has all of them or none.
  ArrayRef<int64_t> own = ArrayRef<int64_t>(shape).take_front(std::max<int64_t>(rank - 3, 0));
  ArrayRef<int64_t> full = Emit::shapeOf(query).take_front(own.size());
  if (own != full && ShapedType::getNumElements(own) != 1) {
    std::copy(full.begin(), full.end(), shape.begin());
    mask = emit.expand(mask, shape);
  }
  return flat(mask);
}

Value Attention::run(Value mask, bool causal, bool grouped) {
  shareHeads(grouped);
  shareBatch();
  double scale = op.number("scale", 1 / std::sqrt(static_cast<double>(Emit::shapeOf(query).back())));
  mask = maskOf(mask);
  Value q = flat(query), k = flat(key), v = flat(value);
  SmallVector<int64_t> shape(Emit::shapeOf(q));
  shape.back() = Emit::shapeOf(v).back();
  ImplicitLocOpBuilder &b = emit.builder();
  Value result = dit::AttentionOp::create(b, RankedTensorType::get(shape, op.resultElement()), q, k, v, mask, b.getF64FloatAttr(scale),
                                          causal ? b.getUnitAttr() : UnitAttr(), FloatAttr(), DenseI64ArrayAttr(), UnitAttr());
  return emit.view(result, op.resultType().getShape());
}

/// The result; further ones (statistics, random states) serve the backward pass and stay absent. The forms
/// of single back ends have no `enable_gqa`: they take fewer key heads as they come.
static OpImport attention(const char *maskName, bool grouped = true) {
  return [=](OpContext &op) -> Results {
    Value mask = maskName ? op.optionalTensor(maskName) : Value();
    return {Attention(op).run(mask, op.flag("is_causal", false), op.flag("enable_gqa", grouped))};
  };
}

std::vector<OpRow> attentionRows() {
  return {
      {"aten.scaled_dot_product_attention.default", attention("attn_mask", /*grouped=*/false)},
      {"aten._scaled_dot_product_flash_attention.default", attention(nullptr)},
      {"aten._scaled_dot_product_flash_attention_for_cpu.default", attention("attn_mask")},
      {"aten._scaled_dot_product_efficient_attention.default", attention("attn_bias")},
      {"aten._scaled_dot_product_cudnn_attention.default", attention("attn_bias")},
      {"aten._scaled_dot_product_attention_math.default", attention("attn_mask")},
      {"aten._scaled_dot_product_fused_attention_overrideable.default", attention("attn_bias")},
  };
}

} // namespace ditc
