// SPDX-License-Identifier: Apache-2.0
//
// The few types of the CUDA driver API that ditc uses, declared here so that the project builds where no CUDA toolkit is
// installed. Names say what NVIDIA's header calls them; tests/unit/cuda_driver_test.cpp compares sizes, offsets and
// values with that header on machines that have it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ditc::cuda {

using Result = int;              ///< CUresult
using Device = int;              ///< CUdevice
using Pointer = unsigned long long; ///< CUdeviceptr
using Context = struct OpaqueContext *;
using Module = struct OpaqueModule *;
using Function = struct OpaqueFunction *;
using Stream = struct OpaqueStream *;
using Event = struct OpaqueEvent *;
using Graph = struct OpaqueGraph *;
using GraphExec = struct OpaqueGraphExec *;

constexpr Result kSuccess = 0, kOutOfMemory = 2, kNotReady = 600;

/// CUdevice_attribute
enum class DeviceAttribute : int {
  MultiprocessorCount = 16,
  L2CacheSize = 38,
  ComputeCapabilityMajor = 75,
  ComputeCapabilityMinor = 76,
  MaxSharedMemoryPerBlockOptin = 97,
};

/// CUfunction_attribute
enum class FunctionAttribute : int {
  LocalSizeBytes = 3,
  NumRegs = 4,
  MaxDynamicSharedSizeBytes = 8,
};

/// CUlaunchAttributeID
enum class LaunchAttributeId : int {
  ClusterDimension = 4,
  ProgrammaticStreamSerialization = 6,
};

/// CUlaunchAttribute: the value is a union of 64 bytes, of which ditc uses three shapes.
struct LaunchAttribute {
  LaunchAttributeId id;
  char pad[4];
  union {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } clusterDimension;
    int programmaticStreamSerialization;
  };
};

/// CUlaunchConfig
struct LaunchConfig {
  unsigned gridX, gridY, gridZ;
  unsigned blockX, blockY, blockZ;
  unsigned sharedBytes;
  Stream stream;
  LaunchAttribute *attributes;
  unsigned attributeCount;
};

/// CUtensorMap: how the copy engine sees a tensor. Made on the host, passed to kernels by value.
struct alignas(64) TensorMap {
  uint64_t words[16];
};

/// CUtensorMapDataType
enum class TensorMapType : int { U8 = 0, F16 = 6, F32 = 7, BF16 = 9 };
/// CUtensorMapSwizzle: the span in which 16-byte pieces are permuted.
enum class TensorMapSwizzle : int { None = 0, Bytes32 = 1, Bytes64 = 2, Bytes128 = 3 };

/// CUgraphExecUpdateResultInfo
struct GraphUpdateInfo {
  int result;
  void *errorNode;
  void *errorFromNode;
};

constexpr int kTensorMapInterleaveNone = 0, kTensorMapPromoteL2To256 = 3, kTensorMapFillZeros = 0;
constexpr int kCaptureThreadLocal = 1;        ///< CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
constexpr unsigned kStreamNonBlocking = 1;    ///< CU_STREAM_NON_BLOCKING
constexpr unsigned kEventDisableTiming = 2;   ///< CU_EVENT_DISABLE_TIMING
constexpr unsigned kEventRecordExternal = 1;  ///< CU_EVENT_RECORD_EXTERNAL: a node of the graph being captured

} // namespace ditc::cuda
