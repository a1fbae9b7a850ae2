// SPDX-License-Identifier: Apache-2.0
//
// Copies between strided and dense tensors.
#include "runtime/TensorRef.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace ditc {
namespace {

/// Calls copy(strided byte offset, dense byte offset, bytes) for each run of elements that is contiguous in
/// both, walking the dimensions from `dim` on; `inner` is the first dimension of such a run.
template <typename Copy>
void walk(const TensorRef &tensor, size_t dim, size_t inner, uint64_t runBytes, int64_t at, uint64_t &dense,
          const Copy &copy) {
  if (dim == inner) {
    copy(at, dense, runBytes);
    dense += runBytes;
    return;
  }
  int64_t step = tensor.strides[dim] * static_cast<int64_t>(byteSize(tensor.dtype));
  for (int64_t i = 0; i < tensor.shape[dim]; ++i)
    walk(tensor, dim + 1, inner, runBytes, at + i * step, dense, copy);
}

template <typename Copy> void forEachRun(const TensorRef &tensor, const Copy &copy) {
  // The trailing dimensions that are dense by themselves make one run.
  size_t inner = tensor.shape.size();
  int64_t elements = 1;
  while (inner > 0 && !tensor.strides.empty() &&
         (tensor.shape[inner - 1] == 1 || tensor.strides[inner - 1] == elements))
    elements *= tensor.shape[--inner];
  if (tensor.strides.empty())
    for (inner = 0; int64_t size : tensor.shape)
      elements *= size;
  if (tensor.isEmpty())
    return;
  uint64_t dense = 0;
  walk(tensor, 0, inner, static_cast<uint64_t>(elements) * byteSize(tensor.dtype), 0, dense, copy);
}

} // namespace

bool TensorRef::isEmpty() const { return std::ranges::find(shape, 0) != shape.end(); }

bool TensorRef::isDense() const {
  if (strides.empty() || isEmpty())
    return true;
  int64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0; expected *= shape[i])
    if (shape[i] != 1 && strides[i] != expected)
      return false;
  return true;
}

TensorRef refTo(const std::string &name, const TensorView &view) {
  return {name, view.dtype, view.shape, {}, const_cast<uint8_t *>(view.bytes.data())};
}

std::string describe(const std::vector<int64_t> &shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string describe(DType dtype, const std::vector<int64_t> &shape) {
  return fmt::format("{} {}", nameOf(dtype), describe(shape));
}

void copyToDense(char *dense, const TensorRef &tensor) {
  const char *base = static_cast<const char *>(tensor.data);
  forEachRun(tensor, [&](int64_t from, uint64_t to, uint64_t bytes) { std::memcpy(dense + to, base + from, bytes); });
}

void copyFromDense(const TensorRef &tensor, const char *dense) {
  char *base = static_cast<char *>(tensor.data);
  forEachRun(tensor, [&](int64_t to, uint64_t from, uint64_t bytes) { std::memcpy(base + to, dense + from, bytes); });
}

} // namespace ditc
