// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/gemm/TileIndex.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ditc {

TileIndex TileIndex::plus(const TileIndex &other) const {
  TileIndex sum{constant + other.constant, {}};
  auto a = terms.begin(), b = other.terms.begin();
  while (a != terms.end() || b != other.terms.end()) {
    if (b == other.terms.end() || (a != terms.end() && a->first < b->first))
      sum.terms.push_back(*a++);
    else if (a == terms.end() || b->first < a->first)
      sum.terms.push_back(*b++);
    else {
      sum.terms.emplace_back(a->first, a->second + b->second);
      ++a, ++b;
    }
  }
  llvm::erase_if(sum.terms, [](const auto &term) { return term.second == 0; });
  return sum;
}

TileIndex TileIndex::times(int64_t factor) const {
  if (factor == 0)
    return {};
  TileIndex product{constant * factor, terms};
  for (auto &term : product.terms)
    term.second *= factor;
  return product;
}

TileIndex TileIndex::with(unsigned var, int64_t value) const {
  TileIndex known{constant + coefficient(var) * value, terms};
  llvm::erase_if(known.terms, [var](const auto &term) { return term.first == var; });
  return known;
}

int64_t TileIndex::coefficient(unsigned var) const {
  for (auto [v, coefficient] : terms)
    if (v == var)
      return coefficient;
  return 0;
}

int64_t TileIndex::largest(const TileVars &vars) const {
  int64_t value = constant;
  for (auto [var, coefficient] : terms)
    value += coefficient * (vars[var].size - 1);
  return value;
}

std::optional<std::pair<TileIndex, TileIndex>> divide(const TileIndex &index, int64_t divisor, const TileVars &vars) {
  TileIndex quotient = TileIndex::of(llvm::divideFloorSigned(index.constant, divisor)), rest;
  rest.constant = index.constant - quotient.constant * divisor;
  for (auto [var, coefficient] : index.terms)
    if (coefficient % divisor == 0)
      quotient.terms.emplace_back(var, coefficient / divisor);
    else
      rest.terms.emplace_back(var, coefficient);
  if (rest.largest(vars) >= divisor)
    return std::nullopt;
  return std::pair{quotient, rest};
}

TileIndex linearise(ArrayRef<TileIndex> index, ArrayRef<int64_t> shape) {
  TileIndex number;
  for (auto [i, size] : llvm::zip(index, shape))
    number = number.times(size).plus(i);
  return number;
}

std::optional<SmallVector<TileIndex>> delinearise(TileIndex number, ArrayRef<int64_t> shape, const TileVars &vars) {
  SmallVector<TileIndex> index(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1)
      continue;
    auto parts = divide(number, shape[i], vars);
    if (!parts)
      return std::nullopt;
    number = parts->first;
    index[i] = parts->second;
  }
  return index;
}

} // namespace ditc
