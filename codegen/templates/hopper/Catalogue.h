// SPDX-License-Identifier: Apache-2.0
//
// What the kernel templates for Hopper (sm_90a) take as one launch. The fusers ask these descriptors; each
// answers with a reason when it says no.
#pragma once

#include "dialects/fusion/KernelTemplate.h"

namespace ditc {

/// gemm, attention, gemv, conv, rowwise, layout.
Catalogue hopperCatalogue();

std::unique_ptr<const KernelTemplate> makeGemmTemplate();
std::unique_ptr<const KernelTemplate> makeGemvTemplate();
std::unique_ptr<const KernelTemplate> makeConvTemplate();
std::unique_ptr<const KernelTemplate> makeAttentionTemplate();
std::unique_ptr<const KernelTemplate> makeRowwiseTemplate();
std::unique_ptr<const KernelTemplate> makeLayoutTemplate();

} // namespace ditc
