// SPDX-License-Identifier: Apache-2.0
//
// Registration of the `dit` dialect and the facts about element types. Verifiers are in Verify.cpp,
// folds and canonicalisations in Fold.cpp.
#include "dialects/dit/Dit.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include <limits>

using namespace mlir;

#include "dialects/dit/DitDialect.cpp.inc"
#include "dialects/dit/DitEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/dit/DitAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/dit/Dit.cpp.inc"

namespace ditc::dit {

void DitDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/dit/Dit.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/dit/DitAttrs.cpp.inc"
      >();
}

Operation *DitDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  if (!ConstantOp::isBuildableWith(value, type))
    return nullptr;
  return ConstantOp::create(builder, loc, cast<ElementsAttr>(value));
}

bool ConstantOp::isBuildableWith(Attribute value, Type type) {
  auto elements = dyn_cast<ElementsAttr>(value);
  return elements && elements.getType() == type;
}

Type computeType(Type elementType) {
  MLIRContext *context = elementType.getContext();
  if (elementType.isF64())
    return elementType;
  if (isa<FloatType>(elementType))
    return Float32Type::get(context);
  if (elementType.isInteger(1))
    return elementType;
  return IntegerType::get(context, 64);
}

int64_t elementBytes(Type elementType) {
  return llvm::divideCeil(elementType.getIntOrFloatBitWidth(), 8);
}

int64_t tensorBytes(RankedTensorType type) { return type.getNumElements() * elementBytes(type.getElementType()); }

bool isViewOp(Operation *op) { return isa<ViewOp, PermuteOp, SliceOp, ExpandOp>(op); }

Value behindViews(Value value) {
  for (Operation *def = value.getDefiningOp(); def && isViewOp(def); def = value.getDefiningOp())
    value = def->getOperand(0);
  return value;
}

static TypedAttr floatIdentity(ReduceKind kind, FloatType type) {
  double infinity = std::numeric_limits<double>::infinity();
  switch (kind) {
  case ReduceKind::Prod: return FloatAttr::get(type, 1.0);
  case ReduceKind::Max: return FloatAttr::get(type, -infinity);
  case ReduceKind::Min: return FloatAttr::get(type, infinity);
  default: return FloatAttr::get(type, 0.0);
  }
}

TypedAttr reductionIdentity(ReduceKind kind, Type type) {
  if (auto floatType = dyn_cast<FloatType>(type))
    return floatIdentity(kind, floatType);
  if (type.isInteger(1))
    return IntegerAttr::get(type, kind == ReduceKind::All || kind == ReduceKind::Prod || kind == ReduceKind::Min);
  switch (kind) {
  case ReduceKind::Prod: return IntegerAttr::get(type, 1);
  case ReduceKind::Max: return IntegerAttr::get(type, std::numeric_limits<int64_t>::min());
  case ReduceKind::Min: return IntegerAttr::get(type, std::numeric_limits<int64_t>::max());
  default: return IntegerAttr::get(type, 0);
  }
}

bool MapOp::isIdentity() {
  if (getInputs().size() != 1)
    return false;
  auto yield = cast<YieldOp>(getBodyBlock().getTerminator());
  return yield.getValues()[0] == getBodyBlock().getArgument(0);
}

} // namespace ditc::dit
