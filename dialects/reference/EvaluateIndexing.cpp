// SPDX-License-Identifier: Apache-2.0
//
// Operations that move elements: gather, scatter, permute, slice, concat, pad, expand. All but scatter with
// `add` copy bytes and do not look at them.
#include "dialects/reference/Elements.h"
#include "dialects/reference/EvaluateOps.h"

using namespace mlir;

namespace ditc::dit {

/// A strided window into the bytes of a tensor; strides in elements.
struct Strided {
  int64_t offset = 0;
  SmallVector<int64_t> strides;
};

/// Copies `shape` elements of `size` bytes.
template <int64_t size>
static void copyElements(ArrayRef<int64_t> shape, const uint8_t *source, const Strided &from, uint8_t *target, const Strided &to) {
  if (ShapedType::getNumElements(shape) == 0)
    return;
  if (shape.empty()) {
    std::memcpy(target + to.offset * size, source + from.offset * size, size);
    return;
  }
  size_t last = shape.size() - 1;
  SmallVector<int64_t> index(shape.size(), 0);
  int64_t read = from.offset, write = to.offset;
  bool contiguous = from.strides[last] == 1 && to.strides[last] == 1;
  while (true) {
    if (contiguous)
      std::memcpy(target + write * size, source + read * size, shape[last] * size);
    else
      for (int64_t i = 0; i < shape[last]; ++i)
        std::memcpy(target + (write + i * to.strides[last]) * size, source + (read + i * from.strides[last]) * size, size);
    size_t d = last;
    while (d-- > 0) {
      read += from.strides[d];
      write += to.strides[d];
      if (++index[d] < shape[d])
        break;
      read -= from.strides[d] * shape[d];
      write -= to.strides[d] * shape[d];
      index[d] = 0;
    }
    if (d == static_cast<size_t>(-1))
      return;
  }
}

static void copyStrided(ArrayRef<int64_t> shape, const TensorValue &source, const Strided &from, TensorValue &target, const Strided &to) {
  const uint8_t *read = source.bytes->data();
  uint8_t *write = target.bytes->data();
  switch (elementBytes(source.type.getElementType())) {
  case 1: return copyElements<1>(shape, read, from, write, to);
  case 2: return copyElements<2>(shape, read, from, write, to);
  case 4: return copyElements<4>(shape, read, from, write, to);
  default: return copyElements<8>(shape, read, from, write, to);
  }
}

static TensorValue readStrided(Type type, const TensorValue &source, const Strided &from) {
  TensorValue result = TensorValue::zeros(cast<RankedTensorType>(type));
  copyStrided(result.type.getShape(), source, from, result, {0, denseStrides(result.type.getShape())});
  return result;
}

TensorValue evaluatePermute(PermuteOp op, const TensorValue &input) {
  SmallVector<int64_t> strides = denseStrides(input.type.getShape());
  Strided from;
  for (int64_t dim : op.getPermutation())
    from.strides.push_back(strides[dim]);
  return readStrided(op.getType(), input, from);
}

TensorValue evaluateSlice(SliceOp op, const TensorValue &input) {
  Strided from{0, denseStrides(input.type.getShape())};
  for (auto [stride, offset, step] : llvm::zip(from.strides, op.getOffsets(), op.getSteps())) {
    from.offset += offset * stride;
    stride *= step;
  }
  return readStrided(op.getType(), input, from);
}

TensorValue evaluateExpand(ExpandOp op, const TensorValue &input) {
  Strided from{0, denseStrides(input.type.getShape())};
  for (auto [stride, size] : llvm::zip(from.strides, input.type.getShape()))
    stride = size == 1 ? 0 : stride;
  return readStrided(op.getType(), input, from);
}

TensorValue evaluateConcat(ConcatOp op, ArrayRef<TensorValue> inputs) {
  TensorValue result = TensorValue::zeros(cast<RankedTensorType>(op.getType()));
  Strided to{0, denseStrides(result.type.getShape())};
  for (const TensorValue &input : inputs) {
    ArrayRef<int64_t> shape = input.type.getShape();
    copyStrided(shape, input, {0, denseStrides(shape)}, result, to);
    to.offset += shape[op.getAxis()] * to.strides[op.getAxis()];
  }
  return result;
}

TensorValue evaluatePad(PadOp op, const TensorValue &input) {
  auto type = cast<RankedTensorType>(op.getType());
  TensorValue result = fromElements(DenseElementsAttr::get(type, ArrayRef<Attribute>(op.getValue())));
  Strided to{0, denseStrides(type.getShape())};
  for (auto [stride, low] : llvm::zip(to.strides, op.getLow()))
    to.offset += low * stride;
  ArrayRef<int64_t> shape = input.type.getShape();
  copyStrided(shape, input, {0, denseStrides(shape)}, result, to);
  return result;
}

TensorValue evaluateGather(GatherOp op, const TensorValue &table, const TensorValue &indices) {
  TensorValue result = TensorValue::zeros(cast<RankedTensorType>(op.getType()));
  ArrayRef<int64_t> shape = table.type.getShape();
  int64_t outer = ShapedType::getNumElements(shape.take_front(op.getAxis())), rows = shape[op.getAxis()];
  int64_t rowBytes = ShapedType::getNumElements(shape.drop_front(op.getAxis() + 1)) * elementBytes(table.type.getElementType());
  uint8_t *target = result.bytes->data();
  if (result.bytes->empty())
    return result;
  std::vector<int64_t> positions = numbersOf<int64_t>(indices);
  for (int64_t i = 0; i < outer; ++i)
    for (int64_t position : positions) {
      int64_t row = std::clamp<int64_t>(position, 0, rows - 1);
      std::memcpy(target, table.bytes->data() + (i * rows + row) * rowBytes, rowBytes);
      target += rowBytes;
    }
  return result;
}

/// Sums into the arithmetic type and rounds once; booleans are or-ed.
static TensorValue scatterAdd(const TensorValue &base, ArrayRef<int64_t> rows, const TensorValue &updates, int64_t width) {
  return withArithmeticType(base.type.getElementType(), [&](auto number) {
    using T = decltype(number);
    std::vector<T> numbers = numbersOf<T>(base), added = numbersOf<T>(updates);
    int64_t rowCount = base.type.getDimSize(0);
    for (auto [i, row] : llvm::enumerate(rows))
      for (int64_t j = 0; row >= 0 && row < rowCount && j < width; ++j) {
        T &target = numbers[row * width + j];
        if constexpr (std::is_same_v<T, uint8_t>)
          target |= added[i * width + j];
        else
          target += added[i * width + j];
      }
    return fromNumbers(base.type, numbers);
  });
}

TensorValue evaluateScatter(ScatterOp op, const TensorValue &base, const TensorValue &indices, const TensorValue &updates) {
  int64_t width = ShapedType::getNumElements(base.type.getShape().drop_front());
  std::vector<int64_t> rows = numbersOf<int64_t>(indices);
  if (op.getAdd())
    return scatterAdd(base, rows, updates, width);
  TensorValue result{base.type, std::make_shared<std::vector<uint8_t>>(*base.bytes)};
  int64_t rowBytes = width * elementBytes(base.type.getElementType());
  for (auto [i, row] : llvm::enumerate(rows))
    if (row >= 0 && row < base.type.getDimSize(0))
      std::memcpy(result.bytes->data() + row * rowBytes, updates.bytes->data() + i * rowBytes, rowBytes);
  return result;
}

} // namespace ditc::dit
