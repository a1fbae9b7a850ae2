// SPDX-License-Identifier: Apache-2.0
//
// Tiles of the gemm templates as named numbers, and which of them a kernel can have.
#pragma once

#include "codegen/cuda/gemm/MmaTiles.h"
#include "codegen/cuda/sm90/GemmTiles.h"
#include "runtime/tuning/Database.h"

namespace ditc {

tuning::Tiles fieldsOf(const GemmTiles &tiles);
tuning::Tiles fieldsOf(const MmaTiles &tiles);

/// Fields that are missing keep their default; `unknown` receives one that the template has not got.
GemmTiles hopperTilesOf(const tuning::Tiles &fields, std::string &unknown);
MmaTiles mmaTilesOf(const tuning::Tiles &fields, std::string &unknown);

/// Why there is no such kernel, as in the templates' static_asserts; empty when there is.
std::string misfit(const GemmTiles &tiles, mlir::ArrayRef<GemmSize> sizes, const GemmNeeds &needs);
std::string misfit(const MmaTiles &tiles, const CudaArch &arch, int64_t columns, mlir::ArrayRef<int64_t> multiples, bool gated);

} // namespace ditc
