// SPDX-License-Identifier: Apache-2.0
#include "passes/StreamParts.h"

#include "passes/Fusions.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace ditc {

/// Left side of a product -> it and what needs it, in order.
using Streams = llvm::MapVector<Value, SmallVector<Operation *>>;

/// Empty when an operation needs two of them.
static Streams streamsOf(Block &body) {
  Streams streams;
  llvm::DenseMap<Operation *, Value> streamOf;
  for (Operation &op : body.without_terminator()) {
    Value stream = isa<dit::MatmulOp>(op) ? op.getOperand(0) : Value();
    for (Value operand : op.getOperands())
      if (Value other = operand.getDefiningOp() ? streamOf.lookup(operand.getDefiningOp()) : Value()) {
        if (stream && stream != other)
          return {};
        stream = other;
      }
    if (stream) {
      streamOf[&op] = stream;
      streams[stream].push_back(&op);
    }
  }
  return streams;
}

SmallVector<dit::FusionOp> separateStreams(OpBuilder &b, dit::FusionOp fusion) {
  Streams streams = streamsOf(fusion.getBodyBlock());
  if (streams.size() < 2)
    return {};
  for (auto &[stream, ops] : streams) // a left side in two ranges
    if (auto concat = stream.getDefiningOp<dit::ConcatOp>(); concat && concat->hasOneUse())
      ops.insert(ops.begin(), concat);
  SmallVector<SmallVector<Operation *>> lists = llvm::map_to_vector(streams, [](auto &entry) { return entry.second; });
  inlineFusion(fusion);
  SmallVector<dit::FusionOp> parts;
  for (ArrayRef<Operation *> all : lists) {
    b.setInsertionPointAfter(all.back());
    parts.push_back(makeFusion(b, "gemm", all, resultsReadOutside(all)));
  }
  return parts;
}

} // namespace ditc
