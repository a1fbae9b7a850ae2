// SPDX-License-Identifier: Apache-2.0
//
// The `plan` dialect: registration, verifiers, and helpers for strided memrefs.
#include "dialects/plan/Plan.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

#include "dialects/plan/PlanDialect.cpp.inc"
#include "dialects/plan/PlanEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/plan/PlanAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/plan/Plan.cpp.inc"

namespace ditc::plan {

void PlanDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/plan/Plan.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/plan/PlanAttrs.cpp.inc"
      >();
}

SmallVector<int64_t> contiguousStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t i = static_cast<int64_t>(shape.size()) - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

Layout layoutOf(MemRefType type) {
  if (type.getLayout().isIdentity())
    return {contiguousStrides(type.getShape()), 0};
  auto strided = cast<StridedLayoutAttr>(type.getLayout());
  return {SmallVector<int64_t>(strided.getStrides()), strided.getOffset()};
}

MemRefType makeMemRef(ArrayRef<int64_t> shape, Type elementType, const Layout &layout) {
  if (layout.offset == 0 && layout.strides == contiguousStrides(shape))
    return MemRefType::get(shape, elementType);
  auto attr = StridedLayoutAttr::get(elementType.getContext(), layout.offset, layout.strides);
  return MemRefType::get(shape, elementType, attr);
}

bool isContiguous(MemRefType type) {
  Layout layout = layoutOf(type);
  int64_t expected = 1;
  for (int64_t i = type.getRank() - 1; i >= 0; --i) {
    if (type.getDimSize(i) == 1)
      continue;
    if (type.getDimSize(i) == 0)
      return true;
    if (layout.strides[i] != expected)
      return false;
    expected *= type.getDimSize(i);
  }
  return true;
}

MemRefType withoutOffset(MemRefType type) {
  Layout layout = layoutOf(type);
  layout.offset = 0;
  return makeMemRef(type.getShape(), type.getElementType(), layout);
}

BufferOp rootBuffer(Value memref) {
  while (auto view = memref.getDefiningOp<ViewOp>())
    memref = view.getSource();
  return memref.getDefiningOp<BufferOp>();
}

LogicalResult KernelOp::verify() {
  if (getOutputs() < 1 || getOutputs() > getNumArgs())
    return emitOpError("has ") << getOutputs() << " outputs but " << getNumArgs() << " arguments";
  for (Attribute type : getArgTypes())
    if (!isa<MemRefType>(cast<TypeAttr>(type).getValue()))
      return emitOpError("argument types must be memrefs");
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel = symbols.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("launches '") << getKernel() << "', which is not a plan.kernel";
  if (kernel.getNumArgs() != getArgs().size())
    return emitOpError("passes ") << getArgs().size() << " arguments; '" << getKernel() << "' takes " << kernel.getNumArgs();
  for (auto [i, arg] : llvm::enumerate(getArgs()))
    if (withoutOffset(cast<MemRefType>(arg.getType())) != kernel.getArgType(i))
      return emitOpError("argument ") << i << " is " << arg.getType() << "; '" << getKernel() << "' takes " << kernel.getArgType(i);
  return success();
}

std::optional<BlasMatrix> blasMatrix(MemRefType type) {
  if (type.getRank() < 2)
    return std::nullopt;
  Layout layout = layoutOf(type);
  int64_t rank = type.getRank(), rows = type.getDimSize(rank - 2), columns = type.getDimSize(rank - 1);
  int64_t rowStride = layout.strides[rank - 2], columnStride = layout.strides[rank - 1];
  // The stride of a dimension of size 1 says nothing, that of rows without elements is 0; the BLAS wants one that is large
  // enough all the same.
  if ((columnStride == 1 || columns == 1) && (rowStride >= columns || rows == 1))
    return BlasMatrix{false, rows == 1 ? std::max<int64_t>(columns, 1) : std::max<int64_t>(rowStride, 1)};
  if ((rowStride == 1 || rows == 1) && (columnStride >= rows || columns == 1))
    return BlasMatrix{true, columns == 1 ? std::max<int64_t>(rows, 1) : std::max<int64_t>(columnStride, 1)};
  return std::nullopt;
}

LogicalResult GemmOp::verify() {
  auto a = cast<MemRefType>(getA().getType()), b = cast<MemRefType>(getB().getType()), c = cast<MemRefType>(getC().getType());
  unsigned rank = c.getRank();
  if (a.getRank() != rank || b.getRank() != rank || rank < 2)
    return emitOpError("operands must have one rank, at least 2");
  if (a.getDimSize(rank - 2) != c.getDimSize(rank - 2) || b.getDimSize(rank - 1) != c.getDimSize(rank - 1) || a.getDimSize(rank - 1) != b.getDimSize(rank - 2))
    return emitOpError("shapes do not fit: ") << a << " · " << b << " -> " << c;
  if (a.getElementType() != c.getElementType() || b.getElementType() != c.getElementType())
    return emitOpError("operands must have one type: ") << a << " · " << b << " -> " << c;
  if (!blasMatrix(a) || !blasMatrix(b) || !blasMatrix(c))
    return emitOpError("every matrix needs a unit stride");
  return success();
}

LogicalResult CopyOp::verify() {
  auto source = cast<MemRefType>(getSource().getType()), target = cast<MemRefType>(getTarget().getType());
  if (source.getElementType() != target.getElementType() || source.getNumElements() != target.getNumElements())
    return emitOpError("copies ") << source << " to " << target;
  if (!isContiguous(source) || !isContiguous(target))
    return emitOpError("copies contiguous buffers only");
  return success();
}

} // namespace ditc::plan
