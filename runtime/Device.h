// SPDX-License-Identifier: Apache-2.0
//
// What a session needs from the place where kernels run. One implementation per kind of device; nothing
// else in the runtime knows which one it is. A device serves one package, whose kernels it loads.
#pragma once

#include "runtime/Plan.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ditc {

class Package;

/// Memory that kernels can address, released with the last reference.
class DeviceMemory {
public:
  virtual ~DeviceMemory() = default;
  char *data() const { return address; }
  uint64_t bytes() const { return size; }

protected:
  DeviceMemory(char *address, uint64_t size) : address(address), size(size) {}

private:
  char *address;
  uint64_t size;
};

using MemoryRef = std::shared_ptr<DeviceMemory>;

/// Somebody else's memory, kept alive by `owner` if that is not null.
class BorrowedMemory : public DeviceMemory {
public:
  BorrowedMemory(char *address, uint64_t bytes, std::shared_ptr<const void> owner)
      : DeviceMemory(address, bytes), owner(std::move(owner)) {}

private:
  std::shared_ptr<const void> owner;
};

/// Device address of each buffer of a plan, in the plan's order. Entries of buffers that the ops in question
/// do not touch may be null.
using Addresses = std::vector<char *>;

enum class OpList { Prepare, Step };

/// One bucket's plan with its kernels loaded. Immutable, so several queues may run it at once with their own
/// addresses.
class Executable {
public:
  virtual ~Executable() = default;
  /// Memory that the ops of a list need beside what the plan says, 256-byte aligned.
  virtual uint64_t scratchBytes(OpList list) const = 0;
};

/// Where one context's work goes, in order; used by one thread at a time. Work is done when wait() returns,
/// not before; host memory that is handed over must stay until then.
class Queue {
public:
  virtual ~Queue() = default;
  /// What follows goes to the caller's stream (null: to the queue's own), after what was queued before.
  virtual void use(void *stream) = 0;
  virtual void upload(char *target, std::span<const uint8_t> source) = 0;
  virtual void download(std::span<uint8_t> target, const char *source) = 0;
  virtual void copy(char *target, const char *source, uint64_t bytes) = 0;
  virtual void fill(char *target, uint8_t value, uint64_t bytes) = 0;
  /// Some ops of a list, one by one. `scratch` has the executable's scratchBytes(list).
  virtual void run(const Executable &executable, OpList list, size_t begin, size_t end, const Addresses &addresses,
                   char *scratch) = 0;
  /// All step ops, in the way that is fastest to repeat.
  virtual void step(const Executable &executable, const Addresses &addresses, char *scratch) = 0;
  /// All step ops; the seconds that each took. Waits.
  virtual std::vector<double> stepTimed(const Executable &executable, const Addresses &addresses, char *scratch) = 0;
  virtual void wait() = 0;
};

struct DeviceOptions {
  unsigned threads = 0;      ///< of the BLAS on the host; 0: as many as the hardware has
  uint64_t memoryBudget = 0; ///< bytes that may be taken on a GPU; 0: what is free
  bool graphs = true;        ///< record a bucket's launches in a CUDA graph and replay that
  bool jit = true;           ///< let the CUDA driver compile portable code for a GPU that the package does not name
};

/// What somebody is about to allocate, for messages.
struct MemoryNeed {
  std::string_view purpose;
  uint64_t bytes = 0;
};

class Device {
public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;
  /// The package's target that runs here: "host", "sm_90a", ...
  virtual std::string_view target() const = 0;
  /// True when kernels read and write the host's memory.
  virtual bool isHost() const = 0;
  /// Alignment that kernels need of memory that they use in place; elements' own if that is more.
  virtual uint64_t alignment() const = 0;
  /// Undefined contents, 64-byte aligned. Throws Error (Input) naming `purpose` when there is not enough.
  virtual MemoryRef allocate(uint64_t bytes, std::string_view purpose) = 0;
  /// Throws Error (Input) with all figures when the needs together are more than there is room for.
  virtual void checkRoom(std::span<const MemoryNeed> needs) = 0;
  /// Throws Error (Input) when kernels or libraries that the plan needs cannot be loaded.
  virtual std::unique_ptr<Executable> load(const Plan &plan) = 0;
  virtual std::unique_ptr<Queue> openQueue() = 0;
  /// Waits until everything in all queues is done.
  virtual void waitForQueues() = 0;
};

/// `name` is "host", "cuda" or "cuda:N". Throws Error (Input): unknown device, the package was not compiled
/// for it, or it was compiled for another processor than this one.
std::shared_ptr<Device> openDevice(std::string_view name, const Package &package, const DeviceOptions &options);

} // namespace ditc
