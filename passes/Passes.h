// SPDX-License-Identifier: Apache-2.0
//
// ditc's passes; generated from Passes.td.
#pragma once

#include "dialects/dit/Dit.h"
#include "dialects/plan/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace ditc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"
} // namespace ditc
