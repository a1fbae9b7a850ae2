// SPDX-License-Identifier: Apache-2.0
//
// The container of a .pt2 file in its three layouts (docs/pt2-format.md): finds the program text and
// where each tensor's bytes lie. Reads no weights until asked, executes nothing.
#pragma once

#include "runtime/DType.h"
#include "runtime/Zip.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ditc {

/// A tensor stored in a file: a strided view of a run of bytes.
struct StoredTensor {
  DType dtype = DType::f32;
  std::vector<int64_t> sizes, strides; ///< in elements
  int64_t storageOffset = 0;           ///< in elements
  std::string file;                    ///< path of the file that holds the bytes
  std::string storageId;               ///< equal for tensors that share a storage
  uint64_t byteOffset = 0;             ///< of the storage, from the start of the file
  uint64_t byteSize = 0;               ///< of the storage; 0 with elements > 0: the bytes are absent
  bool isParameter = false;

  bool hasBytes() const;       ///< false for graph-only archives
  int64_t elementCount() const;
};

/// What the archive holds. Throws Error (Input) from `open` for everything that is wrong with a file.
class Pt2Archive {
public:
  /// Opens `path`: layout A, B or C, decided by the members present. `modelName` chooses among several
  /// models; empty: the one called "model", or the only one.
  static Pt2Archive open(const std::string &path, const std::string &modelName = {});

  char layout() const;                   ///< 'A', 'B' or 'C'
  const std::string &path() const;
  const std::string &programJson() const;
  const std::string &modelName() const;

  /// Parameters and persistent buffers by FQN.
  const std::map<std::string, StoredTensor> &weights() const;
  /// Tensor constants and non-persistent buffers by FQN.
  const std::map<std::string, StoredTensor> &constants() const;
  /// Notes for the user: suspicious storage offsets and so on.
  const std::vector<std::string> &warnings() const;
  /// FQNs whose payload cannot be read (tensor subclass, script object) -> why. Reported only when used.
  const std::map<std::string, std::string> &unreadable() const;

  /// Hash (32 hex digits) of the program and every member's name, size and CRC. Members whose CRC was
  /// not computed are hashed by content.
  const std::string &contentHash() const;

private:
  struct State;
  std::shared_ptr<const State> state;
};

/// Reads a stored tensor into contiguous row-major bytes. Throws Error when bytes are absent or short.
std::vector<uint8_t> readContiguous(const StoredTensor &tensor);

} // namespace ditc
