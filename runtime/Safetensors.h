// SPDX-License-Identifier: Apache-2.0
//
// safetensors files: bounds-checked reading by memory map, writing, sharded sets with an index file.
#pragma once

#include "runtime/DType.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ditc {

/// A dense row-major tensor in memory that somebody else owns.
struct TensorView {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::span<const uint8_t> bytes;
};

/// A dense row-major tensor that owns its bytes.
struct HostTensor {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;

  TensorView view() const { return {dtype, shape, bytes}; }
};

class SafetensorsFile {
public:
  /// Throws Error (Input): not safetensors, header too large, offsets out of range, size mismatch,
  /// unknown type.
  static SafetensorsFile open(const std::string &path);

  const std::string &path() const;
  const std::map<std::string, TensorView> &tensors() const;
  /// From the start of the file to the tensor's first byte.
  uint64_t byteOffset(const std::string &name) const;

private:
  struct State;
  std::shared_ptr<const State> state;
};

/// Opens each path; a "*.safetensors.index.json" expands to the files that it names (beside it).
std::vector<SafetensorsFile> openSafetensors(const std::vector<std::string> &paths);

/// Writes atomically (temporary file + rename).
void writeSafetensors(const std::string &path, const std::map<std::string, TensorView> &tensors);

} // namespace ditc
