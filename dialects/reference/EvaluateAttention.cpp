// SPDX-License-Identifier: Apache-2.0
//
// dit.attention on host tensors: scores, mask, softmax and weighted sum, a few query rows at a time.
#include "dialects/reference/Elements.h"
#include "dialects/reference/EvaluateOps.h"
#include "dialects/reference/Gemm.h"

using namespace mlir;

namespace ditc::dit {
namespace {

/// What is added to a score: 0 or -inf for a boolean mask. Dimensions of size 1 repeat.
template <typename T> class Mask {
public:
  explicit Mask(const TensorValue *mask) {
    if (!mask)
      return;
    values = numbersOf<T>(*mask);
    if (mask->type.getElementType().isInteger(1))
      for (T &value : values)
        value = value != T(0) ? T(0) : -std::numeric_limits<T>::infinity();
    strides = denseStrides(mask->type.getShape());
    for (auto [stride, size] : llvm::zip(strides, mask->type.getShape()))
      stride = size == 1 ? 0 : stride;
  }

  void addTo(T *scores, int64_t keys, int64_t batch, int64_t head, int64_t query) const {
    if (values.empty())
      return;
    const T *row = values.data() + batch * strides[0] + head * strides[1] + query * strides[2];
    for (int64_t key = 0; key < keys; ++key)
      scores[key] += row[key * strides[3]];
  }

private:
  std::vector<T> values;
  SmallVector<int64_t> strides;
};

/// What the attributes make of a row of products: scale, soft cap, and the keys that its query sees by their places.
template <typename T> struct Positions {
  explicit Positions(AttentionOp op) : scale(static_cast<T>(op.getScale().convertToDouble())) {
    if (op.getSoftCap())
      cap = static_cast<T>(op.getSoftCap()->convertToDouble());
    if (op.getWindow())
      before = (*op.getWindow())[0], after = (*op.getWindow())[1];
    if (op.getCausal())
      after = 0;
  }

  void finish(T *scores, int64_t keys, int64_t query) const {
    for (int64_t key = 0; key < keys; ++key) {
      T score = scores[key] * scale;
      bool sees = key >= query - before && key <= query + after;
      scores[key] = !sees ? -std::numeric_limits<T>::infinity() : cap > 0 ? cap * std::tanh(score / cap) : score;
    }
  }

  static constexpr int64_t kAll = int64_t(1) << 40;
  T scale, cap = 0;
  int64_t before = kAll, after = kAll; ///< keys that are seen beside the query's own
};

/// exp(score - largest) in place; the sum of them. A row without a key, or with only -inf, becomes zeros.
template <typename T> double exponentiate(T *scores, int64_t keys) {
  T largest = -std::numeric_limits<T>::infinity();
  for (int64_t key = 0; key < keys; ++key)
    largest = std::isnan(scores[key]) || scores[key] > largest ? scores[key] : largest;
  if (largest == -std::numeric_limits<T>::infinity()) {
    std::fill_n(scores, keys, T(0));
    return 1;
  }
  double sum = 0;
  for (int64_t key = 0; key < keys; ++key)
    sum += scores[key] = std::exp(scores[key] - largest);
  return sum;
}

template <typename T>
TensorValue attentionIn(AttentionOp op, const TensorValue &query, const TensorValue &key, const TensorValue &value,
                        const TensorValue *maskValue) {
  constexpr int64_t kRows = 64;
  ArrayRef<int64_t> shape = query.type.getShape();
  int64_t heads = shape[1], queries = shape[2], width = shape[3], groups = key.type.getDimSize(1), keys = key.type.getDimSize(2);
  int64_t valueWidth = value.type.getDimSize(3);
  std::vector<T> q = numbersOf<T>(query), k = numbersOf<T>(key), v = numbersOf<T>(value), result(shape[0] * heads * queries * valueWidth);
  std::vector<T> scores(kRows * keys);
  Mask<T> mask(maskValue);
  Positions<T> positions(op);
  for (int64_t slice = 0; slice < shape[0] * heads; ++slice) {
    int64_t batch = slice / heads, head = slice % heads, source = batch * groups + head / (heads / groups);
    PackedMatrix<T> keyMatrix(k.data() + source * keys * width, width, keys, 1, width);
    PackedMatrix<T> valueMatrix(v.data() + source * keys * valueWidth, keys, valueWidth, valueWidth, 1);
    for (int64_t first = 0; first < queries; first += kRows) {
      int64_t rows = std::min(kRows, queries - first);
      double sums[kRows];
      keyMatrix.multiply(q.data() + (slice * queries + first) * width, rows, scores.data());
      for (int64_t row = 0; row < rows; ++row) {
        T *line = scores.data() + row * keys;
        positions.finish(line, keys, first + row);
        mask.addTo(line, keys, batch, head, first + row);
        sums[row] = exponentiate(line, keys);
      }
      T *out = result.data() + (slice * queries + first) * valueWidth;
      valueMatrix.multiply(scores.data(), rows, out);
      for (int64_t i = 0; i < rows * valueWidth; ++i)
        out[i] = static_cast<T>(out[i] / sums[i / valueWidth]);
    }
  }
  return fromNumbers(cast<RankedTensorType>(op.getType()), result);
}

} // namespace

TensorValue evaluateAttention(AttentionOp op, const TensorValue &query, const TensorValue &key, const TensorValue &value,
                              const TensorValue *mask) {
  if (query.type.getElementType().isF64())
    return attentionIn<double>(op, query, key, value, mask);
  return attentionIn<float>(op, query, key, value, mask);
}

} // namespace ditc::dit
