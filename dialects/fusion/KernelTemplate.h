// SPDX-License-Identifier: Apache-2.0
//
// What a kernel template tells the fusers: which operations can be the heart of a kernel, and what may join.
// Implementations are beside the device code (codegen/templates); passes see only this interface.
#pragma once

#include "dialects/dit/Dit.h"
#include "dialects/fusion/Reason.h"

#include <limits>
#include <memory>
#include <vector>

namespace ditc {

class KernelTemplate;

/// Operations that one launch computes, in program order.
struct Cluster {
  const KernelTemplate *kernel = nullptr;
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::SmallVector<mlir::Operation *> anchors; ///< the operations that the template is about
  llvm::DenseSet<mlir::Operation *> members;    ///< `ops` as a set

  bool contains(mlir::Operation *op) const { return members.contains(op); }
  bool isAnchor(mlir::Operation *op) const { return llvm::is_contained(anchors, op); }
};

class KernelTemplate {
public:
  virtual ~KernelTemplate() = default;

  /// "gemm", "attention", "rowwise", "gemv", "conv", "layout".
  virtual mlir::StringRef family() const = 0;
  /// True when `op` can be the heart of a kernel. The first template of the catalogue that says so takes it.
  virtual bool isAnchor(mlir::Operation *op) const = 0;
  /// May `op`, which reads results of the cluster, be computed before they are stored?
  virtual Verdict acceptsReader(const Cluster &cluster, mlir::Operation *op) const = 0;
  /// May `op`, whose result the cluster reads, be computed while that is loaded?
  virtual Verdict acceptsProducer(const Cluster &cluster, mlir::Operation *op) const = 0;
  /// May `op`, which `others` kernels read as well, be computed again while its result is loaded here?
  virtual Verdict acceptsCopy(const Cluster &cluster, mlir::Operation *op, unsigned others) const {
    (void)others;
    Verdict verdict = acceptsProducer(cluster, op);
    return verdict ? Verdict{Reason::RecomputeTooDear, op->getResult(0)} : verdict;
  }
  /// Results that a launch can have.
  virtual size_t maxResults(const Cluster &cluster) const {
    (void)cluster;
    return std::numeric_limits<size_t>::max();
  }
  /// May two kernels of this template, neither of which needs the other, be one launch?
  virtual Verdict acceptsTogether(const Cluster &a, const Cluster &b) const = 0;
  /// The same of two kernels that read one input, so that `b` would be columns of `a`. Of its results `keptBytes` would
  /// be made earlier than now, and kept until something reads them.
  virtual Verdict acceptsAsColumns(const Cluster &a, const Cluster &b, int64_t keptBytes) const {
    (void)keptBytes;
    return acceptsTogether(a, b);
  }
  /// The same of two kernels of equal code on inputs of their own. `besideBytes` says how many bytes of results would be there at
  /// once that are not one after the other, which takes a search.
  virtual Verdict acceptsAsStreams(const Cluster &a, const Cluster &b, llvm::function_ref<int64_t()> besideBytes) const {
    (void)besideBytes;
    return acceptsTogether(a, b);
  }
};

/// The templates of a target, in order of preference.
using Catalogue = std::vector<std::unique_ptr<const KernelTemplate>>;

} // namespace ditc
