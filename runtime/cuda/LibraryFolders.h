// SPDX-License-Identifier: Apache-2.0
//
// Where CUDA's libraries lie beside the loader's search path: in a toolkit, or where pip puts NVIDIA's wheels.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace ditc::cuda {

/// Files to try with dlopen, in order: `names` in the loader's search path, in the toolkit's folders, and in the
/// folders `wheels` (such as "nvidia/cu13/lib") of the Python installations that the environment names.
std::vector<std::string> libraryFiles(std::span<const char *const> names, std::span<const char *const> wheels);

} // namespace ditc::cuda
