// SPDX-License-Identifier: Apache-2.0
//
// mmap with the checks that turn a wrong path into one clear message.
#include "runtime/MappedFile.h"

#include "runtime/Error.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ditc {

namespace {

/// Closes the descriptor on every way out; the mapping outlives it.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0)
      ::close(fd);
  }
};

} // namespace

MappedFile::MappedFile(std::string path, std::span<const uint8_t> content)
    : filePath(std::move(path)), content(content) {}

MappedFile::~MappedFile() {
  if (!content.empty())
    ::munmap(const_cast<uint8_t *>(content.data()), content.size());
}

std::shared_ptr<const MappedFile> MappedFile::open(const std::string &path) {
  // O_NONBLOCK: opening a FIFO must fail below, not wait for a writer.
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0)
    fail("cannot open '{}': {}; check the path and its permissions", path, std::strerror(errno));
  struct stat status;
  if (::fstat(file.fd, &status) != 0)
    fail("cannot read '{}': {}", path, std::strerror(errno));
  if (!S_ISREG(status.st_mode))
    fail("cannot read '{}': it is a {}, expected a regular file", path,
         S_ISDIR(status.st_mode) ? "folder" : "device or pipe");
  if (status.st_size == 0)
    return std::shared_ptr<const MappedFile>(new MappedFile(path, {}));
  size_t size = static_cast<size_t>(status.st_size);
  void *memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (memory == MAP_FAILED)
    fail("cannot map '{}' ({} bytes): {}", path, size, std::strerror(errno));
  return std::shared_ptr<const MappedFile>(new MappedFile(path, {static_cast<const uint8_t *>(memory), size}));
}

} // namespace ditc
