// SPDX-License-Identifier: Apache-2.0
//
// What kind of file it is, which of the three layouts it has, and where its program lies. Everything that a
// user can mistake for a .pt2 file gets its own message here. Private to the archive reader.
#pragma once

#include "runtime/Zip.h"

#include <string>
#include <string_view>
#include <vector>

namespace ditc {

/// An opened archive of one of the layouts, with the model chosen.
struct Pt2Container {
  ZipReader zip;
  char layout = 'C';
  std::string top;       ///< "folder/" in layouts B and C, empty in A
  std::string modelName; ///< "model" in layout A
  const ZipEntry *program = nullptr;

  /// A member below the top folder, or null.
  const ZipEntry *find(std::string_view name) const { return zip.find(top + std::string(name)); }
};

/// Throws Error (Input) for what is not an exported program, in the words of what it is instead.
Pt2Container openContainer(const std::string &path, const std::string &modelName);

} // namespace ditc
