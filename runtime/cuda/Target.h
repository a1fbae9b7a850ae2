// SPDX-License-Identifier: Apache-2.0
//
// Which of a package's targets runs on a GPU: rules of CUDA's compatibility, without CUDA.
#pragma once

#include "runtime/Manifest.h"

#include <string>
#include <string_view>

namespace ditc::cuda {

/// What a GPU is, as far as code for it goes.
struct ComputeCapability {
  int major = 0, minor = 0;
  /// "9.0"
  std::string text() const;
};

/// Targets that ditc compiles for; "ptx" and "ptx89" are portable code from 8.0 and 8.9 on.
inline constexpr std::string_view kTargets[] = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a", "ptx", "ptx89"};

/// Of these the one to compile for to run on the GPU; empty for a GPU that none serves.
std::string_view targetFor(ComputeCapability gpu);

/// What a target's kernels are for: "compute_80" of "ptx", "compute_89" of "ptx89", others are called what they are.
std::string architectureOf(std::string_view target);

/// True for "ptx", "ptx89" and "compute_80": text that the driver compiles.
bool isPortable(std::string_view target);

/// The package's best target for the GPU: code made for exactly this GPU (sm_90a, then sm_90), code of an older GPU
/// of the same generation (sm_86 on 8.9), or, when `allowJit`, portable code of the same or an older one. Throws Error
/// (Input): none of these; the message lists what the package has.
const ManifestTarget &chooseTarget(const Manifest &manifest, std::string_view path, ComputeCapability gpu, bool allowJit);

} // namespace ditc::cuda
