// SPDX-License-Identifier: Apache-2.0
//
// Linking of object files into a shared object by lld.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ditc {

/// The path of ld.lld: `wanted` when given, else the one of LLVM 22, else what PATH has.
llvm::Expected<std::string> findLinker(llvm::StringRef wanted);

/// A shared object of the object files (one or more of 64-bit little-endian ELF), in this order. Functions of libm and
/// libc stay undefined; it names libm.so.6 as needed.
llvm::Expected<std::vector<uint8_t>> linkSharedObject(llvm::ArrayRef<llvm::SmallVector<char, 0>> objects, llvm::StringRef linker);

} // namespace ditc
