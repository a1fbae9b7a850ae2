// SPDX-License-Identifier: Apache-2.0
//
// Gemm kernels and the tuning database: what a kernel is looked up by, its tiles as named numbers, and which tiles are
// worth measuring. Both templates, so that what chooses and what measures need not know them apart.
#pragma once

#include "codegen/cuda/CudaTarget.h"
#include "codegen/cuda/gemm/GemmKernel.h"
#include "runtime/tuning/Database.h"

namespace ditc {

class GemmTuning {
public:
  /// Reads the kernel for the architecture; errors are diagnostics at its location.
  static mlir::FailureOr<std::unique_ptr<GemmTuning>> read(plan::KernelOp kernel, const CudaArch &arch);

  tuning::Key key() const;
  /// What the analytic model takes.
  tuning::Tiles modelTiles() const;
  /// What it expects of them; nothing of GPUs that it does not know.
  std::optional<ProductTime> modelTime() const;
  /// The model's tiles, then others by what the model expects of them: `most` in all.
  std::vector<tuning::Tiles> candidates(size_t most) const;
  /// Why the kernel cannot have these tiles: a database may come from anywhere. Empty when it can.
  std::string misfit(const tuning::Tiles &tiles) const;
  /// The kernel with tiles that fit.
  mlir::FailureOr<CudaUnit> emit(const tuning::Tiles &tiles) const;

  const GemmKernel &gemm() const { return kernel; }

private:
  GemmTuning(plan::KernelOp op, const CudaArch &arch) : op(op), arch(arch) {}

  plan::KernelOp op;
  CudaArch arch;
  GemmKernel kernel;
};

/// "bias, tanh, residual": what the epilogue does, in words that stay the same while its code changes.
std::string epilogueClass(const GemmKernel &gemm);

} // namespace ditc
