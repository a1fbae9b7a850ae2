// SPDX-License-Identifier: Apache-2.0
//
// Emitters of single operations that are not rowwise. Configurations are those of passes/KernelTable.cpp: the attributes
// of the dit operation, with flags for optional operands.
#pragma once

#include "codegen/cuda/CudaKernel.h"
#include "dialects/dit/Dit.h"
#include "dialects/fusion/Reason.h"

namespace ditc {

struct MmaAttentionTile; // AttentionTiles.h

/// Any head sizes, masks and strides; tensor cores by mma.sync for 16-bit types.
mlir::FailureOr<CudaUnit> emitAttention(plan::KernelOp kernel, const CudaArch &arch);
/// The same with a tile for tensor cores, which null leaves to the sizes.
mlir::FailureOr<CudaUnit> emitTiledAttention(plan::KernelOp kernel, const CudaArch &arch, const MmaAttentionTile *tile);
/// Does it compute this one on tensor cores?
Verdict mmaAttentionVerdict(plan::KernelOp kernel);
/// Products of at most 16 rows with any number of weights, with maps on their inputs and on ranges of their columns.
Verdict acceptsGemv(dit::FusionOp fusion);
mlir::FailureOr<CudaUnit> emitGemv(plan::KernelOp kernel, const CudaArch &arch);
/// By scalar arithmetic, whatever the types and strides; tensor cores: codegen/cuda/conv/MmaConv.h; depthwise ones: Depthwise.h.
mlir::FailureOr<CudaUnit> emitConv(plan::KernelOp kernel, const CudaArch &arch);
/// Products that no BLAS takes: integers, odd strides.
mlir::FailureOr<CudaUnit> emitMatmul(plan::KernelOp kernel, const CudaArch &arch);
/// Linear attention: what it keeps of keys and values, and what that says to queries.
mlir::FailureOr<CudaUnit> emitLinearState(plan::KernelOp kernel, const CudaArch &arch);
mlir::FailureOr<CudaUnit> emitLinearApply(plan::KernelOp kernel, const CudaArch &arch);
mlir::FailureOr<CudaUnit> emitArgReduce(plan::KernelOp kernel, const CudaArch &arch);
mlir::FailureOr<CudaUnit> emitScan(plan::KernelOp kernel, const CudaArch &arch);
mlir::FailureOr<CudaUnit> emitSort(plan::KernelOp kernel, const CudaArch &arch);
mlir::FailureOr<CudaUnit> emitScatter(plan::KernelOp kernel, const CudaArch &arch);

} // namespace ditc
