// SPDX-License-Identifier: Apache-2.0
//
// The tuning bundle of a compilation: all candidates for each of its gemm kernels, compiled. See runtime/tuning/Bundle.h.
#pragma once

#include "codegen/cuda/CudaTarget.h"

#include <map>

namespace ditc {

/// What goes into a bundle.
struct BundleContent {
  size_t candidates = 16;   ///< of a kernel, at most
  bool missingOnly = false; ///< no kernels with tiles that `options.tuning` has
};

struct BundleSummary {
  size_t kernels = 0, candidates = 0, images = 0;
  size_t measuredBefore = 0;      ///< kernels that are left out for it
  std::vector<std::string> notes; ///< candidates that were left out
};

/// `launches`: how often plans launch each kernel of `module`, by name. Kernels that a database could not tell
/// apart are one. Throws Error (Input) when no kernel is left, or the file cannot be written.
mlir::FailureOr<BundleSummary> writeTuningBundle(mlir::ModuleOp module, const std::map<std::string, uint32_t> &launches, const CudaArch &arch, const CudaOptions &options,
                                                 const BundleContent &content, const std::string &producer, const std::string &path);

} // namespace ditc
