// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/fusion/TargetKernels.h"

#include "mlir/Pass/Pass.h"

#include <memory>

namespace ditc {

/// See PlanConvolutions.cpp.
std::unique_ptr<mlir::Pass> createPlanConvolutions(std::shared_ptr<const TargetKernels> kernels);

} // namespace ditc
