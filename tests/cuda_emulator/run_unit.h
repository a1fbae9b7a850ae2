// SPDX-License-Identifier: Apache-2.0
//
// For unit tests of emitters and device templates: compiles a CUDA unit for the CPU and runs its kernels on ordinary
// memory, without a driver or a package.
//
//   EmulatedUnit unit(text, "codegen/templates/cuda");
//   unit.launch("twice", {4}, {256}, 0, pointer, count);
#pragma once

#include "Engine.h"
#include "runtime/cuda/KernelFile.h"

#include <memory>
#include <string>
#include <vector>

namespace emulator {

class LoadedUnit;

class EmulatedUnit {
public:
  /// `headersFolder`: every .cuh below it can be included by its path from there; empty for none. Throws
  /// std::runtime_error with the compiler's messages.
  explicit EmulatedUnit(const std::string &text, const std::string &headersFolder = "",
                        const std::vector<std::string> &options = {});
  ~EmulatedUnit();
  EmulatedUnit(EmulatedUnit &&) noexcept;

  /// Parameters as for cuLaunchKernel. Throws LaunchError.
  void launchWith(const std::string &name, Index grid, Index block, size_t sharedBytes, void **parameters);

  /// Parameters by value; their types have the sizes that the kernel's have (a size of another kind is refused).
  template <class... Parameters>
  void launch(const std::string &name, Index grid, Index block, size_t sharedBytes, Parameters... parameters) {
    void *addresses[] = {const_cast<void *>(static_cast<const void *>(&parameters))..., nullptr};
    checkSizes(name, {sizeof(Parameters)...});
    launchWith(name, grid, block, sharedBytes, addresses);
  }

  /// As the runtime launches a kernel of a package: `arguments` are the addresses of element 0 of the plan's arguments.
  /// Tensor maps are refused. `multiprocessors` is what a persistent kernel finds.
  void launch(const std::string &name, const ditc::cuda::LaunchShape &shape,
              const std::vector<ditc::cuda::KernelParameter> &parameters, const std::vector<void *> &arguments,
              unsigned multiprocessors = 4);

  /// Threads run from last to first from now on.
  void runInReverse(bool yes = true) { reverse = yes; }

private:
  void checkSizes(const std::string &name, const std::vector<size_t> &sizes) const;

  std::unique_ptr<LoadedUnit> unit;
  bool reverse = false;
};

/// Memory of `bytes` that ends where the process may not read or write, so that an access behind it (by less than a
/// page) is a LaunchError. Aligned to 16 bytes, filled with 0xFF.
class GuardedMemory {
public:
  explicit GuardedMemory(size_t bytes);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory &) = delete;
  GuardedMemory &operator=(const GuardedMemory &) = delete;
  void *data() const { return start; }
  template <class T> T *as() const { return static_cast<T *>(start); }

private:
  void *mapping = nullptr, *start = nullptr;
  size_t mappedBytes = 0;
};

} // namespace emulator
