// SPDX-License-Identifier: Apache-2.0
//
// Gemm kernels over gemm_mma.cuh, for every architecture.
#pragma once

#include "codegen/cuda/gemm/MmaTiles.h"

namespace ditc {

mlir::FailureOr<CudaUnit> emitMmaGemm(plan::KernelOp kernel, const CudaArch &arch);

/// With given tiles, of which a warp has whole chunks of the epilogue and weights whole tiles.
mlir::FailureOr<CudaUnit> emitMmaGemm(plan::KernelOp kernel, const MmaTiles &tiles);
mlir::FailureOr<CudaUnit> emitMmaGemm(plan::KernelOp kernel, const GemmKernel &gemm, const MmaTiles &tiles);

} // namespace ditc
