// SPDX-License-Identifier: Apache-2.0
//
// Rows by index.
//
//   gather:  out[a..., i..., b...] = table[a..., clamp(indices[i...]), b...]
//   scatter: out = base, then for i in order: out[indices[i], ...] = (or +=) updates[i, ...]
//
// Layout: any strides; a row is copied as runs of elements of 1, 2, 4 or 8 bytes whatever their type. Scatter skips
// indices outside the table. Accuracy: copies are exact; an addition is taken in the compute type (f32 for bf16,
// f16 and fp8) and rounded each time, as the order of updates says.
#include "blocks.h"
#include "nest.h"

namespace ditc {
namespace {

int64_t clampIndex(int64_t index, int64_t size) {
  if (index < 0)
    return 0;
  return index < size ? index : size - 1;
}

/// out_run += update_run
template <class T> void addRun(char *out, int64_t out_stride, const char *update, int64_t update_stride, int64_t n, int64_t type) {
  T sum[kBlock], term[kBlock];
  for (int64_t first = 0; first < n; first += kBlock) {
    int64_t count = smaller(kBlock, n - first), bytes = elementBytes(type);
    char *place = out + first * out_stride * bytes;
    loadBlock(sum, place, out_stride, count, type);
    loadBlock(term, update + first * update_stride * bytes, update_stride, count, type);
    for (int64_t i = 0; i < count; ++i)
      sum[i] += term[i];
    storeBlock(place, sum, out_stride, count, type);
  }
}

void addElements(char *out, int64_t out_stride, const char *update, int64_t update_stride, int64_t n, int64_t type) {
  if (type == kF64)
    addRun<double>(out, out_stride, update, update_stride, n, type);
  else if (type == kF32 || type == kF16 || type == kBF16 || type == kF8)
    addRun<float>(out, out_stride, update, update_stride, n, type);
  else
    addRun<int64_t>(out, out_stride, update, update_stride, n, type);
}

} // namespace

extern "C" void ditc_gather(char *const *args, const GatherDescriptor *d) {
  const char *table = args[0], *indices = args[1];
  char *out = args[2];
  int64_t bytes = d->element_bytes;
  forEachElement(d->outer, [&](const Offsets &outer) {
    forEachElement(d->indices, [&](const Offsets &at) {
      int64_t index = clampIndex(loadIndex(indices, d->type_index, at.at[0]), d->table_size);
      const char *from = table + (outer.at[0] + index * d->table_stride) * bytes;
      char *to = out + (outer.at[1] + at.at[1]) * bytes;
      forEachRun(d->inner, [&](const Offsets &run, int64_t n, const int64_t *strides) {
        copyElements(to + run.at[1] * bytes, strides[1], from + run.at[0] * bytes, strides[0], n, bytes);
      });
    });
  });
}

extern "C" void ditc_scatter(char *const *args, const ScatterDescriptor *d) {
  const char *base = args[0], *indices = args[1], *updates = args[2];
  char *out = args[3];
  int64_t bytes = d->element_bytes;
  forEachRun(d->copy, [&](const Offsets &at, int64_t n, const int64_t *strides) {
    copyElements(out + at.at[1] * bytes, strides[1], base + at.at[0] * bytes, strides[0], n, bytes);
  });
  for (int64_t i = 0; i < d->updates; ++i) {
    int64_t index = loadIndex(indices, d->type_index, i * d->index_stride);
    if (index < 0 || index >= d->table_size)
      continue;
    const char *from = updates + i * d->update_stride * bytes;
    char *to = out + index * d->table_stride * bytes;
    forEachRun(d->inner, [&](const Offsets &at, int64_t n, const int64_t *strides) {
      if (d->add)
        addElements(to + at.at[1] * bytes, strides[1], from + at.at[0] * bytes, strides[0], n, d->type);
      else
        copyElements(to + at.at[1] * bytes, strides[1], from + at.at[0] * bytes, strides[0], n, bytes);
    });
  }
}

} // namespace ditc
