// SPDX-License-Identifier: Apache-2.0
//
// The CUDA driver by dlopen: a clear message without one; and, where NVIDIA's header is installed, that our declarations
// agree with it.
#include "runtime/cuda/Driver.h"

#include "runtime/Error.h"

#include <gtest/gtest.h>

#if __has_include(<cuda.h>)
#include <cuda.h>
#define DITC_HAS_CUDA_HEADER 1
#else
#define DITC_HAS_CUDA_HEADER 0
#endif

using namespace ditc;

TEST(CudaDriver, SaysWhatIsMissingOrStarts) {
  std::string whyNot;
  if (cuda::Driver::available(&whyNot)) {
    EXPECT_GE(cuda::Driver::get().version(), 12000);
    return;
  }
  EXPECT_FALSE(whyNot.empty());
  EXPECT_THROW(cuda::Driver::get(), Error);
  if (whyNot.find("no CUDA driver") != std::string::npos) {
    EXPECT_NE(whyNot.find("use the device 'host'"), std::string::npos) << whyNot;
  }
}

#if DITC_HAS_CUDA_HEADER
TEST(CudaDriver, DeclarationsAgreeWithTheToolkit) {
  static_assert(sizeof(cuda::LaunchAttribute) == sizeof(CUlaunchAttribute));
  static_assert(offsetof(cuda::LaunchAttribute, bytes) == offsetof(CUlaunchAttribute, value));
  static_assert(sizeof(cuda::LaunchConfig) == sizeof(CUlaunchConfig));
  static_assert(offsetof(cuda::LaunchConfig, sharedBytes) == offsetof(CUlaunchConfig, sharedMemBytes));
  static_assert(offsetof(cuda::LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
  static_assert(offsetof(cuda::LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
  static_assert(offsetof(cuda::LaunchConfig, attributeCount) == offsetof(CUlaunchConfig, numAttrs));
  static_assert(sizeof(cuda::TensorMap) == sizeof(CUtensorMap) && sizeof(cuda::Pointer) == sizeof(CUdeviceptr));

  EXPECT_EQ(int(cuda::DeviceAttribute::MultiprocessorCount), CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  EXPECT_EQ(int(cuda::DeviceAttribute::L2CacheSize), CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  EXPECT_EQ(int(cuda::DeviceAttribute::ComputeCapabilityMajor), CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  EXPECT_EQ(int(cuda::DeviceAttribute::ComputeCapabilityMinor), CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  EXPECT_EQ(int(cuda::DeviceAttribute::MaxSharedMemoryPerBlockOptin),
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  EXPECT_EQ(int(cuda::FunctionAttribute::LocalSizeBytes), CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  EXPECT_EQ(int(cuda::FunctionAttribute::NumRegs), CU_FUNC_ATTRIBUTE_NUM_REGS);
  EXPECT_EQ(int(cuda::FunctionAttribute::MaxDynamicSharedSizeBytes), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  EXPECT_EQ(int(cuda::LaunchAttributeId::ClusterDimension), CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  EXPECT_EQ(int(cuda::LaunchAttributeId::ProgrammaticStreamSerialization),
            CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  EXPECT_EQ(int(cuda::TensorMapType::U8), CU_TENSOR_MAP_DATA_TYPE_UINT8);
  EXPECT_EQ(int(cuda::TensorMapType::F16), CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
  EXPECT_EQ(int(cuda::TensorMapType::F32), CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
  EXPECT_EQ(int(cuda::TensorMapType::BF16), CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
  EXPECT_EQ(int(cuda::TensorMapSwizzle::Bytes128), CU_TENSOR_MAP_SWIZZLE_128B);
  EXPECT_EQ(cuda::kTensorMapPromoteL2To256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
  EXPECT_EQ(cuda::kTensorMapFillZeros, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  EXPECT_EQ(cuda::kCaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  EXPECT_EQ(cuda::kStreamNonBlocking, unsigned(CU_STREAM_NON_BLOCKING));
  EXPECT_EQ(cuda::kEventDisableTiming, unsigned(CU_EVENT_DISABLE_TIMING));
  EXPECT_EQ(cuda::kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuda::kNotReady, CUDA_ERROR_NOT_READY);
}
#endif
