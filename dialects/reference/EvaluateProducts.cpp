// SPDX-License-Identifier: Apache-2.0
//
// dit.matmul and dit.conv on host tensors.
#include "dialects/reference/Elements.h"
#include "dialects/reference/EvaluateOps.h"
#include "dialects/reference/Gemm.h"

using namespace mlir;

namespace ditc::dit {

/// Offset, in matrices, of batch `index` of `shape` within an operand of shape `own`, whose batch
/// dimensions of size 1 repeat.
static int64_t batchOffset(int64_t index, ArrayRef<int64_t> shape, ArrayRef<int64_t> own) {
  int64_t offset = 0, scale = 1;
  for (size_t i = shape.size(); i-- > 0; index /= shape[i]) {
    offset += own[i] == 1 ? 0 : index % shape[i] * scale;
    scale *= own[i];
  }
  return offset;
}

template <typename T> static TensorValue matmulIn(MatmulOp op, const TensorValue &lhs, const TensorValue &rhs, const TensorValue *bias) {
  auto type = cast<RankedTensorType>(op.getType());
  ArrayRef<int64_t> left = lhs.type.getShape(), right = rhs.type.getShape(), shape = type.getShape();
  int64_t m = left[left.size() - 2], k = left.back(), n = shape.back();
  std::vector<T> a = numbersOf<T>(lhs), b = numbersOf<T>(rhs), c(type.getNumElements());
  int64_t strideK = op.getTransposeRhs() ? 1 : n, strideN = op.getTransposeRhs() ? k : 1;
  ArrayRef<int64_t> batches = shape.drop_back(2), leftBatches = left.drop_back(2), rightBatches = right.drop_back(2);
  if (right.size() == 2) { // one matrix for all rows
    PackedMatrix<T>(b.data(), k, n, strideK, strideN).multiply(a.data(), n == 0 ? 0 : c.size() / n, c.data());
  } else {
    int64_t count = ShapedType::getNumElements(batches);
    for (int64_t batch = 0; batch < count; ++batch) {
      PackedMatrix<T> packed(b.data() + batchOffset(batch, batches, rightBatches) * k * n, k, n, strideK, strideN);
      packed.multiply(a.data() + batchOffset(batch, batches, leftBatches) * m * k, m, c.data() + batch * m * n);
    }
  }
  if (bias) {
    std::vector<T> added = numbersOf<T>(*bias);
    for (size_t i = 0; i < c.size(); ++i)
      c[i] += added[i % n];
  }
  return fromNumbers(type, c);
}

TensorValue evaluateMatmul(MatmulOp op, const TensorValue &lhs, const TensorValue &rhs, const TensorValue *bias) {
  Type element = lhs.type.getElementType();
  if (element.isF64())
    return matmulIn<double>(op, lhs, rhs, bias);
  return isa<FloatType>(element) ? matmulIn<float>(op, lhs, rhs, bias) : matmulIn<int64_t>(op, lhs, rhs, bias);
}

namespace {

/// A convolution of up to three spatial dimensions, always written as three.
struct Window {
  int64_t channels = 0; ///< per group
  SmallVector<int64_t, 3> input, output, size, stride, dilation, padding;

  explicit Window(ConvOp op) {
    auto fill = [](ArrayRef<int64_t> values, int64_t otherwise) {
      SmallVector<int64_t, 3> result(3 - values.size(), otherwise);
      result.append(values.begin(), values.end());
      return result;
    };
    auto spatial = [&](Value value) { return fill(cast<RankedTensorType>(value.getType()).getShape().drop_front(2), 1); };
    channels = cast<RankedTensorType>(op.getFilter().getType()).getDimSize(1);
    input = spatial(op.getInput());
    output = spatial(op.getResult());
    size = spatial(op.getFilter());
    stride = fill(op.getStrides(), 1);
    dilation = fill(op.getDilations(), 1);
    padding = fill(op.getPaddingLow(), 0);
  }

  int64_t volume(ArrayRef<int64_t> sizes) const { return sizes[0] * sizes[1] * sizes[2]; }
  int64_t depth() const { return channels * volume(size); }

  /// The values that output position `position` sees, channel by channel; padding reads as 0.
  template <typename T> void patch(const T *image, int64_t position, T *values) const {
    int64_t at[3] = {position / (output[1] * output[2]), position / output[2] % output[1], position % output[2]};
    for (int64_t channel = 0; channel < channels; ++channel, image += volume(input))
      for (int64_t a = 0; a < size[0]; ++a)
        for (int64_t b = 0; b < size[1]; ++b)
          for (int64_t c = 0; c < size[2]; ++c) {
            int64_t z = source(0, at[0], a), y = source(1, at[1], b), x = source(2, at[2], c);
            bool inside = z >= 0 && y >= 0 && x >= 0 && z < input[0] && y < input[1] && x < input[2];
            *values++ = inside ? image[(z * input[1] + y) * input[2] + x] : T(0);
          }
  }

private:
  int64_t source(int dim, int64_t position, int64_t tap) const { return position * stride[dim] + tap * dilation[dim] - padding[dim]; }
};

} // namespace

template <typename T> static TensorValue convIn(ConvOp op, const TensorValue &input, const TensorValue &filter, const TensorValue *bias) {
  constexpr int64_t kPatches = 256;
  auto type = cast<RankedTensorType>(op.getType());
  Window window(op);
  std::vector<T> image = numbersOf<T>(input), weights = numbersOf<T>(filter), added, result(type.getNumElements());
  if (bias)
    added = numbersOf<T>(*bias);
  int64_t groups = op.getGroups(), outputs = type.getDimSize(1) / groups, positions = window.volume(window.output);
  int64_t imageSize = window.channels * window.volume(window.input);
  std::vector<T> patches(kPatches * window.depth()), products(kPatches * outputs);
  for (int64_t group = 0; group < groups; ++group) {
    PackedMatrix<T> packed(weights.data() + group * outputs * window.depth(), window.depth(), outputs, 1, window.depth());
    for (int64_t batch = 0; batch < type.getDimSize(0); ++batch)
      for (int64_t first = 0; first < positions; first += kPatches) {
        int64_t count = std::min(kPatches, positions - first);
        for (int64_t i = 0; i < count; ++i)
          window.patch(image.data() + (batch * groups + group) * imageSize, first + i, patches.data() + i * window.depth());
        packed.multiply(patches.data(), count, products.data());
        for (int64_t channel = 0; channel < outputs; ++channel)
          for (int64_t i = 0; i < count; ++i)
            result[((batch * groups + group) * outputs + channel) * positions + first + i] =
                products[i * outputs + channel] + (bias ? added[group * outputs + channel] : T(0));
      }
  }
  return fromNumbers(type, result);
}

TensorValue evaluateConv(ConvOp op, const TensorValue &input, const TensorValue &filter, const TensorValue *bias) {
  return input.type.getElementType().isF64() ? convIn<double>(op, input, filter, bias) : convIn<float>(op, input, filter, bias);
}

} // namespace ditc::dit
