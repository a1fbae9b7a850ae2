// SPDX-License-Identifier: Apache-2.0
//
// A file that appears whole or not at all: bytes go to a temporary file beside the target, `commit` syncs
// it and renames it into place. A reader never sees half a package, and a crash leaves the old file. The
// writer holds a lock on its temporary file, which the kernel takes back when the writer dies; so everybody
// can tell what a killed writer left behind, and the next writer of the same file removes it.
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
  /// Without `sync` a power cut may leave a file of other content, for callers that would notice it.
  void commit(bool sync = true);

  /// The name of the target when `name` is one of a temporary file, else empty.
  static std::string_view targetOfTemporary(std::string_view name);
  /// Removes a temporary file whose writer is dead. False when it is alive, or when the file system has no locks.
  static bool removeAbandoned(const std::string &temporaryPath);

private:
  int create();
  [[noreturn]] void failWriting(int error) const;

  std::string path, temporaryPath;
  int fd = -1;
  uint64_t written = 0;
};

/// Throws Error (Input) when `output` is the file `input`, by whatever name, which would be lost.
void refuseToReplace(const std::string &output, const std::string &input);

} // namespace ditc
