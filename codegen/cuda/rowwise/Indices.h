// SPDX-License-Identifier: Apache-2.0
//
// Index arithmetic of rowwise kernels, as far as it can be done at compile time. An index is a linear form over
// variables of the generated code (row, thread, chunk, ...), whose ranges are known, plus one constant for each lane
// (element) of a chunk. Quotients and remainders by constants simplify by ranges and common factors; where they do not,
// they become variables of their own, and q * d + r is recognised when it comes together again.
#pragma once

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/DenseMap.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ditc::rowwise {

using Variable = unsigned;

/// Variables with factors, in order of the variables, and a constant for each lane: one for all, or one each.
struct Linear {
  mlir::SmallVector<std::pair<Variable, int64_t>, 4> terms;
  mlir::SmallVector<int64_t, 8> lanes = {0};

  bool isConstant() const { return terms.empty() && lanes.size() == 1; }
  bool isUniform() const { return lanes.size() == 1; }
  int64_t lane(size_t e) const { return lanes.size() == 1 ? lanes.front() : lanes[e]; }
  int64_t factorOf(Variable variable) const;
  bool operator==(const Linear &) const = default;
  bool operator<(const Linear &other) const;
};

using Index = mlir::SmallVector<Linear, 6>;

Linear constant(int64_t value);
Linear operator+(const Linear &a, const Linear &b);
Linear operator-(const Linear &a, const Linear &b);
Linear operator*(const Linear &a, int64_t factor);

struct Range {
  int64_t low, high; ///< both inclusive
};

/// A condition that is the same in all lanes: `form` < 0, or known.
struct Sign {
  std::optional<bool> known;
  Linear form; ///< uniform, without common factors
};

/// The variables of one kernel part, and arithmetic that needs to know about them.
class Indices {
public:
  struct Info {
    std::string name;
    Range range;
    bool perRow = false;            ///< the same for all threads that share a row
    std::optional<Linear> dividend; ///< of a quotient or remainder
    int64_t divisor = 0;
    Variable partner = 0;
    bool isQuotient = false;
    Index sources; ///< of a value read from memory: where it was read
  };

  Variable addVariable(std::string name, Range range, bool perRow);
  void dependsOn(Variable variable, const Index &sources) { variables[variable].sources = sources; }
  /// The numbers from 0 to count - 1 as an index; 0 when there is one only.
  Linear counter(std::string name, int64_t count, bool perRow);

  const Info &info(Variable variable) const { return variables[variable]; }
  Range rangeOf(Variable variable) const;
  Range rangeOf(const Linear &index, size_t lane) const;
  Range rangeOf(const Linear &index) const;

  /// Restricts a variable; gives back the restriction that was there, for undoing it.
  std::optional<Range> restrict(Variable variable, std::optional<Range> range);
  std::optional<Range> restrictionOf(Variable variable) const;

  struct Division {
    Linear quotient, remainder;
  };
  /// Floor division; nothing when the lanes part ways at run time.
  std::optional<Division> divide(const Linear &index, int64_t divisor);

  /// Is index < bound? Nothing when the lanes part ways at run time.
  std::optional<Sign> isBelow(const Linear &index, int64_t bound) const;

  /// Replaces q * d + r by what was divided.
  Linear rejoin(Linear index) const;

  /// Variables in `index`, and those they were made of.
  void collect(const Linear &index, std::vector<bool> &used) const;
  bool isPerRow(const Linear &index) const;

  /// Forgets restrictions of variables that differ between the threads of a row, and gives them back.
  std::vector<std::pair<Variable, Range>> dropThreadRestrictions();

private:
  std::pair<Variable, Variable> quotientOf(const Linear &dividend, int64_t divisor);
  /// Divides what has no known multiple of the divisor left; `rest` has a range that crosses multiples.
  std::optional<Division> divideRest(const Linear &rest, int64_t divisor);
  std::optional<Division> divideCoarse(const Linear &rest, int64_t divisor);

  std::vector<Info> variables;
  llvm::DenseMap<Variable, Range> restrictions;
  std::map<std::pair<Linear, int64_t>, std::pair<Variable, Variable>> divisions;
};

int64_t floorDivide(int64_t a, int64_t b);

} // namespace ditc::rowwise
