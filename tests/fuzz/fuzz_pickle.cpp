// SPDX-License-Identifier: Apache-2.0
//
// A data.pkl: the machine must end, within its bounds, whatever the opcodes say.
#include "FuzzInput.h"

#include "compiler/import/Pickle.h"

using namespace ditc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::expectInputErrors([&] { PickleDocument::parse({data, size}, "data.pkl"); });
  return 0;
}
