// SPDX-License-Identifier: Apache-2.0
//
// One kernel launch made from what the package says: the grid on this GPU, and the bytes of the parameters with the
// addresses of this run.
#pragma once

#include "runtime/cuda/Driver.h"
#include "runtime/cuda/KernelFile.h"

#include <array>
#include <span>
#include <vector>

namespace ditc::cuda {

/// grid.x on a GPU with this many multiprocessors; see LaunchShape::blocksPerSm.
uint32_t gridX(const LaunchShape &shape, uint32_t multiprocessors);

/// Parameter bytes of a kernel with places for addresses. The bytes of each parameter keep their place in memory.
class Parameters {
public:
  Parameters(const std::vector<KernelParameter> &parameters);
  /// Writes the addresses of the launch's arguments, encoding tensor maps. Throws Error when the driver refuses one.
  void patch(std::span<char *const> args, const DriverFunctions &driver);
  /// For cuLaunchKernelEx.
  void **pointers() { return table.data(); }
  std::span<const uint8_t> bytesOf(size_t parameter) const { return {at(parameter), list[parameter].bytes.size()}; }

private:
  uint8_t *at(size_t parameter) const { return reinterpret_cast<uint8_t *>(table[parameter]); }

  /// Tensor maps want 64-byte alignment, so parameters lie in such units.
  using Unit = TensorMap;
  const std::vector<KernelParameter> &list;
  std::vector<Unit> storage;
  std::vector<void *> table;
};

/// A launch that is ready to go.
class ReadyLaunch {
public:
  ReadyLaunch(const KernelImage &kernel, Function function, uint32_t gridX);
  ReadyLaunch(const ReadyLaunch &) = delete;
  ReadyLaunch &operator=(const ReadyLaunch &) = delete;

  void patch(std::span<char *const> args, const DriverFunctions &driver) { parameters.patch(args, driver); }
  /// `overlap`: it may start while the work before it ends, if its kernel can.
  Result launch(Stream stream, bool overlap, const Driver &driver);

private:
  Function function;
  Parameters parameters;
  LaunchConfig config = {};
  std::array<LaunchAttribute, 2> attributes = {}; ///< the one for overlapping last
  bool canOverlap;
};

/// Throws Error (Input) when a patch of the kernel points outside of an argument; `room[i]` is the number of bytes from
/// argument i's address to the end of its buffer, `before[i]` from the buffer's start to the address.
void checkPatches(const KernelImage &kernel, std::span<const uint64_t> before, std::span<const uint64_t> room,
                  std::string_view where);

} // namespace ditc::cuda
