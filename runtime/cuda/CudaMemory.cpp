// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/CudaMemory.h"

#include "runtime/Error.h"

#include <algorithm>

namespace ditc {
namespace {

constexpr uint64_t kAlignment = 256;
constexpr uint64_t kBlockBytes = 8ull << 20;
constexpr uint64_t kLargePiece = 2ull << 20; ///< from here on the driver's rounding (2 MiB) does not matter

std::string megabytes(uint64_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / 1048576.0); }

} // namespace

//===-- context ---------------------------------------------------------------------------------------===//

CudaContext::CudaContext(int ordinal) : driver(cuda::Driver::get()), ordinal(ordinal) {
  int count = 0;
  driver.check(driver.deviceGetCount(&count), "counting GPUs");
  if (ordinal < 0 || ordinal >= count)
    fail("there is no GPU {}; the CUDA driver shows {} (numbered from 0; CUDA_VISIBLE_DEVICES hides some)", ordinal, count);
  driver.check(driver.deviceGet(&device, ordinal), "opening the GPU");
  canOverlap = attribute(cuda::DeviceAttribute::ComputeCapabilityMajor) >= 9;
  driver.check(driver.devicePrimaryCtxRetain(&context, device), "opening the GPU's context");
}

CudaContext::~CudaContext() { driver.devicePrimaryCtxRelease(device); }

int CudaContext::attribute(cuda::DeviceAttribute which) const {
  int value = 0;
  driver.check(driver.deviceGetAttribute(&value, which, device), "asking for an attribute of the GPU");
  return value;
}

CudaContext::Current::Current(const CudaContext &context) : driver(context.driver) {
  driver.check(driver.ctxGetCurrent(&previous), "asking for the current context");
  if (previous == context.context)
    return;
  driver.check(driver.ctxSetCurrent(context.context), "making the GPU's context current");
  changed = true;
}

CudaContext::Current::~Current() {
  if (changed)
    driver.ctxSetCurrent(previous);
}

//===-- memory ----------------------------------------------------------------------------------------===//

/// One allocation of the driver's.
class CudaMemoryPool::Block {
public:
  Block(std::shared_ptr<CudaContext> context, std::shared_ptr<std::atomic<uint64_t>> taken, cuda::Pointer address,
        uint64_t bytes)
      : context(std::move(context)), taken(std::move(taken)), address(address), bytes(bytes) {
    *this->taken += bytes;
  }
  ~Block() {
    try {
      CudaContext::Current current(*context);
      context->driver.memFree(address); // waits for work that may still use it
    } catch (const Error &) { // the process is ending and the driver has gone
    }
    *taken -= bytes;
  }
  Block(const Block &) = delete;
  Block &operator=(const Block &) = delete;

  char *data() const { return reinterpret_cast<char *>(address); }

private:
  std::shared_ptr<CudaContext> context;
  std::shared_ptr<std::atomic<uint64_t>> taken;
  cuda::Pointer address;
  uint64_t bytes;
};

class CudaMemoryPool::Piece : public DeviceMemory {
public:
  Piece(std::shared_ptr<Block> block, uint64_t offset, uint64_t bytes)
      : DeviceMemory(block->data() + offset, bytes), block(std::move(block)) {}

private:
  std::shared_ptr<Block> block;
};

std::shared_ptr<CudaMemoryPool::Block> CudaMemoryPool::takeBlock(uint64_t bytes, std::string_view purpose) {
  CudaContext::Current current(*context);
  uint64_t held = *taken;
  if (budget > 0 && held + bytes > budget)
    fail("{} needs {} on GPU {}, but {} of the memory budget of {} are taken; raise the budget or use a smaller bucket",
         purpose, megabytes(bytes), context->ordinal, megabytes(held), megabytes(budget));
  cuda::Pointer address = 0;
  cuda::Result result = context->driver.memAlloc(&address, bytes);
  if (result == cuda::kOutOfMemory) {
    size_t free = 0, total = 0;
    context->driver.memGetInfo(&free, &total);
    fail("{} needs {} on GPU {}, which has {} free of {} (the package holds {}); free memory or use a smaller bucket",
         purpose, megabytes(bytes), context->ordinal, megabytes(free), megabytes(total), megabytes(held));
  }
  context->driver.check(result, fmt::format("allocating {} for {}", megabytes(bytes), purpose));
  return std::make_shared<Block>(context, taken, address, bytes);
}

MemoryRef CudaMemoryPool::allocate(uint64_t bytes, std::string_view purpose) {
  uint64_t size = (std::max<uint64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  if (size >= kLargePiece)
    return std::make_shared<Piece>(takeBlock(size, purpose), 0, bytes);
  std::lock_guard lock(mutex);
  if (!open || kBlockBytes - used < size) {
    open = nullptr; // its pieces keep it
    uint64_t block = budget > 0 && budget - std::min<uint64_t>(*taken, budget) < kBlockBytes ? size : kBlockBytes;
    std::shared_ptr<Block> fresh = takeBlock(block, purpose);
    if (block == size)
      return std::make_shared<Piece>(std::move(fresh), 0, bytes);
    open = std::move(fresh);
    used = 0;
  }
  uint64_t offset = used;
  used += size;
  return std::make_shared<Piece>(open, offset, bytes);
}

void CudaMemoryPool::checkRoom(std::span<const MemoryNeed> needs) {
  uint64_t sum = 0;
  std::string list;
  for (const MemoryNeed &need : needs) {
    sum += need.bytes;
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", need.purpose, megabytes(need.bytes));
  }
  CudaContext::Current current(*context);
  size_t free = 0, total = 0;
  context->driver.check(context->driver.memGetInfo(&free, &total), "asking for free memory");
  uint64_t held = *taken;
  uint64_t room = budget > 0 ? std::min<uint64_t>(free, budget - std::min(held, budget)) : free;
  if (sum <= room)
    return;
  fail("GPU {} has not enough memory: needed are {} ({}); it has {} free of {}, {}the package holds {} already; free "
       "memory{} or use a smaller bucket",
       context->ordinal, megabytes(sum), list, megabytes(free), megabytes(total),
       budget > 0 ? fmt::format("the memory budget is {}, ", megabytes(budget)) : "", megabytes(held),
       budget > 0 ? ", raise the budget" : "");
}

} // namespace ditc
