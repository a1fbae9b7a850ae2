// SPDX-License-Identifier: Apache-2.0
//
// What the host target is asked for and what it gives, without MLIR or LLVM.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ditc {

struct HostOptions {
  std::string cpu = "";    ///< an LLVM CPU name or "native"; empty: x86-64-v3 on x86-64, generic elsewhere
  std::string linker = ""; ///< path of ld.lld; empty: found beside LLVM 22 or in PATH
  int threads = 0;         ///< threads that compile; 0: as many as the machine has. Does not change the result
  bool verify = true;      ///< check the generated LLVM IR before optimising
};

struct HostObject {
  std::vector<uint8_t> sharedObject; ///< an ELF file; needs libm and libc of the process that loads it
  std::string triple;
  std::string cpu; ///< the CPU it was compiled for ("native" is resolved to a name)
  std::vector<std::string> instructionSets = {}; ///< see MachineName
};

} // namespace ditc
