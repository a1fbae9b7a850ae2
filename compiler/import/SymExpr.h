// SPDX-License-Identifier: Apache-2.0
//
// Symbolic sizes of an exported program: sympy srepr text -> tree -> value under a binding.
// Grammar and semantics: docs/pt2-format.md, section "Symbols".
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ditc {

/// A number that an expression evaluates to.
using SymValue = std::variant<int64_t, double, bool>;

/// Symbol name -> value, e.g. {"s47": 2}.
using SymBindings = std::map<std::string, SymValue>;

struct SymExpr;
using SymExprPtr = std::shared_ptr<const SymExpr>;

/// One node of an expression. Leaves: "Symbol" (text = name), "Integer", "Float", "Rational" (args are
/// two Integers), "true"/"false". Inner nodes: function name and arguments.
struct SymExpr {
  std::string function;
  std::string text;      ///< symbol name
  SymValue value = int64_t{0}; ///< of Integer, Float
  std::vector<SymExprPtr> args;
};

/// Parses srepr text. Throws Error (Input) on text outside the grammar, or nested deeper than 200.
SymExprPtr parseSymExpr(std::string_view text);

/// Value of `expr` under `bindings`. Throws Error (Input) naming an unbound symbol, an unknown function,
/// a division by zero or an int64 overflow.
SymValue evaluate(const SymExpr &expr, const SymBindings &bindings);

/// The same, and the value must be an integer (a double with an integral value is not one).
int64_t evaluateInt(const SymExpr &expr, const SymBindings &bindings);

/// Adds the names of all symbols in `expr`.
void collectSymbols(const SymExpr &expr, std::set<std::string> &symbols);

/// Infix text for people: "(s0//2)*4".
std::string toString(const SymExpr &expr);

} // namespace ditc
