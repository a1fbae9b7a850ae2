// SPDX-License-Identifier: Apache-2.0
//
// x[mask] has as many rows as the mask has ones, which nobody knows before the program runs. Where these rows
// are only computed with one by one and written back by the same mask, as in x[mask] *= 0 or
// x[mask] = f(y[mask]), the number does not matter: the importer computes every row and the write selects.
#pragma once

#include "compiler/import/AtenTable.h"

namespace ditc {

/// True for `read`, a node x[mask] of `graph`, when all that becomes of its rows is written by the same mask.
bool isWrittenBack(const Node &read, const Graph &graph, const AtenTable &table);

} // namespace ditc
