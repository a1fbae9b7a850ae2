// SPDX-License-Identifier: Apache-2.0
//
// Whether a bucket may run for fewer rows than it was compiled for. Inputs are padded along the dimensions that a
// symbol sizes, outputs are cropped; that is right when no element that remains depends on what the padding holds.
// The proof walks the imported program once, beside another import of it with the symbol changed: what differs between
// the two shows which dimensions the symbol sizes, and that its value is used for nothing else. Each operation must
// keep rows apart, or take padding only where it is known to change nothing: keys whose mask says so, sums of zeros.
//
// Rows that are no mask are filled with copies of the last real row, so whatever is computed row by row from them is
// as finite as it is there. A mask is filled with a value that is followed through the program (1 - m, times -10000,
// equal to 0, widened, converted) to the attention that reads it.
#pragma once

#include "runtime/Manifest.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ditc {

/// A symbol in two imports of one program.
struct SymbolSizes {
  std::string symbol;
  int64_t size = 0, other = 0;
};

/// What the user says of a symbol.
struct PaddingClaim {
  std::optional<std::string> mask = {}; ///< the input that masks its rows; none: rows are independent, as in a batch
};

/// Of one symbol.
struct PaddingProof {
  std::optional<PaddingRule> rule = {};
  std::string reason = {}; ///< node and cause when there is no rule
  bool hasNothingSmaller = false; ///< the bucket has the symbol at 1: nothing is padded to it, whatever holds elsewhere
  bool isClaimed = false;
};

/// `inputDims` are the dimensions that are nothing but the symbol, by input. Without a claim every way to fill the
/// inputs is tried, and masks must hide padding even from a row whose own keys are all masked: lower than what the model
/// adds for those; with a claim (every row has a key) a mask of -10000 will do, as in models that add that.
PaddingProof provePadding(mlir::ModuleOp bucket, mlir::ModuleOp other, const SymbolSizes &symbol,
                          const std::map<std::string, std::vector<unsigned>> &inputDims, const std::optional<PaddingClaim> &claim);

} // namespace ditc
