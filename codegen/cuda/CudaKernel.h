// SPDX-License-Identifier: Apache-2.0
//
// What an emitter of the CUDA target makes of one plan.kernel: a translation unit over the templates of
// codegen/templates/cuda, and how it is launched.
#pragma once

#include "dialects/plan/Plan.h"
#include "runtime/cuda/KernelFile.h"

#include <string>
#include <vector>

namespace ditc {

/// A GPU architecture to compile for.
struct CudaArch {
  std::string name;      ///< "sm_90a", "compute_80"
  int number = 90;       ///< 80, 86, 89, 90, 100, 120
  bool hasWgmma() const { return name == "sm_90a"; }
  /// sm_100a does so by tcgen05, which no template uses yet; mma.sync widens the numbers there and gains nothing.
  bool multipliesFp8() const { return number >= 89 && number != 100; }
  bool isPortable() const { return name.starts_with("compute_"); }
};

/// What the unit of a rowwise kernel asks of the compiler, in these words.
struct LaunchBounds {
  int threads = 0;
  int blocks = 1; ///< that a multiprocessor should hold
  std::string text() const { return "__launch_bounds__(" + std::to_string(threads) + ", " + std::to_string(blocks) + ")"; }
};

/// The unit defines `extern "C" __global__ void <name of the kernel>(parameters...)`. Argument i of the kernel is what
/// parameters refer to as `arg` i: its address is that of element 0 (offsets of memrefs are applied by the launch).
struct CudaUnit {
  std::string text;                ///< readable C++, formatted; includes templates by their path under templates/cuda
  cuda::LaunchShape launch;
  LaunchBounds bounds; ///< of a rowwise kernel, an estimate: one that spills is compiled with fewer blocks
  std::vector<cuda::KernelParameter> parameters;

  /// Appends a parameter that is the address of argument `arg`.
  void addPointer(uint32_t arg);
  /// Appends a parameter of plain bytes.
  template <typename T> void addValue(const T &value) {
    const auto *bytes = reinterpret_cast<const uint8_t *>(&value);
    parameters.push_back({{bytes, bytes + sizeof(T)}, {}});
  }
};

/// Should a launch start while the one before it ends (programmatic dependent launch)? `flop` on the tensor cores and `bytes`
/// moved, at the rates of an H200. What takes some microseconds gains the latency of a launch (DiT-XL/2 at 256²: 5 %); next to
/// long kernels, blocks that only wait for their turn cost more than that (FLUX.1: 2 %).
bool gainsByOverlap(double flop, double bytes);

/// Bytes of all arguments of a kernel, each once.
double argumentBytes(plan::KernelOp kernel);

/// What a memref's element type is called in device code: float, double, ditc::BF16, ditc::F16, ditc::E4M3, long long, int,
/// short, signed char, unsigned char, bool.
std::string cudaTypeName(mlir::Type type);

/// Emits one kernel; errors are diagnostics at the kernel's location.
using CudaEmitter = mlir::FailureOr<CudaUnit> (*)(plan::KernelOp kernel, const CudaArch &arch);

/// The emitter of a family; null when the target has none.
CudaEmitter cudaEmitterOf(mlir::StringRef family);

} // namespace ditc
