// SPDX-License-Identifier: Apache-2.0
//
// A whole regular file mapped read-only: weights are used where they lie and are never copied to be looked
// at. Readers share one mapping by shared_ptr.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace ditc {

class MappedFile {
public:
  /// Throws Error (Input): no such file, no permission, a folder or a device.
  static std::shared_ptr<const MappedFile> open(const std::string &path);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  const std::string &path() const { return filePath; }
  std::span<const uint8_t> bytes() const { return content; }

private:
  MappedFile(std::string path, std::span<const uint8_t> content);

  std::string filePath;
  std::span<const uint8_t> content;
};

} // namespace ditc
