// SPDX-License-Identifier: Apache-2.0
//
// Runs kernels of the CUDA target on the CPU (tests/cuda_emulator) and compares them with the reference evaluator.
#pragma once

#include "codegen/cuda/CudaKernel.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ditc::test {

using Numbers = std::vector<double>;

/// An argument of a kernel: a tensor with any strides, whose memory ends where the process may not read on.
struct CudaArg {
  std::string element; ///< "bf16"
  std::vector<int64_t> shape;
  std::vector<int64_t> strides = {};                  ///< dense when empty
  std::function<double(size_t)> value = {};            ///< element by its row-major number; random by default
};

/// One kernel and the operation that says what it computes.
struct CudaCase {
  std::string family, config;
  std::vector<CudaArg> args;   ///< outputs last
  std::string reference;       ///< "dit.attention %0, %1, %2 scale 0.5": operands by number, without types
  int outputs = 1;
  std::string body = {};       ///< of the kernel, with its braces
  double tolerance = 0;        ///< of the result's largest magnitude; 0 for equal
  bool aligned = true;         ///< element 0 of each argument is known to lie at a multiple of 16 bytes
};

/// A module of the plan.kernel @kernel, and of the function @reference if the case has one.
std::string moduleText(const CudaCase &c);

class CudaFamilies {
public:
  explicit CudaFamilies(CudaEmitter emitter, const std::string &arch = "sm_80");
  ~CudaFamilies();

  /// The unit, or the diagnostics as text in `messages`.
  bool emit(const CudaCase &c);
  /// Runs it on the inputs of the case.
  void run(const CudaCase &c);
  /// Runs it and compares; gtest failures say where.
  void check(const CudaCase &c);
  /// The elements of output `i` of the last run.
  const Numbers &result(size_t i = 0) const { return results[i]; }

  CudaUnit unit;
  std::string messages;

private:
  struct State;
  std::unique_ptr<State> state;
  CudaEmitter emitter;
  CudaArch arch;
  std::vector<Numbers> results;
};

} // namespace ditc::test
