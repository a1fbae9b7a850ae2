// SPDX-License-Identifier: Apache-2.0
//
// dit.linear_state and dit.linear_apply on host tensors.
#include "dialects/reference/Elements.h"
#include "dialects/reference/EvaluateOps.h"

using namespace mlir;

namespace ditc::dit {

/// φ of a key or query.
static double feature(float x, bool relu) { return relu && x < 0 ? 0 : x; }

TensorValue evaluateLinearState(LinearStateOp op, const TensorValue &key, const TensorValue &value) {
  auto type = cast<RankedTensorType>(op.getType());
  int64_t parts = type.getDimSize(0), heads = type.getDimSize(1) * type.getDimSize(2), rows = type.getDimSize(3), d = type.getDimSize(4);
  int64_t e = value.type.getDimSize(3), tokens = key.type.getDimSize(2), ofPart = tokens / parts;
  std::vector<float> k = numbersOf<float>(key), v = numbersOf<float>(value), out(type.getNumElements());
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    int64_t column = i % d, row = i / d % rows, head = i / d / rows % heads, part = i / d / rows / heads;
    double sum = 0;
    for (int64_t token = part * ofPart; token < (part + 1) * ofPart; ++token)
      sum += feature(k[(head * tokens + token) * d + column], op.getRelu()) * (row < e ? v[(head * tokens + token) * e + row] : 1.0);
    out[i] = static_cast<float>(sum);
  }
  return fromNumbers(type, out);
}

TensorValue evaluateLinearApply(LinearApplyOp op, const TensorValue &query, const TensorValue &state) {
  auto type = cast<RankedTensorType>(op.getType());
  int64_t parts = state.type.getDimSize(0), rows = state.type.getDimSize(3), d = state.type.getDimSize(4), e = type.getDimSize(3), tokens = type.getDimSize(2);
  std::vector<float> q = numbersOf<float>(query), s = numbersOf<float>(state), out(type.getNumElements());
  int64_t ofPart = state.type.getNumElements() / std::max<int64_t>(parts, 1);
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    int64_t column = i % e, token = i / e, head = token / tokens;
    auto product = [&](int64_t row) {
      double sum = 0;
      for (int64_t part = 0; part < parts; ++part)
        for (int64_t j = 0; j < d; ++j)
          sum += feature(q[token * d + j], op.getRelu()) * s[part * ofPart + (head * rows + row) * d + j];
      return sum;
    };
    double value = product(column);
    out[i] = static_cast<float>(op.getNormaliser() ? value / (product(e) + op.getEpsilon().convertToDouble()) : value);
  }
  return fromNumbers(type, out);
}

} // namespace ditc::dit
