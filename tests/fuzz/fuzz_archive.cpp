// SPDX-License-Identifier: Apache-2.0
//
// A .pt2 file from its first byte to its tensors and its program. Seeds have no CRCs, so that changed bytes
// are not all refused for their checksum.
#include "FuzzInput.h"

#include "compiler/import/ExportedProgram.h"
#include "compiler/import/Pt2Archive.h"

using namespace ditc;

namespace {

constexpr int64_t kMaxElements = 1 << 16; // an expanded tensor may honestly need gigabytes

void readAll(const std::map<std::string, StoredTensor> &tensors) {
  for (const auto &[name, tensor] : tensors)
    if (tensor.elementCount() <= kMaxElements)
      fuzz::expectInputErrors([&] { readContiguous(tensor); });
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::expectInputErrors([&] {
    fuzz::MemoryFile file({data, size});
    Pt2Archive archive = Pt2Archive::open(file.path());
    readAll(archive.weights());
    readAll(archive.constants());
    parseExportedProgram(archive.programJson(), archive.path());
  });
  return 0;
}
