// SPDX-License-Identifier: Apache-2.0
//
// The reference evaluator: what each `dit` operation computes, written for clarity and for reproducible
// results. Constant folding runs on it, and tests compare everything else with it.
//
// Arithmetic follows the dialect: bodies of maps compute in the compute type of their scalars and round
// once on store; products accumulate in the compute type; sums and statistics of f32 data accumulate in
// f64 and round to f32, so that the reference does not depend on an order of summation.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace ditc::dit {

/// A tensor in host memory: row-major, one byte per i1. Values are never changed once they are made, so
/// views share the bytes of what they view.
struct TensorValue {
  mlir::RankedTensorType type;
  std::shared_ptr<std::vector<uint8_t>> bytes;

  /// A zero-filled tensor.
  static TensorValue zeros(mlir::RankedTensorType type);
  /// Element `i` in row-major order, as a double (for tests and messages).
  double at(int64_t i) const;
};

/// Results of one `dit` operation other than `dit.weight`. An operation that cannot be evaluated (a scalar
/// operation that the dialect does not use) emits an error.
mlir::FailureOr<mlir::SmallVector<TensorValue>> evaluateOp(mlir::Operation *op, mlir::ArrayRef<TensorValue> operands);

/// Runs the only block of `function`; `weight` gives the values of `dit.weight` by name.
mlir::FailureOr<mlir::SmallVector<TensorValue>> evaluateFunction(mlir::func::FuncOp function, mlir::ArrayRef<TensorValue> arguments,
                                                                 mlir::function_ref<TensorValue(mlir::StringRef)> weight);

/// The bytes of a constant: dense, splat, or a resource blob.
TensorValue fromElements(mlir::ElementsAttr elements);

/// A splat for equal elements (they fold into map bodies), dense text below 1 KiB, a resource blob above.
mlir::ElementsAttr toElements(const TensorValue &value);

} // namespace ditc::dit
