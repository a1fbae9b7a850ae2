// SPDX-License-Identifier: Apache-2.0
//
// The CUDA target: every kernel of a module becomes one translation unit and, by NVRTC, one image. No GPU is needed.
#pragma once

#include "codegen/cuda/CudaKernel.h"
#include "dialects/fusion/TargetKernels.h"
#include "runtime/tuning/Database.h"

#include "mlir/IR/BuiltinOps.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>

namespace ditc {

/// Of cuda::kTargets.
std::optional<CudaArch> parseCudaArch(std::string_view name);
std::vector<std::string> cudaArchNames();

/// What the target launches as one kernel, for the passes. Where every rounding of the graph is kept, products have no
/// epilogues: theirs would skip the rounding of the product.
std::shared_ptr<const TargetKernels> cudaTargetKernels(const CudaArch &arch, bool keepRoundings = false);

/// Microseconds that the analytic model expects of a product on an H200, and below which no kernel could multiply it.
struct ProductTime {
  double expected = 0, roofline = 0;
  /// Far from the roofline, and by much.
  bool isPoor() const { return expected > 4 * roofline + 50; }
};

/// Tiles of a kernel, and where they come from.
struct ChosenTiles {
  tuning::Key key;      ///< what a database knows the kernel by
  tuning::Tiles tiles;
  std::string gpu = {};  ///< the GPU that they were measured on; empty: the analytic model took them
  std::string note = {}; ///< why an entry of the database was not used
  std::optional<ProductTime> time = {}; ///< of the model's own tiles, where the model knows the GPU
};

/// One compiled kernel, for the report and the package.
struct CudaKernel {
  std::string name, family;
  std::string source;         ///< the unit, as it was compiled
  std::vector<uint8_t> image; ///< a cubin, or PTX
  LaunchBounds bounds = {};   ///< of the source, as in CudaUnit
  int registers = 0, sharedBytes = 0, spillBytes = 0; ///< static shared memory; 0 for PTX, which the driver compiles
  bool serializesProducts = false;                    ///< CudaBinary::serializesProducts
  std::optional<ChosenTiles> tiles = {}; ///< of a gemm
};

struct CudaObject {
  cuda::KernelFile file;
  std::vector<CudaKernel> kernels; ///< by name, like file.kernels
  std::string compiler;            ///< "NVRTC 13.0"; empty when every kernel came from the cache
};

struct CudaOptions {
  std::function<std::optional<std::vector<uint8_t>>(const std::string &key)> load = {}; ///< a cache of images, or nothing
  std::function<void(const std::string &key, std::span<const uint8_t>)> store = {};
  std::function<void(size_t done, size_t total)> progress = {}; ///< called from several threads, one at a time
  const tuning::Database *tuning = nullptr; ///< measured tiles; null: the analytic model's
  std::string tuningGpu = {};               ///< whose entries are used; empty: the latest of any GPU
};

/// Compiles every plan.kernel of `module`. Errors of emitters are diagnostics at the kernel's location. Throws Error
/// (Input) when NVRTC is needed and cannot be found.
mlir::FailureOr<CudaObject> emitCuda(mlir::ModuleOp module, const CudaArch &arch, const CudaOptions &options = {});

} // namespace ditc
