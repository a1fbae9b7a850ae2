// SPDX-License-Identifier: Apache-2.0
//
// What a model does to some rows of a value, in the same way to each: read as sums over a row's elements, and made again for more
// rows. Its tables (values for each row from elsewhere) get rows then.
#pragma once

#include "passes/LinearForms.h"

#include "llvm/ADT/SetVector.h"

namespace ditc {

using ElementIndex = mlir::SmallVector<int64_t, 6>;

/// The index of element `place` of a tensor in row-major order.
ElementIndex indexOf(int64_t place, mlir::ArrayRef<int64_t> shape);

/// Some rows of a value: a range along a dimension.
struct Rows {
  mlir::Value whole;
  int64_t axis, begin, count;

  /// Whether `value` is a slice with these rows and any columns, the rows being its dimension `dim`.
  bool isCut(mlir::Value value, int64_t dim) const;
};

/// The rows that a value is made of by views alone, its dimension `axis`.
std::optional<Rows> rowsBehindViews(mlir::Value value, int64_t axis);

/// A table that got more rows, and where its own are.
struct GrownTable {
  mlir::Value table;
  Rows rows;
};

/// What is computed of rows up to one value, by operations that do the same in each row.
class RowFunction {
public:
  using Dims = llvm::SetVector<std::pair<mlir::Value, int64_t>>;

  RowFunction(Rows rows, mlir::Value result, int64_t axis);

  /// False when the value is not made of the rows, or reads them in another order as well.
  explicit operator bool() const { return isOfRows; }

  /// The dimension of the whole along which dimension `axis` of the result runs, where the same is done at each of its places; the
  /// dimensions of values on the way go to `dims`. Nothing where elements of different places meet.
  std::optional<int64_t> sourceOf(int64_t axis, Dims &dims) const;
  std::optional<int64_t> sourceOf(int64_t axis) const {
    Dims dims;
    return sourceOf(axis, dims);
  }

  /// Of dimensions from `sourceOf`, `at` is asked for place 0 alone.
  void setParallel(const Dims &dims) { parallel.insert(dims.begin(), dims.end()); }

  /// The element of the result as a sum over elements of a row of the whole.
  std::optional<LinearForm> at(mlir::ArrayRef<int64_t> index) const {
    size_t looked = 0;
    return at(result, ElementIndex(index), looked);
  }

  /// True when nothing else reads what is computed on the way.
  bool isOnlyFor(mlir::Operation *reader) const;

  /// True when every table is one that may get more rows, and means the same wherever it is read.
  bool allTables(llvm::function_ref<bool(mlir::Value table, mlir::Value combined)> mayGrow) const;

  /// The same function of all `count` rows from `begin` on. Tables get the rows that they lack, of `values`, and are added to `grown`.
  mlir::Value ofAllRows(mlir::OpBuilder &b, int64_t begin, int64_t count, const TableValues &values, mlir::SmallVectorImpl<GrownTable> &grown) const;

private:
  std::optional<int64_t> axisOf(mlir::Value value) const { return axes.lookup(value); }
  bool isCut(mlir::Value value) const { return axisOf(value) && rows.isCut(value, *axisOf(value)); }
  bool follow(mlir::Value value, int64_t axis);
  bool keepsRows() const;
  bool hasSameDims(mlir::Value a, mlir::Value b) const;
  bool isTableOf(mlir::Operation *op, mlir::Value operand) const;

  // `looked`: values that have been looked at for this element. Those that are read twice are looked at twice, and again behind them.
  std::optional<LinearForm> at(mlir::Value value, ElementIndex index, size_t &looked) const;
  std::optional<LinearForm> atConcat(dit::ConcatOp concat, ElementIndex index, size_t &looked) const;
  std::optional<LinearForm> atMap(dit::MapOp map, mlir::ArrayRef<int64_t> index, size_t &looked) const;

  GrownTable withAllRows(mlir::Value table, mlir::Value combined, int64_t begin, int64_t count, const TableValues &values) const;
  mlir::DenseElementsAttr oneRow(mlir::Value table, mlir::Value combined, const TableValues &values) const;

  Rows rows;
  mlir::Value result;
  bool isOfRows = false;
  llvm::MapVector<mlir::Value, std::optional<int64_t>> axes; ///< the dimension of rows, of values that are made of them
  llvm::DenseSet<std::pair<mlir::Value, int64_t>> parallel;   ///< dimensions along which elements do not meet
};

} // namespace ditc
