// SPDX-License-Identifier: Apache-2.0
//
// How far a tensor is from its reference: one definition for the tools, the tests and the benchmarks.
// Elements are compared as doubles, so an output in bf16 may be held against a reference in f32.
#pragma once

#include "runtime/Safetensors.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ditc {

struct Comparison {
  uint64_t count = 0;       ///< elements (real and imaginary parts count as two)
  uint64_t nonFinite = 0;   ///< NaN or infinity in the actual tensor
  uint64_t nonFiniteReference = 0;
  double relativeL2 = 0;    ///< ||actual - reference|| / ||reference||; 0 when both are zero, else infinity
  double maxAbs = 0;        ///< largest |actual - reference|
  double cosine = 1;        ///< 1 when both are zero, 0 when one is
  std::vector<int64_t> worst; ///< index of the element with maxAbs; first part of a complex one

  /// False as soon as anything is NaN or infinite.
  bool within(double tolerance) const {
    return nonFinite == 0 && nonFiniteReference == 0 && relativeL2 <= tolerance;
  }
};

/// Non-finite elements are counted and left out of the sums. Throws Error (Input) when the shapes differ or
/// only one is complex; `name` names the tensor.
Comparison compare(const std::string &name, const TensorView &actual, const TensorView &reference);

/// One element of a type that is not complex; `address` need not be aligned.
double elementAsDouble(DType type, const uint8_t *address);

} // namespace ditc
