// SPDX-License-Identifier: Apache-2.0
//
// What a rowwise kernel reads and writes, and what the unit has beside its kernel: constant tables and the functions of
// maps.
#pragma once

#include "codegen/cuda/CudaKernel.h"
#include "dialects/dit/Dit.h"

#include <map>

namespace ditc::rowwise {

/// A tensor in memory as the kernel sees it.
struct Argument {
  std::string name; ///< of the pointer in the kernel
  mlir::Type element;
  mlir::SmallVector<int64_t> shape, strides;
  int64_t alignment = 1; ///< bytes of which the address is a multiple
  bool used = false;     ///< it becomes a parameter

  /// Elements between the first and the last one.
  int64_t extent() const;
};

/// The body of a kernel with its arguments.
struct Problem {
  mlir::Block *body = nullptr;
  mlir::SmallVector<Argument> inputs, outputs;
  bool keepRoundings = false;

  /// Reads a plan.kernel. Fails with a diagnostic when the body does not fit the arguments.
  static mlir::FailureOr<Problem> read(plan::KernelOp kernel);
  /// A body alone: dense arguments.
  static Problem of(mlir::Block &body);

  mlir::Value result(size_t i) const { return body->getTerminator()->getOperand(i); }
  /// Some offset does not fit 32 bits.
  bool needsWideIndices() const;
};

/// Text at file scope: each function and each table once.
class Declarations {
public:
  /// The function of a map, by its name.
  std::string function(dit::MapOp map);
  /// A table with the elements of a constant.
  Argument table(dit::ConstantOp constant);

  const std::string &text() const { return all; }

private:
  std::string unique(std::string name);

  std::map<std::string, std::string> known; ///< code without a name -> name
  std::map<std::string, unsigned> taken;
  std::string all;
};

/// Constants with more elements than this are arguments, not text.
constexpr int64_t kLargestTable = 1024;

/// "BF16", "float", ...: the element type inside namespace ditc.
std::string elementName(mlir::Type element);

} // namespace ditc::rowwise
