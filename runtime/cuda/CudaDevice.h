// SPDX-License-Identifier: Apache-2.0
//
// A GPU as a device: the package's kernels for it, loaded when a bucket asks for them, and its memory.
#pragma once

#include "runtime/Package.h"
#include "runtime/cuda/CudaExecutable.h"
#include "runtime/cuda/Target.h"

#include <map>
#include <mutex>
#include <set>

namespace ditc {

class CudaQueue;

class CudaDevice : public Device, private CudaLoader {
public:
  /// Throws Error (Input): see openDevice; or the driver is missing or too old.
  CudaDevice(int ordinal, const Package &package, const DeviceOptions &options);
  ~CudaDevice() override;

  std::string_view name() const override { return deviceName; }
  std::string_view target() const override { return targetName; }
  bool isHost() const override { return false; }
  uint64_t alignment() const override { return 16; }
  MemoryRef allocate(uint64_t bytes, std::string_view purpose) override { return pool.allocate(bytes, purpose); }
  void checkRoom(std::span<const MemoryNeed> needs) override { pool.checkRoom(needs); }
  std::unique_ptr<Executable> load(const Plan &plan) override;
  std::unique_ptr<Queue> openQueue() override;
  void waitForQueues() override;

private:
  /// Queues that are open, so that somebody can wait for all. Outlives the device, since queues may.
  struct Registry {
    std::mutex mutex;
    std::set<const CudaQueue *> queues;
  };
  class RegisteredQueue;

  Kernel kernel(const std::string &name) override;
  std::shared_ptr<cuda::CublasLt> blas() override;
  void readKernelFile(const ManifestTarget &target);
  cuda::Function loadFunction(const cuda::KernelImage &image);
  void checkParameters(const cuda::KernelImage &image, cuda::Function function) const;

  Package package;
  DeviceOptions options;
  std::shared_ptr<CudaContext> context;
  CudaMemoryPool pool;
  std::string deviceName, targetName, kernelFileName;
  cuda::KernelFile kernelFile;
  uint32_t multiprocessors = 1;
  std::shared_ptr<Registry> registry = std::make_shared<Registry>();

  std::mutex mutex; ///< guards what follows: what is loaded
  std::map<std::string, cuda::Module> modules; ///< by package member
  std::map<std::string, Kernel> kernels;
  std::shared_ptr<cuda::CublasLt> loadedBlas;
};

} // namespace ditc
