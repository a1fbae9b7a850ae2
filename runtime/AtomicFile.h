// SPDX-License-Identifier: Apache-2.0
//
// A file that appears whole or not at all: bytes go to a temporary file beside the target, `commit` syncs
// it and renames it into place. A reader never sees half a package, and a crash leaves the old file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ditc {

class AtomicFile {
public:
  /// Throws Error (Input) when the temporary file cannot be created.
  explicit AtomicFile(const std::string &path);
  /// Removes the temporary file unless commit() succeeded.
  ~AtomicFile();
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;

  /// Appends. Throws Error (Input) on a full disk and the like.
  void write(std::span<const uint8_t> bytes);
  void write(std::string_view text);
  /// Overwrites bytes that were written before.
  void rewrite(uint64_t offset, std::string_view text);
  /// Bytes written so far.
  uint64_t size() const { return written; }
  void commit();

private:
  [[noreturn]] void failWriting(int error) const;

  std::string path, temporaryPath;
  int fd = -1;
  uint64_t written = 0;
};

} // namespace ditc
