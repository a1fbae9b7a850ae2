// SPDX-License-Identifier: Apache-2.0
//
// dit.norm, dit.reduce, dit.arg_reduce, dit.scan and dit.sort on host tensors.
#include "dialects/reference/Elements.h"
#include "dialects/reference/EvaluateOps.h"

#include <numeric>

using namespace mlir;

namespace ditc::dit {
namespace {

/// Sums of floats run in double; integers in int64.
template <typename T> using SumType = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;

/// The wider of the arithmetic types of input and result.
Type reduceType(Type input, Type result) {
  if (input.isF64() || isa<FloatType>(result) || input == result)
    return input.isF64() ? input : result;
  return isa<FloatType>(input) ? input : result;
}

template <typename T> void normaliseRow(T *row, int64_t size, NormKind kind, double eps) {
  double mean = 0, squares = 0;
  if (kind == NormKind::Layer)
    mean = std::accumulate(row, row + size, 0.0) / size;
  for (int64_t i = 0; i < size; ++i)
    squares += (row[i] - mean) * (row[i] - mean);
  double factor = 1 / std::sqrt(squares / size + eps);
  for (int64_t i = 0; i < size; ++i)
    row[i] = static_cast<T>((row[i] - mean) * factor);
}

template <typename T> TensorValue normIn(NormOp op, const TensorValue &input, const TensorValue *weight, const TensorValue *bias) {
  std::vector<T> numbers = numbersOf<T>(input), scale, shift;
  int64_t size = ShapedType::getNumElements(input.type.getShape().take_back(op.getAxes()));
  if (weight)
    scale = numbersOf<T>(*weight);
  if (bias)
    shift = numbersOf<T>(*bias);
  for (size_t first = 0; first < numbers.size(); first += size) {
    normaliseRow(numbers.data() + first, size, op.getKind(), op.getEps().convertToDouble());
    for (int64_t i = 0; i < size; ++i) {
      T &number = numbers[first + i];
      number = number * (weight ? scale[i] : T(1)) + (bias ? shift[i] : T(0));
    }
  }
  return fromNumbers(cast<RankedTensorType>(op.getType()), numbers);
}

/// `a` and `b` combined. NaN stays.
template <typename T> T combine(ReduceKind kind, T a, T b) {
  auto isNan = [](T value) { return value != value; };
  switch (kind) {
  case ReduceKind::Max: return isNan(a) || (!isNan(b) && a >= b) ? a : b;
  case ReduceKind::Min: return isNan(a) || (!isNan(b) && a <= b) ? a : b;
  case ReduceKind::Any: return a != T(0) || b != T(0);
  case ReduceKind::All: return a != T(0) && b != T(0);
  case ReduceKind::Prod:
    if constexpr (std::is_same_v<T, int64_t>)
      return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    return a * b;
  default:
    if constexpr (std::is_same_v<T, int64_t>)
      return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    return a + b;
  }
}

template <typename T> T identityOf(ReduceKind kind, Type type) {
  TypedAttr identity = reductionIdentity(kind, computeType(type));
  if (auto number = dyn_cast<FloatAttr>(identity))
    return static_cast<T>(number.getValueAsDouble());
  const APInt &value = cast<IntegerAttr>(identity).getValue();
  return static_cast<T>(type.isInteger(1) ? value.getZExtValue() : value.getSExtValue());
}

/// Calls `visit(input element, result element)` for all elements of the input, in order.
template <typename Visit> void forEachReduced(ArrayRef<int64_t> shape, ArrayRef<int64_t> resultShape, Visit visit) {
  SmallVector<int64_t> strides = denseStrides(resultShape), index(shape.size(), 0);
  for (auto [stride, size] : llvm::zip(strides, resultShape))
    stride = size == 1 ? 0 : stride;
  int64_t total = ShapedType::getNumElements(shape), target = 0;
  for (int64_t i = 0; i < total; ++i) {
    visit(i, target);
    for (size_t d = shape.size(); d-- > 0;) {
      target += strides[d];
      if (++index[d] < shape[d])
        break;
      target -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

/// Numbers of type T, combined in type A.
template <typename T, typename A> TensorValue reduceIn(ReduceOp op, const TensorValue &input, Type work) {
  auto type = cast<RankedTensorType>(op.getType());
  std::vector<T> numbers = numbersOf<T>(input);
  std::vector<A> totals(type.getNumElements(), identityOf<A>(op.getKind(), work));
  forEachReduced(input.type.getShape(), type.getShape(),
                 [&](int64_t from, int64_t to) { totals[to] = combine(op.getKind(), totals[to], static_cast<A>(numbers[from])); });
  if (op.getKind() == ReduceKind::Mean && !totals.empty()) {
    double count = static_cast<double>(input.type.getNumElements()) / totals.size();
    for (A &total : totals)
      total = static_cast<A>(total / count);
  }
  return fromNumbers(type, std::vector<T>(totals.begin(), totals.end()));
}

/// Splits a shape at `axis` into what is before, the axis, and what is behind.
struct Lines {
  int64_t outer, size, inner;

  Lines(ArrayRef<int64_t> shape, int64_t axis)
      : outer(ShapedType::getNumElements(shape.take_front(axis))), size(shape[axis]),
        inner(ShapedType::getNumElements(shape.drop_front(axis + 1))) {}

  /// Calls `visit` with the number of the line and the offset of its first element; elements are `inner`
  /// apart.
  template <typename Visit> void forEach(Visit visit) const {
    for (int64_t line = 0; line < outer * inner; ++line)
      visit(line, line / inner * size * inner + line % inner);
  }
};

} // namespace

TensorValue evaluateNorm(NormOp op, const TensorValue &input, const TensorValue *weight, const TensorValue *bias) {
  if (input.type.getElementType().isF64())
    return normIn<double>(op, input, weight, bias);
  return normIn<float>(op, input, weight, bias);
}

TensorValue evaluateReduce(ReduceOp op, const TensorValue &input) {
  Type work = reduceType(input.type.getElementType(), cast<RankedTensorType>(op.getType()).getElementType());
  bool sums = op.getKind() == ReduceKind::Sum || op.getKind() == ReduceKind::Mean;
  return withArithmeticType(work, [&](auto number) {
    using T = decltype(number);
    if constexpr (!std::is_same_v<T, uint8_t>)
      return sums ? reduceIn<T, SumType<T>>(op, input, work) : reduceIn<T, T>(op, input, work);
    else
      return reduceIn<T, T>(op, input, work);
  });
}

TensorValue evaluateArgReduce(ArgReduceOp op, const TensorValue &input) {
  Lines lines(input.type.getShape(), op.getAxis());
  std::vector<int64_t> result(lines.outer * lines.inner);
  bool max = op.getKind() == ReduceKind::Max;
  withArithmeticType(input.type.getElementType(), [&](auto number) {
    using T = decltype(number);
    std::vector<T> numbers = numbersOf<T>(input);
    lines.forEach([&](int64_t line, int64_t first) {
      T best = numbers[first];
      for (int64_t i = 1; i < lines.size; ++i) {
        T candidate = numbers[first + i * lines.inner];
        bool better = candidate != candidate ? best == best : (max ? candidate > best : candidate < best);
        if (!better)
          continue;
        best = candidate;
        result[line] = i;
      }
    });
  });
  return fromNumbers(cast<RankedTensorType>(op.getType()), result);
}

TensorValue evaluateScan(ScanOp op, const TensorValue &input) {
  auto type = cast<RankedTensorType>(op.getType());
  Lines lines(input.type.getShape(), op.getAxis());
  return withArithmeticType(reduceType(input.type.getElementType(), type.getElementType()), [&](auto number) {
    using T = decltype(number);
    std::vector<T> numbers = numbersOf<T>(input);
    lines.forEach([&](int64_t, int64_t first) {
      SumType<T> total = op.getKind() == ReduceKind::Prod ? 1 : 0;
      for (int64_t i = 0; i < lines.size; ++i) {
        T &element = numbers[first + i * lines.inner];
        total = combine(op.getKind(), total, static_cast<SumType<T>>(element));
        element = static_cast<T>(total);
      }
    });
    return fromNumbers(type, numbers);
  });
}

SmallVector<TensorValue> evaluateSort(SortOp op, const TensorValue &input) {
  Lines lines(input.type.getShape(), op.getAxis());
  std::vector<int64_t> indices(input.type.getNumElements()), order(lines.size);
  TensorValue values = withArithmeticType(input.type.getElementType(), [&](auto number) {
    using T = decltype(number);
    std::vector<T> numbers = numbersOf<T>(input), sorted(numbers.size());
    lines.forEach([&](int64_t, int64_t first) {
      auto at = [&](int64_t i) { return numbers[first + i * lines.inner]; };
      auto isBelow = [](T a, T b) { return a < b || (a == a && b != b); };
      auto isBefore = [&](int64_t a, int64_t b) { // places of equal elements keep their order
        T low = at(op.getDescending() ? b : a), high = at(op.getDescending() ? a : b);
        return isBelow(low, high) || (!isBelow(high, low) && a < b);
      };
      std::iota(order.begin(), order.end(), 0);
      std::sort(order.begin(), order.end(), isBefore);
      for (int64_t i = 0; i < lines.size; ++i) {
        sorted[first + i * lines.inner] = at(order[i]);
        indices[first + i * lines.inner] = order[i];
      }
    });
    return fromNumbers(input.type, sorted);
  });
  return {values, fromNumbers(cast<RankedTensorType>(op.getIndices().getType()), indices)};
}

} // namespace ditc::dit
