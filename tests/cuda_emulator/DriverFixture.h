// SPDX-License-Identifier: Apache-2.0
//
// A test with the fake driver loaded through ditc's own Driver, a current context and a stream.
#pragma once

#include "codegen/cuda/Nvrtc.h"
#include "fakes.h"
#include "runtime/Error.h"
#include "runtime/cuda/Driver.h"

#include <cstring>
#include <gmock/gmock.h>

struct FakeDriver : testing::Test {
  FakeDriver() {
    cu.check(cu.devicePrimaryCtxRetain(&context, 0), "context");
    cu.check(cu.ctxSetCurrent(context), "context");
    cu.check(cu.streamCreate(&stream, ditc::cuda::kStreamNonBlocking), "stream");
  }
  ~FakeDriver() override { cu.devicePrimaryCtxRelease(0); }

  ditc::cuda::Function load(const std::string &text, const std::string &name = "kernel", const char *arch = "sm_80") {
    ditc::CudaBinary binary = ditc::Nvrtc::get().compile({"test.cu", text, {}, arch, {}});
    ditc::cuda::Module module = nullptr;
    ditc::cuda::Function function = nullptr;
    cu.check(cu.moduleLoadData(&module, binary.image.data()), "loading");
    cu.check(cu.moduleGetFunction(&function, module, name.c_str()), "finding");
    return function;
  }

  template <class... Parameters>
  int launch(ditc::cuda::Function function, unsigned grid, unsigned block, Parameters... parameters) {
    ditc::cuda::LaunchConfig config = {grid, 1, 1, block, 1, 1, sharedBytes, stream, nullptr, 0};
    void *addresses[] = {&parameters...};
    return cu.launchKernelEx(&config, function, addresses, nullptr);
  }

  ditc::cuda::Pointer allocate(size_t bytes) {
    ditc::cuda::Pointer pointer = 0;
    cu.check(cu.memAlloc(&pointer, bytes), "allocating");
    return pointer;
  }
  template <class T> ditc::cuda::Pointer upload(const std::vector<T> &values) {
    ditc::cuda::Pointer pointer = allocate(values.size() * sizeof(T));
    cu.check(cu.memcpyHtoDAsync(pointer, values.data(), values.size() * sizeof(T), stream), "copying");
    return pointer;
  }
  template <class T> std::vector<T> download(ditc::cuda::Pointer pointer, size_t count) {
    std::vector<T> values(count);
    cu.check(cu.memcpyDtoHAsync(values.data(), pointer, count * sizeof(T), stream), "copying");
    return values;
  }

  const ditc::cuda::Driver &cu = ditc::cuda::Driver::get();
  ditc::cuda::Context context = nullptr;
  ditc::cuda::Stream stream = nullptr;
  unsigned sharedBytes = 0;
};
