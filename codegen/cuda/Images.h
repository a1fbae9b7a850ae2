// SPDX-License-Identifier: Apache-2.0
//
// Units to images: NVRTC in as many threads as there are cores, with a cache of what was compiled before.
#pragma once

#include "codegen/cuda/CudaTarget.h"

namespace ditc {

/// One unit on its way to an image.
struct ImageJob {
  CudaKernel kernel; ///< with its source; gets the image and what it takes
  std::string key;   ///< in the cache
  std::vector<std::pair<std::string, std::string>> headers;
};

/// "13.0"; empty where there is no NVRTC: then images can only come from the cache.
std::string nvrtcVersion();
/// CUDA version that the driver must support, 1000 · major + 10 · minor, for what NVRTC makes here.
int lowestDriverOf(const CudaArch &arch);

/// `banner` comes before the unit in the source that people read, and is no part of the key.
ImageJob makeImageJob(CudaKernel kernel, const std::string &banner, const std::string &unit, const CudaArch &arch);

/// Runs all jobs; the first failure is thrown when all threads have ended.
void compileImages(std::vector<ImageJob> &jobs, const CudaArch &arch, const CudaOptions &options);

} // namespace ditc
