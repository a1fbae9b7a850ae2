// SPDX-License-Identifier: Apache-2.0
//
// Matrix products for the rows of the ATen table: transposes become `transpose_rhs`, results have the type
// that is asked for.
#pragma once

#include "compiler/import/OpContext.h"

#include <string>
#include <vector>

namespace ditc {

/// lhs @ rhs for operands of rank 2 or more, batch dimensions broadcast; `element` is the result's type
/// (the accumulation type, to keep computing with the result). A transposed rhs is read as it lies.
Value product(Emit &emit, Value lhs, Value rhs, Type element, Value bias = {});

/// torch.matmul: vectors too.
Value matmulOf(Emit &emit, Value lhs, Value rhs, Type element);

/// torch.einsum, operands contracted from left to right; intermediate results stay wide.
Value einsumOf(Emit &emit, const std::string &equation, std::vector<Value> operands, Type element);

/// Rows of AtenAttention.cpp.
std::vector<OpRow> attentionRows();

/// Rows of AtenLayers.cpp.
std::vector<OpRow> layerRows();

} // namespace ditc
