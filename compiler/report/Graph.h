// SPDX-License-Identifier: Apache-2.0
//
// The kernels of one bucket as the report sees them, read from the IR at contract `fused`: plain structs, so
// that folding and everything behind it works without MLIR.
#pragma once

#include "compiler/report/Names.h"
#include "dialects/fusion/Cost.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace ditc {

struct OpRecord {
  std::string op;              ///< "matmul"
  std::vector<NodeName> names; ///< nodes that it was made of; the last one stands for it
  std::vector<int> args;       ///< operation of the same kernel, or -1 - position among its inputs
};

struct ValueRecord {
  std::vector<std::string> from; ///< "kernel 12#0" (its result), "input x", "weight w", "constant"; several behind a concat
  NodeName name;
  std::string type;              ///< "1x4096x3072xbf16"
  double bytes = 0;
  bool stable = false;           ///< depends on weights and constants only
  int op = -1;                   ///< results: the operation that makes it
};

struct KernelRecord {
  std::string family;
  bool prepare = false;          ///< the same in every step: runs once per set of weights, or per generation
  std::vector<OpRecord> ops;
  int anchor = 0;                ///< the operation that the kernel is about
  std::vector<ValueRecord> inputs, results;
  Work work;
  double weightBytes = 0;        ///< part of work.bytesRead
  double savedBytes = 0;         ///< bytes that separate kernels would move for the values inside
  std::string ir;
  std::optional<BlockPosition> home; ///< the repeated block that it belongs to
};

/// Operations that cost no launch.
struct FreeRecord {
  OpRecord op;
  std::string type;
};

struct GraphRecord {
  std::vector<KernelRecord> kernels; ///< in order of launches
  std::vector<FreeRecord> free;
  double minimumBytes = 0;           ///< every stored value written once and read once
  double minimumActivationBytes = 0; ///< without weights and constants
};

/// Bytes and launches with one kernel per operation.
struct UnfusedRecord {
  int64_t launches = 0;
  double bytes = 0, weightBytes = 0;
};

GraphRecord readGraph(mlir::ModuleOp fused);
UnfusedRecord measureUnfused(mlir::ModuleOp specialised);

} // namespace ditc
