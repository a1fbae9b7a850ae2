// SPDX-License-Identifier: Apache-2.0
//
// Compilations in the persistent cache: what a package is made of before weights, by everything that it depends on.
#pragma once

#include "compiler/CompileInputs.h"
#include "compiler/CorePackage.h"

#include <functional>

namespace ditc {

/// The cached package; else that of `compile`, which is stored.
CorePackage loadOrCompile(CompileState &state, const CompileInputs &inputs, const TuningChoice &tuning, const std::function<CorePackage()> &compile);

} // namespace ditc
