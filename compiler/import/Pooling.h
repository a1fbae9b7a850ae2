// SPDX-License-Identifier: Apache-2.0
//
// Pooling rows, and how arguments per spatial dimension are read.
#pragma once

#include "compiler/import/OpContext.h"

#include <string_view>
#include <vector>

namespace ditc {

/// A list argument with one number per spatial dimension; one number stands for all of them.
std::vector<int64_t> perDimension(const OpContext &op, std::string_view name, int64_t otherwise, int64_t spatial);

/// Rows of AtenPooling.cpp.
std::vector<OpRow> poolingRows();

} // namespace ditc
