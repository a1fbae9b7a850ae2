// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/rowwise/Indices.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace mlir;

namespace ditc::rowwise {

int64_t floorDivide(int64_t a, int64_t b) { return a / b - (a % b < 0); }

//===-- Linear forms --------------------------------------------------------------------------------===//

int64_t Linear::factorOf(Variable variable) const {
  for (auto [term, factor] : terms)
    if (term == variable)
      return factor;
  return 0;
}

bool Linear::operator<(const Linear &other) const {
  if (terms != other.terms)
    return std::lexicographical_compare(terms.begin(), terms.end(), other.terms.begin(), other.terms.end());
  return std::lexicographical_compare(lanes.begin(), lanes.end(), other.lanes.begin(), other.lanes.end());
}

Linear constant(int64_t value) {
  Linear index;
  index.lanes = {value};
  return index;
}

/// Equal constants in all lanes are one constant.
static void mergeLanes(Linear &index) {
  if (llvm::all_equal(index.lanes))
    index.lanes.resize(1);
}

static Linear combine(const Linear &a, const Linear &b, int64_t factor) {
  Linear sum;
  const auto *i = a.terms.begin(), *j = b.terms.begin();
  while (i != a.terms.end() || j != b.terms.end()) {
    if (j == b.terms.end() || (i != a.terms.end() && i->first < j->first)) {
      sum.terms.push_back(*i++);
    } else if (i == a.terms.end() || j->first < i->first) {
      sum.terms.emplace_back(j->first, j->second * factor);
      ++j;
    } else {
      if (int64_t total = i->second + j->second * factor)
        sum.terms.emplace_back(i->first, total);
      ++i, ++j;
    }
  }
  sum.lanes.resize(std::max(a.lanes.size(), b.lanes.size()));
  for (size_t e = 0; e < sum.lanes.size(); ++e)
    sum.lanes[e] = a.lane(e) + b.lane(e) * factor;
  mergeLanes(sum);
  return sum;
}

Linear operator+(const Linear &a, const Linear &b) { return combine(a, b, 1); }
Linear operator-(const Linear &a, const Linear &b) { return combine(a, b, -1); }

Linear operator*(const Linear &a, int64_t factor) {
  Linear product;
  if (factor == 0)
    return product;
  product = a;
  for (auto &[variable, of] : product.terms)
    of *= factor;
  for (int64_t &lane : product.lanes)
    lane *= factor;
  return product;
}

//===-- Variables and ranges ------------------------------------------------------------------------===//

Variable Indices::addVariable(std::string name, Range range, bool perRow) {
  variables.push_back({std::move(name), range, perRow, {}, 0, 0, false, {}});
  return variables.size() - 1;
}

Linear Indices::counter(std::string name, int64_t count, bool perRow) {
  Linear index;
  if (count > 1)
    index.terms.emplace_back(addVariable(std::move(name), {0, count - 1}, perRow), 1);
  return index;
}

std::optional<Range> Indices::restrictionOf(Variable variable) const {
  auto found = restrictions.find(variable);
  return found == restrictions.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Range> Indices::restrict(Variable variable, std::optional<Range> range) {
  std::optional<Range> before = restrictionOf(variable);
  if (range)
    restrictions[variable] = *range;
  else
    restrictions.erase(variable);
  return before;
}

/// Quotients and remainders follow the restrictions of what they are made of.
Range Indices::rangeOf(Variable variable) const {
  const Info &info = variables[variable];
  Range range = info.range;
  if (info.dividend) {
    Range of = rangeOf(*info.dividend);
    int64_t low = floorDivide(of.low, info.divisor), high = floorDivide(of.high, info.divisor);
    if (info.isQuotient)
      range = {low, high};
    else if (low == high)
      range = {of.low - low * info.divisor, of.high - low * info.divisor};
  }
  if (std::optional<Range> restriction = restrictionOf(variable))
    range = {std::max(range.low, restriction->low), std::min(range.high, restriction->high)};
  if (range.high < range.low) // a branch that is never taken
    range.high = range.low;
  return range;
}

Range Indices::rangeOf(const Linear &index, size_t lane) const {
  Range range = {index.lane(lane), index.lane(lane)};
  for (auto [variable, factor] : index.terms) {
    Range of = rangeOf(variable);
    range.low += factor * (factor > 0 ? of.low : of.high);
    range.high += factor * (factor > 0 ? of.high : of.low);
  }
  return range;
}

Range Indices::rangeOf(const Linear &index) const {
  Range all = rangeOf(index, 0);
  for (size_t e = 1; e < index.lanes.size(); ++e) {
    Range of = rangeOf(index, e);
    all = {std::min(all.low, of.low), std::max(all.high, of.high)};
  }
  return all;
}

void Indices::collect(const Linear &index, std::vector<bool> &used) const {
  used.resize(variables.size());
  for (auto [variable, factor] : index.terms) {
    if (used[variable])
      continue;
    used[variable] = true;
    if (variables[variable].dividend)
      collect(*variables[variable].dividend, used);
    for (const Linear &source : variables[variable].sources)
      collect(source, used);
  }
}

std::vector<std::pair<Variable, Range>> Indices::dropThreadRestrictions() {
  std::vector<std::pair<Variable, Range>> dropped;
  for (auto [variable, range] : restrictions)
    if (!variables[variable].perRow)
      dropped.emplace_back(variable, range);
  for (auto [variable, range] : dropped)
    restrictions.erase(variable);
  return dropped;
}

bool Indices::isPerRow(const Linear &index) const {
  return index.isUniform() && llvm::all_of(index.terms, [&](auto term) { return variables[term.first].perRow; });
}

//===-- Division ------------------------------------------------------------------------------------===//

std::pair<Variable, Variable> Indices::quotientOf(const Linear &dividend, int64_t divisor) {
  auto [entry, isNew] = divisions.try_emplace({dividend, divisor});
  if (!isNew)
    return entry->second;
  Variable quotient = variables.size(), remainder = quotient + 1;
  std::string number = std::to_string(quotient);
  bool perRow = isPerRow(dividend);
  variables.push_back({"q" + number, {0, 0}, perRow, dividend, divisor, remainder, true, {}});
  variables.push_back({"m" + number, {0, divisor - 1}, perRow, dividend, divisor, quotient, false, {}});
  return entry->second = {quotient, remainder};
}

/// Greatest common divisor of the factors; 0 when there are none.
static int64_t commonFactor(const Linear &index) {
  int64_t common = 0;
  for (auto [variable, factor] : index.terms)
    common = std::gcd(common, factor);
  return common;
}

/// (g x + f) / (g d) = x / d for f in 0 ... g - 1, with the remainder g (x % d) + f.
std::optional<Indices::Division> Indices::divideCoarse(const Linear &rest, int64_t divisor) {
  for (auto [variable, factor] : rest.terms) {
    if (factor <= 1 || divisor % factor != 0)
      continue;
    Linear coarse, fine;
    for (auto [other, of] : rest.terms)
      (of % factor == 0 ? coarse : fine).terms.emplace_back(other, of);
    fine.lanes = rest.lanes;
    Range range = rangeOf(fine);
    if (fine.terms.empty() || range.low < 0 || range.high >= factor)
      continue;
    std::optional<Division> divided = divideRest(coarse, divisor);
    if (divided)
      divided->remainder = divided->remainder + fine;
    return divided;
  }
  return std::nullopt;
}

std::optional<Indices::Division> Indices::divideRest(const Linear &rest, int64_t divisor) {
  if (std::optional<Division> coarse = divideCoarse(rest, divisor))
    return coarse;
  // (g x + c) / (g d) = (x + c / g) / d, with the remainder g ((x + c / g) % d) + c % g.
  int64_t common = std::gcd(commonFactor(rest), divisor);
  Linear dividend, low;
  for (auto [variable, factor] : rest.terms)
    dividend.terms.emplace_back(variable, factor / common);
  dividend.lanes.resize(rest.lanes.size());
  low.lanes.resize(rest.lanes.size());
  for (auto [e, lane] : llvm::enumerate(rest.lanes)) {
    dividend.lanes[e] = floorDivide(lane, common);
    low.lanes[e] = lane - dividend.lanes[e] * common;
  }
  mergeLanes(dividend);
  mergeLanes(low);
  if (!dividend.isUniform())
    return std::nullopt;
  // Whole multiples of the divisor in the constant do not belong into the code.
  int64_t whole = floorDivide(dividend.lanes[0], divisor / common);
  if (rangeOf(dividend).low - whole * (divisor / common) < 0)
    whole = 0;
  dividend.lanes[0] -= whole * (divisor / common);
  auto [quotient, remainder] = quotientOf(dividend, divisor / common);
  Linear q, r;
  q.terms.emplace_back(quotient, 1);
  r.terms.emplace_back(remainder, common);
  return Division{q + constant(whole), r + low};
}

/// The terms that are multiples of `divisor`, divided, and the others.
static std::pair<Linear, Linear> splitMultiples(const Linear &index, int64_t divisor) {
  Linear multiple, rest;
  for (auto [variable, factor] : index.terms) {
    if (factor % divisor == 0)
      multiple.terms.emplace_back(variable, factor / divisor);
    else
      rest.terms.emplace_back(variable, factor);
  }
  rest.lanes = index.lanes;
  return {multiple, rest};
}

std::optional<Indices::Division> Indices::divide(const Linear &index, int64_t divisor) {
  if (divisor == 1)
    return Division{index, Linear()};
  auto [multiple, rest] = splitMultiples(index, divisor);
  bool known = true;
  Linear known_quotient;
  known_quotient.lanes.resize(index.lanes.size());
  for (size_t e = 0; e < index.lanes.size(); ++e) {
    Range range = rangeOf(rest, e);
    known_quotient.lanes[e] = floorDivide(range.low, divisor);
    known &= known_quotient.lanes[e] == floorDivide(range.high, divisor);
  }
  if (known) {
    mergeLanes(known_quotient);
    return Division{multiple + known_quotient, rest - known_quotient * divisor};
  }
  std::optional<Division> divided = divideRest(rejoin(rest), divisor);
  if (divided)
    divided->quotient = multiple + divided->quotient;
  return divided;
}

//===-- Conditions ----------------------------------------------------------------------------------===//

/// index - bound < 0, divided by a factor under whose multiples the other terms do not matter.
std::optional<Sign> Indices::isBelow(const Linear &index, int64_t bound) const {
  Range range = rangeOf(index);
  if (range.high < bound)
    return Sign{true, {}};
  if (range.low >= bound)
    return Sign{false, {}};
  SmallVector<int64_t> factors;
  for (auto [variable, factor] : index.terms)
    factors.push_back(std::abs(factor));
  llvm::sort(factors, std::greater<>());
  factors.push_back(std::max<int64_t>(commonFactor(index), 1));
  for (int64_t divisor : factors) {
    auto [form, rest] = splitMultiples(index, divisor);
    std::optional<int64_t> quotient;
    bool same = true;
    for (size_t e = 0; e < index.lanes.size(); ++e) {
      Range of = rangeOf(rest, e);
      int64_t low = floorDivide(of.low - bound, divisor), high = floorDivide(of.high - bound, divisor);
      same &= low == high && quotient.value_or(low) == low;
      quotient = low;
    }
    if (same) {
      form.lanes = {*quotient};
      return Sign{std::nullopt, form};
    }
  }
  return std::nullopt;
}

Linear Indices::rejoin(Linear index) const {
  for (size_t i = 0; i < index.terms.size(); ++i) {
    auto [variable, factor] = index.terms[i];
    const Info &info = variables[variable];
    if (!info.dividend || info.isQuotient || index.factorOf(info.partner) != factor * info.divisor)
      continue;
    Linear both;
    both.terms.emplace_back(std::min(variable, info.partner), 0);
    both.terms.emplace_back(std::max(variable, info.partner), 0);
    for (auto &[term, of] : both.terms)
      of = index.factorOf(term);
    index = index - both + *info.dividend * factor;
    i = static_cast<size_t>(-1);
  }
  return index;
}

} // namespace ditc::rowwise
