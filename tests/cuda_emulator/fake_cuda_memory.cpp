// SPDX-License-Identifier: Apache-2.0
//
// Memory of libfake_cuda.so: ordinary memory that ends where the process may not access, filled with 0xFF when it is
// allocated. Copies outside of allocations are errors.
#include "FakeDevice.h"

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <sys/mman.h>

using namespace fake;

namespace {

constexpr size_t kPage = 4096, kAlignment = 256;

size_t roundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

/// What copies and fills have in common: both sides are checked at the call, the work is done in the stream's order.
Result transfer(ditc::cuda::Stream handle, Operation operation, std::initializer_list<Pointer> pointers, size_t bytes) {
  State &state = State::get();
  if (Result result = state.ready())
    return result;
  Stream *stream = state.streamOf(handle);
  if (!stream)
    return InvalidHandle;
  for (Pointer pointer : pointers)
    if (!state.isDeviceRange(pointer, bytes))
      return InvalidValue;
  return bytes ? state.enqueue(stream, std::move(operation)) : Success;
}

void *address(Pointer pointer) { return reinterpret_cast<void *>(pointer); }

} // namespace

CUDA_EXPORT cuMemGetInfo_v2(size_t *free, size_t *total) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  if (Result result = state.ready())
    return result;
  *total = state.properties.memory;
  *free = *total - state.used[static_cast<size_t>(State::current->device)];
  return Success;
}

CUDA_EXPORT cuMemAlloc_v2(Pointer *pointer, size_t bytes) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  if (Result result = state.ready())
    return result;
  if (Result result = state.notCapturing())
    return result;
  if (bytes == 0)
    return InvalidValue;
  size_t &used = state.used[static_cast<size_t>(State::current->device)];
  if (bytes > state.properties.memory - used)
    return OutOfMemory;
  size_t content = roundUp(bytes, kAlignment), pages = roundUp(content, kPage);
  Allocation allocation{bytes, nullptr, pages + 2 * kPage, State::current->device};
  allocation.mapping =
      mmap(nullptr, allocation.mappedBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (allocation.mapping == MAP_FAILED)
    return OutOfMemory;
  char *inner = static_cast<char *>(allocation.mapping) + kPage;
  mprotect(inner, pages, PROT_READ | PROT_WRITE);
  memset(inner, 0xFF, pages);
  *pointer = reinterpret_cast<Pointer>(inner + pages - content);
  state.allocations[*pointer] = allocation;
  used += bytes;
  return Success;
}

CUDA_EXPORT cuMemFree_v2(Pointer pointer) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  if (pointer == 0)
    return Success;
  auto found = state.allocations.find(pointer);
  if (found == state.allocations.end())
    return InvalidValue;
  if (Result result = state.notCapturing())
    return result;
  Result result = state.drainAll(); // frees wait for the device
  state.used[static_cast<size_t>(found->second.device)] -= found->second.bytes;
  munmap(found->second.mapping, found->second.mappedBytes);
  state.allocations.erase(found);
  return result;
}

CUDA_EXPORT cuMemHostAlloc(void **pointer, size_t bytes, unsigned) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  if (Result result = state.ready())
    return result;
  *pointer = malloc(bytes);
  state.pinned[static_cast<const char *>(*pointer)] = bytes;
  return Success;
}

CUDA_EXPORT cuMemFreeHost(void *pointer) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  Result result = state.drainAll();
  state.pinned.erase(static_cast<const char *>(pointer));
  free(pointer);
  return result;
}

CUDA_EXPORT cuPointerGetAttribute(void *value, int attribute, Pointer pointer) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  constexpr int kMemoryType = 2, kHost = 1;
  auto found = state.pinned.upper_bound(reinterpret_cast<const char *>(pointer));
  if (attribute != kMemoryType || found == state.pinned.begin() ||
      reinterpret_cast<const char *>(pointer) >= std::prev(found)->first + std::prev(found)->second)
    return InvalidValue;
  *static_cast<unsigned *>(value) = kHost;
  return Success;
}

CUDA_EXPORT cuMemcpyHtoDAsync_v2(Pointer to, const void *from, size_t bytes, ditc::cuda::Stream handle) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  Stream *stream = state.streamOf(handle);
  auto pinned = state.pinned.upper_bound(static_cast<const char *>(from));
  bool isPinned = pinned != state.pinned.begin() && static_cast<const char *>(from) < std::prev(pinned)->first + std::prev(pinned)->second;
  if (isPinned || (stream && stream->capture))
    return transfer(handle, {"copy to device", [=] { return memcpy(address(to), from, bytes), Success; }}, {to}, bytes);
  // The driver stages ordinary memory: the caller may change it after the call.
  auto staged = std::make_shared<std::vector<char>>();
  if (state.isDeviceRange(to, bytes))
    staged->assign(static_cast<const char *>(from), static_cast<const char *>(from) + bytes);
  auto work = [=] { return memcpy(address(to), staged->data(), bytes), Success; };
  return transfer(handle, {"copy to device", work}, {to}, bytes);
}

CUDA_EXPORT cuMemcpyDtoHAsync_v2(void *to, Pointer from, size_t bytes, ditc::cuda::Stream handle) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  auto work = [=] { return memcpy(to, address(from), bytes), Success; };
  if (Result result = transfer(handle, {"copy to host", work}, {from}, bytes))
    return result;
  // Into ordinary memory the driver copies before it returns.
  Stream *stream = state.streamOf(handle);
  return stream->capture ? Success : state.drain(stream);
}

CUDA_EXPORT cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t bytes, ditc::cuda::Stream handle) {
  std::lock_guard lock(State::get().mutex);
  auto work = [=] { return memmove(address(to), address(from), bytes), Success; };
  return transfer(handle, {"copy on device", work}, {to, from}, bytes);
}

CUDA_EXPORT cuMemsetD8Async(Pointer to, unsigned char value, size_t bytes, ditc::cuda::Stream handle) {
  std::lock_guard lock(State::get().mutex);
  return transfer(handle, {"fill", [=] { return memset(address(to), value, bytes), Success; }}, {to}, bytes);
}

/// For tests: allocations that have not been freed.
extern "C" [[gnu::visibility("default")]] size_t fakeCudaLiveAllocations() {
  std::lock_guard lock(State::get().mutex);
  return State::get().allocations.size();
}

/// For libfake_cublasLt.so.
extern "C" [[gnu::visibility("default")]] int fakeCudaIsDeviceRange(const void *start, size_t bytes) {
  std::lock_guard lock(State::get().mutex);
  return State::get().isDeviceRange(reinterpret_cast<Pointer>(start), bytes);
}
