// SPDX-License-Identifier: Apache-2.0
//
// Whole layers as one op: what nn.MultiheadAttention and nn.TransformerEncoderLayer call in eval mode when no gradients
// are asked for. Strict exports hold them; their masks are set where a key is hidden.
#include "compiler/import/AtenHelpers.h"
#include "compiler/import/Elementwise.h"
#include "compiler/import/Products.h"

#include "runtime/Error.h"

#include <cmath>
#include <numbers>

using namespace mlir;

namespace ditc {

using Results = std::vector<Value>;

namespace {

/// Self-attention with the weights of one op.
class SelfAttention {
public:
  SelfAttention(OpContext &op, const char *headsName, Value tokens) : op(op), emit(op.emit), element(Emit::elementOf(tokens)) {
    if (Emit::rankOf(tokens) != 3)
      fail("attends tokens of rank {}, expected [batch, tokens, width]", Emit::rankOf(tokens));
    ArrayRef<int64_t> shape = Emit::shapeOf(tokens);
    int64_t heads = op.integer(headsName), width = shape[2];
    if (heads < 1 || width % heads != 0)
      fail("{} channels do not divide among {} heads", width, heads);
    Value joint = emit.matmul(tokens, op.tensor("qkv_weight"), op.tensor("qkv_bias"), /*transposeRhs=*/true);
    joint = emit.permute(emit.view(joint, {shape[0], shape[1], 3, heads, width / heads}), {2, 0, 3, 1, 4});
    query = emit.select(joint, 0, 0);
    key = emit.select(joint, 0, 1);
    value = emit.select(joint, 0, 2);
    scale = 1 / std::sqrt(static_cast<double>(width / heads));
    seen = seenKeys();
  }

  Value result() {
    ImplicitLocOpBuilder &b = emit.builder();
    Value attended = dit::AttentionOp::create(b, Emit::typeOf(query), query, key, value, seen, b.getF64FloatAttr(scale), UnitAttr(), FloatAttr(), DenseI64ArrayAttr(), UnitAttr());
    ArrayRef<int64_t> shape = Emit::shapeOf(attended);
    Value rows = emit.view(emit.permute(attended, {0, 2, 1, 3}), {shape[0], shape[2], shape[1] * shape[3]});
    return emit.matmul(rows, op.tensor("proj_weight"), op.tensor("proj_bias"), /*transposeRhs=*/true);
  }

  /// The weights of each head, or their mean.
  Value weights(bool mean) {
    Type wide = emit.builder().getF32Type();
    Value scores = emit.mul(product(emit, query, emit.transpose(key, 2, 3), wide), scale);
    if (seen)
      scores = elementwise(emit, {scores, Operand{seen, seen ? Emit::elementOf(seen) : Type()}}, wide, wide,
                           [](ArrayRef<Num> x) { return select(x[1], x[0], x[0].constant(-HUGE_VAL)); });
    Value result = emit.softmax(scores, -1, wide);
    return emit.cast(mean ? emit.reduce(dit::ReduceKind::Mean, result, {1}, /*keepDims=*/false, wide) : result, element);
  }

private:
  /// mask_type: 0 for [queries, keys], 1 for [batch, keys], 2 for [batch, heads, queries, keys].
  Value seenKeys() {
    Value mask = op.optionalTensor("mask");
    if (!mask)
      return {};
    int64_t kind = op.integer("mask_type", -1), rank = Emit::rankOf(mask);
    if (kind < 0 || kind > 2 || rank != (kind == 2 ? 4 : 2))
      fail("has a mask of rank {} and type {}, which are not those of tokens, keys or both", rank, kind);
    ArrayRef<int64_t> shape = Emit::shapeOf(mask);
    if (kind != 2)
      mask = emit.view(mask, kind == 0 ? ArrayRef<int64_t>{1, 1, shape[0], shape[1]} : ArrayRef<int64_t>{shape[0], 1, 1, shape[1]});
    Type flag = emit.builder().getI1Type();
    return elementwise(emit, Operand(emit.cast(mask, flag)), flag, flag, [](ArrayRef<Num> x) { return !x[0]; });
  }

  OpContext &op;
  Emit &emit;
  Type element;
  Value query, key, value, seen;
  double scale;
};

} // namespace

/// The second result, the weights, is absent when it was not asked for.
static Results multiHeadAttention(OpContext &op) {
  Value query = op.tensor("query");
  if (query != op.tensor("key") || query != op.tensor("value"))
    fail("attends keys that are not its queries, which this op of eval mode is not called for; report the model");
  SelfAttention attention(op, "num_head", query);
  Results results{attention.result()};
  if (op.flag("need_weights", true))
    results.push_back(attention.weights(op.flag("average_attn_weights", true)));
  return results;
}

static Results encoderLayer(OpContext &op) {
  Emit &emit = op.emit;
  Type element = op.resultElement(), compute = dit::computeType(element);
  bool normFirst = op.flag("norm_first", false), useGelu = op.flag("use_gelu", false);
  auto norm = [&](Value tokens, const char *weight, const char *bias) {
    return emitNorm(emit, tokens, op.tensor(weight), op.tensor(bias), dit::NormKind::Layer, 1, op.number("eps", 1e-5), element);
  };
  auto feedForward = [&](Value tokens) {
    Value hidden = emit.matmul(tokens, op.tensor("ffn_weight_1"), op.tensor("ffn_bias_1"), /*transposeRhs=*/true);
    hidden = elementwise(emit, Operand(hidden), compute, element, [&](ArrayRef<Num> x) {
      return useGelu ? 0.5 * x[0] * (1.0 + erf(x[0] * (1 / std::numbers::sqrt2))) : max(x[0], 0.0);
    });
    return emit.matmul(hidden, op.tensor("ffn_weight_2"), op.tensor("ffn_bias_2"), /*transposeRhs=*/true);
  };
  Value tokens = op.tensor("src");
  Value attended = SelfAttention(op, "num_heads", normFirst ? norm(tokens, "norm_weight_1", "norm_bias_1") : tokens).result();
  tokens = emit.add(tokens, attended, element);
  if (!normFirst)
    tokens = norm(tokens, "norm_weight_1", "norm_bias_1");
  Value widened = feedForward(normFirst ? norm(tokens, "norm_weight_2", "norm_bias_2") : tokens);
  tokens = emit.add(tokens, widened, element);
  return {normFirst ? tokens : norm(tokens, "norm_weight_2", "norm_bias_2")};
}

std::vector<OpRow> layerRows() {
  return {
      {"aten._native_multi_head_attention.default", multiHeadAttention},
      {"aten._transformer_encoder_layer_fwd.default", encoderLayer},
  };
}

} // namespace ditc
