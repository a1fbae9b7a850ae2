// SPDX-License-Identifier: Apache-2.0
#include "LoadedUnit.h"

#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

namespace emulator {

LoadedUnit::LoadedUnit(const void *image, size_t bytes) {
  file = memfd_create("cuda-unit", MFD_CLOEXEC);
  if (file < 0)
    throw std::runtime_error("cannot make a file in memory");
  try {
    load(image, bytes);
  } catch (...) {
    unload();
    throw;
  }
}

LoadedUnit::~LoadedUnit() { unload(); }

void LoadedUnit::load(const void *image, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    ssize_t written = write(file, static_cast<const char *>(image) + done, bytes - done);
    if (written <= 0)
      throw std::runtime_error("cannot write a file in memory");
    done += static_cast<size_t>(written);
  }
  library = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw std::runtime_error(std::string("not a unit for the emulator: ") + dlerror());
  unit = static_cast<const UnitTable *>(dlsym(library, "emulator_unit"));
  if (!unit)
    throw std::runtime_error("not a unit for the emulator: it has no table of kernels");
}

void LoadedUnit::unload() {
  if (library)
    dlclose(library);
  close(file);
}

const KernelEntry *LoadedUnit::find(std::string_view name) const {
  for (unsigned i = 0; i < unit->kernelCount; ++i)
    if (name == unit->kernels[i].name)
      return &unit->kernels[i];
  return nullptr;
}

size_t imageBytes(const void *image) {
  Elf64_Ehdr header;
  memcpy(&header, image, SELFMAG);
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return 0;
  memcpy(&header, image, sizeof header);
  return header.e_shoff + size_t(header.e_shnum) * header.e_shentsize;
}

} // namespace emulator
