// SPDX-License-Identifier: Apache-2.0
//
// Kernels grow by single operations: by what feeds them, which is computed again where others read it as well and that is
// cheaper than to load it, and by what reads them. Whether an operation fits is the template's answer; whether it moves more
// bytes there than in a kernel with something else that it reads is counted here.
#pragma once

#include "passes/ClusterGraph.h"

namespace ditc {

class KernelGrowth {
public:
  using Id = ClusterGraph::Id;
  explicit KernelGrowth(ClusterGraph &graph) : graph(graph) {}

  void growProducers(Id id);
  /// Readers are asked in program order. What was refused is asked again when something that it reads has joined.
  void growReaders(Id id);

  /// A cluster that is one operation and may be taken by another: no product, attention or convolution.
  bool isTakeable(Id id) const { return graph.cluster(id).ops.size() == 1; }
  /// May the kernel `id`, which reads `producer`, compute it?
  Verdict acceptsFeeding(Id id, mlir::Operation *producer) const;

private:
  int64_t savedBytes(Id id, mlir::Operation *reader) const;
  unsigned otherReaders(mlir::Operation *producer, Id id) const;
  void takeParts(Id id);
  bool take(Id id, mlir::Operation *view);
  void trimViews(Id id);
  void storeWholes(Id id);

  ClusterGraph &graph;
};

} // namespace ditc
