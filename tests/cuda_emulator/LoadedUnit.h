// SPDX-License-Identifier: Apache-2.0
//
// A compiled unit in this process.
#pragma once

#include "Engine.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace emulator {

class LoadedUnit {
public:
  /// Throws std::runtime_error when the image is no unit. The bytes may go afterwards.
  LoadedUnit(const void *image, size_t bytes);
  ~LoadedUnit();
  LoadedUnit(const LoadedUnit &) = delete;
  LoadedUnit &operator=(const LoadedUnit &) = delete;

  const UnitTable &table() const { return *unit; }
  /// Null when there is none.
  const KernelEntry *find(std::string_view name) const;

private:
  void load(const void *image, size_t bytes);
  void unload();

  int file = -1; ///< open as long as the library: its number is in the name by which the loader knows libraries
  void *library = nullptr;
  const UnitTable *unit = nullptr;
};

/// How long the ELF image at `image` is, by its section headers, which come last; 0 when it is no ELF image.
size_t imageBytes(const void *image);

} // namespace emulator
