// SPDX-License-Identifier: Apache-2.0
//
// The weights of a session, by name, shared by all buckets: from the package, from the files that its
// manifest refers to, from safetensors files that take their place, or from the caller's memory.
#pragma once

#include "runtime/Device.h"
#include "runtime/Package.h"
#include "runtime/TensorRef.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace ditc {

enum class Ownership {
  Copy,   ///< the memory may change or go away after the call
  Borrow, ///< it stays as it is until the weight is set again or the session is gone
};

/// Not synchronised; the session locks around it.
class WeightStore {
public:
  /// `queue` is where uploads go. `verify`: check the hashes of weights when they are first used.
  WeightStore(const Package &package, std::shared_ptr<Device> device, Queue &queue, bool verify);

  /// Weights that runs do not read, only the preparation: those need not stay on a GPU.
  void setPreparedOnly(std::set<std::string> names) { preparedOnly = std::move(names); }
  /// Takes the weights that the package knows from the files (or "*.safetensors.index.json"). Throws Error
  /// (Input) when one has another type or shape. Returns the names that the package does not know.
  std::vector<std::string> useFiles(const std::vector<std::string> &paths);
  /// Throws Error (Input) before anything is set: unknown name, other type or shape.
  void set(std::span<const TensorRef> tensors, Ownership ownership);
  /// As set() with Copy, but on a GPU into the memory that the weights have, unless that is borrowed. What was there is
  /// kept for revert(). When it throws, nothing has changed. No run may be under way.
  void update(std::span<const TensorRef> tensors);
  /// Takes the last update() back. Throws Error (Input) when there is none since the last set().
  void revert();

  /// Weights without bytes, sorted.
  std::vector<std::string> missing() const;
  /// Changes when the weight's values do.
  uint64_t version(const std::string &name) const;
  /// The bytes where kernels can read them, dense; the same object until the weight is set again. `keep` false: a
  /// weight that can be loaded again is not kept. Throws Error (Input): missing, or its file is not what the manifest
  /// says.
  MemoryRef get(const std::string &name, bool keep = true);
  /// Device memory that get() would take; 0 when the weight is there, or is used in place.
  uint64_t bytesToLoad(const std::string &name) const;
  /// Device memory that is taken, without what is borrowed.
  uint64_t heldBytes() const;

private:
  struct Slot {
    MemoryRef memory;               ///< where kernels read it; null: not loaded
    std::optional<HostBytes> given; ///< dense bytes in place of the package's
    bool fromPackage = true;        ///< the value is the package's
    bool borrowed = false;          ///< `memory` is the caller's
    uint64_t version = 0;
  };
  /// How one weight was before an update.
  struct Undo {
    std::string name;
    Slot before;
    bool inPlace = false;
    std::optional<HostBytes> saved; ///< inPlace: the old bytes; none: they are the package's
  };

  const ManifestWeight &check(const TensorRef &tensor, std::string_view source) const;
  Slot makeSlot(const TensorRef &tensor, Ownership ownership);
  HostBytes packageBytes(const std::string &name);
  HostBytes fileBytes(const std::string &name, const ManifestWeight &weight);
  bool usableInPlace(const std::string &name, const HostBytes &bytes) const;
  MemoryRef place(const std::string &name, const HostBytes &bytes);
  void write(DeviceMemory &target, const TensorRef &tensor);
  HostBytes saveBytes(const Slot &slot);
  void undoAll(std::vector<Undo> undone);

  Package package;
  std::shared_ptr<Device> device;
  Queue &queue;
  bool verify;
  std::set<std::string> preparedOnly;
  std::map<std::string, Slot> slots;
  std::optional<std::vector<Undo>> lastUpdate;
  std::map<std::string, std::shared_ptr<const class MappedFile>> files;
};

} // namespace ditc
