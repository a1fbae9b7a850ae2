// SPDX-License-Identifier: Apache-2.0
#include "FakeDevice.h"

#include <cstdlib>

namespace fake {

thread_local Context *State::current = nullptr;

State &State::get() {
  static State *state = new State; // threads may call while the process ends
  return *state;
}

Properties Properties::fromEnvironment() {
  auto number = [](const char *name, long long otherwise) {
    const char *value = getenv(name);
    return value && *value ? strtoll(value, nullptr, 10) : otherwise;
  };
  Properties result;
  if (const char *capability = getenv("FAKE_CUDA_CC"); capability && *capability) {
    char *end = nullptr;
    result.major = static_cast<int>(strtol(capability, &end, 10));
    result.minor = *end == '.' ? static_cast<int>(strtol(end + 1, nullptr, 10)) : 0;
  }
  result.memory = static_cast<size_t>(number("FAKE_CUDA_MEMORY", static_cast<long long>(result.memory)));
  result.devices = static_cast<int>(number("FAKE_CUDA_DEVICES", result.devices));
  result.multiprocessors = static_cast<int>(number("FAKE_CUDA_SMS", result.multiprocessors));
  result.driverVersion = static_cast<int>(number("FAKE_CUDA_DRIVER_VERSION", result.driverVersion));
  return result;
}

int Properties::sharedLimit() const {
  switch (major * 10 + minor) {
  case 80:
  case 87:
    return 166912;
  case 90:
  case 100:
  case 103:
    return 232448;
  default:
    return 101376; // 8.6, 8.9, 12.0
  }
}

Result State::ready() const {
  if (!initialised)
    return NotInitialized;
  if (!current)
    return InvalidContext;
  return broken;
}

bool State::isDeviceRange(Pointer start, size_t bytes) const {
  auto after = allocations.upper_bound(start);
  if (after == allocations.begin())
    return false;
  const auto &[first, allocation] = *std::prev(after);
  return start - first <= allocation.bytes && bytes <= allocation.bytes - (start - first);
}

Result State::notCapturing() {
  for (Stream *stream : streams)
    if (stream->capture && stream->capture->thread == std::this_thread::get_id() && stream->capture->mode != 2) {
      stream->capture->invalid = true;
      return CaptureUnsupported;
    }
  return Success;
}

Stream *State::streamOf(ditc::cuda::Stream handle) {
  if (reinterpret_cast<uintptr_t>(handle) <= 2) // null, and the constants for the default streams
    return &legacy;
  auto *stream = reinterpret_cast<Stream *>(handle);
  return streams.count(stream) ? stream : nullptr;
}

Result State::enqueue(Stream *stream, Operation operation) {
  if (stream->capture) {
    if (stream->capture->invalid)
      return CaptureInvalidated;
    if (stream != stream->capture->origin)
      stream->capture->branches[stream] = false;
    stream->capture->operations.push_back(std::move(operation));
    return Success;
  }
  stream->queue.push_back(std::move(operation));
  ++stream->submitted;
  if (stream != &legacy)
    return Success;
  // The default stream waits for the others, and they for it.
  for (Stream *other : streams)
    if (!(other->flags & ditc::cuda::kStreamNonBlocking))
      if (Result result = drain(other))
        return result;
  return drain(stream);
}

Result State::drain(Stream *stream, uint64_t position) {
  while (stream->done < position && !broken) {
    Operation operation = std::move(stream->queue.front());
    stream->queue.pop_front();
    ++stream->done;
    if (Result result = operation.run())
      return broken ? broken : fail(result, "'" + operation.kind + "' failed in a stream");
  }
  return broken;
}

Result State::drainAll() {
  for (Stream *stream : streams)
    if (Result result = drain(stream))
      return result;
  return broken;
}

Result State::fail(Result result, const std::string &text) {
  broken = result;
  failure = text;
  return result;
}

} // namespace fake
