// SPDX-License-Identifier: Apache-2.0
//
// A tensor in memory that the caller owns, possibly strided: how inputs, outputs and weights are handed to
// a session. safetensors files give the dense TensorView; this is the general form.
#pragma once

#include "runtime/Safetensors.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ditc {

struct TensorRef {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides; ///< elements per dimension; empty: dense, row-major
  void *data = nullptr;         ///< element 0; inputs and weights are only read
  bool onDevice = false;        ///< `data` is memory of the session's GPU rather than of the host

  /// True when there are no elements, whatever the strides are.
  bool isEmpty() const;
  /// True when elements lie row-major without gaps.
  bool isDense() const;
};

TensorRef refTo(const std::string &name, const TensorView &view);

/// "f32 [2, 4, 32]"
std::string describe(DType dtype, const std::vector<int64_t> &shape);
std::string describe(const std::vector<int64_t> &shape);

/// Copies a strided tensor into dense row-major memory, or back.
void copyToDense(char *dense, const TensorRef &tensor);
void copyFromDense(const TensorRef &tensor, const char *dense);

} // namespace ditc
