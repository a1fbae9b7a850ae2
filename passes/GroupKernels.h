// SPDX-License-Identifier: Apache-2.0
//
// GroupKernels takes the target's catalogue, which a textual pipeline cannot name; so it is made here.
#pragma once

#include "dialects/fusion/KernelTemplate.h"
#include "passes/Passes.h"

namespace ditc {

std::unique_ptr<mlir::Pass> createGroupKernels(std::shared_ptr<const Catalogue> catalogue);

} // namespace ditc
