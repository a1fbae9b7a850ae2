// SPDX-License-Identifier: Apache-2.0
//
// What GroupKernels tells of its work: for every kernel what it saves, and for every two kernels that could have been one
// why they are not. `ditc report` and the tests of fusion read these remarks.
#pragma once

#include "passes/KernelGrowth.h"

namespace ditc {

/// Kernels of equal code that were not allowed to be one launch.
struct Strangers {
  ClusterGraph::Id first, second;
  Verdict verdict;
};

class GroupRemarks {
public:
  GroupRemarks(const ClusterGraph &graph, const KernelGrowth &growth, mlir::StringRef functionName)
      : graph(graph), growth(growth), functionName(functionName) {}

  void emit(mlir::ArrayRef<Strangers> strangers) const;

private:
  using Id = ClusterGraph::Id;
  using Path = mlir::SmallVector<mlir::Operation *, 4>;

  /// Two kernels that stay apart.
  struct Pair {
    Id first;
    mlir::Value value;
    Id second;
    mlir::Operation *reader;
    int64_t bytes;
    mlir::StringRef relation; ///< the reader "reads" the value, or could run "beside" the kernel that makes it
  };

  mlir::StringRef familyOf(Id id) const { return graph.cluster(id).kernel->family(); }
  void forEachReadingKernel(mlir::Value value, Path &views, llvm::function_ref<void(mlir::Operation *, const Path &)> action) const;
  Verdict whyApart(Id id, mlir::Operation *reader, const Path &views) const;
  Verdict whyApartBehind(Id id, mlir::Operation *reader, const Path &views) const;
  void emitMissed(const Pair &pair, const Verdict &verdict) const;
  void emitPassed(Id id) const;

  const ClusterGraph &graph;
  const KernelGrowth &growth;
  mlir::StringRef functionName;
};

} // namespace ditc
