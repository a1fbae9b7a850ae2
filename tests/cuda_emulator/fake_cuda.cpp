// SPDX-License-Identifier: Apache-2.0
//
// libfake_cuda.so: the functions of the CUDA driver that ditc loads (runtime/cuda/Driver.cpp), over FakeDevice.h.
// DITC_CUDA_DRIVER names the library. Here: start, errors, devices, contexts, tensor maps.
#include "FakeDevice.h"

#include <cstring>

using namespace fake;
using namespace ditc::cuda;

namespace {

struct ErrorName {
  Result result;
  const char *name, *text;
};
constexpr ErrorName kErrors[] = {
    {Success, "CUDA_SUCCESS", "no error"},
    {InvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {InvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {InvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {InvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {NoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {InvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {LaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {CaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began"},
    {CaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {CapturedEvent, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {CaptureWrongThread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {GraphUpdateFailure, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
     "the graph update was not performed because it included changes which violated constraints"},
};

const ErrorName *find(Result result) {
  for (const ErrorName &error : kErrors)
    if (error.result == result)
      return &error;
  return nullptr;
}

bool isDevice(Device device) { return device >= 0 && device < State::get().properties.devices; }

} // namespace

CUDA_EXPORT cuInit(unsigned flags) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  if (flags)
    return InvalidValue;
  if (state.properties.devices <= 0)
    return NoDevice;
  if (!state.initialised) {
    state.initialised = true;
    state.contexts.resize(static_cast<size_t>(state.properties.devices));
    state.used.resize(state.contexts.size());
    for (size_t i = 0; i < state.contexts.size(); ++i)
      state.contexts[i].device = static_cast<int>(i);
  }
  return Success;
}

CUDA_EXPORT cuDriverGetVersion(int *version) {
  *version = State::get().properties.driverVersion;
  return Success;
}

CUDA_EXPORT cuGetErrorName(Result result, const char **name) {
  const ErrorName *error = find(result);
  *name = error ? error->name : nullptr;
  return error ? Success : InvalidValue;
}

/// For a kernel that failed the text says how, which a real driver does not know.
CUDA_EXPORT cuGetErrorString(Result result, const char **text) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  const ErrorName *error = find(result);
  *text = error ? error->text : nullptr;
  if (result != Success && result == state.broken)
    *text = state.failure.c_str();
  return error ? Success : InvalidValue;
}

CUDA_EXPORT cuDeviceGetCount(int *count) {
  *count = State::get().properties.devices;
  return State::get().initialised ? Success : NotInitialized;
}

CUDA_EXPORT cuDeviceGet(Device *device, int ordinal) {
  if (!isDevice(ordinal))
    return InvalidDevice;
  *device = ordinal;
  return Success;
}

CUDA_EXPORT cuDeviceGetName(char *name, int bytes, Device device) {
  if (!isDevice(device) || bytes <= 0)
    return InvalidDevice;
  strncpy(name, "Emulated GPU", static_cast<size_t>(bytes));
  name[bytes - 1] = 0;
  return Success;
}

CUDA_EXPORT cuDeviceGetAttribute(int *value, DeviceAttribute attribute, Device device) {
  if (!isDevice(device))
    return InvalidDevice;
  const Properties &properties = State::get().properties;
  switch (attribute) {
  case DeviceAttribute::MultiprocessorCount:
    *value = properties.multiprocessors;
    return Success;
  case DeviceAttribute::L2CacheSize:
    *value = 40 << 20;
    return Success;
  case DeviceAttribute::ComputeCapabilityMajor:
    *value = properties.major;
    return Success;
  case DeviceAttribute::ComputeCapabilityMinor:
    *value = properties.minor;
    return Success;
  case DeviceAttribute::MaxSharedMemoryPerBlockOptin:
    *value = properties.sharedLimit();
    return Success;
  }
  return InvalidValue;
}

CUDA_EXPORT cuDeviceTotalMem_v2(size_t *bytes, Device device) {
  if (!isDevice(device))
    return InvalidDevice;
  *bytes = State::get().properties.memory;
  return Success;
}

CUDA_EXPORT cuDevicePrimaryCtxRetain(ditc::cuda::Context *context, Device device) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  if (!state.initialised)
    return NotInitialized;
  if (!isDevice(device))
    return InvalidDevice;
  ++state.contexts[static_cast<size_t>(device)].retained;
  *context = reinterpret_cast<ditc::cuda::Context>(&state.contexts[static_cast<size_t>(device)]);
  return Success;
}

CUDA_EXPORT cuDevicePrimaryCtxRelease_v2(Device device) {
  State &state = State::get();
  std::lock_guard lock(state.mutex);
  if (!state.initialised || !isDevice(device) || state.contexts[static_cast<size_t>(device)].retained == 0)
    return InvalidContext;
  if (--state.contexts[static_cast<size_t>(device)].retained == 0) { // the next one starts afresh
    for (fake::Stream *stream : state.streams)
      stream->queue.clear(), stream->done = stream->submitted;
    state.broken = Success;
  }
  return Success;
}

CUDA_EXPORT cuCtxSetCurrent(ditc::cuda::Context context) {
  State::current = reinterpret_cast<fake::Context *>(context);
  return Success;
}

CUDA_EXPORT cuCtxGetCurrent(ditc::cuda::Context *context) {
  *context = reinterpret_cast<ditc::cuda::Context>(State::current);
  return Success;
}

/// Checks what NVIDIA's documentation asks of a tensor map; the map itself describes nothing, because what reads it is
/// inline PTX, which the CPU does not run.
CUDA_EXPORT cuTensorMapEncodeTiled(TensorMap *map, TensorMapType type, uint32_t rank, void *address,
                                   const uint64_t *sizes, const uint64_t *strides, const uint32_t *box,
                                   const uint32_t *elementStrides, int interleave, TensorMapSwizzle swizzle, int, int) {
  auto bytesOf = [](TensorMapType of) { return of == TensorMapType::U8 ? 1u : of == TensorMapType::F32 ? 4u : 2u; };
  if (!map || reinterpret_cast<uintptr_t>(map) % 64 || rank < 1 || rank > 5 || interleave != kTensorMapInterleaveNone)
    return InvalidValue;
  if (reinterpret_cast<uintptr_t>(address) % 16 || !State::get().isDeviceRange(reinterpret_cast<Pointer>(address), 1))
    return InvalidValue;
  for (uint32_t i = 0; i < rank; ++i) {
    if (sizes[i] == 0 || sizes[i] > uint64_t(1) << 32 || box[i] == 0 || box[i] > 256 || elementStrides[i] == 0 ||
        elementStrides[i] > 8)
      return InvalidValue;
    if (i + 1 < rank && (strides[i] % 16 || strides[i] >= uint64_t(1) << 40))
      return InvalidValue;
  }
  uint32_t innerBytes = box[0] * bytesOf(type);
  constexpr uint32_t kSpans[] = {256 * 4, 32, 64, 128};
  if (innerBytes % 16 || innerBytes > kSpans[static_cast<int>(swizzle) & 3])
    return InvalidValue;
  memset(map, 0, sizeof *map);
  map->words[0] = reinterpret_cast<uint64_t>(address);
  map->words[1] = rank;
  return Success;
}
