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

/// Device address of each buffer of a plan, in the plan's order. Entries of buffers that the list of ops
/// does not touch may be null.
using Addresses = std::vector<char *>;

enum class OpList { Prepare, Step };

/// One bucket's plan, ready to run. Immutable, so several threads may run it at once with their own
/// addresses.
class Executable {
public:
  virtual ~Executable() = default;
  /// Queues all ops of the list in order. Results are there after Device::synchronize().
  virtual void run(OpList list, const Addresses &addresses) const = 0;
  /// Runs one op at a time; the seconds that each took.
  virtual std::vector<double> runTimed(OpList list, const Addresses &addresses) const = 0;
};

struct DeviceOptions {
  unsigned threads = 0; ///< of the BLAS on the host; 0: as many as the hardware has
};

class Device {
public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;
  /// True when kernels read and write the caller's memory where it is.
  virtual bool isHost() const = 0;
  /// Zeroed memory, 64-byte aligned. Throws Error (Input) naming `purpose` when there is not enough.
  virtual MemoryRef allocate(uint64_t bytes, std::string_view purpose) = 0;
  /// Host bytes where kernels can read them: a copy, or the same bytes when the device can use them in
  /// place (then `owner` keeps them alive).
  virtual MemoryRef makeResident(std::span<const uint8_t> bytes, std::shared_ptr<const void> owner,
                                 std::string_view purpose) = 0;
  virtual void upload(char *target, std::span<const uint8_t> source) = 0;
  virtual void download(std::span<uint8_t> target, const char *source) = 0;
  virtual void fill(char *target, uint8_t value, uint64_t bytes) = 0;
  /// Throws Error (Input) when kernels or libraries that the plan needs cannot be loaded.
  virtual std::unique_ptr<Executable> load(const Plan &plan) = 0;
  virtual void synchronize() = 0;
};

/// `name` is "host". Throws Error (Input): unknown device, the package was not compiled for it, or it was
/// compiled for another processor than this one.
std::shared_ptr<Device> openDevice(std::string_view name, const Package &package, const DeviceOptions &options);

} // namespace ditc
