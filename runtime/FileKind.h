// SPDX-License-Identifier: Apache-2.0
//
// Which of the files that ditc reads a file is. People hand one to the command of another; readers that cannot read a
// file then say what it is and which command takes it.
#pragma once

#include "runtime/Error.h"

#include <string>

namespace ditc {

enum class FileKind { Other, Package, TuningBundle, Export, Safetensors, SafetensorsIndex, TuningDatabase };

/// By the first bytes and, of a zip archive, by the names of members; Other for what cannot be read.
FileKind kindOf(const std::string &path);

/// Throws Error (Input) with what the file is and which command takes it, when it is of another kind than `expected` that
/// ditc knows.
void refuseOtherKind(const std::string &path, FileKind expected);

/// What `read` returns. When it throws, the file may be of another kind, which is then what is said.
template <typename Read> auto readAs(FileKind expected, const std::string &path, Read read) {
  try {
    return read();
  } catch (const Error &) {
    refuseOtherKind(path, expected);
    throw;
  }
}

} // namespace ditc
