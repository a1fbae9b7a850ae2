// SPDX-License-Identifier: Apache-2.0
//
// Rows of element-wise ops. A row says which function of its operands an op is; this says in which type it
// computes, and which operands torch rounds before it computes.
#pragma once

#include "compiler/import/Num.h"
#include "compiler/import/OpContext.h"

#include <concepts>
#include <functional>
#include <string_view>
#include <vector>

namespace ditc {

/// An operand of an element-wise op: a tensor, or a number of the graph.
struct Operand {
  Value tensor; ///< null for a number
  Scalar number;
  Type compute; ///< the type that the body sees it in, where that is not the op's

  Operand(Value tensor, Type compute = {}) : tensor(tensor), compute(compute) {}
  Operand(Scalar number) : number(number) {}
};

/// The argument, which is a tensor or a Scalar; nothing when it is absent or None.
std::optional<Operand> optionalOperand(OpContext &op, std::string_view name);
Operand operandOf(OpContext &op, std::string_view name);

/// A tensor that only says "true" or "false".
Operand conditionOf(OpContext &op, std::string_view name);

/// torch's result type of operands: the widest among tensors with dimensions; 0-dim tensors, and then
/// numbers, count only where they are of a higher category (bool < integer < float).
Type promotedType(Emit &emit, ArrayRef<Operand> operands);

/// The operand as torch casts it to a common type of 16 bits before it computes; for wider types the
/// conversion to the compute type does the same.
Operand roundedTo(Emit &emit, Operand operand, Type element);

using NumBody = std::function<Num(ArrayRef<Num>)>;

/// A map over the tensors among `operands`; the body sees all of them, in the type `compute`.
Value elementwise(Emit &emit, ArrayRef<Operand> operands, Type compute, Type element, const NumBody &body);

/// How numbers, and 0-dim tensors beside larger ones, enter an op on 16-bit floats.
enum class Numbers {
  Exact,   ///< unrounded (torch's kernels for + - * / keep them in the type they compute in)
  Rounded, ///< cast to the type of the tensors first
};

using Targets = std::initializer_list<std::string_view>;

/// The rows of a file. Functions take Num operands, with the OpContext before them where the op has
/// further arguments. Computation is in the compute type of the recorded result.
class ElementwiseRows {
public:
  /// f(self)
  template <typename F> void unary(Targets targets, F f) { addUnary(targets, withContext<Num>(f)); }
  /// A question about self, in self's own compute type.
  void test(Targets targets, std::function<Num(Num)> f);
  /// f(self, other), either of them a tensor or a number
  template <typename F> void binary(Targets targets, Numbers numbers, F f) { addBinary(targets, numbers, withContext<Num, Num>(f)); }
  /// A question about self and other, in their common type.
  void compare(Targets targets, std::function<Num(Num, Num)> f);
  /// Anything else.
  void row(Targets targets, OpImport import, Aliasing aliasing = Aliasing::Fresh);

  std::vector<OpRow> take() { return std::move(rows); }

private:
  template <typename... Nums, typename F> static std::function<Num(OpContext &, Nums...)> withContext(F f) {
    if constexpr (std::invocable<F, OpContext &, Nums...>)
      return f;
    else
      return [f](OpContext &, Nums... nums) { return f(nums...); };
  }

  void addUnary(Targets targets, std::function<Num(OpContext &, Num)> f);
  void addBinary(Targets targets, Numbers numbers, std::function<Num(OpContext &, Num, Num)> f);

  std::vector<OpRow> rows;
};

// The element-wise part of the ATen table, file by file; atenPointwise() joins them.
void addUnaryRows(ElementwiseRows &rows);
void addActivationRows(ElementwiseRows &rows);
void addBinaryRows(ElementwiseRows &rows);
void addComparisonRows(ElementwiseRows &rows);
void addTernaryRows(ElementwiseRows &rows); ///< where, clamp, masked_fill, lerp, addcmul

} // namespace ditc
