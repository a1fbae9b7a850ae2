// SPDX-License-Identifier: Apache-2.0
//
// The `dit` dialect in C++: its operations, and the few facts about element types that everybody needs.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/dit/DitDialect.h.inc"
#include "dialects/dit/DitEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/dit/DitAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/dit/Dit.h.inc"

namespace ditc::dit {

/// The type in which a map body sees an element: f64 -> f64, other floats -> f32, i1 -> i1, other
/// integers -> i64.
mlir::Type computeType(mlir::Type elementType);

/// Bytes that one element takes in memory (i1 takes one byte).
int64_t elementBytes(mlir::Type elementType);

/// Bytes of a dense tensor of this type.
int64_t tensorBytes(mlir::RankedTensorType type);

/// True for operations that only rename elements: view, permute, slice, expand.
bool isViewOp(mlir::Operation *op);

/// What a value is a view of, behind all views.
mlir::Value behindViews(mlir::Value value);

/// Channels of a head that attention with `quantized` takes: what kernels hold of a tile in shared memory.
inline constexpr int64_t kMaxQuantizedHead = 248;

/// Largest and smallest value that a compute-type reduction starts from, as an attribute of `type`.
mlir::TypedAttr reductionIdentity(ReduceKind kind, mlir::Type type);

} // namespace ditc::dit
