// SPDX-License-Identifier: Apache-2.0
//
// What the fuzz targets share: the input as a file, and the rule that hostile input ends in an Error of kind
// Input and in nothing else.
#pragma once

#include "runtime/Error.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace ditc::fuzz {

/// The input as a file in memory, for readers that map files.
class MemoryFile {
public:
  explicit MemoryFile(std::span<const uint8_t> bytes) : fd(::memfd_create("fuzz", MFD_CLOEXEC)) {
    if (fd < 0 || ::write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      std::abort();
  }
  ~MemoryFile() { ::close(fd); }
  MemoryFile(const MemoryFile &) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd); }

private:
  int fd;
};

/// Runs `action`; an Error of another kind than Input, like any other exception, is a find.
template <typename Action> void expectInputErrors(Action action) {
  try {
    action();
  } catch (const Error &error) {
    if (error.kind() != ErrorKind::Input) {
      std::fprintf(stderr, "error of ditc itself: %s\n", error.what());
      std::abort();
    }
  }
}

} // namespace ditc::fuzz
