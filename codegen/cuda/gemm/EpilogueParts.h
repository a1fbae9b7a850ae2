// SPDX-License-Identifier: Apache-2.0
//
// What an epilogue does to ranges of columns, as functions of its type. Neighbours that do the same to other operands (the
// queries and keys of one product) are one function, which takes the operands that differ: half the code to compile and to
// keep in the instruction cache, and fewer registers than two inlined copies want.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ditc {

/// One range of columns. In `body`, `in3` names pointer 3, `(… - BEGIN)` the distance from the range's first column, and
/// `… + BEGIN` that from the product's.
struct EpiloguePart {
  int64_t begin = 0, columns = 0;
  std::string body;
};

struct EpilogueFunctions {
  std::string definitions; ///< part0, part1, …
  std::string dispatch;    ///< body of the call operator
};

/// `pointerTypes`: of in0, in1, …, without `const` and `*`. `parameters` and `arguments`: of every part.
EpilogueFunctions writeParts(const std::vector<EpiloguePart> &parts, const std::vector<std::string> &pointerTypes, const std::string &parameters, const std::string &arguments);

} // namespace ditc
