// SPDX-License-Identifier: Apache-2.0
//
// A stored tensor is a strided view of a run of bytes. Here are the two things one does with it: check that
// the view stays inside of its storage, and copy it into row-major order.
#include "compiler/import/Pt2Tensors.h"

#include "runtime/Error.h"
#include "runtime/MappedFile.h"
#include "runtime/Text.h"

#include <cstring>

namespace ditc {

namespace {

constexpr size_t kMaxRank = 64;
// A stride of 0 repeats elements: a few bytes of storage can ask for any amount of memory.
constexpr size_t kMaxExpanded = size_t{16} << 30;

/// Copies dimension `dim` and the ones inside; `source` points at the first element.
void copyStrided(const StoredTensor &tensor, size_t dim, const uint8_t *source, uint8_t *&target, size_t item) {
  if (dim == tensor.sizes.size()) {
    std::memcpy(target, source, item);
    target += item;
    return;
  }
  bool isDenseRow = dim + 1 == tensor.sizes.size() && tensor.strides[dim] == 1;
  if (isDenseRow) {
    size_t row = static_cast<size_t>(tensor.sizes[dim]) * item;
    std::memcpy(target, source, row);
    target += row;
    return;
  }
  for (int64_t i = 0; i < tensor.sizes[dim]; ++i)
    copyStrided(tensor, dim + 1, source + static_cast<size_t>(i * tensor.strides[dim]) * item, target, item);
}

bool isRowMajor(const StoredTensor &tensor) {
  int64_t expected = 1;
  for (size_t i = tensor.sizes.size(); i-- > 0;) {
    if (tensor.sizes[i] != 1 && tensor.strides[i] != expected)
      return false;
    expected *= tensor.sizes[i];
  }
  return true;
}

} // namespace

bool StoredTensor::hasBytes() const { return byteSize > 0 || elementCount() == 0; }

int64_t StoredTensor::elementCount() const {
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= size;
  return count;
}

std::optional<uint64_t> neededBytes(const StoredTensor &tensor) {
  if (tensor.sizes.size() != tensor.strides.size() || tensor.sizes.size() > kMaxRank || tensor.storageOffset < 0)
    return std::nullopt;
  int64_t item = static_cast<int64_t>(byteSize(tensor.dtype)), bytes = item, last = tensor.storageOffset;
  bool isEmpty = false;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    int64_t size = tensor.sizes[i], stride = tensor.strides[i];
    if (size < 0 || stride < 0)
      return std::nullopt;
    isEmpty |= size == 0;
  }
  if (isEmpty)
    return 0;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(bytes, tensor.sizes[i], &bytes) || // the row-major copy must fit as well
        __builtin_mul_overflow(tensor.sizes[i] - 1, tensor.strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return std::nullopt;
  }
  int64_t needed = 0;
  if (__builtin_add_overflow(last, 1, &needed) || __builtin_mul_overflow(needed, item, &needed))
    return std::nullopt;
  return static_cast<uint64_t>(needed);
}

std::vector<uint8_t> readContiguous(const StoredTensor &tensor) {
  std::optional<uint64_t> needed = neededBytes(tensor);
  if (!needed)
    failInternal("a tensor in '{}' was not checked before it is read", tensor.file);
  if (*needed == 0)
    return {};
  if (!tensor.hasBytes())
    fail("'{}': the bytes of the tensor in '{}' are absent, because the model was exported with fake weights; give the "
         "weights as safetensors with --weights",
         tensor.file, printable(tensor.storageId));
  std::shared_ptr<const MappedFile> file = MappedFile::open(tensor.file);
  std::span<const uint8_t> all = file->bytes();
  bool isInside = tensor.byteOffset <= all.size() && tensor.byteSize <= all.size() - tensor.byteOffset &&
                  *needed <= tensor.byteSize;
  if (!isInside)
    fail(
        "'{}' is shorter than it was when it was opened: the tensor in '{}' lies past its end; keep the file unchanged "
        "while it is compiled",
        tensor.file, printable(tensor.storageId));
  size_t item = byteSize(tensor.dtype), total = static_cast<size_t>(tensor.elementCount()) * item;
  const uint8_t *first = all.data() + tensor.byteOffset + static_cast<size_t>(tensor.storageOffset) * item;
  if (isRowMajor(tensor))
    return {first, first + total};
  if (total > tensor.byteSize && total > kMaxExpanded)
    fail("'{}': the tensor in '{}' needs {} bytes when expanded, more than the {} that ditc accepts; export it without "
         "expand()",
         tensor.file, printable(tensor.storageId), total, kMaxExpanded);
  std::vector<uint8_t> bytes(total);
  uint8_t *target = bytes.data();
  copyStrided(tensor, 0, first, target, item);
  return bytes;
}

} // namespace ditc
