// SPDX-License-Identifier: Apache-2.0
//
// A border of one value around a tensor: the output is filled, then the input is copied to its place inside.
//
// Layout: any strides; elements are copied as 1, 2, 4 or 8 bytes whatever their type, so results are exact.
#include "blocks.h"
#include "nest.h"

namespace ditc {

extern "C" void ditc_pad(char *const *args, const PadDescriptor *d) {
  int64_t bytes = d->element_bytes;
  const char *value = reinterpret_cast<const char *>(&d->value); // little endian: the low bytes come first
  forEachRun(d->border, [&](const Offsets &at, int64_t n, const int64_t *strides) {
    copyElements(args[1] + at.at[0] * bytes, strides[0], value, 0, n, bytes);
  });
  char *inside = args[1] + d->offset * bytes;
  forEachRun(d->inside, [&](const Offsets &at, int64_t n, const int64_t *strides) {
    copyElements(inside + at.at[1] * bytes, strides[1], args[0] + at.at[0] * bytes, strides[0], n, bytes);
  });
}

} // namespace ditc
