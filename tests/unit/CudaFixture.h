// SPDX-License-Identifier: Apache-2.0
//
// The hand-made package of RuntimeFixture.h for a GPU, and sessions on the fake one of tests/cuda_emulator.
#pragma once

#include "RuntimeFixture.h"

#include "runtime/Session.h"
#include "runtime/cuda/Driver.h"
#include "runtime/cuda/KernelFile.h"

#include <cstring>

namespace ditc::test {

struct CudaPackageChange {
  WeightPlace weights = WeightPlace::Entry; ///< Entry or Absent
  std::string arch = "sm_80";
  std::function<void(Plan &)> plan = [](Plan &) {};
  std::function<void(cuda::KernelFile &)> kernels = [](cuda::KernelFile &) {};
  std::vector<float> table = test::table();
};

/// The package with the target `arch`; its kernels are compiled by (fake) NVRTC.
void writeCudaPackage(const std::string &path, const CudaPackageChange &change = {});

/// Memory of the GPU as a caller has it.
class DeviceBuffer {
public:
  explicit DeviceBuffer(uint64_t bytes);
  explicit DeviceBuffer(const std::vector<float> &values);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer &) = delete;
  DeviceBuffer &operator=(const DeviceBuffer &) = delete;

  void write(const std::vector<float> &values);
  std::vector<float> read(size_t count) const;
  void *at(uint64_t offset = 0) const { return reinterpret_cast<void *>(address + offset); }
  TensorRef tensor(const std::string &name, std::vector<int64_t> shape, uint64_t offset = 0) const {
    return {name, DType::f32, std::move(shape), {}, at(offset), true};
  }

private:
  cuda::Pointer address = 0;
};

class CudaTest : public testing::Test {
protected:
  std::shared_ptr<Session> open(const CudaPackageChange &change = {}, SessionOptions options = {}) {
    writeCudaPackage(path, change);
    options.device = "cuda";
    return Session::open(path, options);
  }

  /// One run from host memory.
  static std::vector<float> run(Context &context, int64_t rows = 2, bool poison = false);
  static std::vector<float> run(const std::shared_ptr<Session> &session, int64_t rows = 2) {
    Context context(session);
    return run(context, rows);
  }
  /// One run with tensors on the GPU, on the default stream.
  static void runOn(Context &context, const DeviceBuffer &x, const DeviceBuffer &y, int64_t rows = 2);

  TempFolder folder;
  std::string path = folder / "p.dita";
};

} // namespace ditc::test
