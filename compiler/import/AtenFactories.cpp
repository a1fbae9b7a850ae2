// SPDX-License-Identifier: Apache-2.0
//
// ATen ops that make tensors from numbers. All become constants: sizes are known when a program is imported.
#include "compiler/import/AtenHelpers.h"

#include "runtime/Error.h"

#include <cmath>

using namespace mlir;

namespace ditc {

using Results = std::vector<Value>;

//===-- Helpers for rows (AtenHelpers.h) ----------------------------------------------------------===//

int64_t tableSize(int64_t count) {
  constexpr int64_t kLargest = int64_t{1} << 28; // 2 GiB of f64
  if (count < 0 || count > kLargest)
    fail("needs a table of {} elements at compile time, at most {} are supported", count, kLargest);
  return count;
}

Value tabulate(Emit &emit, RankedTensorType type, llvm::function_ref<double(int64_t)> number) {
  tableSize(type.getNumElements());
  dit::TensorValue value = dit::TensorValue::zeros(type);
  size_t unit = dit::elementBytes(type.getElementType());
  auto floatType = dyn_cast<FloatType>(type.getElementType());
  for (int64_t i = 0, count = type.getNumElements(); i < count; ++i) {
    uint64_t bits;
    if (floatType) {
      llvm::APFloat rounded(number(i));
      bool lossy = false;
      rounded.convert(floatType.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &lossy);
      bits = rounded.bitcastToAPInt().getZExtValue();
    } else if (unit == 1 && type.getElementType().isInteger(1)) {
      bits = number(i) != 0;
    } else {
      bits = static_cast<uint64_t>(static_cast<int64_t>(number(i)));
    }
    std::memcpy(value.bytes->data() + i * unit, &bits, unit); // little endian: the low bytes come first
  }
  return emit.constant(
      elementsOf(type, ArrayRef<char>(reinterpret_cast<const char *>(value.bytes->data()), value.bytes->size())));
}

std::optional<std::vector<int64_t>> constantIntegers(const OpContext &ctx, std::string_view name) {
  std::optional<dit::TensorValue> value = ctx.constantTensor(name);
  if (!value)
    return std::nullopt;
  std::vector<int64_t> result(value->type.getNumElements());
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = static_cast<int64_t>(value->at(i));
  return result;
}

//===-- Filled tensors ----------------------------------------------------------------------------===//

/// The result's shape filled with one number; complex results get an imaginary part of 0.
static Value filled(OpContext &ctx, Scalar number) {
  RankedTensorType type = ctx.resultType();
  if (!ctx.resultIsComplex() || number.number == 0)
    return ctx.emit.full(type.getShape(), type.getElementType(), number);
  Value pair = tabulate(ctx.emit, RankedTensorType::get({2}, type.getElementType()),
                        [&](int64_t i) { return i == 0 ? number.number : 0; });
  return ctx.emit.expand(pair, type.getShape());
}

static Results zeros(OpContext &ctx) { return {filled(ctx, Scalar::of(int64_t{0}))}; }
static Results ones(OpContext &ctx) { return {filled(ctx, Scalar::of(int64_t{1}))}; }
static Results full(OpContext &ctx) { return {filled(ctx, ctx.scalar("fill_value"))}; }
static Results fill(OpContext &ctx) { return {filled(ctx, ctx.scalar("value"))}; }
static Results scalarTensor(OpContext &ctx) { return {filled(ctx, ctx.scalar("s"))}; }

static Results fillTensor(OpContext &ctx) {
  Value value = ctx.emit.cast(ctx.tensor("value"), ctx.resultElement());
  return {ctx.emit.expand(ctx.emit.view(value, {}), ctx.resultType().getShape())};
}

//===-- Sequences ---------------------------------------------------------------------------------===//

static Results arange(OpContext &ctx) {
  Scalar start = ctx.scalar("start", Scalar::of(int64_t{0})), step = ctx.scalar("step", Scalar::of(int64_t{1}));
  if (start.kind != Scalar::Kind::Float && step.kind != Scalar::Kind::Float && isa<IntegerType>(ctx.resultElement())) {
    // In integers: a double has not enough digits for all of them.
    std::vector<int64_t> numbers(tableSize(ctx.resultType().getNumElements()));
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = start.integer + static_cast<int64_t>(i) * step.integer;
    return {ctx.emit.cast(ctx.emit.integers(ctx.resultType().getShape(), numbers), ctx.resultElement())};
  }
  return {tabulate(ctx.emit, ctx.resultType(), [&](int64_t i) { return start.number + i * step.number; })};
}

/// torch's formula, in the arithmetic of T: from both ends towards the middle.
template <typename T> static Value linspaceIn(OpContext &ctx, double from, double to, int64_t steps) {
  T start = static_cast<T>(from), end = static_cast<T>(to),
    step = steps > 1 ? (end - start) / static_cast<T>(steps - 1) : T(0);
  return tabulate(ctx.emit, ctx.resultType(), [&](int64_t i) -> double {
    return i < steps / 2 ? start + step * static_cast<T>(i) : end - step * static_cast<T>(steps - i - 1);
  });
}

static Results linspace(OpContext &ctx) {
  double start = ctx.scalar("start").number, end = ctx.scalar("end").number;
  int64_t steps = ctx.integer("steps");
  if (steps == 1)
    return {tabulate(ctx.emit, ctx.resultType(), [&](int64_t) { return start; })};
  bool isSingle = isa<FloatType>(ctx.resultElement()) && !ctx.resultElement().isF64();
  return {isSingle ? linspaceIn<float>(ctx, start, end, steps) : linspaceIn<double>(ctx, start, end, steps)};
}

static Results logspace(OpContext &ctx) {
  double start = ctx.scalar("start").number, end = ctx.scalar("end").number, base = ctx.number("base", 10);
  int64_t steps = ctx.integer("steps");
  double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  return {tabulate(ctx.emit, ctx.resultType(), [&](int64_t i) {
    return std::pow(base, i < steps / 2 ? start + step * i : end - step * (steps - i - 1));
  })};
}

static Results eye(OpContext &ctx) {
  int64_t columns = ctx.resultType().getDimSize(1);
  return {tabulate(ctx.emit, ctx.resultType(), [&](int64_t i) { return i / columns == i % columns; })};
}

/// Row and column indices of one triangle of a matrix, row by row.
static Results triangleIndices(OpContext &ctx, bool lower) {
  int64_t rows = ctx.integer("row"), columns = ctx.integer("col"), offset = ctx.integer("offset", 0);
  tableSize(ctx.resultType().getNumElements());
  std::vector<int64_t> first, second;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      if (lower ? j - i <= offset : j - i >= offset) {
        first.push_back(i);
        second.push_back(j);
      }
  int64_t count = first.size();
  first.insert(first.end(), second.begin(), second.end());
  return {ctx.emit.cast(ctx.emit.integers({2, count}, first), ctx.resultElement())};
}

std::vector<OpRow> atenFactories() {
  using enum Aliasing;
  return {
      {"aten.empty.memory_format", zeros, Fresh, true}, // any value will do
      {"aten.empty_like.default", zeros, Fresh, true},
      {"aten.empty_strided.default", zeros, Fresh, true},
      {"aten.empty_permuted.default", zeros, Fresh, true},
      {"aten.new_empty.default", zeros, Fresh, true},
      {"aten.new_empty_strided.default", zeros, Fresh, true},
      {"aten.zeros.default", zeros, Fresh, true},
      {"aten.zeros_like.default", zeros, Fresh, true},
      {"aten.new_zeros.default", zeros, Fresh, true},
      {"aten.zero.default", zeros, Fresh, true},
      {"aten.ones.default", ones, Fresh, true},
      {"aten.ones_like.default", ones, Fresh, true},
      {"aten.new_ones.default", ones, Fresh, true},
      {"aten.full.default", full, Fresh, true},
      {"aten.full_like.default", full, Fresh, true},
      {"aten.new_full.default", full, Fresh, true},
      {"aten.fill.Scalar", fill, Fresh, true},
      {"aten.fill.Tensor", fillTensor},
      {"aten.scalar_tensor.default", scalarTensor, Fresh, true},
      {"aten.arange.default", arange},
      {"aten.arange.start", arange},
      {"aten.arange.start_step", arange},
      {"aten.linspace.default", linspace},
      {"aten.logspace.default", logspace},
      {"aten.eye.default", eye},
      {"aten.eye.m", eye},
      {"aten.tril_indices.default", [](OpContext &ctx) { return triangleIndices(ctx, /*lower=*/true); }},
      {"aten.triu_indices.default", [](OpContext &ctx) { return triangleIndices(ctx, /*lower=*/false); }},
  };
}

} // namespace ditc
