// SPDX-License-Identifier: Apache-2.0
//
// Small builders of `dit` IR that the ATen table is written with. Every function emits at the builder's
// position and location; shapes are inferred, element types are asked for where they matter.
#pragma once

#include "dialects/dit/Dit.h"
#include "runtime/DType.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <functional>
#include <optional>

namespace ditc {

using mlir::ArrayRef;
using mlir::RankedTensorType;
using mlir::Type;
using mlir::Value;
using mlir::ValueRange;

/// A number of the graph: what a Scalar argument, a SymInt or a Python literal holds.
struct Scalar {
  enum class Kind { Int, Float, Bool } kind = Kind::Int;
  int64_t integer = 0; ///< also 0/1 for Bool
  double number = 0;   ///< the value as a double whatever the kind

  static Scalar of(int64_t value) { return {Kind::Int, value, static_cast<double>(value)}; }
  static Scalar of(double value) {
    bool fits = value >= -0x1p63 && value < 0x1p63; // infinities and NaN have no integer
    return {Kind::Float, fits ? static_cast<int64_t>(value) : 0, value};
  }
  static Scalar of(bool value) { return {Kind::Bool, value, value ? 1.0 : 0.0}; }
};

/// Emits `dit` operations. Cheap to copy; holds only the builder.
class Emit {
public:
  explicit Emit(mlir::ImplicitLocOpBuilder &builder) : b(builder) {}

  /// Scalar body of a map: gets a builder and one scalar per operand, returns the scalar result.
  using Body = std::function<Value(mlir::ImplicitLocOpBuilder &, ValueRange)>;

  static RankedTensorType typeOf(Value value) { return mlir::cast<RankedTensorType>(value.getType()); }
  static ArrayRef<int64_t> shapeOf(Value value) { return typeOf(value).getShape(); }
  static Type elementOf(Value value) { return typeOf(value).getElementType(); }
  static int64_t rankOf(Value value) { return typeOf(value).getRank(); }
  /// MLIR's element type of a stored type; complex types give their real part's type.
  Type elementType(DType dtype);

  // Constants.
  Value constant(mlir::ElementsAttr value);
  /// A splat of `value`.
  Value full(ArrayRef<int64_t> shape, Type element, Scalar value);
  /// A rank-0 splat of a type that loses nothing: i64, f64 or i1.
  Value number(Scalar value);
  /// A dense tensor of int64 (also used for index tables), row-major.
  Value integers(ArrayRef<int64_t> shape, ArrayRef<int64_t> values);
  /// A dense float tensor of element type f64, row-major.
  Value doubles(ArrayRef<int64_t> shape, ArrayRef<double> values);

  // Element-wise. `map` broadcasts operands by torch's rules (ranks are aligned at the right with views);
  // what the body returns is converted to the result's compute type.
  Value map(ValueRange operands, Type resultElement, const Body &body);
  /// Casts as torch's `.to(dtype)`: float -> int truncates, anything -> bool is != 0. No op when equal.
  Value cast(Value value, Type element);
  /// A scalar constant of the given compute type, inside a map body.
  static Value scalar(mlir::ImplicitLocOpBuilder &body, Type computeType, Scalar value);
  /// Converts a scalar between compute types inside a map body (torch's cast rules).
  static Value convert(mlir::ImplicitLocOpBuilder &body, Value value, Type computeType);
  Value add(Value a, Value b, Type element = {});
  Value sub(Value a, Value b, Type element = {});
  Value mul(Value a, Value b, Type element = {});
  Value div(Value a, Value b, Type element = {});
  Value mul(Value a, double factor);

  // Views. Negative dims are allowed where torch allows them.
  Value view(Value value, ArrayRef<int64_t> shape);
  Value permute(Value value, ArrayRef<int64_t> permutation);
  Value transpose(Value value, int64_t dim0, int64_t dim1);
  Value unsqueeze(Value value, int64_t dim);
  Value squeeze(Value value, int64_t dim);
  /// Elements start, start+step, ... below end along `dim`; start and end are clamped as torch does.
  Value slice(Value value, int64_t dim, int64_t start, int64_t end, int64_t step = 1);
  Value select(Value value, int64_t dim, int64_t index);
  Value concat(ValueRange values, int64_t dim);
  Value pad(Value value, ArrayRef<int64_t> low, ArrayRef<int64_t> high, Scalar fill);
  /// Broadcast to `shape` (leading dimensions are added).
  Value expand(Value value, ArrayRef<int64_t> shape);

  // Contractions and reductions.
  Value matmul(Value lhs, Value rhs, Value bias = {}, bool transposeRhs = false);
  /// Reduces over `axes` (negative allowed; empty = all) into `element`; axes vanish unless `keepDims`.
  Value reduce(dit::ReduceKind kind, Value value, ArrayRef<int64_t> axes, bool keepDims, Type element);
  Value softmax(Value value, int64_t dim, Type element);

  // Indexed access.
  /// Adds the size to negative indices.
  Value wrapIndices(Value indices, int64_t size);
  Value gather(Value table, Value indices, int64_t axis);
  /// Gather with a compile-time table of positions along `axis`.
  Value gather(Value table, ArrayRef<int64_t> positions, int64_t axis);
  /// base (flattened on `axis`-first order as dit.scatter wants it).
  Value scatter(Value base, Value indices, Value updates, bool add);

  mlir::ImplicitLocOpBuilder &builder() { return b; }

private:
  mlir::ImplicitLocOpBuilder &b;
};

/// `dim` counted from the front; throws Error when it is outside [-rank, rank). A scalar counts as rank 1.
int64_t normaliseDim(int64_t dim, int64_t rank);

/// A tensor attribute from row-major little-endian bytes (one byte per bool): a splat where all elements
/// are equal, a resource blob from 1 KiB on.
mlir::ElementsAttr elementsOf(RankedTensorType type, ArrayRef<char> bytes);

} // namespace ditc
