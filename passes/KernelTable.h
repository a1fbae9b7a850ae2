// SPDX-License-Identifier: Apache-2.0
//
// The kernels of a module, each once: equal family, configuration, argument types and body are one kernel.
#pragma once

#include "dialects/plan/Plan.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace ditc {

/// What a launch needs; argument types come with it.
struct KernelSpec {
  mlir::StringRef family;
  mlir::DictionaryAttr config = {};
  mlir::Region *body = nullptr; ///< scalar code of a map
  bool identity = false;        ///< a map that copies or casts its one operand
  unsigned outputs = 1;
};

/// Family and configuration of an operation that is one launch.
KernelSpec kernelSpecOf(mlir::Operation *op);

class KernelTable {
public:
  explicit KernelTable(mlir::ModuleOp module);

  /// The kernel for `spec` on these argument types; made when there is none yet. Its name is the family and
  /// a hash of its text, so equal kernels of different buckets and builds have equal names.
  mlir::FlatSymbolRefAttr get(mlir::Location loc, const KernelSpec &spec, mlir::ArrayRef<mlir::MemRefType> types);

private:
  mlir::ModuleOp module;
  llvm::DenseSet<mlir::StringAttr> known;
};

} // namespace ditc
