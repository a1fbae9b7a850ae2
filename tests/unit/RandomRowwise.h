// SPDX-License-Identifier: Apache-2.0
//
// Random bodies of rowwise kernels, as text of a func.func: maps, norms, reductions, lookups and layout operations on
// small tensors of all types.
#pragma once

#include <cstdint>
#include <string>

namespace ditc::test {

struct RandomBody {
  std::string function;
  bool hasSmallFloats = false; ///< f16 or bf16 occur: roundings may differ by a step
};

RandomBody randomRowwise(uint32_t seed);

} // namespace ditc::test
