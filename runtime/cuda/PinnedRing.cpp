// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/PinnedRing.h"

#include "runtime/Error.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <thread>

namespace ditc {
namespace {

using Current = CudaContext::Current;

constexpr uint64_t kPieceBytes = 2 << 20;
constexpr size_t kWorkers = 4, kPiecesOfWorker = 2;
constexpr int kMemoryType = 2; ///< CU_POINTER_ATTRIBUTE_MEMORY_TYPE

} // namespace

std::unique_ptr<PinnedRing> PinnedRing::make(std::shared_ptr<CudaContext> context) {
  std::unique_ptr<PinnedRing> ring(new PinnedRing(std::move(context)));
  const cuda::Driver &driver = ring->driver;
  size_t workers = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kWorkers);
  size_t count = workers * kPiecesOfWorker;
  Current current(*ring->context);
  if (!driver.memHostAlloc || !driver.memFreeHost ||
      driver.memHostAlloc(&ring->memory, count * kPieceBytes, 0) != cuda::kSuccess)
    return nullptr;
  for (size_t i = 0; i < count; ++i) {
    Piece &piece = ring->pieces.emplace_back();
    piece.memory = static_cast<uint8_t *>(ring->memory) + i * kPieceBytes;
    driver.check(driver.eventCreate(&piece.sent, cuda::kEventDisableTiming), "creating an event");
  }
  return ring;
}

PinnedRing::~PinnedRing() {
  for (Piece &piece : pieces)
    if (piece.sent) {
      driver.eventSynchronize(piece.sent);
      driver.eventDestroy(piece.sent);
    }
  if (memory)
    driver.memFreeHost(memory);
}

bool PinnedRing::isPinned(const cuda::Driver &driver, const void *address) {
  unsigned type = 0; // pageable memory is none that the driver knows
  return driver.pointerGetAttribute &&
         driver.pointerGetAttribute(&type, kMemoryType, reinterpret_cast<cuda::Pointer>(address)) == cuda::kSuccess &&
         type != 0;
}

void PinnedRing::work(Job &job, size_t worker) {
  Current current(*context);
  uint64_t size = job.source.size();
  for (size_t turn = 0; job.failure == cuda::kSuccess; ++turn) {
    uint64_t begin = job.next.fetch_add(kPieceBytes);
    if (begin >= size)
      return;
    Piece &piece = pieces[worker * kPiecesOfWorker + turn % kPiecesOfWorker];
    uint64_t bytes = std::min(kPieceBytes, size - begin);
    cuda::Result result = driver.eventSynchronize(piece.sent);
    if (result == cuda::kSuccess) {
      std::memcpy(piece.memory, job.source.data() + begin, bytes);
      result = driver.memcpyHtoDAsync(job.target + begin, piece.memory, bytes, job.stream);
    }
    if (result == cuda::kSuccess)
      result = driver.eventRecord(piece.sent, job.stream);
    cuda::Result none = cuda::kSuccess;
    if (result != cuda::kSuccess)
      job.failure.compare_exchange_strong(none, result);
  }
}

void PinnedRing::upload(cuda::Pointer target, std::span<const uint8_t> source, cuda::Stream stream) {
  Job job{target, source, stream};
  {
    std::vector<std::jthread> helpers;
    try {
      for (size_t worker = 1; worker < pieces.size() / kPiecesOfWorker; ++worker)
        helpers.emplace_back([this, &job, worker] {
          try {
            work(job, worker);
          } catch (const Error &) { // no context in this thread, before it took a piece: others take them
          }
        });
    } catch (const std::system_error &) { // no more threads: this one does it
    }
    work(job, 0);
  }
  driver.check(job.failure, "copying to the GPU");
}

} // namespace ditc
