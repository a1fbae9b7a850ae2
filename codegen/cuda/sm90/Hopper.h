// SPDX-License-Identifier: Apache-2.0
//
// Kernels for sm_90a over the warp-specialised templates (wgmma, tensor memory copies).
#pragma once

#include "codegen/cuda/CudaKernel.h"
#include "dialects/dit/Dit.h"
#include "dialects/fusion/Reason.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

namespace ditc {

/// Of an H100 SXM or H200: what the choice of tiles fills. Code is right on GPUs with fewer.
inline constexpr int kHopperMultiprocessors = 132;
/// Shared memory that a block may have.
inline constexpr int kHopperSharedBytes = 232448;
/// Bytes that the copy engine aligns to.
inline constexpr int64_t kCopied = 16;
/// A stride in bytes for a tensor map, one that is allowed where the dimension has one element only.
inline uint64_t anyStride(int64_t stride, int64_t size) { return size == 1 ? std::max<int64_t>(llvm::alignTo(stride, kCopied), kCopied) : stride; }
/// What a tensor map of a product's operand copies.
inline DType dtypeOf(mlir::MemRefType type) { return type.getElementType().isBF16() ? DType::bf16 : type.getElementType().isF16() ? DType::f16 : DType::f8e4m3; }

/// Tokens of a tile of attention_quantize.cuh.
inline constexpr int kQuantizedTile = 128;

/// Can this attention be read by tensor copies? 16-bit types, head sizes in multiples of 8 up to 256, rows that start on
/// 16 bytes; no mask, a causal one, an additive one, or a boolean one, which is packed before (then it accepts the kernel).
Verdict hopperAttentionVerdict(plan::KernelOp kernel);
bool acceptsHopperAttention(plan::KernelOp kernel);
mlir::FailureOr<CudaUnit> emitHopperAttention(plan::KernelOp kernel);
/// A boolean mask becomes bits and verdicts.
mlir::FailureOr<CudaUnit> emitMaskPack(plan::KernelOp kernel);
/// An additive mask that all queries share gets verdicts.
mlir::FailureOr<CudaUnit> emitMaskJudge(plan::KernelOp kernel);
/// Operands of a quantised attention: what is to be known of all keys, and the 8-bit numbers.
mlir::FailureOr<CudaUnit> emitAttentionSurvey(plan::KernelOp kernel);
mlir::FailureOr<CudaUnit> emitAttentionQuantize(plan::KernelOp kernel);

} // namespace ditc
