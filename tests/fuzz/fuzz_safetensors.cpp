// SPDX-License-Identifier: Apache-2.0
//
// A safetensors file; the last byte of each tensor is touched, where a wrong bound would show.
#include "FuzzInput.h"

#include "runtime/Safetensors.h"

using namespace ditc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::expectInputErrors([&] {
    fuzz::MemoryFile file({data, size});
    SafetensorsFile tensors = SafetensorsFile::open(file.path());
    uint64_t sum = 0;
    for (const auto &[name, tensor] : tensors.tensors())
      sum += tensors.byteOffset(name) + (tensor.bytes.empty() ? 0 : tensor.bytes.back());
    if (sum == UINT64_MAX)
      std::abort();
  });
  return 0;
}
