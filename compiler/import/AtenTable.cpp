// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/AtenTable.h"

#include "runtime/Error.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <algorithm>

namespace ditc {

static std::vector<OpRow> allRealRows() {
  std::vector<OpRow> rows;
  for (auto part : {atenPointwise, atenViews, atenCasts, atenJoins, atenRearrange, atenFactories, atenIndexing,
                    atenScatter, atenMasks, atenPatches, atenReductions, atenMatmul, atenNorms, atenConv})
    for (OpRow &row : part())
      rows.push_back(std::move(row));
  return rows;
}

AtenTable::AtenTable() : realRows(allRealRows()), complexRows(atenComplex()) {
  for (const OpRow &row : realRows)
    if (!real.emplace(row.target, &row).second)
      failInternal("the ATen table has two rows for {}", row.target);
  for (const OpRow &row : complexRows)
    if (!complex.emplace(row.target, &row).second)
      failInternal("the ATen table has two complex rows for {}", row.target);
}

const OpRow *AtenTable::find(std::string_view target, bool isComplex) const {
  if (isComplex) {
    auto row = complex.find(target);
    if (row != complex.end())
      return row->second;
  }
  auto row = real.find(target);
  if (row == real.end() || (isComplex && !row->second->takesComplex))
    return nullptr;
  return row->second;
}

/// "aten.add_.Tensor" -> "aten.add.Tensor"; empty when the target does not name an in-place op.
static std::string outOfPlace(std::string_view target) {
  // Overloads whose names differ between the two.
  static constexpr std::pair<std::string_view, std::string_view> kRenamed[] = {
      {"aten.transpose_.default", "aten.transpose.int"},
      {"aten.pow_.Scalar", "aten.pow.Tensor_Scalar"},
      {"aten.pow_.Tensor", "aten.pow.Tensor_Tensor"},
      {"aten.floor_divide_.Tensor", "aten.floor_divide.default"},
  };
  for (auto [inPlace, row] : kRenamed)
    if (target == inPlace)
      return std::string(row);
  size_t overload = target.rfind('.');
  if (overload == std::string_view::npos || overload < 2)
    return "";
  std::string_view name = target.substr(0, overload);
  if (name.ends_with("__")) { // aten.__iand__ -> aten.__and__
    size_t dunder = name.find(".__i");
    if (dunder == std::string_view::npos)
      return "";
    return std::string(target.substr(0, dunder + 3)) + std::string(target.substr(dunder + 4));
  }
  if (!name.ends_with("_"))
    return "";
  return std::string(name.substr(0, overload - 1)) + std::string(target.substr(overload));
}

ResolvedTarget AtenTable::resolve(std::string_view target, bool isComplex) const {
  target = shortTarget(target);
  if (const OpRow *row = find(target, isComplex))
    return {row, false};
  return {find(outOfPlace(target), isComplex), true};
}

std::vector<std::string> AtenTable::targets() const {
  std::vector<std::string> result;
  for (const OpRow &row : realRows)
    result.emplace_back(row.target);
  for (const OpRow &row : complexRows)
    result.emplace_back(row.target);
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

std::string_view shortTarget(std::string_view target) {
  constexpr std::string_view kPrefix = "torch.ops.";
  return target.starts_with(kPrefix) ? target.substr(kPrefix.size()) : target;
}

bool isCheck(std::string_view target) {
  target = shortTarget(target);
  return target.starts_with("aten._assert_") || target.starts_with("aten.sym_constrain_range") ||
         target.starts_with("aten._functional_assert") || target.starts_with("aten._functional_sym_constrain_range");
}

bool isItem(std::string_view target) {
  target = shortTarget(target);
  return target == "aten.item.default" || target == "aten._local_scalar_dense.default";
}

bool isSymbolic(const Node &node) {
  if (isItem(node.target) || node.outputs.empty())
    return false;
  using Kind = Argument::Kind;
  return llvm::all_of(node.outputs, [](const Argument &output) {
    return output.kind == Kind::SymInt || output.kind == Kind::SymFloat || output.kind == Kind::SymBool;
  });
}

/// Name and overload without the namespace: "rand.default" -> "rand".
static std::string_view atenName(std::string_view target) {
  target = shortTarget(target);
  if (!target.starts_with("aten."))
    return "";
  target.remove_prefix(5);
  return target.substr(0, target.find('.'));
}

std::string refusalOf(std::string_view target) {
  static constexpr std::string_view kRandom[] = {
      "rand",        "randn",        "randint", "randperm", "rand_like",         "randn_like",     "randint_like",
      "bernoulli",   "bernoulli_",   "normal",  "normal_",  "normal_functional", "uniform",        "uniform_",
      "multinomial", "exponential_", "random_", "poisson"};
  static constexpr std::string_view kShapeFromData[] = {
      "nonzero",    "nonzero_numpy",      "masked_select",          "unique",   "_unique",       "_unique2",
      "unique_dim", "unique_consecutive", "unique_dim_consecutive", "bincount", "nonzero_static"};
  std::string_view name = atenName(target);
  if (llvm::is_contained(kRandom, name))
    return "random numbers are not supported; pass the noise as an input";
  if (llvm::is_contained(kShapeFromData, name))
    return "the size of its result depends on data; write it with a mask, compute it outside the model, or pin the input "
           "that it comes from";
  std::string_view shortName = shortTarget(target);
  if (shortName.starts_with("higher_order."))
    return "this higher-order op is not supported; call what it runs directly";
  if (shortName.starts_with("aten."))
    return "";
  if (target.find("_functorch") != std::string_view::npos)
    return "torch.vmap is in the file step by step; export with program.run_decompositions(), which makes plain ops of it";
  if (shortName.starts_with("#") || shortName == target)
    return "not an ATen op";
  return "custom ops are not supported; rewrite the call with ATen ops before exporting";
}

/// gru, lstm, rnn_tanh, rnn_relu: torch's decompositions write them step by step.
static bool isRecurrent(std::string_view name) { return name == "gru" || name == "lstm" || name == "rnn_tanh" || name == "rnn_relu"; }

static bool isFactorisation(std::string_view name) {
  static constexpr std::string_view kNames[] = {"svd", "qr",  "cholesky", "cholesky_inverse", "cholesky_solve", "inverse",      "pinverse",   "det",
                                                "logdet", "slogdet", "lu_unpack", "lu_solve", "ormqr", "geqrf", "triangular_solve", "matrix_exp", "_lu_with_info", "lstsq"};
  if (name == "linalg_matrix_power") // products, once decomposed
    return false;
  return name.starts_with("linalg_") || name.starts_with("_linalg_") || llvm::is_contained(kNames, name);
}

std::string adviceOn(std::string_view target) {
  std::string_view name = atenName(target);
  if (isRecurrent(name))
    return "recurrent layers are not supported; call ep.run_decompositions() before saving, which writes their steps";
  if (isFactorisation(name))
    return "this ATen op is not supported; pass its result as an input, or make it a buffer where it depends on weights only";
  return "this ATen op is not supported; ep.run_decompositions() before saving may write it with others, else rewrite it or "
         "compute it outside the model";
}

} // namespace ditc
