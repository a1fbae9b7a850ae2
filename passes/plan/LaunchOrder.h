// SPDX-License-Identifier: Apache-2.0
//
// An order of a step's launches that needs less memory at once.
#pragma once

#include "dialects/plan/Plan.h"

#include <vector>

namespace ditc {

/// The operations of a step in an order that respects what they read and write. Beginning with the order of the program,
/// launches move away from the peak as long as that lowers it.
std::vector<mlir::Operation *> lowerPeak(mlir::Block &step);

} // namespace ditc
