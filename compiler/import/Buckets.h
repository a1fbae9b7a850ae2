// SPDX-License-Identifier: Apache-2.0
//
// Buckets: which numbers the symbolic sizes of an export take. Parses `NAME:SYM=VAL,INPUT.DIM=VAL,...`,
// solves for the symbols, checks ranges, divisibility and guards, and says in words what does not hold.
#pragma once

#include "compiler/import/ExportedProgram.h"

#include <string>
#include <vector>

namespace ditc {

struct Bucket {
  std::string name;
  SymBindings symbols;
  /// Inequalities of the export that do not hold ("(x.2 // 2) != 8"): PyTorch would trace again there, and
  /// a model with a branch on that size would go the other way. Mostly traces of the exporter's own tests.
  std::vector<std::string> broken = {};
};

/// Parses `specs` against `program`. A program without symbols, or an empty list, gives one bucket
/// "default" with the export's hints. Throws Error (Usage/Input): malformed text, unknown symbol or input,
/// values outside the range, not divisible, contradicting, breaking an equation or a bound of the export,
/// symbols left without a value, equal names.
std::vector<Bucket> resolveBuckets(const ExportedProgram &program, const std::vector<std::string> &specs);

/// "s0 in 2..16; hidden_states.1 = 2*s85" : what a user may bind, one line per symbol.
std::vector<std::string> describeSymbols(const ExportedProgram &program);

} // namespace ditc
