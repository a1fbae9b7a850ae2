// SPDX-License-Identifier: Apache-2.0
//
// Units become images: a rowwise kernel whose bounds leave it too few registers gets more. Skipped where NVRTC is absent.
#include "codegen/cuda/Images.h"
#include "codegen/cuda/Nvrtc.h"

#include <gtest/gtest.h>
#include <map>

using namespace ditc;

namespace {

/// 48 values that are all alive at once, with 32 registers for each thread.
const char *const kManyValues = R"(#include "rowwise.cuh"
extern "C" __global__ void __launch_bounds__(128, 16) many(const float *in, float *out) {
  float x[48], sum = 0;
  #pragma unroll
  for (int i = 0; i < 48; ++i)
    x[i] = in[i * 128 + threadIdx.x];
  for (int i = 0; i < 48; ++i)
    sum += x[i];
  #pragma unroll
  for (int i = 0; i < 48; ++i)
    out[i * 128 + threadIdx.x] = x[i] * __shfl_xor_sync(~0u, sum, 1);
}
)";

TEST(CudaImages, SerialisedProductsAreKnownByTheLog) {
  const std::string report = "ptxas info    : Used 168 registers, used 16 barriers\n";
  EXPECT_FALSE((CudaBinary{{}, report}.serializesProducts()));
  EXPECT_TRUE((CudaBinary{{}, "ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources for the wgmma pipeline in the function 'a'\n" + report}.serializesProducts()));
}

TEST(CudaImages, ARowwiseKernelThatSpillsGetsMoreRegisters) {
  std::string whyNot;
  if (!Nvrtc::available(&whyNot))
    GTEST_SKIP() << whyNot;
  std::map<std::string, std::vector<uint8_t>> cache;
  CudaOptions options;
  options.load = [&](const std::string &key) -> std::optional<std::vector<uint8_t>> { return cache.count(key) ? std::optional(cache[key]) : std::nullopt; };
  options.store = [&](const std::string &key, std::span<const uint8_t> bytes) { cache[key].assign(bytes.begin(), bytes.end()); };
  std::vector<CudaKernel> made;
  for (int run = 0; run < 2; ++run) { // the second comes from the cache
    CudaArch arch{"sm_80", 80};
    CudaKernel kernel;
    kernel.name = "many";
    kernel.bounds = {128, 16};
    std::vector<ImageJob> jobs{makeImageJob(kernel, "", kManyValues, arch)};
    compileImages(jobs, arch, options);
    EXPECT_EQ(jobs[0].kernel.spillBytes, 0);
    EXPECT_GT(jobs[0].kernel.registers, 48);
    EXPECT_LT(jobs[0].kernel.bounds.blocks, 16);
    EXPECT_NE(jobs[0].kernel.source.find("void " + jobs[0].kernel.bounds.text() + " many("), std::string::npos) << jobs[0].kernel.source;
    made.push_back(jobs[0].kernel);
  }
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_EQ(made[0].source, made[1].source);
  EXPECT_EQ(made[0].image, made[1].image);
}

} // namespace
