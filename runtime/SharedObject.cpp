// SPDX-License-Identifier: Apache-2.0
//
// Loading a shared object that is a range of a package. dlopen wants a file: an anonymous memory file
// where the kernel offers them and lets them be executed, else a temporary file that is unlinked at once.
#include "runtime/Error.h"
#include "runtime/HostDevice.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace ditc {
namespace {

bool writeAll(int fd, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    ssize_t count = write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return false;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return true;
}

std::string temporaryFolder() {
  const char *folder = std::getenv("TMPDIR");
  return folder && *folder ? folder : "/tmp";
}

/// A closed-on-exec descriptor of a new nameless file.
int createFile(bool inMemory) {
  if (inMemory)
    return memfd_create("ditc-kernels", MFD_CLOEXEC);
  std::string path = temporaryFolder() + "/ditc-kernels-XXXXXX";
  int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd >= 0)
    unlink(path.c_str());
  return fd;
}

} // namespace

SharedObject::SharedObject(std::span<const uint8_t> bytes, const std::string &source) {
  std::vector<std::string> reasons;
  for (bool inMemory : {true, false}) {
    fd = createFile(inMemory);
    if (fd >= 0 && writeAll(fd, bytes)) {
      // NOTE: the descriptor stays open as long as the object. The loader knows objects by path, and a
      // second object at the same /proc/self/fd number would be taken for the first.
      handle = dlopen(fmt::format("/proc/self/fd/{}", fd).c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle)
        return;
      reasons.push_back(fmt::format("from {}: {}", inMemory ? "memory" : "a file in " + temporaryFolder(), dlerror()));
    } else {
      reasons.push_back(fmt::format("{} cannot be written: {}", inMemory ? "memory for code" : "a file in " + temporaryFolder(),
                                    std::strerror(errno)));
    }
    if (fd >= 0)
      close(fd);
    fd = -1;
  }
  fail("the kernels '{}' cannot be loaded: {}; they need the C and math libraries of a Linux system like the one that "
       "compiled them, and memory or a folder (TMPDIR, else /tmp) that may be written and executed",
       source, fmt::join(reasons, "; "));
}

SharedObject::~SharedObject() {
  if (handle)
    dlclose(handle);
  if (fd >= 0)
    close(fd);
}

void *SharedObject::find(const std::string &symbol) const { return dlsym(handle, symbol.c_str()); }

} // namespace ditc
