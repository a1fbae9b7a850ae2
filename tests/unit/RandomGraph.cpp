// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/RandomGraph.h"

#include "compiler/import/Reductions.h"

#include <cstring>
#include <random>

using namespace mlir;

namespace ditc::test {

namespace {

constexpr int64_t kBatch = 2, kTokens = 6, kTextTokens = 4, kHeads = 2, kHeadDim = 4, kWidth = kHeads * kHeadDim;

/// Keeps a pool of [batch, tokens, width] values and applies one idiom after the other.
class Generator {
public:
  Generator(ImplicitLocOpBuilder &builder, uint32_t seed) : b(builder), emit(builder), random(seed) {}

  SmallVector<Value> run(ValueRange arguments) {
    image = {arguments[0]};
    text = {arguments[1]};
    int steps = 6 + pick(10);
    for (int i = 0; i < steps; ++i)
      step();
    return {image.back(), text.back()};
  }

private:
  int pick(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random); }
  Value any(const SmallVector<Value> &pool) { return pool[pick(pool.size())]; }
  SmallVector<Value> &anyPool() { return pick(2) ? image : text; }

  void step() {
    SmallVector<Value> &pool = anyPool();
    switch (pick(12)) {
    case 0: pool.push_back(unary(any(pool))); break;
    case 1: pool.push_back(pick(2) ? emit.add(any(pool), any(pool)) : emit.mul(any(pool), any(pool))); break;
    case 2: pool.push_back(norm(any(pool), dit::NormKind::Layer)); break;
    case 3: pool.push_back(linear(any(pool), kWidth)); break;
    case 4: pool.push_back(modulate(any(pool))); break;
    case 5: pool.push_back(mlp(any(pool))); break;
    case 6: pool.push_back(spelledRms(any(pool))); break;
    case 7: shuffle(pool); break;
    case 8: pool.push_back(spelledLayer(any(pool))); break;
    case 9: pool.push_back(spelledAttention(any(pool), any(anyPool()))); break;
    case 10: pool.push_back(groupedAttention(any(pool), any(anyPool()))); break;
    default: joint(); break;
    }
  }

  Value unary(Value x) {
    int kind = pick(4);
    return emit.map(x, Emit::elementOf(x), [kind](ImplicitLocOpBuilder &body, ValueRange in) -> Value {
      switch (kind) {
      case 0: return math::TanhOp::create(body, in[0]);
      case 1: return math::SinOp::create(body, in[0]);
      case 2: return arith::NegFOp::create(body, in[0]);
      default: return math::AbsFOp::create(body, in[0]);
      }
    });
  }

  Value weight(ArrayRef<int64_t> shape) {
    size_t count = 1;
    for (int64_t size : shape)
      count *= size;
    std::vector<double> values(count);
    for (double &value : values)
      value = std::uniform_real_distribution<double>(-0.5, 0.5)(random);
    return emit.cast(emit.doubles(shape, values), b.getF32Type());
  }

  Value linear(Value x, int64_t width) { return emit.matmul(x, weight({width, Emit::shapeOf(x).back()}), pick(2) ? weight({width}) : Value(), true); }

  Value norm(Value x, dit::NormKind kind) {
    return dit::NormOp::create(b, x.getType(), x, Value(), Value(), kind, 1, APFloat(1e-5));
  }

  /// As diffusers writes it.
  Value spelledRms(Value x) {
    Value mean = emit.reduce(dit::ReduceKind::Mean, emit.mul(x, x), {-1}, true, b.getF32Type());
    Value root = emit.map(mean, b.getF32Type(), [](ImplicitLocOpBuilder &body, ValueRange in) -> Value {
      return math::RsqrtOp::create(body, arith::AddFOp::create(body, in[0], Emit::scalar(body, in[0].getType(), Scalar::of(1e-6))));
    });
    return emit.mul(x, root);
  }

  /// (x - mean) / sqrt(variance + eps) · weight, with torch's variance.
  Value spelledLayer(Value x) {
    Moments m = moments(emit, x, {2}, /*correction=*/pick(4) == 0);
    Value deviation = emit.map(m.variance, b.getF32Type(), [](ImplicitLocOpBuilder &body, ValueRange in) -> Value {
      return math::SqrtOp::create(body, arith::AddFOp::create(body, in[0], Emit::scalar(body, in[0].getType(), Scalar::of(1e-3))));
    });
    return emit.mul(emit.div(m.centered, deviation, b.getF32Type()), weight({1, 1, kWidth}));
  }

  /// Products and a softmax over [batch * heads, tokens, width], with an added mask or none.
  Value spelledAttention(Value x, Value y) {
    auto flat = [&](Value value) { return emit.view(emit.permute(heads(value), {0, 2, 1, 3}), {kBatch * kHeads, Emit::shapeOf(value)[1], kHeadDim}); };
    Value scores = emit.matmul(flat(emit.mul(linear(x, kWidth), 0.5)), emit.permute(flat(linear(y, kWidth)), {0, 2, 1}), {}, false);
    if (pick(2))
      scores = emit.add(scores, weight({kBatch * kHeads, 1, Emit::shapeOf(y)[1]}));
    Value out = emit.matmul(emit.softmax(scores, 2, b.getF32Type()), flat(y), {}, false);
    Value apart = emit.view(out, {kBatch, kHeads, Emit::shapeOf(x)[1], kHeadDim});
    return emit.add(x, emit.view(emit.permute(apart, {0, 2, 1, 3}), Emit::shapeOf(x)));
  }

  /// All query heads share one key head, which is repeated before or after tokens and heads change places.
  Value groupedAttention(Value x, Value y) {
    int64_t tokens = Emit::shapeOf(y)[1];
    Value one = emit.view(linear(y, kHeadDim), {kBatch, tokens, 1, kHeadDim}), many;
    if (pick(2)) {
      Value wide = emit.expand(emit.unsqueeze(one, 3), {kBatch, tokens, 1, kHeads, kHeadDim});
      many = emit.permute(emit.view(wide, {kBatch, tokens, kHeads, kHeadDim}), {0, 2, 1, 3});
    } else {
      Value wide = emit.expand(emit.unsqueeze(emit.permute(one, {0, 2, 1, 3}), 2), {kBatch, 1, kHeads, tokens, kHeadDim});
      many = emit.view(wide, {kBatch, kHeads, tokens, kHeadDim});
    }
    Value query = emit.permute(heads(linear(x, kWidth)), {0, 2, 1, 3});
    Value out = dit::AttentionOp::create(b, query.getType(), query, many, many, Value(), b.getF64FloatAttr(0.5), UnitAttr(), FloatAttr(), DenseI64ArrayAttr(), UnitAttr());
    return emit.add(x, emit.view(emit.permute(out, {0, 2, 1, 3}), Emit::shapeOf(x)));
  }

  /// scale and shift from a pooled vector, as AdaLN has them
  Value modulate(Value x) {
    Value pooled = emit.reduce(dit::ReduceKind::Mean, any(image), {1}, false, b.getF32Type());
    Value both = emit.view(linear(pooled, 2 * kWidth), {kBatch, 1, 2 * kWidth});
    Value scale = emit.slice(both, 2, 0, kWidth), shift = emit.slice(both, 2, kWidth, 2 * kWidth);
    return emit.add(emit.mul(norm(x, dit::NormKind::Rms), scale), shift);
  }

  Value mlp(Value x) { return emit.add(x, linear(unary(linear(x, 3 * kWidth)), kWidth)); }

  /// Split, swapped and joined tokens.
  void shuffle(SmallVector<Value> &pool) {
    Value x = any(pool);
    int64_t tokens = Emit::shapeOf(x)[1], cut = 1 + pick(tokens - 1);
    Value first = emit.slice(x, 1, 0, cut), second = emit.slice(x, 1, cut, tokens);
    pool.push_back(pick(2) ? emit.concat({first, second}, 1) : emit.concat({second, first}, 1));
  }

  Value heads(Value x) { return emit.view(x, {kBatch, Emit::shapeOf(x)[1], kHeads, kHeadDim}); }

  Value rope(Value x) {
    Value pairs = emit.view(x, {kBatch, Emit::shapeOf(x)[1], kHeads, kHeadDim / 2, 2});
    Value even = emit.select(pairs, 4, 0), odd = emit.select(pairs, 4, 1);
    Value table = weight({1, Emit::shapeOf(x)[1], 1, kHeadDim / 2});
    Value first = emit.sub(even, emit.mul(odd, table)), second = emit.add(odd, emit.mul(even, table));
    return emit.view(emit.concat({emit.unsqueeze(first, 4), emit.unsqueeze(second, 4)}, 4), Emit::shapeOf(x));
  }

  /// Joint attention over text and image, RoPE after the concat.
  void joint() {
    Value a = any(text), c = any(image);
    SmallVector<Value> qkv;
    for (int i = 0; i < 3; ++i) {
      Value joined = emit.concat({heads(linear(a, kWidth)), heads(linear(c, kWidth))}, 1);
      qkv.push_back(emit.permute(i < 2 && pick(2) ? rope(joined) : joined, {0, 2, 1, 3}));
    }
    Value out = dit::AttentionOp::create(b, qkv[0].getType(), qkv[0], qkv[1], qkv[2], Value(), b.getF64FloatAttr(0.5), UnitAttr(), FloatAttr(), DenseI64ArrayAttr(), UnitAttr());
    Value flat = emit.view(emit.permute(out, {0, 2, 1, 3}), {kBatch, kTextTokens + kTokens, kWidth});
    text.push_back(emit.add(a, linear(emit.slice(flat, 1, 0, kTextTokens), kWidth)));
    image.push_back(emit.add(c, linear(emit.slice(flat, 1, kTextTokens, kTextTokens + kTokens), kWidth)));
  }

  ImplicitLocOpBuilder &b;
  Emit emit;
  std::mt19937 random;
  SmallVector<Value> image, text;
};

} // namespace

OwningOpRef<ModuleOp> randomGraph(MLIRContext &context, uint32_t seed) {
  Location loc = UnknownLoc::get(&context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  ImplicitLocOpBuilder b = ImplicitLocOpBuilder::atBlockEnd(loc, module->getBody());
  Type f32 = b.getF32Type();
  SmallVector<Type> inputs{RankedTensorType::get({kBatch, kTokens, kWidth}, f32), RankedTensorType::get({kBatch, kTextTokens, kWidth}, f32)};
  auto function = func::FuncOp::create(b, "random", b.getFunctionType(inputs, inputs));
  b.setInsertionPointToStart(function.addEntryBlock());
  func::ReturnOp::create(b, Generator(b, seed).run(function.getArguments()));
  return module;
}

std::vector<dit::TensorValue> randomArguments(func::FuncOp function, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<dit::TensorValue> arguments;
  for (Type type : function.getArgumentTypes()) {
    arguments.push_back(dit::TensorValue::zeros(cast<RankedTensorType>(type)));
    for (size_t i = 0; i < arguments.back().bytes->size(); i += sizeof(float)) {
      float value = std::uniform_real_distribution<float>(-1, 1)(random);
      std::memcpy(arguments.back().bytes->data() + i, &value, sizeof value);
    }
  }
  return arguments;
}

} // namespace ditc::test
