// SPDX-License-Identifier: Apache-2.0
//
// Large uploads from pageable memory, such as weights from a mapped file. The driver copies that by one thread into
// buffers of its own, at 6.3 GB/s on an H200's machine, whose bus takes 54; here four threads fill pinned pieces, each
// of which goes to the GPU while the next ones are filled: 18.7 GB/s there for the weights of SD3.5-large. Where a file
// is not in memory yet, they also read it in parallel.
#pragma once

#include "runtime/cuda/CudaMemory.h"

#include <atomic>
#include <memory>
#include <span>
#include <vector>

namespace ditc {

class PinnedRing {
public:
  /// Null when the driver has no pinned memory to give; uploads then go the driver's way.
  static std::unique_ptr<PinnedRing> make(std::shared_ptr<CudaContext> context);
  ~PinnedRing();
  PinnedRing(const PinnedRing &) = delete;
  PinnedRing &operator=(const PinnedRing &) = delete;

  /// Uploads below this are not worth the threads.
  static constexpr uint64_t kLeastBytes = 4 << 20;
  /// True when the driver itself copies from `address` at the bus's rate.
  static bool isPinned(const cuda::Driver &driver, const void *address);

  /// Queues the copy on the stream; `source` has been read when this returns. Throws Error (Input) as the driver's copies do.
  void upload(cuda::Pointer target, std::span<const uint8_t> source, cuda::Stream stream);

private:
  struct Piece {
    uint8_t *memory = nullptr;
    cuda::Event sent = nullptr; ///< the piece may be filled again
  };
  struct Job {
    cuda::Pointer target;
    std::span<const uint8_t> source;
    cuda::Stream stream;
    std::atomic<uint64_t> next = 0;                      ///< byte at which the next piece begins
    std::atomic<cuda::Result> failure = cuda::kSuccess; ///< the first one
  };

  explicit PinnedRing(std::shared_ptr<CudaContext> context) : context(std::move(context)), driver(this->context->driver) {}
  /// Sends pieces until none is left, by two buffers in turns.
  void work(Job &job, size_t worker);

  std::shared_ptr<CudaContext> context;
  const cuda::Driver &driver;
  void *memory = nullptr;
  std::vector<Piece> pieces; ///< two of each worker
};

} // namespace ditc
