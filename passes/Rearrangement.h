// SPDX-License-Identifier: Apache-2.0
//
// What a chain of reshapes and permutes does as a whole: its source is cut into parts, the parts change places, and
// neighbours are joined. Chains that do the same look the same, whatever way a model writes them.
#pragma once

#include "dialects/dit/Dit.h"

#include <optional>

namespace ditc {

class Rearrangement {
public:
  /// Of `value` from the tensor in front of all reshapes and permutes.
  static std::optional<Rearrangement> of(mlir::Value value) { return of(value, {}); }
  /// From `source`, which is on the way; nothing where a reshape cuts what belongs to no part.
  static std::optional<Rearrangement> of(mlir::Value value, mlir::Value source);

  mlir::Value source() const { return from; }
  /// Do all parts stay in order?
  bool isReshape() const;
  /// Are dimensions of the source put in another order as wholes, if at all?
  bool keepsDimensionsTogether() const;
  /// Is dimension `from` of the source the innermost part of dimension `to` of the result?
  bool isInnermost(size_t from, size_t to) const;
  /// Of a source and a result in which the innermost part of that dimension has one element.
  Rearrangement withoutInnermost(size_t to) const;
  /// Are the last dimensions of both sides the same one?
  bool keepsColumns() const;

  /// Sizes of the parts, in the order of the source.
  mlir::SmallVector<int64_t> partSizes() const;
  /// Parts, by their places in the source, that a dimension of the result has.
  mlir::ArrayRef<size_t> partsOf(size_t dim) const { return to[dim]; }

  /// The same of `value`, which is like the source, or, where that is kept, but for the size of its last dimension.
  mlir::Value apply(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value) const;

private:
  /// A dimension of the source, or a factor of one.
  struct Part {
    size_t dim;
    int64_t size;
  };

  bool reshape(mlir::ArrayRef<int64_t> shape);
  void cut(size_t place, int64_t inner);
  void joinWhatStaysTogether();
  mlir::SmallVector<size_t> order() const;

  mlir::Value from;
  mlir::SmallVector<Part> parts;                   ///< of the source, in its order, without those of one element
  mlir::SmallVector<mlir::SmallVector<size_t>> to; ///< the parts in each dimension of the result
  mlir::SmallVector<int64_t> shape;                ///< of the result
};

/// The value by as few reshapes and permutes as it takes.
mlir::Value inOneStep(mlir::OpBuilder &b, mlir::Value value);

} // namespace ditc
