// SPDX-License-Identifier: Apache-2.0
//
// The `plan` dialect in C++.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <optional>

#include "dialects/plan/PlanDialect.h.inc"
#include "dialects/plan/PlanEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/plan/PlanAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/plan/Plan.h.inc"

namespace ditc::plan {

/// Strides in elements and offset of a memref with a static strided layout.
struct Layout {
  mlir::SmallVector<int64_t> strides;
  int64_t offset = 0;
};
Layout layoutOf(mlir::MemRefType type);

/// A memref of `shape` with this layout; the identity layout when it is contiguous from offset 0.
mlir::MemRefType makeMemRef(mlir::ArrayRef<int64_t> shape, mlir::Type elementType, const Layout &layout);

/// Row-major strides of a dense tensor.
mlir::SmallVector<int64_t> contiguousStrides(mlir::ArrayRef<int64_t> shape);

/// True when the elements lie row-major without gaps (dimensions of size 1 do not count).
bool isContiguous(mlir::MemRefType type);

/// The type without its offset, as kernels see their arguments.
mlir::MemRefType withoutOffset(mlir::MemRefType type);

/// The last two dimensions as a BLAS reads them: a stored row-major matrix, or the transpose of one.
struct BlasMatrix {
  bool transposed = false;
  int64_t rowStride = 0; ///< elements between rows of the stored matrix
};
/// Nothing when neither of the two dimensions has a unit stride, or rows overlap.
std::optional<BlasMatrix> blasMatrix(mlir::MemRefType type);

/// The buffer behind any number of views.
BufferOp rootBuffer(mlir::Value memref);

} // namespace ditc::plan
