// SPDX-License-Identifier: Apache-2.0
//
// The kernels of one CUDA architecture in a package: `<arch>/kernels.json` as structs. The compiler fills them, the
// runtime reads them back and checks them before use. A kernel's shapes are compiled in; what changes from launch to
// launch are addresses only, so its parameters are bytes with places where addresses and tensor maps go.
#pragma once

#include "runtime/DType.h"
#include "runtime/cuda/DriverTypes.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ditc::cuda {

/// The address of the launch's argument `arg`, plus `add` bytes: 8 bytes.
struct PointerPatch {
  uint32_t arg = 0;
  int64_t add = 0;
};

/// How the copy engine sees argument `arg`, from `add` bytes after its start: 128 bytes, at a multiple of 64. The
/// innermost dimension comes first; its stride is one element.
struct TensorMapPatch {
  uint32_t arg = 0;
  int64_t add = 0;
  DType dtype = DType::bf16;
  std::vector<uint64_t> sizes;   ///< elements, 1 to 5 dimensions
  std::vector<uint64_t> strides; ///< bytes, multiples of 16, of dimensions 1...
  std::vector<uint32_t> box;     ///< elements copied at once, by dimension
  TensorMapSwizzle swizzle = TensorMapSwizzle::None;
};

/// Something of the launch that goes into a parameter at `offset` bytes.
struct ParameterPatch {
  uint32_t offset = 0;
  std::variant<PointerPatch, TensorMapPatch> value;
};

/// One parameter of the kernel function, as it lies in memory.
struct KernelParameter {
  std::vector<uint8_t> bytes;
  std::vector<ParameterPatch> patches;
};

/// How a kernel is launched.
struct LaunchShape {
  std::array<uint32_t, 3> grid = {1, 1, 1};
  uint32_t threads = 1;       ///< of a block; blocks are one-dimensional
  uint32_t sharedBytes = 0;   ///< dynamic shared memory
  uint32_t cluster = 1;       ///< blocks of a cluster, in x
  uint32_t blocksPerSm = 0;   ///< a persistent kernel: grid.x is at most this many blocks per multiprocessor, in whole
                              ///< clusters; 0: the grid as it is
  bool overlapsPrevious = false; ///< may start while the kernel before it ends (it waits by itself for its inputs)
};

struct KernelImage {
  std::string name;   ///< the plan's name of the kernel, and the entry's name in the image
  std::string image;  ///< package member: a cubin, or PTX for a portable target
  LaunchShape launch;
  std::vector<KernelParameter> parameters;
  uint32_t args = 0;  ///< arguments of a launch in the plan
};

struct KernelFile {
  std::string arch;      ///< "sm_90a", or "compute_80" for PTX
  int lowestDriver = 0;  ///< CUDA version that the driver must support, 1000 · major + 10 · minor
  std::vector<KernelImage> kernels;

  /// Null when there is none.
  const KernelImage *find(std::string_view name) const;
};

/// Equal files give equal text.
std::string writeKernelFile(const KernelFile &file);

/// Parses and checks every index, offset and size. Throws Error (Input).
KernelFile parseKernelFile(std::string_view text, std::string_view source);

} // namespace ditc::cuda
