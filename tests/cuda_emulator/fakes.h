// SPDX-License-Identifier: Apache-2.0
//
// Points ditc at the fake libraries, before it looks for the real ones.
#pragma once

#include <cstdlib>

namespace fakes {

/// To be called before anything of CUDA is used. Needs the compile definitions of the CMake target `ditc_cuda_fakes`.
inline void use() {
  setenv("DITC_NVRTC", DITC_FAKE_NVRTC, 1);
  setenv("DITC_CUDA_DRIVER", DITC_FAKE_CUDA, 1);
  setenv("DITC_CUBLASLT", DITC_FAKE_CUBLASLT, 1);
}

} // namespace fakes
