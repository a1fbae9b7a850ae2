// SPDX-License-Identifier: Apache-2.0
//
// The host as a device: kernels are functions of one shared object in the package, which is native code
// and therefore loaded only when the caller asks for this device. Matrix products go to a BLAS.
#pragma once

#include "runtime/Blas.h"
#include "runtime/Device.h"
#include "runtime/Package.h"

#include <mutex>
#include <string_view>

namespace ditc {

/// A shared object loaded from bytes in memory, through a memory file or a temporary file.
class SharedObject {
public:
  /// Throws Error (Input) when the dynamic loader refuses it. `source` names it in messages.
  SharedObject(std::span<const uint8_t> bytes, const std::string &source);
  ~SharedObject();
  SharedObject(const SharedObject &) = delete;
  SharedObject &operator=(const SharedObject &) = delete;

  /// Null when there is no such symbol.
  void *find(const std::string &symbol) const;

private:
  int fd = -1;
  void *handle = nullptr;
};

class HostDevice : public Device {
public:
  HostDevice(const Package &package, const DeviceOptions &options);

  std::string_view name() const override { return "host"; }
  std::string_view target() const override { return "host"; }
  bool isHost() const override { return true; }
  uint64_t alignment() const override { return 1; }
  MemoryRef allocate(uint64_t bytes, std::string_view purpose) override;
  void checkRoom(std::span<const MemoryNeed>) override {} // pages are taken when they are touched
  std::unique_ptr<Executable> load(const Plan &plan) override;
  std::unique_ptr<Queue> openQueue() override;
  void waitForQueues() override {}

private:
  std::shared_ptr<SharedObject> object();
  std::shared_ptr<const Blas> blas();

  Package package;
  DeviceOptions options;
  std::mutex mutex; ///< guards the two below, which are loaded when first needed
  std::shared_ptr<SharedObject> loadedObject;
  std::shared_ptr<const Blas> loadedBlas;
};

/// Names, as LLVM has them, of what of an x86 processor can be asked for.
inline constexpr std::string_view kInstructionSets[] = {
    "sse3", "ssse3", "sse4.1", "sse4.2",  "popcnt",   "avx",      "avx2",     "fma",
    "bmi",  "bmi2",  "f16c",   "lzcnt",  "movbe",    "avx512f",  "avx512bw", "avx512cd", "avx512dq", "avx512vl"};

/// What this machine lacks to run code that was compiled for the target's triple and processor; empty when nothing is
/// known to be missing. A processor's name alone says nothing unless it is a level; its instruction sets do.
std::string missingForTarget(const ManifestTarget &target);

} // namespace ditc
