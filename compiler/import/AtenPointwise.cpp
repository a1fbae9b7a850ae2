// SPDX-License-Identifier: Apache-2.0
//
// The element-wise part of the ATen table: the rows of the files beside this one. Casts and fills are in
// AtenCasts.cpp and AtenFactories.cpp.
#include "compiler/import/Elementwise.h"

namespace ditc {

std::vector<OpRow> atenPointwise() {
  ElementwiseRows rows;
  addUnaryRows(rows);
  addActivationRows(rows);
  addBinaryRows(rows);
  addComparisonRows(rows);
  addTernaryRows(rows);
  return rows.take();
}

} // namespace ditc
