// SPDX-License-Identifier: Apache-2.0
//
// The templates of codegen/templates/host as bitcode inside the compiler.
#pragma once

#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

#include <set>
#include <string>

namespace ditc {

/// Links what `module` uses of the named libraries (and of what those use) into it, as internal functions, and the
/// functions named ditc_math_*. Nothing else of a library is read beyond its symbol table.
llvm::Error linkTemplates(llvm::Module &module, const std::set<std::string> &libraries);

} // namespace ditc
