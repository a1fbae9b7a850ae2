// SPDX-License-Identifier: Apache-2.0
//
// A compressed constant of a package: eight bytes for the size that the manifest states, then the frame.
#include "FuzzInput.h"

#include "runtime/Compression.h"

#include <cstring>

using namespace ditc;

namespace {

constexpr uint64_t kMostBytes = 1 << 26; // a few hundred bytes of frame may honestly be some MiB

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint64_t stated = 0;
  if (size < sizeof stated)
    return 0;
  std::memcpy(&stated, data, sizeof stated);
  if (stated > kMostBytes && stated < uint64_t{1} << 48)
    return 0;
  fuzz::expectInputErrors([&] {
    HostBytes content = decompressConstant({data + sizeof stated, size - sizeof stated}, stated, "fuzz");
    if (content.bytes.size() != stated)
      std::abort();
  });
  return 0;
}
