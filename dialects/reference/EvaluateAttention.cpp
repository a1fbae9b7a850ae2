// SPDX-License-Identifier: Apache-2.0
//
// dit.attention on host tensors: scores, mask, softmax and weighted sum, a few query rows at a time. Quantised operands are
// 8-bit numbers in floats, and what they are multiplied by again.
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

/// NaN where one is.
template <typename T> T highestOf(const T *scores, int64_t keys) {
  T highest = -std::numeric_limits<T>::infinity();
  for (int64_t key = 0; key < keys; ++key)
    highest = std::isnan(scores[key]) || scores[key] > highest ? scores[key] : highest;
  return highest;
}

/// exp(score - largest) in place; the sum of them. A row without a key, or with only -inf, becomes zeros, whose sum is 0.
template <typename T> double exponentiate(T *scores, int64_t keys) {
  T largest = highestOf(scores, keys);
  if (largest == -std::numeric_limits<T>::infinity()) {
    std::fill_n(scores, keys, T(0));
    return 0;
  }
  double sum = 0;
  for (int64_t key = 0; key < keys; ++key)
    sum += scores[key] = std::exp(scores[key] - largest);
  return sum;
}

/// Rows, or columns of `height` rows, have a scale each that is its largest magnitude by the largest 8-bit number.
constexpr float kLargestI8 = 127, kLargestF8 = 448, kSmallest = 1e-12f;
/// What the exponent of the largest weight, rounded up, is in e4m3.
constexpr double kWeightExponent = 15;
constexpr double kLog2E = 1.4426950408889634;

float toF8(float value) { return float8ToFloat(floatToFloat8(value)); }

/// The e4m3 number whose bits, as an integer, are nearest to 8 x: 2^(x - 7) with a line between powers of two.
float onLine(double x) { return std::isnan(x) ? std::numeric_limits<float>::quiet_NaN() : float8ToFloat(static_cast<uint8_t>(std::nearbyint(8 * std::max(x, 0.0)))); }

/// The weights of 8-bit attention in place, in units of some power of two; the sum of them.
template <typename T> double weigh(T *scores, int64_t keys) {
  double largest = highestOf(scores, keys), rest = largest * kLog2E - std::ceil(largest * kLog2E), sum = 0;
  if (largest == -std::numeric_limits<double>::infinity()) {
    std::fill_n(scores, keys, T(0));
    return 0;
  }
  for (int64_t key = 0; key < keys; ++key)
    sum += scores[key] = onLine((scores[key] - largest) * kLog2E + rest + kWeightExponent);
  return sum;
}

/// The largest magnitude of `count` numbers, `step` apart, but not 0; NaN where one is none or infinite.
float largestOf(const float *numbers, int64_t count, int64_t step) {
  float largest = kSmallest;
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(numbers[i * step]))
      return std::numeric_limits<float>::quiet_NaN();
    largest = std::max(largest, std::abs(numbers[i * step]));
  }
  return largest;
}

void subtractMean(float *matrix, int64_t rows, int64_t columns) {
  for (int64_t column = 0; column < columns; ++column) {
    double sum = 0;
    for (int64_t row = 0; row < rows; ++row)
      sum += matrix[row * columns + column];
    auto mean = static_cast<float>(sum / rows);
    for (int64_t row = 0; row < rows; ++row)
      matrix[row * columns + column] -= mean;
  }
}

/// Makes i8 numbers of rows; the scale of each.
std::vector<float> quantizeRows(std::vector<float> &matrix, int64_t columns) {
  std::vector<float> scales;
  for (float *row = matrix.data(); row != matrix.data() + matrix.size(); row += columns) {
    float largest = largestOf(row, columns, 1);
    for (int64_t column = 0; column < columns; ++column)
      row[column] = std::nearbyint(row[column] * (kLargestI8 / largest));
    scales.push_back(largest / kLargestI8);
  }
  return scales;
}

/// Makes e4m3 numbers of the columns of matrices of `rows` rows; the scale of each.
std::vector<float> quantizeColumns(std::vector<float> &matrices, int64_t rows, int64_t columns) {
  std::vector<float> scales;
  for (float *matrix = matrices.data(); matrix != matrices.data() + matrices.size(); matrix += rows * columns)
    for (int64_t column = 0; column < columns; ++column) {
      float largest = largestOf(matrix + column, rows, columns);
      for (int64_t row = 0; row < rows; ++row)
        matrix[row * columns + column] = toF8(matrix[row * columns + column] * (kLargestF8 / largest));
      scales.push_back(largest / kLargestF8);
    }
  return scales;
}

/// What the numbers of quantised operands are multiplied by; all empty where operands are what they are.
struct Scales {
  std::vector<float> query, key, value; ///< by rows of queries and of keys, by channels of values

  template <typename T> void applyToScores(T *scores, int64_t keys, int64_t queryRow, int64_t firstKeyRow) const {
    for (int64_t i = 0; i < keys && !query.empty(); ++i)
      scores[i] = scores[i] * key[firstKeyRow + i] * query[queryRow];
  }
  template <typename T> T ofResult(T sum, int64_t channel) const { return value.empty() ? sum : sum * value[channel]; } // rows of no columns have no scale
};

Scales quantize(std::vector<float> &q, std::vector<float> &k, std::vector<float> &v, int64_t keys, int64_t width, int64_t valueWidth) {
  for (int64_t first = 0; first < static_cast<int64_t>(k.size()); first += keys * width)
    subtractMean(k.data() + first, keys, width);
  return {quantizeRows(q, width), quantizeRows(k, width), quantizeColumns(v, keys, valueWidth)};
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
  Scales scales;
  if constexpr (std::is_same_v<T, float>)
    if (op.getQuantized())
      scales = quantize(q, k, v, keys, width, valueWidth);
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
        scales.applyToScores(line, keys, slice * queries + first + row, source * keys);
        positions.finish(line, keys, first + row);
        mask.addTo(line, keys, batch, head, first + row);
        sums[row] = op.getQuantized() ? weigh(line, keys) : exponentiate(line, keys);
      }
      T *out = result.data() + (slice * queries + first) * valueWidth;
      valueMatrix.multiply(scores.data(), rows, out);
      for (int64_t i = 0; i < rows * valueWidth; ++i) // 0 · inf does not leak into a row that sees nothing
        out[i] = sums[i / valueWidth] == 0 ? T(0) : static_cast<T>(scales.ofResult(out[i], source * valueWidth + i % valueWidth) / sums[i / valueWidth]);
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
