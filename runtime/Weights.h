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
  /// `verify`: check the hashes of weights when they are first used.
  WeightStore(const Package &package, std::shared_ptr<Device> device, bool verify);

  /// Takes the weights that the package knows from the files (or "*.safetensors.index.json"). Throws Error
  /// (Input) when one has another type or shape. Returns the names that the package does not know.
  std::vector<std::string> useFiles(const std::vector<std::string> &paths);
  /// Throws Error (Input) before anything is set: unknown name, other type or shape.
  void set(std::span<const TensorRef> tensors, Ownership ownership);
  /// Weights without bytes, sorted.
  std::vector<std::string> missing() const;
  /// The bytes where kernels can read them, dense. The same object until the weight is set again. Throws
  /// Error (Input): missing, or its file is not what the manifest says.
  MemoryRef get(const std::string &name);

private:
  const ManifestWeight &check(const TensorRef &tensor, std::string_view source) const;
  MemoryRef fromFile(const std::string &name, const ManifestWeight &weight);
  std::span<const uint8_t> rangeOfFile(const std::string &name, const ManifestWeight &weight,
                                       std::shared_ptr<const void> &owner);

  Package package;
  std::shared_ptr<Device> device;
  bool verify;
  std::map<std::string, MemoryRef> resident;
  std::map<std::string, std::shared_ptr<const class MappedFile>> files;
};

} // namespace ditc
