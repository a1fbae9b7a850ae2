// SPDX-License-Identifier: Apache-2.0
//
// gemm_sm90::Divisor: a number that kernels divide by, by a product and a shift.
#pragma once

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cstdint>

namespace ditc {

/// x / value = x · multiplier / 2^shift for every x from 0 to 2^31 - 1: the multiplier is 2^shift / value, rounded up, and
/// with shift = 31 + log2 of the value, rounded up, the error stays below 1 / value.
struct Divisor {
  int32_t value;
  uint32_t multiplier;
  int32_t shift;

  /// Of a number up to 2^31 - 1. By 0 nobody divides; it counts as 1.
  static Divisor of(int64_t value) {
    value = std::max<int64_t>(value, 1);
    unsigned shift = 31 + llvm::Log2_64_Ceil(value);
    return {static_cast<int32_t>(value), static_cast<uint32_t>(llvm::divideCeil(uint64_t(1) << shift, value)), static_cast<int32_t>(shift)};
  }
};

} // namespace ditc
