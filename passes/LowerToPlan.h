// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/fusion/TargetKernels.h"

#include "mlir/Pass/Pass.h"

#include <memory>

namespace ditc {

/// For a device: a launch whose kernel does not take its arguments as they lie gets dense ones. See LowerToPlan.cpp.
std::unique_ptr<mlir::Pass> createLowerToPlan(bool keepRoundings, std::shared_ptr<const TargetKernels> kernels);

} // namespace ditc
