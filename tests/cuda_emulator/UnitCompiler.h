// SPDX-License-Identifier: Apache-2.0
//
// Compiles a CUDA unit into a shared object for the CPU, with the clang++ that the build found (DITC_EMULATOR_CXX
// names another). Results are kept in a folder by the hash of all that goes in, because tests compile the same units
// again and again; DITC_EMULATOR_CACHE names another folder, or none when it is empty.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace emulator {

struct UnitSource {
  std::string name; ///< appears in messages, like a file name
  std::string text;
  std::vector<std::pair<std::string, std::string>> headers; ///< name under which it is included, text
  std::string arch = "sm_80";
  std::vector<std::string> options; ///< for the host compiler: -D, -I, -include
};

struct CompiledUnit {
  bool success = false;
  std::vector<uint8_t> image; ///< an ELF shared object
  std::string log;
};

CompiledUnit compileUnit(const UnitSource &source);

/// Differs between versions of the emulator that do not run each other's units.
unsigned emulatorVersion();

} // namespace emulator
