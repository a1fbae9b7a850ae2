// SPDX-License-Identifier: Apache-2.0
//
// Memory of one GPU. Large pieces are the driver's; small ones are cut from blocks, since a model has a thousand
// weights and the driver rounds each allocation up. All that is taken is counted against a budget.
#pragma once

#include "runtime/Device.h"
#include "runtime/cuda/Driver.h"

#include <atomic>
#include <memory>
#include <mutex>

namespace ditc {

/// The GPU's primary context, the one that CUDA's runtime and so torch use. Retained as long as the object lives.
class CudaContext {
public:
  explicit CudaContext(int ordinal);
  ~CudaContext();
  CudaContext(const CudaContext &) = delete;
  CudaContext &operator=(const CudaContext &) = delete;

  const cuda::Driver &driver;
  const int ordinal;
  cuda::Device device = 0;
  cuda::Context context = nullptr;
  bool canOverlap = false; ///< kernels may start while the one before ends: since Hopper

  /// Makes the context the thread's current one for a scope.
  class Current {
  public:
    explicit Current(const CudaContext &context);
    ~Current();
    Current(const Current &) = delete;
    Current &operator=(const Current &) = delete;

  private:
    const cuda::Driver &driver;
    cuda::Context previous = nullptr;
    bool changed = false;
  };

  int attribute(cuda::DeviceAttribute which) const;
};

class CudaMemoryPool {
public:
  /// `budget`: bytes that may be taken; 0: what is free.
  CudaMemoryPool(std::shared_ptr<CudaContext> context, uint64_t budget) : context(std::move(context)), budget(budget) {}

  /// 256-byte aligned. Throws Error (Input) naming `purpose`.
  MemoryRef allocate(uint64_t bytes, std::string_view purpose);
  void checkRoom(std::span<const MemoryNeed> needs);

private:
  class Block;
  class Piece;

  std::shared_ptr<Block> takeBlock(uint64_t bytes, std::string_view purpose);

  std::shared_ptr<CudaContext> context;
  const uint64_t budget;
  std::shared_ptr<std::atomic<uint64_t>> taken = std::make_shared<std::atomic<uint64_t>>(0); ///< memory may outlive us
  std::mutex mutex; ///< guards the two below
  std::shared_ptr<Block> open;
  uint64_t used = 0; ///< of the open block
};

} // namespace ditc
