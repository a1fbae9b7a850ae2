// SPDX-License-Identifier: Apache-2.0
//
// Which products of a function are quantised, and why others are not.
#pragma once

#include "dialects/ModulePatterns.h"
#include "dialects/dit/Dit.h"
#include "dialects/fusion/QuantizeReason.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace ditc {

class QuantizeChoice {
public:
  /// With `modules.only`, exactly what it matches is wanted, whatever is saved by that.
  QuantizeChoice(mlir::func::FuncOp function, ModuleChoice modules);

  /// Every product in program order.
  const llvm::MapVector<dit::MatmulOp, QuantizeReason> &products() const { return reasons; }

private:
  QuantizeReason whyNot(dit::MatmulOp product) const;
  void refuseLittleWork();

  ModuleChoice modules;
  llvm::DenseSet<mlir::Value> invariant; ///< the same in every step
  llvm::DenseSet<mlir::Value> weights;   ///< made from weights and constants alone, of at least one weight
  llvm::MapVector<dit::MatmulOp, QuantizeReason> reasons;
};

} // namespace ditc
