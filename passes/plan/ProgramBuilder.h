// SPDX-License-Identifier: Apache-2.0
//
// The plan.program of a function while it is made: its buffers and views, its two phases, and where each tensor lies.
#pragma once

#include "dialects/dit/Dit.h"
#include "dialects/fusion/TargetKernels.h"
#include "dialects/plan/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace ditc {

/// What the memory of inputs, outputs, weights and the arena is aligned to, in bytes: the widest load of a device.
constexpr int64_t kBufferAlignment = 16;

/// What the program is made for.
struct PlanTarget {
  bool device = false;        ///< kernels take whole fusions and write any strides
  bool keepRoundings = false; ///< kernels round wherever the graph does
  const TargetKernels *kernels = nullptr; ///< may be null: every layout is taken
};

/// What a buffer is bound to, by space.
struct BufferInfo {
  std::optional<unsigned> index = {};
  mlir::StringRef name = {};
  mlir::ElementsAttr value = {};
};

inline mlir::RankedTensorType tensorType(mlir::Value value) { return mlir::cast<mlir::RankedTensorType>(value.getType()); }
inline mlir::MemRefType memoryType(mlir::Value value) { return mlir::cast<mlir::MemRefType>(value.getType()); }

/// True for memory that does not change between runs.
bool isStable(mlir::Value memref);

class ProgramBuilder {
public:
  /// A program before `function` with its inputs; the phases are empty.
  explicit ProgramBuilder(mlir::func::FuncOp function);

  mlir::Value createBuffer(mlir::Location loc, mlir::RankedTensorType type, plan::Space space, BufferInfo info = {});
  /// Memory for what the plan itself computes, once or in every step.
  mlir::Value createResult(mlir::Location loc, mlir::RankedTensorType type, bool prepared);
  mlir::Value createView(mlir::Location loc, mlir::Value source, mlir::ArrayRef<int64_t> shape, const plan::Layout &layout);

  /// The memref that holds a tensor; null when there is none yet.
  mlir::Value memoryOf(mlir::Value tensor) const { return memory.lookup(tensor); }
  void setMemory(mlir::Value tensor, mlir::Value memref) { memory[tensor] = memref; }

  /// Operations made next go behind those of `plan.prepare`, which runs once for a set of weights, or of `plan.step`.
  void setPhase(bool prepared) { b.setInsertionPointToEnd(prepared ? prepareBlock : stepBlock); }

  mlir::OpBuilder b;

private:
  mlir::Attribute portName(mlir::Attribute given, mlir::StringRef prefix, unsigned i);

  mlir::Operation *firstPhase = nullptr;
  mlir::Block *prepareBlock = nullptr, *stepBlock = nullptr;
  llvm::DenseMap<mlir::Value, mlir::Value> memory; ///< tensor -> memref that holds it
};

} // namespace ditc
