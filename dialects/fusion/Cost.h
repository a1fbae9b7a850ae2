// SPDX-License-Identifier: Apache-2.0
//
// The cost model: bytes and floating-point operations of `dit` operations and fusions, and the roofline time
// on a GPU. Pure functions of the IR.
#pragma once

#include "dialects/dit/Dit.h"

#include <span>
#include <string_view>

namespace ditc {

/// What one launch moves and computes. A value that several operations of a fusion read counts once, and a
/// value inside the fusion does not count.
struct Work {
  double bytesRead = 0, bytesWritten = 0;
  double matrixFlops = 0; ///< of products, attention and convolutions of numbers of 16 or 8 bits: 2 per multiply-add
  double scalarFlops = 0; ///< of those of wider ones too, as matrix units round them; of maps, norms and reductions: 1 per scalar operation
  double fp8Flops = 0;    ///< of matrixFlops, those on 8-bit numbers, which run at twice the rate

  double bytes() const { return bytesRead + bytesWritten; }
  double flops() const { return matrixFlops + scalarFlops; }
  /// FLOP per byte.
  double intensity() const { return bytes() > 0 ? flops() / bytes() : 0; }
  Work &operator+=(const Work &other);
};

/// What a plan.launch carries of it: bytes, matrixFlops, scalarFlops, and fp8Flops where there are any.
inline constexpr char kWorkAttr[] = "plan.work";

/// Dense peak rates from the vendors' data sheets.
struct GpuPeaks {
  std::string_view name;
  double matrixFlops; ///< bf16 with fp32 accumulation, FLOP/s
  double scalarFlops; ///< fp32 outside the matrix units, FLOP/s
  double bandwidth;   ///< device memory, bytes/s
};

/// H100, H200, A100, L40S, RTX4090, RTX5090, B200.
std::span<const GpuPeaks> knownGpus();
/// Null when there is none of that name.
const GpuPeaks *findGpu(std::string_view name);

/// Work of one operation on its own, or of a dit.fusion as one launch. Views cost nothing.
Work workOf(mlir::Operation *op);

/// Seconds below which no kernel that does this work can run: the largest of its three floors.
double rooflineSeconds(const Work &work, const GpuPeaks &gpu);
/// What starting one more kernel costs beside its work: drain, launch, fill.
inline constexpr double kLaunchSeconds = 2e-6;

/// May `reader` compute `producer` (whose result it reads) `repeats` times over, instead of loading it? It may when its
/// roofline time, with the producer's arithmetic and inputs in place of the loads, is not above the time of both apart.
/// `others` kernels read the result as well: of them every one has to win its share of the producer's own time.
bool recomputePays(const Work &reader, const Work &producer, double repeats, unsigned others, const GpuPeaks &gpu);

/// Is time saved in every step worth memory that is held all the time? 4 us a megabyte. K and V of a text for two blocks in
/// one launch are where they leave most of the GPU idle alone (77 rows by 2560 columns: 20 us a megabyte) and are not where
/// they fill half of it (600 x 2304: 1.3 us); all of 28 blocks, copied into one weight, would save 0.5 us for each.
bool isWorthHolding(double savedMicroseconds, int64_t bytes);

/// The same of memory that is held within a block, where something else may use it before and behind: 0.4 us a megabyte. The first
/// layer of an MLP of image and text (512 x 12288 of K 3072: some 2 us a megabyte) is one launch; the same layer of two blocks of
/// 32760 tokens each (8960 columns of K 1536: 0.02 us) is two.
bool isWorthHoldingShortly(double savedMicroseconds, int64_t bytes);

/// Seconds that products of one 16-bit input win as products of fp8 numbers: they run at twice the rate and read half the
/// bytes, but the input is read and written once more by a launch of its own. That a kernel which makes the input often quantises
/// it on the way is not counted: what is left then are products that are hardly faster. Below 0 when they lose.
double quantizingSaves(llvm::ArrayRef<dit::MatmulOp> products, const GpuPeaks &gpu);

/// Seconds that attention of 16-bit numbers wins with 8-bit numbers, less those that quantising its operands takes. Below 0 when it
/// loses, as with few keys: a row of queries costs what it saves with some 1100, in self-attention 3300 (heads of 128).
double quantizingSaves(dit::AttentionOp attention, const GpuPeaks &gpu);

/// "memory", "matrix" or "scalar": which floor that is.
std::string_view boundBy(const Work &work, const GpuPeaks &gpu);

} // namespace ditc
