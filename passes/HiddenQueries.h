// SPDX-License-Identifier: Apache-2.0
//
// Queries that see nothing. Attention gives exactly 0 for them, so that a mask need not say which they are: its result may.
#pragma once

#include "dialects/dit/Dit.h"

#include "mlir/IR/PatternMatch.h"

namespace ditc {

/// A mask of all queries by all keys that is one of keys and one of queries becomes the mask of keys, and zeros in the rows of
/// hidden queries of the result; false where the mask is none, or is smaller than what the zeros are put into.
bool splitMask(dit::AttentionOp op, mlir::RewriterBase &rewriter);

} // namespace ditc
