// SPDX-License-Identifier: Apache-2.0
//
// Constants, element-wise maps, contractions, reductions and indexed access for the ATen table. Views are
// in EmitViews.cpp.
#include "compiler/import/Emit.h"

#include "runtime/Error.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/DialectResourceBlobManager.h"

#include <cmath>

using namespace mlir;

namespace ditc {

//===-- Types and constants -----------------------------------------------------------------------===//

Type Emit::elementType(DType dtype) {
  switch (dtype) {
  case DType::f64:
  case DType::c128: return b.getF64Type();
  case DType::f32:
  case DType::c64: return b.getF32Type();
  case DType::f16:
  case DType::c32: return b.getF16Type();
  case DType::bf16: return b.getBF16Type();
  case DType::f8e4m3: return b.getType<Float8E4M3FNType>();
  case DType::i64: return b.getI64Type();
  case DType::i32: return b.getI32Type();
  case DType::i16: return b.getI16Type();
  case DType::i8: return b.getI8Type();
  case DType::u8: return b.getIntegerType(8, /*isSigned=*/false);
  case DType::b1: return b.getI1Type();
  default: fail("element type {} is not supported", nameOf(dtype));
  }
}

/// Constants from this size on live in resource blobs, which the context does not hash and keep unique.
static constexpr size_t kBlobBytes = 1024;

/// The scalar `value` as an attribute of `element`, rounded as torch does when it fills a tensor.
static TypedAttr scalarAttr(Type element, Scalar value) {
  if (auto floatType = dyn_cast<FloatType>(element)) {
    // Small types are rounded by way of float.
    double number = floatType.getWidth() < 32 ? static_cast<double>(static_cast<float>(value.number)) : value.number;
    return FloatAttr::get(floatType, number);
  }
  auto intType = cast<IntegerType>(element);
  uint64_t bits = static_cast<uint64_t>(value.integer);
  if (intType.getWidth() == 1)
    bits = value.number != 0;
  return IntegerAttr::get(intType, llvm::APInt(intType.getWidth(), bits, /*isSigned=*/false, /*implicitTrunc=*/true));
}

static bool isRepeated(ArrayRef<char> bytes, size_t unit) {
  return bytes.size() > unit && std::equal(bytes.begin() + unit, bytes.end(), bytes.begin());
}

ElementsAttr elementsOf(RankedTensorType type, ArrayRef<char> bytes) {
  size_t unit = dit::elementBytes(type.getElementType());
  if (bytes.size() != unit * type.getNumElements())
    failInternal("constant of {} bytes, expected {}", bytes.size(), unit * type.getNumElements());
  bool splat = isRepeated(bytes, unit);
  if (!splat && bytes.size() >= kBlobBytes) {
    auto blob = HeapAsmResourceBlob::allocateAndCopyWithAlign(bytes, /*align=*/64, /*dataIsMutable=*/false);
    return DenseResourceElementsAttr::get(type, "constant", std::move(blob));
  }
  if (type.getElementType().isInteger(1)) {
    SmallVector<bool> flags(llvm::map_range(splat ? bytes.take_front(1) : bytes, [](char byte) { return byte != 0; }));
    return DenseElementsAttr::get(type, ArrayRef<bool>(flags));
  }
  return DenseElementsAttr::getFromRawBuffer(type, splat ? bytes.take_front(unit) : bytes);
}

Value Emit::constant(ElementsAttr value) { return dit::ConstantOp::create(b, value); }

Value Emit::full(ArrayRef<int64_t> shape, Type element, Scalar value) {
  auto type = RankedTensorType::get(shape, element);
  return constant(DenseElementsAttr::get(type, Attribute(scalarAttr(element, value))));
}

Value Emit::number(Scalar value) {
  switch (value.kind) {
  case Scalar::Kind::Int: return full({}, b.getI64Type(), value);
  case Scalar::Kind::Bool: return full({}, b.getI1Type(), value);
  default: return full({}, b.getF64Type(), value);
  }
}

template <typename T> static Value dense(Emit &emit, ArrayRef<int64_t> shape, Type element, ArrayRef<T> values) {
  ArrayRef<char> bytes(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T));
  return emit.constant(elementsOf(RankedTensorType::get(shape, element), bytes));
}

Value Emit::integers(ArrayRef<int64_t> shape, ArrayRef<int64_t> values) {
  return dense(*this, shape, b.getI64Type(), values);
}

Value Emit::doubles(ArrayRef<int64_t> shape, ArrayRef<double> values) {
  return dense(*this, shape, b.getF64Type(), values);
}

//===-- Element-wise ------------------------------------------------------------------------------===//

/// The shape that `operands` broadcast to.
static SmallVector<int64_t> broadcastShape(ValueRange operands) {
  size_t rank = 0;
  for (Value operand : operands)
    rank = std::max<size_t>(rank, Emit::rankOf(operand));
  SmallVector<int64_t> result(rank, 1);
  for (Value operand : operands) {
    ArrayRef<int64_t> shape = Emit::shapeOf(operand);
    for (size_t i = 0; i < shape.size(); ++i) {
      int64_t &size = result[rank - shape.size() + i];
      if (size == 1)
        size = shape[i];
      else if (shape[i] != 1 && shape[i] != size)
        fail("sizes {} and {} do not broadcast", size, shape[i]);
    }
  }
  return result;
}

Value Emit::map(ValueRange operands, Type resultElement, const Body &body) {
  SmallVector<int64_t> shape = broadcastShape(operands);
  SmallVector<Value> inputs;
  SmallVector<Type> argTypes;
  for (Value operand : operands) {
    SmallVector<int64_t> aligned(shape.size() - rankOf(operand), 1);
    llvm::append_range(aligned, shapeOf(operand));
    inputs.push_back(view(operand, aligned));
    argTypes.push_back(dit::computeType(elementOf(operand)));
  }
  auto op = dit::MapOp::create(b, RankedTensorType::get(shape, resultElement), inputs);
  SmallVector<Location> locs(argTypes.size(), b.getLoc());
  Block &block = op.getBody().emplaceBlock();
  block.addArguments(argTypes, locs);
  auto inner = ImplicitLocOpBuilder::atBlockEnd(b.getLoc(), &block);
  Value result = convert(inner, body(inner, block.getArguments()), dit::computeType(resultElement));
  dit::YieldOp::create(inner, result);
  return op.getResult();
}

Value Emit::cast(Value value, Type element) {
  if (elementOf(value) == element)
    return value;
  return map(value, element, [](ImplicitLocOpBuilder &, ValueRange args) { return args[0]; });
}

Value Emit::scalar(ImplicitLocOpBuilder &body, Type computeType, Scalar value) {
  return arith::ConstantOp::create(body, scalarAttr(computeType, value));
}

Value Emit::convert(ImplicitLocOpBuilder &body, Value value, Type computeType) {
  Type from = value.getType();
  if (from == computeType)
    return value;
  bool fromFloat = isa<FloatType>(from), toFloat = isa<FloatType>(computeType);
  if (computeType.isInteger(1)) {
    Value zero = scalar(body, from, Scalar::of(int64_t{0}));
    if (fromFloat)
      return arith::CmpFOp::create(body, arith::CmpFPredicate::UNE, value, zero);
    return arith::CmpIOp::create(body, arith::CmpIPredicate::ne, value, zero);
  }
  if (fromFloat && toFloat) {
    if (from.getIntOrFloatBitWidth() < computeType.getIntOrFloatBitWidth())
      return arith::ExtFOp::create(body, computeType, value);
    return arith::TruncFOp::create(body, computeType, value);
  }
  if (fromFloat)
    return arith::FPToSIOp::create(body, computeType, value);
  if (from.isInteger(1))
    return toFloat ? Value(arith::UIToFPOp::create(body, computeType, value))
                   : Value(arith::ExtUIOp::create(body, computeType, value));
  return arith::SIToFPOp::create(body, computeType, value);
}

/// The wider element type of two, where no result type was asked for.
static Type widerElement(Type a, Type b) {
  if (isa<FloatType>(a) != isa<FloatType>(b))
    return isa<FloatType>(a) ? a : b;
  return a.getIntOrFloatBitWidth() >= b.getIntOrFloatBitWidth() ? a : b;
}

/// A binary map: FloatOp on float compute types, IntOp on integers, BoolOp on i1.
template <typename FloatOp, typename IntOp, typename BoolOp>
static Value arithmetic(Emit &emit, Value x, Value y, Type element) {
  if (!element)
    element = widerElement(Emit::elementOf(x), Emit::elementOf(y));
  Type compute = dit::computeType(element);
  return emit.map({x, y}, element, [compute](ImplicitLocOpBuilder &body, ValueRange args) -> Value {
    Value lhs = Emit::convert(body, args[0], compute), rhs = Emit::convert(body, args[1], compute);
    if (isa<FloatType>(compute))
      return FloatOp::create(body, lhs, rhs);
    if (compute.isInteger(1))
      return BoolOp::create(body, lhs, rhs);
    return IntOp::create(body, lhs, rhs);
  });
}

Value Emit::add(Value x, Value y, Type element) {
  return arithmetic<arith::AddFOp, arith::AddIOp, arith::OrIOp>(*this, x, y, element);
}
Value Emit::sub(Value x, Value y, Type element) {
  return arithmetic<arith::SubFOp, arith::SubIOp, arith::XOrIOp>(*this, x, y, element);
}
Value Emit::mul(Value x, Value y, Type element) {
  return arithmetic<arith::MulFOp, arith::MulIOp, arith::AndIOp>(*this, x, y, element);
}
Value Emit::div(Value x, Value y, Type element) {
  return arithmetic<arith::DivFOp, arith::DivSIOp, arith::AndIOp>(*this, x, y, element);
}

Value Emit::mul(Value value, double factor) {
  return map(value, elementOf(value), [factor](ImplicitLocOpBuilder &body, ValueRange args) -> Value {
    Type compute = args[0].getType();
    if (!isa<FloatType>(compute))
      return arith::MulIOp::create(body, args[0], scalar(body, compute, Scalar::of(factor)));
    return arith::MulFOp::create(body, args[0], scalar(body, compute, Scalar::of(factor)));
  });
}

//===-- Contractions and reductions ---------------------------------------------------------------===//

Value Emit::matmul(Value lhs, Value rhs, Value bias, bool transposeRhs) {
  // Batch dimensions align at the right; only a matrix may stay without them.
  auto addLeading = [&](Value value, int64_t rank) {
    SmallVector<int64_t> shape(rank - rankOf(value), 1);
    llvm::append_range(shape, shapeOf(value));
    return view(value, shape);
  };
  if (rankOf(lhs) < rankOf(rhs))
    lhs = addLeading(lhs, rankOf(rhs));
  if (rankOf(rhs) != 2 && rankOf(rhs) < rankOf(lhs))
    rhs = addLeading(rhs, rankOf(lhs));
  ArrayRef<int64_t> a = shapeOf(lhs), c = shapeOf(rhs);
  SmallVector<int64_t> shape(a);
  shape.back() = transposeRhs ? c[c.size() - 2] : c.back();
  if (a.size() == c.size())
    for (size_t i = 0; i + 2 < a.size(); ++i)
      shape[i] = a[i] == 1 ? c[i] : a[i];
  return dit::MatmulOp::create(b, RankedTensorType::get(shape, elementOf(lhs)), lhs, rhs, bias, transposeRhs);
}

Value Emit::reduce(dit::ReduceKind kind, Value value, ArrayRef<int64_t> axes, bool keepDims, Type element) {
  int64_t rank = rankOf(value);
  SmallVector<int64_t> wanted;
  for (int64_t axis : axes)
    wanted.push_back(normaliseDim(axis, rank));
  if (axes.empty())
    wanted = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  llvm::sort(wanted);
  if (rank == 0)
    wanted.clear(); // torch allows dim 0 and -1 of a scalar
  if (kind == dit::ReduceKind::Any || kind == dit::ReduceKind::All)
    value = cast(value, b.getI1Type());
  else if (dit::computeType(elementOf(value)) != dit::computeType(element))
    value = cast(value, element);
  SmallVector<int64_t> kept(shapeOf(value)), dropped;
  for (int64_t i = 0; i < rank; ++i) {
    if (llvm::is_contained(wanted, i))
      kept[i] = 1;
    else
      dropped.push_back(kept[i]);
  }
  bool logical = kind == dit::ReduceKind::Any || kind == dit::ReduceKind::All;
  Type reduced = logical ? b.getI1Type() : element;
  Value result = dit::ReduceOp::create(b, RankedTensorType::get(kept, reduced), value, kind, wanted);
  return cast(keepDims ? result : view(result, dropped), element);
}

Value Emit::softmax(Value value, int64_t dim, Type element) {
  if (rankOf(value) == 0)
    return view(softmax(view(value, {1}), 0, element), {});
  Type compute = dit::computeType(element);
  if (dit::computeType(elementOf(value)) != compute)
    value = cast(value, element);
  Value largest = reduce(dit::ReduceKind::Max, value, {dim}, /*keepDims=*/true, elementOf(value));
  Value powers = map({value, largest}, compute, [](ImplicitLocOpBuilder &body, ValueRange args) -> Value {
    return math::ExpOp::create(body, arith::SubFOp::create(body, args[0], args[1]));
  });
  Value sum = reduce(dit::ReduceKind::Sum, powers, {dim}, /*keepDims=*/true, compute);
  return div(powers, sum, element);
}

//===-- Indexed access ----------------------------------------------------------------------------===//

Value Emit::wrapIndices(Value indices, int64_t size) {
  return map(indices, elementOf(indices), [size](ImplicitLocOpBuilder &body, ValueRange args) -> Value {
    Value zero = scalar(body, args[0].getType(), Scalar::of(int64_t{0}));
    Value isNegative = arith::CmpIOp::create(body, arith::CmpIPredicate::slt, args[0], zero);
    Value wrapped = arith::AddIOp::create(body, args[0], scalar(body, args[0].getType(), Scalar::of(size)));
    return arith::SelectOp::create(body, isNegative, wrapped, args[0]);
  });
}

Value Emit::gather(Value table, Value indices, int64_t axis) {
  axis = normaliseDim(axis, rankOf(table));
  SmallVector<int64_t> shape(shapeOf(table).take_front(axis));
  llvm::append_range(shape, shapeOf(indices));
  llvm::append_range(shape, shapeOf(table).drop_front(axis + 1));
  return dit::GatherOp::create(b, RankedTensorType::get(shape, elementOf(table)), table, indices, axis);
}

Value Emit::gather(Value table, ArrayRef<int64_t> positions, int64_t axis) {
  axis = normaliseDim(axis, rankOf(table));
  // An ascending arithmetic progression is a slice, which costs nothing.
  int64_t count = positions.size();
  int64_t step = count > 1 ? positions[1] - positions[0] : 1;
  bool regular = count > 0 && step > 0;
  for (int64_t i = 1; i < count && regular; ++i)
    regular = positions[i] - positions[i - 1] == step;
  if (regular)
    return slice(table, axis, positions[0], positions[count - 1] + 1, step);
  return gather(table, integers({count}, positions), axis);
}

Value Emit::scatter(Value base, Value indices, Value updates, bool add) {
  return dit::ScatterOp::create(b, base.getType(), base, indices, updates, add);
}

int64_t normaliseDim(int64_t dim, int64_t rank) {
  int64_t range = std::max<int64_t>(rank, 1); // a scalar has dims 0 and -1 for torch
  if (dim < -range || dim >= range)
    fail("dimension {} is outside a tensor of rank {}", dim, rank);
  return dim < 0 ? dim + range : dim;
}

} // namespace ditc
