// SPDX-License-Identifier: Apache-2.0
//
// The rules of the padding proof, one for each kind of operation: from the padding of the operands that of the result.
// What a rule does not allow it refuses, by the node's name; sizes of the result are checked by the walk that asks.
#pragma once

#include "compiler/padding/PaddedShape.h"
#include "compiler/padding/PaddingProof.h"
#include "dialects/dit/Dit.h"
#include "dialects/dit/Tensors.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ditc {

/// Why padding is not harmless. Thrown by rules and the walk, caught where a way to fill the inputs is tried.
struct Refusal {
  std::string text;
  bool isNear = false; ///< the fill hides padding, but not from every row: says more than why other fills do not
};

[[noreturn]] void refuse(mlir::Operation &op, std::string_view why);

/// What is known of the values of one import. Values are kept by their opaque pointer, in a map whose references stay.
class KnownPadding {
public:
  PaddedShape &operator[](mlir::Value value) { return shapes[value.getAsOpaquePointer()]; }
  const PaddedShape &at(mlir::Value value) const { return shapes.at(value.getAsOpaquePointer()); }
  const PaddedDims &dims(mlir::Value value) const { return at(value).dims; }
  bool any(mlir::Value value) const { return llvm::any_of(dims(value), isPadded); }

private:
  std::map<void *, PaddedShape> shapes;
};

/// How masks hide keys that are padding.
struct MaskedKeys {
  double highest;            ///< what they may hold there at most
  std::vector<double> added; ///< what they add to the scores of padding, attention by attention
};

//===-- Operations that compute: ComputingRules.cpp -------------------------------------------------------===//

PaddedShape paddingOf(dit::MapOp op, const KnownPadding &known);
PaddedShape paddingOf(dit::MatmulOp op, const KnownPadding &known);
PaddedShape paddingOf(dit::AttentionOp op, const KnownPadding &known, MaskedKeys &masks);
PaddedShape paddingOf(dit::ConvOp op, const KnownPadding &known);
PaddedShape paddingOf(dit::NormOp op, const KnownPadding &known);
PaddedShape paddingOf(dit::ReduceOp op, const KnownPadding &known);
/// Operations along one axis that keep the shape but for it. Running sums see padding behind them only, so it may lie
/// along their axis.
PaddedShape paddingAlongAxis(mlir::Operation &op, int64_t axis, bool mayBePadded, const KnownPadding &known);

//===-- Constants, and operations that move elements: MovingRules.cpp -------------------------------------===//

/// Tables that grow with the symbol must only get longer.
PaddedShape paddingOf(dit::ConstantOp op, dit::ConstantOp other, const SymbolSizes &symbol);
PaddedShape paddingOf(dit::GatherOp op, const KnownPadding &known);
PaddedShape paddingOf(dit::ScatterOp op, const KnownPadding &known);
PaddedShape paddingOf(dit::ViewOp op, const KnownPadding &known);
PaddedShape paddingOf(dit::PermuteOp op, const KnownPadding &known);
PaddedShape paddingOf(dit::SliceOp op, dit::SliceOp other, const KnownPadding &known, const SymbolSizes &symbol);
PaddedShape paddingOf(dit::ConcatOp op, const KnownPadding &known);
PaddedShape paddingOf(dit::PadOp op, const KnownPadding &known);
PaddedShape paddingOf(dit::ExpandOp op, mlir::Operation &other, const KnownPadding &known, const SymbolSizes &symbol);

} // namespace ditc
